/* train_library.h - libtandem_train. */
#ifndef TANDEM_CLI_TRAIN_LIBRARY_H
#define TANDEM_CLI_TRAIN_LIBRARY_H

#include <tandem/train.h>

typedef struct cli_train_library {
    void (*options_init)(tdm_train_options *options);
    tdm_status (*train)(const tdm_train_options *options, tdm_train_end *end);
    tdm_status (*check)(const tdm_train_options *options, int world_size, int local_size);
    tdm_status (*newest)(const tdm_train_options *options, char **folder_out);
    tdm_status (*explain)(const tdm_train_options *options, int world_size, int local_size, char **text_out);
    void (*text_free)(char *text);
    tdm_status (*generate)(const tdm_generate_options *options, void (*write)(const char *, size_t, void *), void *arg);
} cli_train_library;

/* False, with a line on stderr, where the library is missing or of another version. */
bool cli_train_library_load(cli_train_library *out);

#endif
