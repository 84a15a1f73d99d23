/* arena.h - one rank's shared memory: a sparse memfd, mapped once, from which blocks are taken and given back.
 *
 * The owner takes and gives; peers in other processes map the same file, peers that are threads of this process find the
 * owner's mapping by its number. An offset means the same to all of them. */
#ifndef TDMI_TRANSPORT_SHM_ARENA_H
#define TDMI_TRANSPORT_SHM_ARENA_H

#include "core/error.h"

typedef struct tdmi_arena tdmi_arena;

#define TDMI_ARENA_HEAD 4096 /* bytes in front that no block is taken from: the owner's control page */

/* nbytes of address space, no memory yet. `stagger`: blocks of a page or more start this many bytes (modulo 4096, a multiple
 * of 128) behind a page, so that equal blocks of different ranks do not agree modulo 4096, which would slow sums down. */
tdm_status tdmi_arena_create(size_t nbytes, size_t stagger, tdmi_arena **out);
/* Memory of it that is taken from now on, by whomever, comes from this NUMA node as long as that has some. -1: from where the kernel
 * likes. */
void tdmi_arena_prefer(tdmi_arena *arena, int node);
/* The arena of a peer, received as a descriptor; takes fd, also on failure. */
tdm_status tdmi_arena_map(int fd, size_t nbytes, tdmi_arena **out);
/* The arena of this number if it is one of this process, with one more reference; else NULL. Number 0 is none. */
tdmi_arena *tdmi_arena_find(uint64_t number);
void tdmi_arena_release(tdmi_arena *arena); /* unmaps with the last reference; NULL is fine */

char *tdmi_arena_base(const tdmi_arena *arena);
size_t tdmi_arena_nbytes(const tdmi_arena *arena);
int tdmi_arena_fd(const tdmi_arena *arena);
uint64_t tdmi_arena_number(const tdmi_arena *arena); /* random, not 0; 0 for the arena of a peer process */

/* A block of zeroes, aligned to 128. Backed by memory at once: TDM_ERR_NO_MEMORY says how much is needed and free.
 * Any thread. */
tdm_status tdmi_arena_take(tdmi_arena *arena, size_t nbytes, void **out);
/* The same, but address space only: tdmi_arena_back() gives it memory later. */
tdm_status tdmi_arena_reserve(tdmi_arena *arena, size_t nbytes, void **out);
/* Memory for a part of an arena, own or a peer's. Zero if it had none before. */
tdm_status tdmi_arena_back(tdmi_arena *arena, size_t offset, size_t nbytes);
/* Gives a block back: its memory returns to the machine. False if there is no such block. */
bool tdmi_arena_give(tdmi_arena *arena, void *block);
/* In two halves, for a block whose memory goes before its owner hears of it: returns the memory ... */
void tdmi_arena_discard(tdmi_arena *arena, size_t offset, size_t nbytes);

#endif
