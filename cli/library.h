/* library.h - a library of Tandem's that a command loads when it needs it: `tandem run` starts without a BLAS. */
#ifndef TANDEM_CLI_LIBRARY_H
#define TANDEM_CLI_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct cli_function {
    const char *name;
    void *pointer_out; /* to a function pointer of its type */
} cli_function;

/* Finds lib<name>.so beside the command or in ../lib (the command's RUNPATH), and the functions in it. False, with a line on stderr,
 * where the library is missing or of another version. */
bool cli_library_load(const char *name, const cli_function *functions, size_t count);

#endif
