/* program.h - starting a command from a test, talking to it, and seeing what it left behind. */
#ifndef TESTS_CLI_PROGRAM_H
#define TESTS_CLI_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Paths from the test's command line: TANDEM and RANK. */
extern const char *tandem_path, *rank_path;
void program_paths(int argc, char **argv);

typedef struct program {
    pid_t pid;
    int out_fd, err_fd;
    char job_id[32]; /* TANDEM_JOB_ID of this program */
    int64_t start_ns;
    char *out, *err; /* what it wrote, NUL behind; after program_wait */
    size_t out_nbytes, err_nbytes;
    int code;        /* exit code, or 128 + signal */
    double seconds;
} program;

/* Starts a command (NULL at the end of the list). Words "TANDEM" and "RANK" stand for the paths. */
void program_start(program *p, const char *const *words);
/* Reads until `text` has been seen `times` times on stdout; fails the test after a minute. */
void program_await(program *p, const char *text, int times);
/* Waits for the end; kills and fails the test after `limit_s`. */
void program_wait(program *p, double limit_s);
/* The number of living processes of this program's job. */
int program_left(const program *p);
/* Fails the test if the job has living processes `limit_s` from now; then frees. */
void program_done(program *p, double limit_s);

#define START(p, ...) program_start(p, (const char *const[]){__VA_ARGS__, NULL})
#define RUN(p, ...)                                                                                                    \
    do {                                                                                                               \
        START(p, __VA_ARGS__);                                                                                         \
        program_wait(p, 20);                                                                                           \
    } while (0)

int count_of(const char *haystack, const char *needle);
/* A /dev/shm of this process and its children alone, empty; false without the right to make one. */
bool private_shm(void);
/* The number of files in /dev/shm. */
int shm_files(void);

#endif
