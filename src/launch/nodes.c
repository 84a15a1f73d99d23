/* nodes.c - launchers meet in a TCP store that node 0 serves.
 *
 *   node/R   "local_size nodes host"   each node about itself; a second node R is an error
 *   job      "master_port job_id"      node 0
 *   done     counter                   nodes whose ranks have ended well
 *   end      "code node text"          the first one stands: all done, a rank failed, a signal, or (a will) a launcher is gone
 *   left/R   ""                        node R has seen the end, or is gone (a will): node 0 need not wait for it
 *
 * Threads: watch() waits for "end" on a connection that it shares with nobody else (`watched`) and writes `end_...`,
 * then `ended` and `event`, once; the launcher's thread does the rest, on `store`. */
#include "launch/nodes.h"

#include "core/clock.h"
#include "core/memory.h"
#include "store/socket.h"
#include "store/store.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define REPLY_S 2.0 /* how long an announcement may take */

struct tdmi_nodes {
    tdm_store *server; /* node 0 only */
    tdm_store *store;
    tdm_store *watched;
    pthread_t watcher;
    bool watching;
    atomic_bool stop;
    int event;
    int node_rank, nodes;
    atomic_bool ended;      /* release in watch(); pairs with acquire in tdmi_nodes_end() */
    int end_code, end_node; /* written by the watcher before `ended` */
    char end_text[TDMI_ERROR_TEXT_MAX];
};

tdm_status tdmi_nodes_parse_address(const char *text, char host[256], int *port)
{
    const char *colon = strrchr(text, ':'), *begin = text, *end = colon;
    if (colon != NULL && text[0] == '[' && colon > text && colon[-1] == ']') {
        begin = text + 1;
        end = colon - 1;
    }
    char *rest;
    errno = 0;
    long number = colon != NULL ? strtol(colon + 1, &rest, 10) : 0;
    if (colon == NULL || end <= begin || end - begin >= 256 || colon[1] < '0' || colon[1] > '9' || *rest != '\0' || number < 1 ||
        number > 65535 || errno != 0)
        return tdmi_fail(TDM_ERR_INVALID, "\"%s\" is not HOST:PORT with a port from 1 to 65535, such as 10.0.0.1:29400", text);
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    *port = (int)number;
    return TDM_OK;
}

static void *watch(void *arg)
{
    tdmi_nodes *nodes = arg;
    char *value = NULL;
    size_t nbytes;
    tdm_status status;
    do
        status = tdmi_store_get(nodes->watched, "end", tdmi_deadline_in(1), &value, &nbytes);
    while (status == TDM_ERR_TIMEOUT && !atomic_load(&nodes->stop));
    nodes->end_code = 4;
    nodes->end_node = -1;
    if (status == TDM_OK) {
        int text_at = 0;
        if (sscanf(value, "%d %d %n", &nodes->end_code, &nodes->end_node, &text_at) == 2)
            snprintf(nodes->end_text, sizeof nodes->end_text, "%s", value + text_at);
        tdmi_free(value);
        char key[32];
        snprintf(key, sizeof key, "left/%d", nodes->node_rank);
        (void)!tdmi_store_set(nodes->watched, key, "", 0); /* node 0 may be gone by now */
    } else {
        snprintf(nodes->end_text, sizeof nodes->end_text, "node 0 is lost: %s", tdm_error_text());
    }
    atomic_store_explicit(&nodes->ended, true, memory_order_release);
    uint64_t one = 1;
    ssize_t written = write(nodes->event, &one, sizeof one);
    (void)written; /* an eventfd takes it */
    return NULL;
}

