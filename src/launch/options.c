/* options.c - the launcher's options: defaults, ranges, lists of ranks. */
#include "launch/options.h"

#include "core/config.h"
#include "launch/nodes.h"

#include <stdlib.h>
#include <string.h>

void tdm_launch_options_init(tdm_launch_options *options)
{
    *options = (tdm_launch_options){.name = "tandem", .nodes = 1, .grace_s = 5, .interrupt_grace_s = -1, .terminate_grace_s = -1};
}

/* Reads "A" or "A-B" from the front of a list. */
static bool read_range(const char **at, long *first, long *last)
{
    char *end;
    if (**at < '0' || **at > '9')
        return false;
    *first = *last = strtol(*at, &end, 10);
    if (*end == '-') {
        if (end[1] < '0' || end[1] > '9')
            return false;
        *last = strtol(end + 1, &end, 10);
    }
    *at = end;
    return *last >= *first;
}

static tdm_status check_list(const char *list)
{
    const char *at = list;
    for (long first, last;; at++) {
        if (!read_range(&at, &first, &last) || (*at != ',' && *at != '\0'))
            return tdmi_fail(TDM_ERR_INVALID, "\"%s\" is not a list of ranks such as 0,2-3", list);
        if (*at == '\0')
            return TDM_OK;
    }
}

bool tdmi_rank_list_has(const char *list, int rank)
{
    if (list == NULL)
        return true;
    for (long first, last; read_range(&list, &first, &last) && (rank < first || rank > last); list++)
        if (*list == '\0')
            return false;
    return true;
}

tdm_status tdmi_launch_options_check(const tdm_launch_options *options)
{
    if (options->ranks < 0 || options->ranks > TDMI_LAUNCH_RANKS_MAX)
        return tdmi_fail(TDM_ERR_INVALID, "%d ranks on a node: from 1 to %d are possible", options->ranks, TDMI_LAUNCH_RANKS_MAX);
    if (options->nodes < 1 || options->nodes > TDMI_LAUNCH_NODES_MAX)
        return tdmi_fail(TDM_ERR_INVALID, "%d nodes: from 1 to %d are possible", options->nodes, TDMI_LAUNCH_NODES_MAX);
    if (options->node_rank < 0 || options->node_rank >= options->nodes)
        return tdmi_fail(TDM_ERR_INVALID, "node rank %d: with %d node%s it is from 0 to %d", options->node_rank, options->nodes,
                         options->nodes > 1 ? "s" : "", options->nodes - 1);
    if (options->port < 0 || options->port > 65535)
        return tdmi_fail(TDM_ERR_INVALID, "port %d: from 1 to 65535 are possible", options->port);
    if (!(options->grace_s >= 0) || !(options->timeout_s >= 0))
        return tdmi_fail(TDM_ERR_INVALID, "a grace time of %g s or a timeout of %g s is not possible", options->grace_s, options->timeout_s);
    if (options->nodes > 1) {
        char host[256];
        int port;
        if (options->rendezvous == NULL)
            return tdmi_fail(TDM_ERR_INVALID, "%d nodes need --rdzv HOST:PORT, where node 0 can be reached", options->nodes);
        tdm_status status = tdmi_nodes_parse_address(options->rendezvous, host, &port);
        if (status != TDM_OK)
            return status;
        if (port == options->port)
            return tdmi_fail(TDM_ERR_INVALID, "port %d cannot be that of --rdzv and of rank 0 (--port) at once", port);
        if (*tdmi_config_text(TDMI_CONFIG_JOB_SECRET) == '\0')
            return tdmi_fail(TDM_ERR_INVALID, "a job on several nodes needs a secret: set TANDEM_JOB_SECRET to the same value on all "
                                              "nodes, for example that of: head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \\n'");
    } else if (options->rendezvous != NULL) {
        return tdmi_fail(TDM_ERR_INVALID, "--rdzv %s is for several nodes: give --nnodes too", options->rendezvous);
    }
    return options->only_ranks != NULL ? check_list(options->only_ranks) : TDM_OK;
}
