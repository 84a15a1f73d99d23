/* clients.c - the table of processes that poll. */
#include "live/clients.h"

#include "core/clock.h"
#include "core/memory.h"

#include <stdlib.h>

#define LATE_NS (1500 * TDMI_NS_PER_MS) /* that a poll may come late on a loaded machine */

tdmi_client *tdmi_clients_find(const tdmi_clients *clients, pid_t pid)
{
    for (size_t i = 0; i < clients->count; i++)
        if (clients->of[i].last.pids[0] == pid)
            return &clients->of[i];
    return NULL;
}

static tdmi_client *add(tdmi_clients *clients)
{
    if (clients->count == TDMI_CLIENT_MAX)
        return NULL;
    tdmi_client *of = tdmi_with_room(clients->of, clients->count, &clients->capacity, sizeof *of, "processes of a live job");
    if (of == NULL)
        return NULL;
    clients->of = of;
    return &clients->of[clients->count++];
}

tdmi_client *tdmi_clients_heard(tdmi_clients *clients, const tdmi_poll *poll, int rank, int64_t now_ns)
{
    tdmi_client *client = tdmi_clients_find(clients, poll->pids[0]);
    if (client == NULL) {
        client = add(clients);
        if (client == NULL)
            return NULL;
        *client = (tdmi_client){.rank = rank, .first_ns = now_ns};
    } else {
        const int64_t passed_ns = now_ns - client->last_ns;
        client->period_ns = client->period_ns == 0 ? passed_ns : (3 * client->period_ns + passed_ns) / 4;
    }
    client->last = *poll;
    client->last_ns = now_ns;
    return client;
}

void tdmi_clients_forget(tdmi_clients *clients, bool (*lives)(pid_t pid))
{
    size_t kept = 0;
    for (size_t i = 0; i < clients->count; i++)
        if (lives(clients->of[i].last.pids[0]))
            clients->of[kept++] = clients->of[i];
    clients->count = kept;
}

void tdmi_clients_free(tdmi_clients *clients)
{
    tdmi_free(clients->of);
    *clients = (tdmi_clients){0};
}

/* A rank has RANK, and no process above it that has asked has one too: a data loader's spawned workers inherit RANK, and torchrun's
 * agent has none. */
static bool is_rank(const tdmi_clients *clients, const tdmi_client *client)
{
    if (client->rank < 0)
        return false;
    for (int i = 1; i < client->last.count; i++) {
        const tdmi_client *above = tdmi_clients_find(clients, client->last.pids[i]);
        if (above != NULL && above != client && above->rank >= 0)
            return false;
    }
    return true;
}

bool tdmi_client_is_prompt(const tdmi_client *client, int64_t default_ns, int64_t now_ns)
{
    const int64_t period_ns = client->period_ns > default_ns ? client->period_ns : default_ns;
    return now_ns - client->last_ns <= 2 * period_ns + LATE_NS;
}

static int by_rank(const void *a, const void *b)
{
    const tdmi_client *x = *(tdmi_client *const *)a, *y = *(tdmi_client *const *)b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

size_t tdmi_clients_ranks(const tdmi_clients *clients, tdmi_client **out, size_t capacity)
{
    size_t count = 0;
    for (size_t i = 0; i < clients->count; i++) {
        tdmi_client *client = &clients->of[i];
        if (!is_rank(clients, client))
            continue;
        size_t at = 0;
        while (at < count && out[at]->rank != client->rank)
            at++;
        if (at == count && count == capacity)
            continue;
        count += at == count;
        out[at] = client; /* those that came later stand behind */
    }
    qsort(out, count, sizeof *out, by_rank);
    return count;
}

int64_t tdmi_clients_period(tdmi_client *const *clients, size_t count, int64_t default_ns)
{
    int64_t longest_ns = default_ns;
    for (size_t i = 0; i < count; i++)
        if (clients[i]->period_ns > longest_ns)
            longest_ns = clients[i]->period_ns;
    return longest_ns;
}

size_t tdmi_clients_first_of_turn(tdmi_client *const *clients, size_t count, int64_t period_ns, int64_t *spread_ns_out)
{
    size_t first = 0;
    int64_t longest_ns = -1;
    for (size_t i = 0; i < count; i++) {
        int64_t pause_ns = period_ns; /* since the poll before this one; of one alone: the whole period */
        for (size_t k = 0; k < count; k++) {
            const int64_t since_ns = (clients[i]->last_ns - clients[k]->last_ns) % period_ns;
            const int64_t before_ns = since_ns < 0 ? since_ns + period_ns : since_ns;
            if (k != i && before_ns < pause_ns)
                pause_ns = before_ns;
        }
        if (pause_ns > longest_ns) {
            longest_ns = pause_ns;
            first = i;
        }
    }
    *spread_ns_out = count > 0 ? period_ns - longest_ns : 0;
    return first;
}
