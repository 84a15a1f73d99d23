/* train_library.c - the functions of libtandem_train that the command calls. */
#include "train_library.h"

#include "library.h"

bool cli_train_library_load(cli_train_library *out)
{
    const cli_function functions[] = {
        {"tdm_train_options_init", &out->options_init},
        {"tdm_train", &out->train},
        {"tdm_train_check", &out->check},
        {"tdm_train_newest", &out->newest},
        {"tdm_train_explain", &out->explain},
        {"tdm_text_free", &out->text_free},
        {"tdm_generate", &out->generate},
    };
    return cli_library_load("tandem_train", functions, sizeof functions / sizeof *functions);
}
