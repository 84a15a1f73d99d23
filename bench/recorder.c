/* recorder.c - what the flight recorder costs a call: begin (the call has read the clock anyway), started where it waits,
 * finished; the least of 50 rounds, with a label and without. */
#include "trace/recorder.h"

#include <stdio.h>
#include <stdlib.h>

#define CALLS 20000

static double best_ns(tdmi_recorder_group *group, bool waits)
{
    int64_t best = INT64_MAX;
    for (int round = 0; round < 50; round++) {
        const int64_t begin_ns = tdmi_now_ns();
        for (uint64_t i = 1; i <= CALLS; i++) {
            const uint64_t index = tdmi_recorder_begin(group, &(tdmi_recorder_call){.count = 1024, .number = i, .root = -1}, begin_ns);
            if (waits)
                tdmi_recorder_started(group, index, false);
            tdmi_recorder_finished(group, index, TDMI_CALL_FINISHED);
        }
        const int64_t took_ns = tdmi_now_ns() - begin_ns;
        best = took_ns < best ? took_ns : best;
    }
    return (double)best / CALLS;
}

int main(void)
{
    static const char *const names[TDMI_REC_NAMES] = {"allreduce"};
    tdmi_recorder *recorder = tdmi_recorder_open(
        &(tdmi_recorder_options){.job = "bench", .rank = 0, .size = 2, .ops = names, .dtypes = names, .reductions = names});
    tdmi_recorder_group group;
    if (recorder == NULL)
        return 1;
    tdmi_recorder_add_group(recorder, "world", 1, 0, 2, &group);
    for (int labelled = 0; labelled < 2; labelled++) {
        tdmi_label_set(&group.label, labelled == 1 ? "step 12" : NULL);
        const double at_once = best_ns(&group, false), waits = best_ns(&group, true);
        printf("a call %s a label: one that ends at once %.1f ns, one that waits %.1f ns\n", labelled == 1 ? "with" : "without", at_once, waits);
    }
    tdmi_recorder_close(recorder);
    return 0;
}
