/* group.h (internal) - the inside of groups and work handles, shared by the files of this folder.
 *
 * Threads and lock order: docs/threads.md. In short: world.lock, then one group's lock, then its failure_lock. */
#ifndef TDMI_GROUP_GROUP_H
#define TDMI_GROUP_GROUP_H

#include "coll/history.h"
#include "coll/run.h"
#include "coll/tuning.h"
#include "core/clock.h"
#include "engine/engine.h"
#include "group/messages.h"
#include "group/record.h"
#include "group/settings.h"
#include "trace/recorder.h"
#include "transport/ucx/ucx.h"

#include <tandem/collective.h>

#include <pthread.h>
#include <stdatomic.h>

/* What all groups that one rank made from one world share. */
typedef struct tdmi_world {
    unsigned forks;         /* tdmi_fork_number() of the process that made it */
    int rank, size;
    bool shares;            /* memory with ranks of the same host: the transport is not forced to tcp */
    bool force_local;
    bool ucx;               /* between ranks that share no memory */
    tdm_store *store;       /* NULL for a world of one */
    bool owns_store;
    tdmi_auth_key key;
    double rendezvous_timeout_s;
    char host_id[TDMI_HOST_ID_MAX];
    tdmi_node *node;        /* arenas of the ranks that share memory; at least the own one */
    bool reads;             /* all ranks of the node can read each other's own memory; known when the first group has met */
    char reading[TDMI_READING_TEXT_MAX]; /* why, or why not */
    bool crowded;           /* more ranks on this node than cores: nobody spins */
    pthread_mutex_t lock;
    tdm_group *groups;      /* guarded by lock */
    int references;         /* groups, and tdm_group_create while it runs; guarded by lock */
    atomic_int busy;        /* groups with calls under way */
    atomic_int link_busy;   /* those of them that wait for links */
    int poller[2];          /* epoll sets, one a tdmi_sleeper; -1 in a world of one */
    int kick;               /* eventfd in both: wakes this rank's threads */
    pthread_t thread;       /* of progress.c */
    atomic_bool has_thread;
    atomic_bool stop;
    _Atomic uint32_t duty;  /* futex word of the thread: changes when it should look again */
    atomic_int waiters;     /* threads in wait.c and lookout.c that sleep on links */
    _Atomic uint32_t news;  /* counts calls that ended, groups that failed; see lookout.c */
    atomic_int lookouts;    /* threads in tdm_progress */
    struct tdmi_node_block *node_blocks; /* of tdm_alloc_node; owner thread */
    tdmi_recorder *recorder; /* NULL: none */
    struct tdmi_old_board *old_boards;   /* of groups destroyed here that peers may still look at; guarded by lock */
} tdmi_world;

typedef struct tdmi_set tdmi_set; /* of coalesce.c */

struct tdm_work {
    tdm_group *group;
    tdm_work *next;       /* in the group's list of active or idle work; guarded by its lock */
    tdm_work *next_made;  /* in the list of all work the group ever made; guarded by its lock */
    tdmi_run run;
    double timeout_s;     /* of which the deadline comes */
    int64_t deadline_ns;
    tdm_done on_done;     /* NULL: none, or called; guarded by the group's lock */
    void *on_done_arg;
    uint64_t entry;       /* in the recorder; 0: none */
    bool started, waited; /* its start is noted there; it was looked at before; guarded by the group's lock */
    bool done;            /* guarded by the group's lock */
    bool kept, rests;     /* for tdm_work_start; waited for since. Owner thread, as is `set` */
    tdmi_set *set;        /* coalesced calls that it stands for; else NULL */
    bool is_message;      /* a send or receive; else a collective */
    tdmi_message message;
    bool by_engine;       /* not by `run`, which has its number, and is the meeting of an engine that does not meet alone */
    tdmi_request asked;   /* of such a call; its arrays are `counts` */
    tdmi_engine_call *call, *meeting; /* NULL: native, or a group of one; the meeting is over */
    bool agreed, arrived; /* all ranks make the same call; the engine has done it */
    char *slice;          /* result of a fused call by an engine; kept */
    size_t slice_nbytes;
    size_t *counts;       /* [2n]; kept */
};

