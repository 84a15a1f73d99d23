/* on_ranks.h - runs a test's body on several ranks at once, as threads of this process or as processes of their own.
 *
 *     static const char *body(tdm_group *group, void *arg)          // never asserts: says what is wrong
 *     {
 *         CHECK(tdm_barrier(group, NULL) == TDM_OK, "barrier: %s", tdm_error_text());
 *         return NULL;
 *     }
 *     ...
 *     ranks_run(&(ranks_spec){.n = 4, .transport = "shm"}, body, &arg);   // asserts for all
 *
 * Only the caller asserts, after all ranks are over; a rank that does not end in time fails the test by name. */
#ifndef TESTS_SUPPORT_ON_RANKS_H
#define TESTS_SUPPORT_ON_RANKS_H

#include <tandem/collective.h>

/* What every rank can use to talk to every other: for loops over transports. */
#ifdef TDMI_HAVE_UCX
#define RANKS_TRANSPORTS "shm", "tcp", "ucx"
#else
#define RANKS_TRANSPORTS "shm", "tcp"
#endif

typedef enum { RANKS_THREADS, RANKS_PROCESSES } ranks_mode;

typedef struct ranks_spec {
    int n;
    const char *transport;  /* "shm", "tcp", "ucx", or "nodes", "ucx nodes": processes on virtual nodes of two ranks each,
                               "nodes in turn": on two of them, even and odd ranks */
    ranks_mode mode;
    double timeout_s;       /* of collectives; 0: 10 */
    double rendezvous_timeout_s; /* 0: 10 */
    double deadline_s;      /* of the whole; 0: 30 */
    bool no_group;          /* the body gets no group and makes its own from ranks_store() and so on */
    unsigned dies;          /* bit r: rank r is expected to be killed */
} ranks_spec;

/* NULL: all is well; else a text, from ranks_say. */
typedef const char *(*ranks_body)(tdm_group *group, void *arg);

/* Fails the test with the texts of all ranks that were not content. */
void ranks_run(const ranks_spec *spec, ranks_body body, void *arg);

/* For bodies. Options to make a group from with no_group; the store belongs to the caller of ranks_run. */
tdm_group_options ranks_options(void);
const char *ranks_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            return ranks_say(__VA_ARGS__);                                                                             \
    } while (0)
#define CHECK_THAT(condition) CHECK(condition, "%s:%d: %s; last error: %s", __FILE__, __LINE__, #condition, tdm_error_text())
#define CHECK_OK(call) CHECK((call) == TDM_OK, "%s:%d: %s: %s", __FILE__, __LINE__, #call, tdm_error_text())

#endif
