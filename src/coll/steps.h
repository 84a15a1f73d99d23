/* steps.h - a collective as plain data: the list of steps one rank takes.
 *
 * An algorithm writes steps; run.c executes them on links and shared memory; tests replay them for any number of ranks
 * without a network; costs and traffic are counted from them. A step list is pure: no pointers, no sockets, no time. */
#ifndef TDMI_COLL_STEPS_H
#define TDMI_COLL_STEPS_H

#include "coll/op.h"
#include "core/domain.h"

/* Which buffer a range lies in. IN and OUT are the caller's. ACC is this rank's scratch of `acc_count` elements in the
 * accumulate type (tdmi_call_acc_dtype). STAGE is this rank's block in
 * shared memory, for callers whose buffers no peer can reach. Each rank has two blocks of TDMI_STAGE_BYTES and takes them in
 * turn, one for each call whose list uses STAGE. Such a list has at least one MEET, so when a rank gets a block back all
 * peers have finished the call they read it in: no meeting is needed at the end of a list just to protect STAGE. All ranks
 * take turns alike, so a peer's block is the one of this rank's own turn, whatever the peer has published since. Which block
 * is whose STAGE rotates with the step of that name, from call to call too.
 * For a broadcast IN and OUT are both the caller's data. A barrier has no IN and OUT. */
#define TDMI_STAGE_BYTES ((size_t)1 << 20)

/* SLOT is what travels with the announcement of a call (board.h): a rank writes its own before it publishes, once in such a list;
 * peers read it once they have met that rank, until they finish the call, which may be long after its writer has. Whoever uses SLOT
 * publishes no buffers. */
#define TDMI_EAGER_BYTES ((size_t)1 << 10)

typedef enum { TDMI_BUFFER_IN, TDMI_BUFFER_OUT, TDMI_BUFFER_ACC, TDMI_BUFFER_STAGE, TDMI_BUFFER_SLOT } tdmi_buffer;

typedef struct tdmi_range {
    tdmi_buffer buffer;
    size_t first, count; /* elements */
} tdmi_range;

typedef enum {
    /* local */
    TDMI_STEP_COPY,   /* dst <- src, converting between dtype and accumulate type where the buffers differ in it */
    TDMI_STEP_REDUCE, /* dst <- dst op src, or src op dst where `received_first`; both of the accumulate type */
    TDMI_STEP_FINISH, /* dst <- the finished value of src: times 1/n for AVG, rounded to dtype; src is ACC or dst itself */
    /* links: sends `src` to `to` while receiving from `from`; either peer may be -1. What travels is the type of the buffer
     * sent from, so sender's src and receiver's dst are both dtype or both accumulate type; or where `leaf`, src is dtype and
     * dst is ACC, which gets what came in the accumulate type. src and dst lie apart. */
    TDMI_STEP_EXCHANGE,        /* dst <- received */
    TDMI_STEP_EXCHANGE_REDUCE, /* dst <- dst op received, or received op dst where `received_first` */
    /* shared memory, among the ranks of one node. Buffers of other ranks are read and written in place. */
    TDMI_STEP_PUBLISH,     /* tell all ranks of the node where IN, OUT, STAGE are, and that all writes so far are visible */
    TDMI_STEP_MEET,        /* wait until rank `from`, or every rank of the node if it is -1, has published as often as this one, or
                              `behind` times less */
    TDMI_STEP_REDUCE_FROM, /* op over `src` of the node's ranks (src.buffer of each, same range), canonical tree, finished, in
                              dtype; the one step behind it, a COPY_TO of equal count, takes the result (tdmi_reduce_tree does
                              both). This rank's own values are in `own` where that is not empty. Only ranks from `from` up to,
                              not including, `to` take part, unless from == -1 */
    TDMI_STEP_COPY_TO,     /* the reduced range -> `dst` of rank `to`, or of all ranks of the node if to == -1; dst.first may
                              differ from the source's first (reduce-scatter). Into the own ACC it stays unfinished */
    TDMI_STEP_COPY_FROM,   /* own dst <- src of rank `from` */
    TDMI_STEP_REFILL,      /* dst in STAGE of rank `to` <- own src. Where the REDUCE_FROM or COPY_FROM in front of it, which has read
                              that dst, is `refilled`, both are one pass: the lines are in this core's cache */
    TDMI_STEP_AWAIT,       /* until the background steps that stand before the src.first-th step of the list are over */
    TDMI_STEP_ROTATE       /* from now on, STAGE of rank r is the block that was STAGE of rank r + 1. Of two ranks, each then
                              writes where it has just read: lines that its own cache holds already */
} tdmi_step_kind;

/* As src.first of a COPY_FROM: where the part for this rank starts in IN of `from`, which only that rank knows (uneven
 * scatter and alltoall) and publishes with its buffers. Never in STAGE. */
#define TDMI_PART_FOR_ME SIZE_MAX

