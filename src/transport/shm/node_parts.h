/* node_parts.h - the inside of a node, shared by node.c, join.c, bell.c, reader.c and region.c. */
#ifndef TDMI_TRANSPORT_SHM_NODE_PARTS_H
#define TDMI_TRANSPORT_SHM_NODE_PARTS_H

#include "core/domain.h"
#include "transport/shm/node.h"

#include <pthread.h>
#include <stdatomic.h>

/* First page of each arena. A peer's writes and the owner's lie on lines of their own. */
typedef struct tdmi_control {
    _Alignas(128) _Atomic uint32_t sleeping; /* tdmi_sleep bits: set by the owner, cleared by whoever rings */
    _Alignas(128) _Atomic uint32_t bell;     /* counts rings; futex word of the owner's threads */
    _Alignas(128) _Atomic uint32_t left;     /* 1: the owner said goodbye */
    /* written before anybody joins */
    bool fences;                             /* the owner's process is registered with membarrier(), and its sleepers use it */
    tdmi_cpus cpus;                          /* it may run on */
    tdmi_domain domain;                      /* they are in */
    uint64_t probe_address, probe_word;      /* what peers try to read from its own memory */
    /* written when it has tried */
    _Atomic uint32_t reads;                  /* what came of the owner's tries; release, after the next two */
    int unread_rank, unread_error;           /* the peer it cannot read, or -1: TANDEM_CMA=off; and errno */
} tdmi_control;

typedef struct tdmi_region {
    uint32_t number; /* from 1, never used again */
    char *address;
    size_t nbytes;
    bool mapped;     /* by us: a peer's region in another process */
    const uint8_t *present; /* of an own region, NULL: all of it; else [nbytes / 4096], 1 where peers reach the page */
} tdmi_region;

typedef struct tdmi_node_peer {
    tdmi_arena *arena; /* NULL: not on this node */
    tdmi_control *control;
    int fd, pidfd;
    int pid;                 /* of the process behind fd, 0 if it cannot be seen from here */
    bool same_process;
    atomic_bool closed;      /* its door closed: it left or died */
    tdmi_region *regions;    /* guarded by the node's lock */
    size_t region_count, region_capacity;
} tdmi_node_peer;

struct tdmi_node {
    int rank, world_size;
    int door;
    char door_name[TDMI_DOOR_NAME_MAX];
    pthread_mutex_t lock;
    tdmi_node_peer *peers;    /* [world_size]; peers[rank] is this rank itself */
    uint32_t regions_made; /* guarded by lock */
    uint64_t probe_word;   /* peers try to read it here */
};

void tdmi_node_register_for_fences(tdmi_node *node);
/* reader.c: what others try to read. */
tdm_status tdmi_reader_open(tdmi_node *node);

/* What a peer said about its regions. Node's lock is held. passed: a descriptor to take, or -1. */
void tdmi_region_hear(tdmi_node *node, int rank, const uint8_t message[TDMI_DOOR_MESSAGE], int passed);

#endif
