/* launch.h - starts the ranks of a job on this node, carries their output, and ends them all together. */
#ifndef TANDEM_LAUNCH_H
#define TANDEM_LAUNCH_H

#include <tandem/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_launch_options {
    const char *name;        /* in front of the launcher's own lines on stderr: "tandem run" */
    const char *const *argv; /* program and arguments, NULL at the end; a program that ends in .py runs under python3 */
    int ranks;               /* on this node; 0: one a usable core */
    int nodes, node_rank;    /* 1 and 0 for a job on one node */
    const char *rendezvous;  /* "HOST:PORT" of node 0, where the launchers meet; NULL on one node */
    int port;                /* MASTER_PORT; 0: a free one */
    double timeout_s;        /* to wait for the other nodes; 0: TANDEM_RDZV_TIMEOUT */
    double grace_s;          /* from a signal to end to SIGKILL */
    double interrupt_grace_s, terminate_grace_s; /* the same after SIGINT and SIGTERM to the launcher; negative: grace_s */
    const char *log_dir;     /* one file a rank and stream goes there; NULL: none */
    const char *only_ranks;  /* "0,2-3": show output of these ranks only; NULL: all */
    bool inherit_rank0;      /* rank 0 writes to this process's own stdout and stderr: for progress bars and tables */
    bool ranks_explain;      /* a rank that ends with an exit code has said why, itself or by another: no line about it on one node */
    bool quiet;              /* no lines about threads and CPUs; failures are always said */
} tdm_launch_options;

/* Fills in: one rank a usable core, one node, 5 s of grace. The caller sets argv. */
TDM_API void tdm_launch_options_init(tdm_launch_options *options);

/* Ranks that a launch starts on this node where none are given: one a core that this process may use. */
TDM_API int tdm_launch_default_ranks(void);

/* tdm_launch - runs the job to its end.
 *   exit_code  0 when every rank ended with 0; else that of the first rank that failed (128 + N when signal N ended it),
 *              4 when another node was lost, 128 + N when signal N asked this process to end the job
 * Every rank leads its own POSIX session, with what torchrun exports, TANDEM_JOB_SECRET and TANDEM_JOB_ID (kept where the
 * environment has them) in its environment. When one fails, the others get SIGTERM, and SIGKILL after the grace time. INT, HUP,
 * QUIT and TERM are passed on once and end the job; a second one kills at once; USR1 and USR2 go to the processes that handle
 * them. Whatever the ranks started is ended with them, also when this process is killed. Output is carried in whole lines,
 * `[rank] ` or, with several nodes, `[host:rank] ` in front where the job has several ranks.
 * For a process whose business this is: until it returns it owns the process's signals, SIGCHLD and all of its children.
 * Errors  nothing was started: TDM_ERR_INVALID (an option; no such program) | TDM_ERR_ADDRESS_IN_USE | TDM_ERR_TIMEOUT names
 *         the missing nodes | TDM_ERR_AUTH | TDM_ERR_SYSTEM.          Thread  one at a time in a process          Since  0.1 */
TDM_API TDM_MUST_CHECK tdm_status tdm_launch(const tdm_launch_options *options, int *exit_code);

/* Where torchrun, `tandem run`, mpirun, srun or Kubernetes put this process (docs/launch.md). */
typedef struct tdm_launch_place {
    int rank, size;
    int local_rank, local_size; /* -1: nobody says */
    char host[256];             /* where rank 0 can listen; "": nobody says */
    int port;                   /* 0 with it */
} tdm_launch_place;

/* tdm_launch_place_read - from the environment, for programs that let others meet the ranks.
 * Errors  TDM_ERR_INVALID no launcher has started this process, or a variable of it is wrong
 * Thread  any, while nobody changes the environment            Since  0.2 */
TDM_API TDM_MUST_CHECK tdm_status tdm_launch_place_read(tdm_launch_place *out);

#ifdef __cplusplus
}
#endif
#endif
