/* kernel_names.h - what kernels do, by their names, and what was launched inside of which spans. */
#ifndef TDMI_DOCTOR_KERNEL_NAMES_H
#define TDMI_DOCTOR_KERNEL_NAMES_H

#include "job/job.h"

/* Multiplies matrices (or convolves, or attends) in float without tensor cores. TF32 is no such product. */
bool tdmi_is_float_product(const char *name);
/* One element in, one out: can be fused with its neighbours. */
bool tdmi_is_pointwise(const char *name);
/* A pointwise kernel on float that autocast would run in half the bytes. */
bool tdmi_is_float_pointwise(const char *name);
/* Of a fused optimizer: all of an update in one pass. */
bool tdmi_is_fused_optimizer(const char *name);

/* All of these for each text of a rank's trace: events are many, names few. [text_count]; NULL: no memory. The caller frees it. Events with no
 * name (TDMI_NONE) are nothing. */
enum { TDMI_NAME_FLOAT_PRODUCT = 1, TDMI_NAME_POINTWISE = 2, TDMI_NAME_FLOAT_POINTWISE = 4, TDMI_NAME_FUSED_OPTIMIZER = 8 };
uint8_t *tdmi_names_of(const tdmi_rank *rank);
static inline bool tdmi_is_named(const tdmi_rank *rank, const uint8_t *names, uint32_t event, uint8_t what)
{
    const uint32_t name = rank->trace->event[event].name;
    return name != TDMI_NONE && (names[name] & what) != 0;
}

/* Of each of a rank's device events whether its launch lies inside a span that `is_span` says, on the same thread. [gpu_count]; NULL: no
 * memory. The caller frees it. */
bool *tdmi_launched_inside(const tdmi_rank *rank, bool (*is_span)(const tdmi_rank *rank, uint32_t event));

/* Spans for it. */
bool tdmi_is_optimizer_span(const tdmi_rank *rank, uint32_t event);
bool tdmi_is_backward_span(const tdmi_rank *rank, uint32_t event);
bool tdmi_is_accumulation_span(const tdmi_rank *rank, uint32_t event);

#endif
