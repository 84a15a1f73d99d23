/* order.h - which rank takes which place of an algorithm, where links differ in speed. */
#ifndef TDMI_COLL_ORDER_H
#define TDMI_COLL_ORDER_H

#include "coll/steps.h"

/* cost_ns [n * n]: nanoseconds a byte from a rank (or node) to another, made symmetric by the larger. Finds the order in which an
 * allreduce of this shape moves the fewest bytes over slow links: exactly up to 8 places, above from the nearest neighbours of every
 * place on by swaps and turns. Times up to three times the least count as equal, and what is equal stays 0, 1, 2 ... */
void tdmi_order_find(const double *cost_ns, int n, tdmi_shape shape, int *order);

#endif
