/* choice.h - what the parts of the choice of an algorithm share. */
#ifndef TDMI_COLL_CHOICE_H
#define TDMI_COLL_CHOICE_H

#include "coll/steps.h"

/* One line of a table of choices: the user's, the measured or the default one. */
typedef struct tdmi_choice {
    const tdmi_algorithm *algorithm;
    tdmi_coll coll;  /* COUNT: every operation that the algorithm offers */
    size_t min, max; /* min <= bytes < max */
    const char *why;
} tdmi_choice;

#define TDMI_NAMES_MAX 512

/* ---- select.c ---- */
bool tdmi_choice_fits(const tdmi_choice *e, const tdmi_call *call, size_t nbytes);
/* Compared without case. NULL: there is none. */
const tdmi_algorithm *tdmi_algorithm_find(const char *name);
/* "direct, ring": the algorithms of this operation, or all where coll is COUNT. Gives `text`. */
const char *tdmi_algorithm_names(tdmi_coll coll, bool uneven, char text[TDMI_NAMES_MAX]);

/* ---- cheapest.c ---- */
double tdmi_time_ns(const tdmi_algorithm *algorithm, const tdmi_call *call, const tdmi_topology *topology, const tdmi_costs *costs);
/* Of the algorithms over links and, where they are in reach, nodes, the baselines left out; NULL: there is none. any_order: those
 * that reorder sums count too. */
const tdmi_algorithm *tdmi_cheapest(const tdmi_call *call, const tdmi_topology *topology, unsigned reach, bool any_order,
                                    const tdmi_costs *costs, double *ns_out);

/* ---- forced.c ---- */
/* The algorithm that TANDEM_ALGO names for this call, NULL if none. Every entry is read, so that a wrong one is found at the
 * first call and not at the first that it would fit. */
tdm_status tdmi_forced(const tdmi_call *call, int n, const tdmi_algorithm **out);

#endif