/* What this rank knows from the control connection to one on another node. */
typedef struct tdmi_control {
    int fd;                 /* -1: none */
    bool closed, left;      /* guarded by the group's lock, as is all below */
    bool mourned;           /* that it closed without a goodbye was seen at an earlier look */
    uint64_t done;          /* calls it had made when it left */
    int64_t left_ns;        /* when that was heard */
    char elsewhere[TDMI_ELSEWHERE_BYTES]; /* the call of another group that it waits in; "": none known */
    uint8_t in[TDMI_FRAME_HEAD + TDMI_FRAME_TEXT_MAX];
    size_t in_nbytes;
} tdmi_control;

struct tdm_group {
    tdmi_world *world;
    tdm_group *next;        /* of the world's groups; guarded by the world's lock */
    char name[TDMI_GROUP_NAME_MAX];
    char prefix[128];       /* of its keys in the store */
    int rank, size;
    int *world_rank;        /* [size] */
    bool *is_local;         /* [size]; shares memory with this rank */
    int *node;              /* [size]; see tdmi_topology */
    tdmi_domain *domain;    /* [size], see tdmi_topology; NULL: all alike, or not all on one node */
    int *orders;            /* [TDMI_SHAPES * size], then [TDMI_SHAPES * nodes]: see tdmi_topology; NULL: as they are */
    double *pair_ns;        /* [size * size], NULL: not measured; see tdmi_topology */
    tdmi_tuning tuning;     /* what rank 0 has measured; constant once the group is made */
    int local_rank, local_size;
    char *host_name;        /* [size][TDMI_HOST_NAME_BYTES] */
    int *pid;               /* [size] */
    double timeout_s;
    void *board;            /* own tdmi_board, in the arena; NULL without shared memory */
    char *rings;            /* own, in the arena: [2][size] of TDMI_RING_BYTES, for calls and for messages; NULL without shared memory */
    tdmi_engine *engine;    /* NULL: native */
    tdmi_ucx_port *ucx;     /* of links over UCX, or NULL; guarded by lock */
    tdmi_control *control;  /* [size]; NULL: all ranks are on this node */
    unsigned node_allocations; /* calls of tdm_alloc_node */
    tdmi_set *set;          /* to which calls are added; NULL outside tdm_coalesce_begin and _end; owner thread */
    tdmi_set *idle_sets;    /* to be used again; guarded by lock */
    tdmi_set *sets;         /* ever made; owner thread */
    struct tdmi_sub_count *sub_counts; /* how often which sub-group was made; owner thread */

    pthread_mutex_t lock;
    tdmi_team team;         /* guarded by lock */
    tdm_work *active;       /* in the order they were started; guarded by lock */
    tdm_work *idle;         /* guarded by lock */
    tdm_work *made;         /* active, idle, and done but not waited for; guarded by lock */
    tdmi_messages messages; /* guarded by lock */
    uint64_t number;        /* of the last call; guarded by lock */
    uint64_t agreed;        /* the last that an engine's ranks are known to agree on; guarded by lock */
    bool waits_for_links;   /* some active work does; guarded by lock */
    bool complete;          /* it has all its parts; guarded by lock */
    int out;                /* handles given out and not waited for since; guarded by lock */
    atomic_bool quiet;      /* nothing is under way and no handle is out, so other threads touch nothing that the lock guards. Becomes false
                               in the thread that starts a call, true in the one that waits for the last, under the lock */
    uint64_t announced;     /* last call this rank told all others it has started; guarded by lock */
    tdmi_quick_clock clock; /* guarded by lock */
    int64_t heard_ns;       /* when this rank last looked for failures; guarded by lock */
    bool said, gave_up;     /* by elsewhere.c: that this rank waits here, has given up; guarded by lock, as are the next two */
    uint64_t warned;        /* the call that is known to wait for a stopped rank */
    int64_t looked_ns;      /* when stopped ranks were looked for */
    tdmi_recorder_group recorder; /* guarded by lock */
    bool failure_recorded;  /* guarded by lock */
    tdm_group *watched;     /* an older group of these ranks whose failure ends the making of this one; NULL: none */
    uint64_t asked;         /* last call that another rank announced; guarded by lock */

