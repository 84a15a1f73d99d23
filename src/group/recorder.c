/* recorder.c - what of a group goes to the flight recorder, and what callers ask of it. */
#include "group/group.h"

#include "coll/op.h"
#include "core/config.h"

#include <tandem/recorder.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the launcher calls the job: one folder for all its ranks on a host. */
static void job_name(const tdmi_settings *settings, char *name, size_t nbytes)
{
    const char *own = tdmi_config_text(TDMI_CONFIG_JOB_ID), *slurm = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
    const char *torchrun = getenv("TORCHELASTIC_RUN_ID");
    if (own[0] != '\0')
        snprintf(name, nbytes, "%s", own);
    else if (slurm != NULL)
        snprintf(name, nbytes, "slurm-%s.%s", slurm, step != NULL ? step : "0");
    else if (torchrun != NULL && strcmp(torchrun, "none") != 0)
        snprintf(name, nbytes, "%s", torchrun);
    else if (settings->store == NULL && settings->host[0] == '\0')
        snprintf(name, nbytes, "mpirun-%d", (int)getppid());
    else if (settings->store == NULL)
        snprintf(name, nbytes, "%s-%d", settings->host, settings->port);
    else if (tdm_store_port(settings->store) >= 0)
        snprintf(name, nbytes, "port-%d", tdm_store_port(settings->store));
    else
        snprintf(name, nbytes, "process-%d", (int)getpid());
}

void tdmi_world_record(tdmi_world *world, const tdmi_settings *settings)
{
    const char *ops[TDMI_REC_NAMES] = {NULL}, *dtypes[TDMI_REC_NAMES] = {NULL}, *reductions[TDMI_REC_NAMES] = {NULL};
    char job[TDMI_ERROR_TEXT_MAX];
    _Static_assert((int)TDMI_COLL_COUNT <= TDMI_REC_NAMES && (int)TDM_DTYPE_COUNT <= TDMI_REC_NAMES && (int)TDM_OP_COUNT <= TDMI_REC_NAMES,
                   "a recorder's file can name them all");
    if (world->size < 2)
        return; /* waits for nobody */
    for (int i = 0; i < TDMI_COLL_COUNT; i++)
        ops[i] = tdmi_coll_name((tdmi_coll)i);
    for (int i = 0; i < TDM_DTYPE_COUNT; i++)
        dtypes[i] = tdm_dtype_name((tdm_dtype)i);
    for (int i = 0; i < TDM_OP_COUNT; i++)
        reductions[i] = tdm_op_name((tdm_op)i);
    job_name(settings, job, sizeof job);
    world->recorder = tdmi_recorder_open(&(tdmi_recorder_options){
        .job = job, .rank = world->rank, .size = world->size, .ops = ops, .dtypes = dtypes, .reductions = reductions});
}

void tdmi_group_record(tdm_group *group, uint64_t run)
{
    uint64_t id = run ^ 1469598103934665603ull;
    for (const char *c = group->prefix; *c != '\0'; c++)
        id = (id ^ (uint8_t)*c) * 1099511628211ull;
    tdmi_recorder_add_group(group->world->recorder, group->name, id, group->rank, group->size, &group->recorder);
}

uint64_t tdmi_group_record_call(tdm_group *group, const tdmi_call *call, bool fused, uint64_t number, int64_t now_ns)
{
    const tdmi_recorder_call recorded = {.op = (int)call->coll,
                                         .dtype = (int)call->dtype,
                                         .reduction = tdmi_op_wire_code(call->op),
                                         .root = call->root,
                                         .fused = fused,
                                         .uneven = call->uneven,
                                         .count = call->uneven && !tdmi_call_is_pairwise(call) ? call->parts_total : call->count,
                                         .number = number};
    return tdmi_recorder_begin(&group->recorder, &recorded, now_ns);
}

void tdmi_group_record_arrivals(tdm_group *group, const tdm_work *work)
{
    bool missing[group->size];
    if (group->recorder.recorder == NULL || (work->by_engine && !work->agreed && work->run.plan == NULL && work->run.number > group->announced))
        return; /* who is there was not asked yet */
    (void)tdmi_group_missing(work, missing);
    tdmi_recorder_arrivals(&group->recorder, work->entry, missing, group->size);
}

void tdmi_group_record_failure(tdm_group *group)
{
    tdmi_recorder *recorder = group->recorder.recorder;
    if (recorder == NULL || group->failure_recorded || atomic_load_explicit(&group->failure, memory_order_acquire) == TDM_OK)
        return;
    group->failure_recorded = true;
    for (const tdm_work *work = group->active; work != NULL; work = work->next) {
        tdmi_group_record_arrivals(group, work);
        tdmi_recorder_finished(&group->recorder, work->entry, TDMI_CALL_FAILED);
    }
    tdmi_recorder_fail(recorder, (tdm_status)atomic_load(&group->failure), group->failure_text);
}

void tdm_group_set_label(tdm_group *group, const char *label)
{
    tdmi_label_set(&group->recorder.label, label); /* read when calls start, by the same thread */
}

tdm_status tdm_recorder_dump(const tdm_group *group, const char *path)
{
    if (group->world->recorder == NULL)
        return tdmi_fail(TDM_ERR_UNSUPPORTED, "group %s has no recorder: it has one rank, TANDEM_RECORDER_DIR is off, or the log says why",
                         group->name);
    return tdmi_recorder_dump(group->world->recorder, path);
}

const char *tdm_recorder_folder(const tdm_group *group)
{
    return group->world->recorder != NULL ? tdmi_recorder_folder(group->world->recorder) : NULL;
}
