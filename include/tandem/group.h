/* group.h - a set of ranks that make the same calls in the same order, and the memory they share. */
#ifndef TANDEM_GROUP_H
#define TANDEM_GROUP_H

#include <tandem/dtype.h>
#include <tandem/store.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_group tdm_group; /* one rank's handle of a group; used by one thread at a time */
typedef struct tdm_work tdm_work;   /* one collective under way */

/* ---- groups ---- */
typedef struct tdm_group_options {
    tdm_store *store;         /* borrowed, must outlive the group; NULL: TCP store from MASTER_ADDR and MASTER_PORT */
    int rank, size;           /* both -1: from RANK and WORLD_SIZE (torchrun), OMPI_COMM_WORLD_*, PMI_*, SLURM_*, ... (docs/launch.md) */
    int local_rank, local_size; /* -1: from LOCAL_RANK and LOCAL_WORLD_SIZE; only hints for messages and core choice */
    const char *name;         /* "world" if NULL; groups that exist at once on one store need different names */
    const char *transport;    /* "auto", "shm", "tcp", "ucx" or "shm+ucx"; NULL: TANDEM_TRANSPORT */
    const char *engine;       /* "native", "mpi" or "nccl"; NULL: TANDEM_ENGINE. docs/engines.md */
    double timeout_s;         /* of collectives; 0: TANDEM_TIMEOUT */
    double rendezvous_timeout_s; /* of tdm_group_create; 0: TANDEM_RDZV_TIMEOUT */
} tdm_group_options;

/* Fills the options with "take everything from the environment". */
TDM_API void tdm_group_options_init(tdm_group_options *options);

/* tdm_group_create - meets all other ranks and connects to them.
 *   options  NULL: everything from the environment (what torchrun, `tandem run`, mpirun and srun export)
 * Errors  TDM_ERR_TIMEOUT names the ranks that did not come | TDM_ERR_INVALID which variable is missing or wrong |
 *         TDM_ERR_AUTH | TDM_ERR_ADDRESS_IN_USE.  Cost: a few round trips to the store.  Size 1 needs no store. */
TDM_API TDM_MUST_CHECK tdm_status tdm_group_create(const tdm_group_options *options, tdm_group **out);
/* tdm_group_create_sub - a group of some of `parent`'s ranks, in the order listed (rank i of the new group is ranks[i]).
 * Called by the members only, with equal lists; disjoint groups may be made at the same time. A caller that is not in the
 * list gets TDM_ERR_INVALID "not a member". A shared arena is not copied: memory of the parent can be used in the child. */
TDM_API TDM_MUST_CHECK tdm_status tdm_group_create_sub(tdm_group *parent, const int *ranks, int count, tdm_group **out);
/* Says goodbye and frees; peers that are still working see a clean end, not a lost rank. Not collective. NULL is fine.
 * Sub-groups first. Memory of tdm_alloc from this group dies with it. */
TDM_API void tdm_group_destroy(tdm_group *group);
/* How long calls that follow wait for their peers, instead of what the group was made with. The same on all ranks. */
TDM_API void tdm_group_set_timeout(tdm_group *group, double timeout_s);
/* Marks the group dead on all ranks: every wait, here and there, returns TDM_ERR_ABORTED with `reason`. Any thread. */
TDM_API void tdm_group_abort(tdm_group *group, const char *reason);

TDM_API int tdm_group_rank(const tdm_group *group);
TDM_API int tdm_group_size(const tdm_group *group);
TDM_API const char *tdm_group_name(const tdm_group *group);
/* Whether `rank` shares memory with the caller (same node, same TANDEM_NODE_ID, transport not tcp or ucx). */
TDM_API bool tdm_group_is_local(const tdm_group *group, int rank);
/* Number of ranks of this group on the caller's node, and the caller's place among them (in rank order). */
TDM_API int tdm_group_local_size(const tdm_group *group);
TDM_API int tdm_group_local_rank(const tdm_group *group);

/* Who does this group's collectives: "native", "mpi" or "nccl". Static storage. */
TDM_API const char *tdm_group_engine(const tdm_group *group);
/* What carries this rank's bytes: "mpi" under that engine, else "self" (a group of one), "shm", "tcp", "shm+tcp", "ucx" or "shm+ucx". Static storage. */
TDM_API const char *tdm_group_transport(const tdm_group *group);
/* Bytes of payload this rank has sent over links (tcp, ucx, shm queues; not shared memory read in place) since creation. */
TDM_API uint64_t tdm_group_bytes_sent(const tdm_group *group);

/* ---- memory that peers of the node can reach: collectives on it copy nothing ----
 * tdm_alloc           local call; 128-byte aligned, zeroed, backed at once (a full machine is an error, not a crash later).
 *                     From 2 MiB on in huge pages where the kernel gives them (docs/algorithms.md).
 * tdm_alloc_node      collective over the group's ranks of one node: the same memory for all of them, one copy a node.
 *                     Freed by each rank with tdm_free; the memory goes when the last one has.
 * tdm_memory_register adopts [offset, offset + nbytes) of a memfd that this process has mapped at `address`, so that
 *                     collectives on it copy nothing either. Borrows fd until tdm_memory_unregister. Local call.
 * tdm_memory_register_sparse  the same for memory of which only some pages are the file's, such as a heap whose blocks become
 *                     shared one by one. present [nbytes / 4096], borrowed: 1 where the page at its place is. A buffer with any
 *                     other page is used like memory from malloc. A byte may become 1 before a call that uses the page, and 0 when
 *                     none does. address and nbytes are multiples of 4096.
 * All are usable in every group made from the same world group.
 *
 * ---- fork ----
 * A child of fork() has no groups: it shares memory with its parent, and fork() closes the connections to other ranks in it. So
 * every call on a group or work handle there returns TDM_ERR_INVALID, and destroying does nothing. It may make groups of its own.
 * A child that outlives its rank (a data loader's worker) hides nothing: the others notice the rank's death as they always do. */
TDM_API TDM_MUST_CHECK tdm_status tdm_alloc(tdm_group *group, size_t nbytes, void **out);
TDM_API TDM_MUST_CHECK tdm_status tdm_alloc_node(tdm_group *group, size_t nbytes, void **out);
TDM_API void tdm_free(tdm_group *group, void *block); /* NULL is fine */
TDM_API TDM_MUST_CHECK tdm_status tdm_memory_register(tdm_group *group, int fd, size_t offset, size_t nbytes, void *address);
TDM_API TDM_MUST_CHECK tdm_status tdm_memory_register_sparse(tdm_group *group, int fd, size_t offset, size_t nbytes, void *address,
                                                             const uint8_t *present);
TDM_API void tdm_memory_unregister(tdm_group *group, void *address);

#ifdef __cplusplus
}
#endif
#endif
