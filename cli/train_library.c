/* train_library.c - finds libtandem_train beside the command or in ../lib (the command's RUNPATH). */
#include "train_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define LIBRARY "libtandem_train.so." TEXT(TDM_VERSION_MAJOR)

/* dlsym gives an object pointer; a function pointer has the same bytes on every system that has dlsym. */
static bool find(void *library, const char *name, void *function_out)
{
    void *symbol = dlsym(library, name);
    if (symbol == NULL) {
        fprintf(stderr, "tandem: %s has no %s: it is of another version; reinstall both\n", LIBRARY, name);
        return false;
    }
    memcpy(function_out, &symbol, sizeof symbol);
    return true;
}

bool cli_train_library_load(cli_train_library *out)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "tandem: this command needs %s: %s\n", LIBRARY, dlerror());
        return false;
    }
    return find(library, "tdm_train_options_init", &out->options_init) && find(library, "tdm_train", &out->train) &&
           find(library, "tdm_train_check", &out->check) && find(library, "tdm_train_newest", &out->newest) &&
           find(library, "tdm_train_explain", &out->explain) && find(library, "tdm_text_free", &out->text_free) &&
           find(library, "tdm_generate", &out->generate) && find(library, "tdm_doctor", &out->doctor) &&
           find(library, "tdm_doctor_text", &out->doctor_text) && find(library, "tdm_doctor_json", &out->doctor_json) &&
           find(library, "tdm_doctor_free", &out->doctor_free);
}