    pthread_mutex_t control_lock; /* for sending on control connections */
    pthread_mutex_t failure_lock;
    atomic_int failure;     /* tdm_status; release, after the text */
    char failure_text[TDMI_ERROR_TEXT_MAX]; /* guarded by failure_lock until failure is set, then constant */
};

/* ---- work.c: calls under way ---- */
/* ---- quick.c: calls of a few bytes ---- */
/* True: the call is over, *status says how. False: it has not been made. */
bool tdmi_group_quick(tdm_group *group, const tdmi_call *call, const void *in, void *out, tdm_status *status);

/* Starts a call; work NULL: blocks. */
tdm_status tdmi_group_call(tdm_group *group, const tdmi_request *request, tdm_work **work);
/* Goes on with a call whose slot is sent, and waits; entry: in the recorder. */
tdm_status tdmi_group_go_on(tdm_group *group, const tdmi_request *request, uint64_t entry, int64_t now_ns);
/* All calls up to this one are finished here. */
static inline void tdmi_group_publish_done(tdm_group *group, uint64_t number)
{
    if (group->team.board != NULL) /* release: reads of peers' buffers are over; pairs with tdmi_team_done */
        atomic_store_explicit(&group->team.board[group->rank]->done, number, memory_order_release);
}
/* Starts a send or receive; work NULL: blocks. */
tdm_status tdmi_group_message(tdm_group *group, const tdmi_message *message, tdm_work **work);
/* Advances every call of the group; its lock is held. epilogues: those of fused calls may run in this thread. */
void tdmi_group_advance(tdm_group *group, bool epilogues, bool *moved);
void tdmi_group_free_work(tdm_group *group);
tdm_status tdmi_group_hold_set(tdm_group *group, tdmi_set *set, tdm_work **work); /* a handle for it */

/* ---- coalesce.c ---- */
tdm_status tdmi_coalesce_add(tdm_group *group, const tdmi_request *request);
void tdmi_coalesce_free(tdm_group *group);
tdm_status tdmi_set_wait(tdm_group *group, tdmi_set *set, bool keeps);
tdm_status tdmi_set_test(tdm_group *group, tdmi_set *set, bool *done);
tdm_status tdmi_set_keep(tdmi_set *set);
tdm_status tdmi_set_start(tdm_group *group, tdmi_set *set);
void tdmi_set_free(tdm_group *group, tdmi_set *set);
void tdmi_set_on_done(tdmi_set *set, tdm_done fn, void *arg);
tdm_work *tdmi_set_work(const tdmi_set *set, size_t index); /* of its calls; NULL behind the last */
/* The work is over: says so to whom it may concern. */
void tdmi_work_done(tdm_work *work);
/* The same for all that is under way in a group that has failed. */
void tdmi_group_give_up(tdm_group *group);
/* TDM_ERR_INVALID in a child of the process that made the group. */
tdm_status tdmi_group_check_process(const tdm_group *group);
static inline bool tdmi_group_is_busy(const tdm_group *group)
{
    return group->active != NULL || tdmi_messages_busy(&group->messages);
}

/* ---- wait.c ---- */
/* Blocks until the work is done or the group has failed. */
void tdmi_group_wait(tdm_work *work);
/* Advances all groups of the world that have calls under way, but `except`. */
void tdmi_world_advance(tdmi_world *world, const tdm_group *except, bool epilogues, bool *moved);

/* Looks at every group for failures, as a waiter does at its own. */
void tdmi_world_check(tdmi_world *world);
/* A thread that was counted as waiter does not wait any more. */
void tdmi_world_stop_waiting(tdmi_world *world);

/* ---- lookout.c ---- */
/* There is news for those in tdm_progress. */
void tdmi_world_tell(tdmi_world *world);

