/* survey.h - when the events do not all fit into memory: how many there are at which time, and which iterations fit. */
#ifndef TDMI_KINETO_SURVEY_H
#define TDMI_KINETO_SURVEY_H

#include "kineto/trace.h"

/* About what an event with its detail takes. */
static inline size_t tdmi_event_nbytes(uint8_t kind)
{
    static const uint8_t detail[TDMI_EVENT_KINDS] = {
        [TDMI_EVENT_CPU_OP] = sizeof(tdmi_op_detail),    [TDMI_EVENT_ANNOTATION] = sizeof(tdmi_op_detail),
        [TDMI_EVENT_KERNEL] = sizeof(tdmi_kernel_detail), [TDMI_EVENT_DEVICE] = sizeof(tdmi_kernel_detail),
        [TDMI_EVENT_COPY] = sizeof(tdmi_copy_detail),    [TDMI_EVENT_SET] = sizeof(tdmi_copy_detail),
        [TDMI_EVENT_MEMORY] = sizeof(tdmi_memory_point), [TDMI_EVENT_PYTHON] = sizeof(tdmi_python_detail),
        [TDMI_EVENT_SYNC] = sizeof(tdmi_sync_detail)};
    return sizeof(tdmi_event) + detail[kind];
}

typedef struct tdmi_survey tdmi_survey;

typedef struct tdmi_survey_choice {
    int64_t from_ns;     /* keep what begins here or later */
    int iterations;      /* that this keeps; 0: the trace has none, a stretch of time is kept */
    bool fits;           /* false: not even the last iteration does, which takes `needed` bytes */
    size_t needed;
} tdmi_survey_choice;

tdm_status tdmi_survey_create(tdmi_survey **out);
void tdmi_survey_destroy(tdmi_survey *survey); /* NULL is fine */
/* step: the event is an iteration. */
tdm_status tdmi_survey_add(tdmi_survey *survey, const tdmi_event *event, bool step);
/* The last iterations that fit into nbytes. */
tdmi_survey_choice tdmi_survey_choose(tdmi_survey *survey, size_t nbytes);

#endif