/* The nodes' own words, in order; fills in size and first_rank. */
static tdm_status hear_all(tdmi_nodes *nodes, tdmi_job_shape *shape, const char *rendezvous, double timeout_s)
{
    int64_t deadline_ns = tdmi_deadline_in(timeout_s);
    char missing[512] = "";
    int missing_count = 0;
    shape->size = 0;
    for (int node = 0; node < shape->nodes; node++) {
        char key[32], *value;
        size_t nbytes;
        snprintf(key, sizeof key, "node/%d", node);
        tdm_status status = tdmi_store_get(nodes->store, key, deadline_ns, &value, &nbytes);
        if (status == TDM_ERR_TIMEOUT) { /* the rest gets a look as well: the message names all */
            size_t used = strlen(missing);
            snprintf(missing + used, sizeof missing - used, "%s%d", missing_count++ > 0 ? ", " : "", node);
            continue;
        }
        if (status != TDM_OK)
            return tdmi_fail_while(status, "meeting %d nodes at %s", shape->nodes, rendezvous);
        int local_size = 0, count = 0;
        bool good = sscanf(value, "%d %d", &local_size, &count) == 2 && local_size > 0 && local_size <= 1 << 20;
        tdmi_free(value);
        if (!good || count != shape->nodes)
            return tdmi_fail(TDM_ERR_MISMATCH, "node %d was started with --nnodes %d, this one with --nnodes %d", node, count, shape->nodes);
        if (node == shape->node_rank)
            shape->first_rank = shape->size;
        shape->size += local_size;
    }
    if (missing_count > 0)
        return tdmi_fail(TDM_ERR_TIMEOUT, "%s %s of %d did not come to %s within %g s", missing_count > 1 ? "nodes" : "node", missing,
                         shape->nodes, rendezvous, timeout_s);
    return TDM_OK;
}

static tdm_status introduce(tdmi_nodes *nodes, tdmi_job_shape *shape, const char *rendezvous)
{
    char key[32], text[512], host[256] = "?";
    int64_t before;
    gethostname(host, sizeof host - 1);
    snprintf(key, sizeof key, "taken/%d", shape->node_rank);
    tdm_status status = tdmi_store_add(nodes->store, key, 1, &before);
    if (status == TDM_OK && before != 1)
        return tdmi_fail(TDM_ERR_INVALID, "there are two nodes with --node-rank %d at %s; give each its own, from 0 to %d",
                         shape->node_rank, rendezvous, shape->nodes - 1);
    snprintf(text, sizeof text, "4 %d the launcher of node %d (%s) is gone", shape->node_rank, shape->node_rank, host);
    if (status == TDM_OK)
        status = tdmi_store_will(nodes->watched, "end", text, strlen(text));
    snprintf(key, sizeof key, "left/%d", shape->node_rank);
    if (status == TDM_OK)
        status = tdmi_store_will(nodes->store, key, "", 0);
    if (status == TDM_OK && shape->node_rank == 0) {
        snprintf(text, sizeof text, "%d %s", shape->master_port, shape->job_id);
        status = tdmi_store_set(nodes->store, "job", text, strlen(text));
    }
    snprintf(key, sizeof key, "node/%d", shape->node_rank);
    snprintf(text, sizeof text, "%d %d %s", shape->local_size, shape->nodes, host);
    if (status == TDM_OK)
        status = tdmi_store_set(nodes->store, key, text, strlen(text));
    return status;
}

static tdm_status hear_job(tdmi_nodes *nodes, tdmi_job_shape *shape)
{
    char *value;
    size_t nbytes;
    tdm_status status = tdmi_store_get(nodes->store, "job", tdmi_deadline_in(REPLY_S), &value, &nbytes);
    if (status != TDM_OK)
        return status;
    if (sscanf(value, "%d %63s", &shape->master_port, shape->job_id) != 2)
        status = tdmi_fail(TDM_ERR_MISMATCH, "node 0 said \"%.80s\" about the job", value);
    tdmi_free(value);
    return status;
}