/* ---- failure.c ---- */
/* Ends the group, here and on all ranks it can reach, with this thread's error text. The first failure stays. Any thread. */
void tdmi_group_fail(tdm_group *group, tdm_status status);
/* TDM_OK, or the failure with its text for this thread. */
tdm_status tdmi_group_failure(tdm_group *group);
/* Looks for failures of peers, deaths, and calls that wait too long; its lock is held. Costs a system call or two a peer. */
void tdmi_group_check(tdm_group *group);
/* The first half of it, where nobody has looked for some milliseconds: a rank that comes late must not find the traces that
 * the others left before they gave up, and think that all is well. */
#define TDMI_CATCH_UP_NS (5 * TDMI_NS_PER_MS)
void tdmi_group_catch_up(tdm_group *group, int64_t now_ns);
/* Before it is destroyed: an error in the log if its last calls differed from those of others, as far as those have come. */
void tdmi_group_look_back(tdm_group *group);
/* Peers see a clean end from now on. */
void tdmi_group_say_goodbye(tdm_group *group);

/* A link broke: looks a moment for the reason before the group fails with the text at hand. */
void tdmi_group_lost(tdm_group *group);

/* ---- recorder.c ---- */
void tdmi_world_record(tdmi_world *world, const tdmi_settings *settings); /* opens the rank's flight recorder */
void tdmi_group_record(tdm_group *group, uint64_t run); /* run: a number all its ranks know and no other run has */
/* All with the group's lock held. */
uint64_t tdmi_group_record_call(tdm_group *group, const tdmi_call *call, bool fused, uint64_t number, int64_t now_ns);
void tdmi_group_record_arrivals(tdm_group *group, const tdm_work *work);
void tdmi_group_record_failure(tdm_group *group); /* once, if it has failed: entries of its calls, and the dump */

/* As tdmi_run_missing, for any collective. */
int tdmi_group_missing(const tdm_work *work, bool *missing);
/* "allreduce of 7 float32 (sum) [step 12]", at most TDMI_CALL_TEXT_BYTES */
void tdmi_group_call_text(const tdm_work *work, char *text, size_t nbytes);

/* ---- elsewhere.c: why ranks are missing; all with the group's lock held ---- */
/* If something has waited for long, tells the ranks of the world's groups that this rank waits here. */
void tdmi_group_say_where(tdm_group *group);
/* And that it does not any more, or, where the group failed, that it has given up. */
void tdmi_group_say_end(tdm_group *group, const tdm_work *work, bool done);
/* A line in the log once a call has waited a second for a stopped process of this node. */
void tdmi_group_warn_of_stopped(tdm_group *group, const tdm_work *work, int64_t now_ns);
/* "; rank 1 waits in call 3 of group B, barrier; rank 2 (process 123) is stopped": as much as fits. number: of the call they miss. */
void tdmi_group_excuses(const tdm_group *group, const bool *missing, uint64_t number, char *text, size_t nbytes);

/* ---- control.c: news between nodes, or between all ranks of an engine that meets alone ---- */
/* Whether this rank hears news of that one. */
bool tdmi_control_reaches(const tdm_group *group, int rank);
void tdmi_control_send_signature(tdm_group *group, int rank, uint64_t number, const uint8_t signature[TDMI_SIGNATURE_BYTES], const tdmi_label *label);
void tdmi_control_hear(tdm_group *group);     /* group's lock held */
void tdmi_control_announce(tdm_group *group); /* group's lock held: tells all how many calls this rank has started */
void tdmi_control_send_failure(tdm_group *group, tdm_status status, const char *text);
void tdmi_control_send_goodbye(tdm_group *group);
void tdmi_control_send_elsewhere(tdm_group *group, const char *text);

