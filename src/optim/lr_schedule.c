/* lr_schedule.c - linear warm-up, then constant, a line or half a cosine down to a fraction at the last step. */
#include "optim/lr_schedule.h"

#include <math.h>
#include <string.h>

static const char *const names[] = {
    [TDMI_SCHEDULE_CONSTANT] = "constant",
    [TDMI_SCHEDULE_LINEAR] = "linear",
    [TDMI_SCHEDULE_COSINE] = "cosine",
};

tdm_status tdmi_schedule_parse(const char *name, tdmi_schedule_kind *out)
{
    for (int kind = 0; kind < (int)(sizeof names / sizeof names[0]); kind++)
        if (strcmp(name, names[kind]) == 0) {
            *out = (tdmi_schedule_kind)kind;
            return TDM_OK;
        }
    return tdmi_fail(TDM_ERR_INVALID, "there is no schedule \"%s\"; known are constant, linear and cosine", name);
}

const char *tdmi_schedule_name(tdmi_schedule_kind kind)
{
    return names[kind];
}

double tdmi_schedule_lr(const tdmi_schedule *s, int64_t step)
{
    if (step <= s->warmup)
        return s->lr * (double)step / (double)s->warmup;
    if (s->kind == TDMI_SCHEDULE_CONSTANT)
        return s->lr;
    if (step >= s->steps)
        return s->lr * s->end_fraction;
    double t = (double)(step - s->warmup) / (double)(s->steps - s->warmup);
    double rest = s->kind == TDMI_SCHEDULE_LINEAR ? 1 - t : 0.5 * (1 + cos(M_PI * t));
    return s->lr * (s->end_fraction + (1 - s->end_fraction) * rest);
}
