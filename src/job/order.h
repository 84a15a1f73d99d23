/* order.h - sorting by time. Traces have 10^5 events a rank, mostly in order. */
#ifndef TDMI_JOB_ORDER_H
#define TDMI_JOB_ORDER_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

typedef struct tdmi_key {
    int64_t ns;
    uint32_t index; /* of whatever is sorted */
} tdmi_key;

/* By ns; those of one ns as `tie` says, a total order over their indices; NULL: as they stood. TDM_ERR_NO_MEMORY. */
tdm_status tdmi_keys_sort(tdmi_key *key, size_t count, int (*tie)(const tdmi_key *a, const tdmi_key *b, void *arg), void *arg);

#endif
