/* network.h - two hosts for a test: network namespaces of its own, a cable between them. Needs root. */
#ifndef TESTS_CLI_NETWORK_H
#define TESTS_CLI_NETWORK_H

#include "program.h"

#define NETWORK_NODE_0 "10.77.0.1" /* node 1 is 10.77.0.2 */

/* False without the right, or without the commands ip and nsenter. The namespaces end with this process. */
bool network_make(void);
/* program_start on a node; `variable` is NAME=VALUE. */
void network_start(program *p, int node, const char *variable, const char *const *words);
/* Bytes that left the node over the cable so far. */
long long network_sent(int node);
/* Plugs the cable in, or pulls it out. */
void network_cable(bool in);

#endif