tdm_status tdmi_nodes_meet(const char *rendezvous, double timeout_s, tdmi_job_shape *shape, tdmi_nodes **out)
{
    int port;
    tdm_status status = tdmi_nodes_parse_address(rendezvous, shape->master_address, &port);
    if (status != TDM_OK)
        return status;
    tdmi_nodes *nodes = tdmi_calloc(1, sizeof *nodes, "nodes");
    if (nodes == NULL)
        return TDM_ERR_NO_MEMORY;
    nodes->node_rank = shape->node_rank;
    nodes->nodes = shape->nodes;
    nodes->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (nodes->event < 0)
        status = tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot make an event descriptor");
    const char *host = shape->master_address;
    if (status == TDM_OK && shape->node_rank == 0)
        status = tdm_store_open_tcp(host, port, true, NULL, timeout_s, &nodes->server);
    /* `watched` waits for node 0 to come; the second connection then has short replies. */
    if (status == TDM_OK)
        status = tdm_store_open_tcp(host, port, false, NULL, timeout_s, &nodes->watched);
    if (status == TDM_OK)
        status = tdm_store_open_tcp(host, port, false, NULL, REPLY_S, &nodes->store);
    if (status == TDM_OK)
        status = introduce(nodes, shape, rendezvous);
    if (status == TDM_OK)
        status = hear_all(nodes, shape, rendezvous, timeout_s);
    if (status == TDM_OK)
        status = hear_job(nodes, shape);
    if (status == TDM_OK) {
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the launcher's own thread */
        int error = pthread_create(&nodes->watcher, NULL, watch, nodes);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        nodes->watching = error == 0;
        if (error != 0)
            status = tdmi_fail_errno(TDM_ERR_SYSTEM, error, "cannot start a thread");
    }
    if (status != TDM_OK) {
        char text[TDMI_ERROR_TEXT_MAX];
        memcpy(text, tdm_error_text(), sizeof text);
        tdmi_nodes_leave(nodes);
        tdmi_error_set_text(text);
        return status;
    }
    *out = nodes;
    return TDM_OK;
}

int tdmi_nodes_event(const tdmi_nodes *nodes)
{
    return nodes->event;
}

const char *tdmi_nodes_end(const tdmi_nodes *nodes, int *exit_code, bool *by_this_node)
{
    if (!atomic_load_explicit(&nodes->ended, memory_order_acquire)) {
        *exit_code = 0;
        *by_this_node = false;
        return "";
    }
    *exit_code = nodes->end_code;
    *by_this_node = nodes->end_node == nodes->node_rank;
    return nodes->end_text;
}

void tdmi_nodes_announce(tdmi_nodes *nodes, int exit_code, const char *text)
{
    char value[TDMI_ERROR_TEXT_MAX + 32];
    snprintf(value, sizeof value, "%d %d %s", exit_code, nodes->node_rank, text);
    (void)!tdmi_store_offer(nodes->store, "end", value, strlen(value)); /* node 0 gone: the watcher tells */
}

void tdmi_nodes_done(tdmi_nodes *nodes)
{
    int64_t done;
    if (tdmi_store_add(nodes->store, "done", 1, &done) == TDM_OK && done == nodes->nodes)
        tdmi_nodes_announce(nodes, 0, "all nodes are done");
}

void tdmi_nodes_leave(tdmi_nodes *nodes)
{
    if (nodes == NULL)
        return;
    char key[32];
    int64_t deadline_ns = tdmi_deadline_in(REPLY_S);
    for (int node = 1; nodes->watching && nodes->node_rank == 0 && node < nodes->nodes; node++) {
        char *value;
        size_t nbytes;
        snprintf(key, sizeof key, "left/%d", node);
        if (tdmi_store_get(nodes->store, key, deadline_ns, &value, &nbytes) == TDM_OK)
            tdmi_free(value);
    }
    atomic_store(&nodes->stop, true);
    if (nodes->watching)
        pthread_join(nodes->watcher, NULL);
    tdm_store_close(nodes->store);
    tdm_store_close(nodes->watched);
    tdm_store_close(nodes->server);
    if (nodes->event >= 0)
        close(nodes->event);
    tdmi_free(nodes);
}