typedef struct tdmi_step {
    tdmi_step_kind kind;
    int to, from; /* ranks of the group, -1: none (COPY_TO: all) */
    tdmi_range src, dst;
    tdmi_range own; /* of REDUCE_FROM */
    unsigned behind; /* of MEET */
    bool received_first, leaf, refilled;
    bool background; /* a link or local step: goes on beside the steps behind it, which may not touch what it touches until an
                        AWAIT; background steps are taken one after the other. At the end of the list all are over, and at an
                        EXCHANGE that is not in the background */
} tdmi_step;

typedef enum {
    TDMI_COLL_ALLREDUCE,
    TDMI_COLL_REDUCE_SCATTER,
    TDMI_COLL_ALL_GATHER,
    TDMI_COLL_BROADCAST,
    TDMI_COLL_REDUCE,
    TDMI_COLL_GATHER,
    TDMI_COLL_SCATTER,
    TDMI_COLL_ALLTOALL,
    TDMI_COLL_BARRIER,
    TDMI_COLL_COUNT
} tdmi_coll;

const char *tdmi_coll_name(tdmi_coll coll); /* "allreduce", ... */
bool tdmi_coll_reduces(tdmi_coll coll);     /* has an op */
bool tdmi_coll_has_parts(tdmi_coll coll);   /* one a rank, which may be uneven */

/* One call, as a rank makes it. Equal calls have equal step lists, so a group caches lists by this.
 *
 * Buffers hold parts, one a rank, in rank order and without gaps. Where `uneven` parts may differ (the v calls):
 *     all_gather      out_counts on every rank, equal; count = out_counts[rank]
 *     reduce_scatter  in_counts on every rank, equal; count = in_counts[rank]
 *     gather          count is this rank's own; out_counts on the root
 *     scatter         count is this rank's own; in_counts on the root
 *     alltoall        in_counts (to each rank) and out_counts (from each rank); count = 0
 * Otherwise all parts have `count` elements and the arrays are NULL. */
typedef struct tdmi_call {
    tdmi_coll coll;
    tdm_dtype dtype;
    tdm_op op;    /* SUM where the operation has none */
    int root;     /* -1 where there is none */
    size_t count; /* as the public prototype means it */
    bool uneven;
    const size_t *in_counts, *out_counts; /* [n] or NULL */
    uint64_t parts_total, parts_hash;     /* of an uneven all_gather or reduce_scatter, for comparing: tdmi_call_note_parts.
                                             Even, hash not 0: several calls packed into one, their number << 48 | hash of counts */
    bool on_device; /* an engine does it there; what is left to do here is a barrier at which the calls are compared */
} tdmi_call;

/* How the messages of an algorithm lie between its places. Where sums may be reordered each shape has an order of its own, in which
 * ranks take the places. */
typedef enum { TDMI_SHAPE_RING, TDMI_SHAPE_TREE, TDMI_SHAPE_DOUBLING, TDMI_SHAPES } tdmi_shape;

/* Which rank of how many, and on which node each of them is: nodes are numbered from 0 in the order of their first ranks. */
typedef struct tdmi_topology {
    int rank, n;
    const int *node; /* [n]; NULL: all on one */
    const int *order[TDMI_SHAPES];      /* [n] the ranks at the places of a shape; NULL: 0, 1, 2 ... */
    const int *node_order[TDMI_SHAPES]; /* the same of nodes */
    const tdmi_domain *domain;          /* [n], where each rank's CPUs are, to go to near memory first; NULL: all alike */
    const char *transport;              /* "shm", "tcp", "shm+tcp"; NULL: not known */
    const double *pair_ns;              /* [n * n] nanoseconds a byte from rank to rank, 0 inside a node; NULL: all links are alike */
    const struct tdmi_tuning *tuning;   /* what was measured, the same on all ranks; NULL: nothing */
} tdmi_topology;

int tdmi_topology_nodes(const tdmi_topology *topology);

/* What links cost, in nanoseconds: alpha a message, beta a byte, gamma a byte summed. */
typedef struct tdmi_costs {
    char transport[8]; /* "tcp" or "ucx" */
    double alpha, beta, gamma;
} tdmi_costs;

/* Elements of a rank's IN and OUT; 0 where it has none (OUT of a gather or reduce off the root, IN of a scatter off it). */
size_t tdmi_call_in_count(const tdmi_call *call, int rank, int n);
size_t tdmi_call_out_count(const tdmi_call *call, int rank, int n);
/* The type of ACC: float32 for halves and int64 for integer averages that are summed, else the dtype itself. */
tdm_dtype tdmi_call_acc_dtype(const tdmi_call *call);
/* The part of this rank's IN for `peer`, of its OUT from `peer`; the whole buffer where it has no parts. */
tdmi_range tdmi_call_in_part(const tdmi_call *call, int peer);
tdmi_range tdmi_call_out_part(const tdmi_call *call, int peer);
static inline tdmi_call tdmi_barrier_call(void)
{
    return (tdmi_call){.coll = TDMI_COLL_BARRIER, .dtype = TDM_U8, .op = TDM_SUM, .root = -1};
}
/* Fills parts_total and parts_hash. */
void tdmi_call_note_parts(tdmi_call *call, int n);
/* Elements that `rank`, whose call this is, gives to `peer` and expects of it, in a gather, scatter or alltoall. */
size_t tdmi_call_gives(const tdmi_call *call, int rank, int peer);
size_t tdmi_call_expects(const tdmi_call *call, int rank, int peer);
/* Whether only pairs of ranks know how much goes between them: an uneven gather, scatter or alltoall. */
bool tdmi_call_is_pairwise(const tdmi_call *call);
/* Bytes that the choice of an algorithm goes by: the larger buffer's, equal on all ranks. Where no rank knows them
 * (uneven gather, scatter, alltoall) TDMI_UNKNOWN_BYTES. */
