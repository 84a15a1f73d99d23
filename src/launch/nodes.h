/* nodes.h - the launchers of several nodes: they meet at node 0, agree on ranks and addresses, and end together. */
#ifndef TDMI_LAUNCH_NODES_H
#define TDMI_LAUNCH_NODES_H

#include "core/error.h"

typedef struct tdmi_nodes tdmi_nodes;

/* In: node_rank, nodes, local_size, and on node 0 master_port and job_id. Out: the rest. */
typedef struct tdmi_job_shape {
    int node_rank, nodes, local_size;
    int size, first_rank; /* of all ranks; of this node */
    char master_address[256];
    int master_port;
    char job_id[64];
} tdmi_job_shape;

/* Waits for all nodes at `rendezvous` ("HOST:PORT" of node 0). TDM_ERR_TIMEOUT names the nodes that did not come. */
tdm_status tdmi_nodes_meet(const char *rendezvous, double timeout_s, tdmi_job_shape *shape, tdmi_nodes **out);
/* Host and port of "HOST:PORT" or "[IPV6]:PORT". */
tdm_status tdmi_nodes_parse_address(const char *text, char host[256], int *port);

/* Readable once the job has ended somewhere; then tdmi_nodes_end says how. */
int tdmi_nodes_event(const tdmi_nodes *nodes);
/* *exit_code 0: all nodes are done. *by_this_node: this node's own announcement was the first. Text: for people, until leave. */
const char *tdmi_nodes_end(const tdmi_nodes *nodes, int *exit_code, bool *by_this_node);
/* This node's ranks failed or were told to end: ends the job everywhere, unless it has ended before. 2 s at most. */
void tdmi_nodes_announce(tdmi_nodes *nodes, int exit_code, const char *text);
/* This node's ranks have all ended well. The job has ended when all nodes have said so. 2 s at most. */
void tdmi_nodes_done(tdmi_nodes *nodes);
/* Node 0 waits up to 2 s for the others to have seen the end. NULL is fine. */
void tdmi_nodes_leave(tdmi_nodes *nodes);

#endif
