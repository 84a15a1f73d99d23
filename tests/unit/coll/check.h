/* check.h - one algorithm against the definition of the operation, for any call and number of ranks. */
#ifndef TESTS_COLL_CHECK_H
#define TESTS_COLL_CHECK_H

#include "replay.h"

typedef struct check_options {
    bool in_place;
    bool exact; /* small whole numbers, whose sums are the same in any order */
    bool races;
    bool uneven;     /* parts of different sizes, some empty */
    const int *node, *order, *node_order; /* as in tdmi_topology; the orders of every shape */
    const tdmi_domain *domain;
    unsigned seed;
    int root;        /* 0: the middle one; else root - 1 */
} check_options;

/* Runs three calls in a row on n ranks and compares every output bit with the canonical tree, inputs with what they were and
 * the traffic with the algorithm's cost. Nothing where the algorithm does not offer the operation. Fails the test with a text that names the call. */
void check_collective(const tdmi_algorithm *algorithm, tdmi_coll coll, tdm_dtype dtype, tdm_op op, int n, size_t count,
                      check_options options);

/* Every number of ranks to `max_n` and counts around it, uneven ones where it supports them, in float32 sums whose bits depend on the order, in and out of place. */
void check_sizes(const tdmi_algorithm *algorithm, tdmi_coll coll, int max_n, bool exact);
/* Every dtype and operation, for n 2, 3, 4, 6, 7. */
void check_types(const tdmi_algorithm *algorithm, tdmi_coll coll, bool exact);

#endif
