/* order.h - in which order rings and trees go through ranks whose links differ in speed. */
#ifndef TDMI_COLL_ORDER_H
#define TDMI_COLL_ORDER_H

#include "coll/steps.h"

/* pair_ns [n * n]: nanoseconds a byte from a rank to another, made symmetric by the larger. Finds the ring that takes the fewest
 * and fastest links: exactly up to 8 ranks, by the nearest neighbour and exchanges of two links above. Of its turns the one in which
 * the tree's links are cheapest. Times within a factor of two count as equal, and what is equal stays 0, 1, 2 ... */
void tdmi_order_find(const double *pair_ns, int n, int *order);

#endif
