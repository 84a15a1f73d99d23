/* node.h - the ranks of one host that share memory, seen from one of them: their arenas, bells and whether they live.
 *
 * One object a rank, made with its world group and used by every group made from that. Ranks are numbered as in the world.
 * Pointers travel as places: whose memory, which region of it, how far in. Threads: docs/threads.md. */
#ifndef TDMI_TRANSPORT_SHM_NODE_H
#define TDMI_TRANSPORT_SHM_NODE_H

#include "core/domain.h"
#include "core/error.h"
#include "store/auth.h"
#include "transport/shm/arena.h"
#include "transport/shm/door.h"

typedef struct tdmi_node tdmi_node;

typedef struct tdmi_place {
    uint32_t owner;  /* world rank; TDMI_NOWHERE: memory that peers do not reach; TDMI_NOTHING: no memory at all */
    uint32_t region; /* 0: its arena, else a region it registered, or TDMI_PRIVATE: offset is an address in its process */
    uint64_t offset;
} tdmi_place;
#define TDMI_NOWHERE UINT32_MAX
#define TDMI_NOTHING (UINT32_MAX - 1)
#define TDMI_PRIVATE UINT32_MAX

/* What a rank tells the others so that they can join. */
typedef struct tdmi_node_card {
    int rank;
    uint64_t arena_number;
    char door[TDMI_DOOR_NAME_MAX];
} tdmi_node_card;

/* A node of this rank alone: arena and door. arena_nbytes 0: this machine's memory. */
tdm_status tdmi_node_create(int rank, int world_size, size_t arena_nbytes, tdmi_node **out);
void tdmi_node_card_of(const tdmi_node *node, tdmi_node_card *out);
/* Connects to the ranks on the cards (own card included or not), all of which do the same. An error names the rank. */
tdm_status tdmi_node_join(tdmi_node *node, const tdmi_node_card *cards, int count, const tdmi_auth_key *key, int64_t deadline_ns);
/* Says goodbye, frees. NULL is fine. */
void tdmi_node_destroy(tdmi_node *node);

bool tdmi_node_has(const tdmi_node *node, int rank);
/* Whether some of the ranks joined so far have to share a CPU. */
bool tdmi_node_crowded(const tdmi_node *node);
/* Where the CPUs of a rank are that has joined. */
tdmi_domain tdmi_node_domain(const tdmi_node *node, int rank);
tdmi_arena *tdmi_node_arena(const tdmi_node *node, int rank);

/* Where peers find [address, address + nbytes); owner TDMI_NOWHERE if they cannot. */
tdmi_place tdmi_node_locate(const tdmi_node *node, const void *address, size_t nbytes);
/* The address here of a peer's place. */
tdm_status tdmi_node_resolve(tdmi_node *node, tdmi_place place, void **out);
/* Tells the peers of a region; see tdm_memory_register_sparse. present NULL: all pages are the file's. */
tdm_status tdmi_node_register(tdmi_node *node, int fd, size_t offset, size_t nbytes, void *address, const uint8_t *present);
void tdmi_node_unregister(tdmi_node *node, void *address);

/* ---- memory that a rank has for itself ---- */
#define TDMI_READING_TEXT_MAX 256
/* Tries to read the memory of every peer; when all ranks have met after that, tdmi_node_reads says whether all can read all:
 * the same on all ranks. why: a text either way. */
void tdmi_node_probe_reading(tdmi_node *node);
bool tdmi_node_reads(const tdmi_node *node, char why[TDMI_READING_TEXT_MAX]);
/* Where reading works: nbytes at address `from` of a peer. */
tdm_status tdmi_node_read(const tdmi_node *node, int rank, void *to, const void *from, size_t nbytes);

/* ---- bells ----
 * A rank that sleeps says how; whoever wrote something it may wait for rings. Sleeping:
 *     uint32_t heard = tdmi_node_sleep_begin(node, TDMI_SLEEP_FUTEX);
 *     if (nothing to do, looked at again)  tdmi_node_sleep(node, heard, timeout_ns); */
typedef enum { TDMI_SLEEP_FUTEX = 1, TDMI_SLEEP_EPOLL = 2 } tdmi_sleep;
uint32_t tdmi_node_sleep_begin(tdmi_node *node, tdmi_sleep how);
void tdmi_node_sleep(tdmi_node *node, uint32_t heard, int64_t timeout_ns); /* FUTEX; EPOLL sleeps on tdmi_node_fd of all */
/* Wakes `rank` if it sleeps. What was written before is visible to it. Own rank: other threads of it. */
void tdmi_node_ring(tdmi_node *node, int rank);

/* ---- life ---- */
int tdmi_node_fd(const tdmi_node *node, int rank); /* becomes readable on a bell or death; -1 for this rank and strangers */
/* Reads what came over the doors, without blocking: new regions, deaths. hear: over one door. */
void tdmi_node_listen(tdmi_node *node);
void tdmi_node_hear(tdmi_node *node, int rank);
typedef enum { TDMI_ALIVE, TDMI_LEFT, TDMI_DIED } tdmi_life;
tdmi_life tdmi_node_life(const tdmi_node *node, int rank);

#endif
