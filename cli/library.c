/* library.c - dlopen, and one error text for what is missing. */
#include "library.h"

#include <tandem/tandem.h>

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

bool cli_library_load(const char *name, const cli_function *functions, size_t count)
{
    char file[64];
    snprintf(file, sizeof file, "lib%s.so.%d", name, TDM_VERSION_MAJOR);
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "tandem: this command needs %s: %s\n", file, dlerror());
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        void *symbol = dlsym(library, functions[i].name);
        if (symbol == NULL) {
            fprintf(stderr, "tandem: %s has no %s: it is of another version; reinstall both\n", file, functions[i].name);
            return false;
        }
        /* dlsym gives an object pointer; a function pointer has the same bytes on every system that has dlsym. */
        memcpy(functions[i].pointer_out, &symbol, sizeof symbol);
    }
    return true;
}
