/* bench_compare.h - the parts of `tandem bench --compare`: programs beside Tandem that do the same. */
#ifndef TANDEM_CLI_BENCH_COMPARE_H
#define TANDEM_CLI_BENCH_COMPARE_H

#include "bench.h"

/* ---- bench_process.c ---- */
/* A command line under construction; `failed`: there was no memory for a word. */
typedef struct bench_words {
    char **words; /* NULL behind the last */
    size_t count;
    bool failed;
} bench_words;
void bench_say(bench_words *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void bench_words_free(bench_words *w);
/* Runs it. Gives its exit code (127: no such program; 4: its time is over or a signal came) and its stdout, from malloc, NULL where
 * there is none. stderr goes to the file `errors`, NULL: to ours. */
int bench_capture(const bench_words *w, const char *errors, int limit_s, char **text);

/* ---- bench_peers.c ---- */
enum { BENCH_PEERS_MAX = 4 };
typedef struct bench_peer {
    char name[16], version[32]; /* openmpi 4.1.4 */
    char launcher[256];         /* mpirun, or python */
    char program[512];
    bool fails;                 /* it has said why */
} bench_peer;

/* The peers of `list` ("mpi,gloo") that are installed, their programs made ready in `folder`. Says on stderr what is not, and what to
 * install. `self`: this command. Gives their number. */
size_t bench_find_peers(const char *list, const char *self, const char *folder, bench_peer out[BENCH_PEERS_MAX]);
/* Whether `list` names only peers that exist. */
bool bench_knows_peers(const char *list);
/* The command line that measures `sizes` [count] bytes over `ranks` ranks; it prints `bytes in|out median p10 p90` a line. */
void bench_peer_command(const bench_peer *peer, const bench_plan *plan, int ranks, const char *self, const size_t *sizes, size_t count,
                        bench_words *out);

/* ---- bench_compare.c ---- */
typedef struct bench_comparison {
    const bench_plan *plan;
    int ranks;
    const char *peers, *html, *memory; /* html may be NULL */
    bench_format format;
} bench_comparison;
/* Runs Tandem and its peers in turns and prints medians and ratios. Gives the exit code. */
int bench_compare(const bench_comparison *c);

#endif
