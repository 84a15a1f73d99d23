/* rendezvous.h - ranks exchange records through the store. */
#ifndef TDMI_GROUP_RENDEZVOUS_H
#define TDMI_GROUP_RENDEZVOUS_H

#include "core/error.h"

#include <tandem/group.h>

#define TDMI_PREFIX_MAX 128 /* bytes of a group's key prefix, with the final NUL */

/* A prefix that all ranks find alike and that no earlier group of this name used: the n-th group that each rank makes. */
tdm_status tdmi_rendezvous_prefix(tdm_store *store, const char *name, int rank, char prefix[TDMI_PREFIX_MAX]);

/* Around the rendezvous that make a group. begin: should this process die, the others learn of it. end: the group is made, or
 * could not be, which the others learn too; gives `status`. */
tdm_status tdmi_rendezvous_begin(tdm_store *store, const char *prefix, const char *group, int rank);
tdm_status tdmi_rendezvous_end(tdm_store *store, const char *prefix, const char *group, int rank, tdm_status status);
/* For other waits between them: an error if a rank's connection to the store ended before all had met, or it could not go on. */
tdm_status tdmi_rendezvous_gone(tdm_store *store, const char *prefix);

/* Every rank gives a record and gets all n, in new blocks records_out[r] of nbytes_out[r] bytes, freed with tdmi_free by the
 * caller (on success). Where ranks are missing at the deadline, one text is agreed on that lists all of them, sorted, and
 * every rank gets it; a rank that comes later gets it at once. watched: an existing group of these ranks, whose failure ends the
 * wait at once; NULL: none. group, timeout_s: for the text. */
tdm_status tdmi_rendezvous(tdm_store *store, const char *prefix, const char *what, tdm_group *watched, const char *group, int rank,
                           int n, const void *record, size_t nbytes, int64_t deadline_ns, double timeout_s, char **records_out,
                           size_t *nbytes_out);

/* "0, 2, 4" of those set. */
void tdmi_ranks_text(const bool *set, int n, char *text, size_t nbytes);

#endif
