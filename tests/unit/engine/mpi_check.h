/* mpi_check.h - what a program that mpirun starts must find: else it says what it found instead, and ends. `rank` is its own. */
#ifndef TESTS_ENGINE_MPI_CHECK_H
#define TESTS_ENGINE_MPI_CHECK_H

#include <tandem/tandem.h>

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("rank %d, %s:%d: ", rank, __FILE__, __LINE__);                                                      \
            printf(__VA_ARGS__);                                                                                       \
            printf(" (last error: %s)\n", tdm_error_text());                                                           \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
#define OK(call) CHECK((call) == TDM_OK, "%s", #call)

#endif