#define TDMI_UNKNOWN_BYTES ((size_t)1 << 20)
size_t tdmi_call_bytes(const tdmi_call *call, int n);

/* Whether another order of additions can give other bits. */
bool tdmi_depends_on_order(const tdmi_call *call, int n);

typedef struct tdmi_steps {
    tdmi_step *step;
    size_t count, capacity;
    size_t acc_count;   /* elements of ACC needed */
    size_t stage_count; /* elements of STAGE needed, in dtype; never more than TDMI_STAGE_BYTES */
    bool backwards;     /* wished for by whoever makes the list: long buffers are gone through from their end */
    bool turns;         /* said by the algorithm: made backwards it is another list, which is worth having for every other call */
    tdm_status status;  /* first failed append; checked once, at the end */
} tdmi_steps;

/* Appending. Ranges of zero elements are kept out where a step moves nothing (an EXCHANGE of 0 and 0 is dropped). */
void tdmi_steps_exchange(tdmi_steps *s, int to, tdmi_range src, int from, tdmi_range dst);
void tdmi_steps_exchange_reduce(tdmi_steps *s, int to, tdmi_range src, int from, tdmi_range dst, bool received_first);
/* src and what comes are dtype, dst of the accumulate type. */
void tdmi_steps_exchange_leaf(tdmi_steps *s, int to, tdmi_range src, int from, tdmi_range dst);
void tdmi_steps_exchange_reduce_leaf(tdmi_steps *s, int to, tdmi_range src, int from, tdmi_range dst, bool received_first);
void tdmi_steps_add(tdmi_steps *s, tdmi_step step);
void tdmi_steps_clear(tdmi_steps *s); /* keeps the memory */
void tdmi_steps_free(tdmi_steps *s);

/* What a step list costs, counted from the list itself. */
typedef struct tdmi_traffic {
    size_t messages;      /* EXCHANGE sends */
    size_t elements_sent; /* over links */
} tdmi_traffic;
tdmi_traffic tdmi_steps_traffic(const tdmi_steps *s);

#define TDMI_NEEDS_LINKS 1u  /* point-to-point links between ranks */
#define TDMI_NEEDS_SHARED 2u /* every rank reaches the others' IN and OUT (arena memory) */
#define TDMI_NEEDS_READ 32u  /* every rank reads the others' IN and OUT, wherever they are, all ranks on one node */
#define TDMI_NEEDS_STAGE 4u  /* every rank reaches the others' STAGE: any memory, all ranks on one node */
#define TDMI_NEEDS_SLOT 8u   /* and their SLOT: nobody has to publish where buffers are */
#define TDMI_NEEDS_NODE 16u  /* links, and the ranks of one node (topology) reach each other's STAGE */

typedef struct tdmi_algorithm {
    const char *name;
    unsigned needs;
    size_t max_bytes; /* of a call (tdmi_call_bytes); 0: any */
    bool reorders; /* sums in another order than the canonical tree: n > 2 only under TANDEM_SUM_ORDER=fast */
    bool (*supports)(tdmi_coll coll, bool uneven);
    /* Pure: writes the steps of topology->rank for this call. */
    void (*steps)(tdmi_steps *s, const tdmi_call *call, const tdmi_topology *topology);
    /* Expected traffic of topology->rank in messages and elements, from the cost line; links only. */
    tdmi_traffic (*cost)(const tdmi_call *call, const tdmi_topology *topology);
    /* How long it takes, where ranks do not just wait for their own messages (pipelines); NULL: counted from the steps. */
    double (*time)(const tdmi_call *call, const tdmi_topology *topology, const tdmi_costs *costs);
    bool is_baseline; /* to compare with: taken only when it is forced */
} tdmi_algorithm;

/* select.c: all algorithms, and the choice for a call. `reach` says what the ranks of the group have in common. The choice
 * depends only on the call, the topology, `reach` and the environment, so it is the same on all ranks. why: [TDMI_WHY_MAX] or NULL. */
#define TDMI_WHY_MAX 160
extern const tdmi_algorithm *const tdmi_algorithms[];
extern const size_t tdmi_algorithm_count;
tdm_status tdmi_select(const tdmi_call *call, const tdmi_topology *topology, unsigned reach, const tdmi_algorithm **out, char *why);

#endif