/* ---- engine.c ---- */
/* Over a group that has met natively. */
tdm_status tdmi_group_attach_engine(tdm_group *group, const tdmi_engine_ops *ops);
void tdmi_group_close_engine(tdm_group *group);
bool tdmi_group_engine_takes(const tdm_group *group, const tdmi_request *request);
/* Whether an engine is all that connects the ranks. */
static inline bool tdmi_group_meets_alone(const tdm_group *group)
{
    return group->engine != NULL && group->engine->ops->meets_alone;
}
/* As tdmi_run_start, tdmi_run_again, tdmi_run_advance, tdmi_run_end and tdmi_run_missing. */
tdm_status tdmi_engine_call_start(tdm_work *work, uint64_t number, const tdmi_request *request);
tdm_status tdmi_engine_call_again(tdm_work *work, uint64_t number);
tdm_status tdmi_engine_call_advance(tdm_work *work, tdmi_turns *turns, bool *over, bool *moved);
void tdmi_engine_call_end(tdm_work *work);
int tdmi_engine_call_missing(const tdm_work *work, bool *missing);

/* ---- agreement.c: whether ranks whose engine compares nothing make the same call ---- */
tdm_status tdmi_agreement_begin(tdm_work *work);
/* Sets work->agreed. An error is the group's end. */
tdm_status tdmi_agreement_advance(tdm_work *work);
/* What another rank says of its call `number`. */
void tdmi_agreement_hear(tdm_group *group, const tdmi_said *said, uint64_t number);
/* Of an engine's call. */
void tdmi_agreement_sign(const tdm_work *work, int peer, uint8_t signature[TDMI_SIGNATURE_BYTES]);

/* ---- links.c ---- */
tdm_status tdmi_links_reserve(tdm_group *group); /* own rings, before the record is written */
tdm_status tdmi_links_make(tdm_group *group, const tdmi_record *records, int64_t deadline_ns);
void tdmi_links_give_up(tdm_group *group); /* before they are closed: if the group has failed, nobody waits for what they carry */
void tdmi_links_close(tdm_group *group);
/* Before sleeping on descriptors. False: bytes have come meanwhile, look again. */
bool tdmi_links_arm(tdmi_world *world);

/* ---- connections.c ---- */
tdm_status tdmi_connections_make(tdm_group *group, int64_t deadline_ns);

/* ---- progress.c ---- */
typedef enum { TDMI_SLEEPER_WAITER, TDMI_SLEEPER_THREAD } tdmi_sleeper;
tdm_status tdmi_poller_open(tdmi_world *world);
tdm_status tdmi_poller_watch(tdmi_world *world, int fd);
tdm_status tdmi_poller_watch_node(tdmi_world *world, int rank);
void tdmi_poller_sleep(tdmi_world *world, tdmi_sleeper who, int timeout_ms);
void tdmi_poller_kick(tdmi_world *world);
void tdmi_progress_call(tdmi_world *world); /* the thread has something to do */
void tdmi_progress_stop(tdmi_world *world);

/* ---- make.c ---- */
/* Meets the other ranks of a new group; rank and size are in it. Called by all of them. parent (NULL: none): has these ranks.
 * engine (NULL: none): whose ranks have met already; taken, also on failure. */
tdm_status tdmi_group_make(tdmi_world *world, tdm_group *parent, const char *name, const char *prefix, int rank, int size, double timeout_s,
                           tdmi_engine *engine, tdm_group **out);
void tdmi_group_unmake(tdm_group *group);

/* ---- tuning.c ---- */
/* All ranks get rank 0's measured choices; where it does not know what links cost, they are measured. Links are not used yet. */
tdm_status tdmi_group_tune(tdm_group *group, int64_t deadline_ns);
/* ---- pairs.c ---- */
#define TDMI_ORDER_RANKS_MAX 16 /* of a group whose links are measured pair by pair */
/* Measures the link of each pair and finds the orders; by all ranks. */
tdm_status tdmi_group_order(tdm_group *group, int64_t deadline_ns);

/* ---- boards.c ---- */
/* The memory of this rank that peers of the group look at: given back when the last of them has left the group. */
tdm_status tdmi_boards_take(tdm_group *group);
void tdmi_boards_leave(tdm_group *group);
void tdmi_boards_free_list(tdmi_world *world);

/* ---- world.c, sub.c, memory.c ---- */
void tdmi_world_release(tdmi_world *world); /* frees it with the last group */
void tdmi_group_forget_subs(tdm_group *group);
void tdmi_world_free_blocks(tdmi_world *world);

#endif
