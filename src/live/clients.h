/* clients.h - the processes that have asked for something to do, as a daemon knows them: there is no other registration. */
#ifndef TDMI_LIVE_CLIENTS_H
#define TDMI_LIVE_CLIENTS_H

#include "core/error.h"
#include "live/message.h"

#define TDMI_CLIENT_MAX 4096 /* remembered at once; those that have ended make room */

typedef struct tdmi_client {
    tdmi_poll last;        /* the process is last.pids[0] */
    int rank;              /* RANK of its environment, -1: none */
    int64_t first_ns, last_ns;
    int64_t period_ns;     /* between two polls; 0: not known yet */
    const char *request;   /* to hand out at its next poll that is idle; borrowed, NULL: none */
    int64_t taken_ns;      /* when the last one was handed out; 0: never */
} tdmi_client;

typedef struct tdmi_clients {
    tdmi_client *of; /* [count], in the order of their first polls */
    size_t count, capacity;
} tdmi_clients;

/* Notes a poll at now_ns; a process that is new gets this rank. NULL: there are too many, or no memory. */
tdmi_client *tdmi_clients_heard(tdmi_clients *clients, const tdmi_poll *poll, int rank, int64_t now_ns);
tdmi_client *tdmi_clients_find(const tdmi_clients *clients, pid_t pid); /* NULL: never heard of */
/* Removes those of which `lives` says no. */
void tdmi_clients_forget(tdmi_clients *clients, bool (*lives)(pid_t pid));
void tdmi_clients_free(tdmi_clients *clients);

/* Whether it has asked lately: polls of a process that lives come evenly. default_ns: the period of one that has asked once. */
bool tdmi_client_is_prompt(const tdmi_client *client, int64_t default_ns, int64_t now_ns);
/* The ranks, each once (where one was started again, the newest), sorted: up to `capacity` into out; gives their number. */
size_t tdmi_clients_ranks(const tdmi_clients *clients, tdmi_client **out, size_t capacity);

/* The longest period among these, default_ns at least: two polls can come at once, when one had to wait for the daemon to begin. */
int64_t tdmi_clients_period(tdmi_client *const *clients, size_t count, int64_t default_ns);
/* Among polls that come every period: the one after the longest pause. Counted from it, all come within *spread_ns_out. */
size_t tdmi_clients_first_of_turn(tdmi_client *const *clients, size_t count, int64_t period_ns, int64_t *spread_ns_out);

#endif
