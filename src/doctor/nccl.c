/* nccl.c - NCCL's logs: what the job looked like, in a few lines and as an object, then the findings. */
#include "doctor/nccl.h"

#include <inttypes.h>
#include <stdio.h>

static void (*const findings[])(const tdmi_nccl_log *log, tdm_doctor_report *report) = {
    tdmi_find_nccl_mixed_versions,  tdmi_find_nccl_lost_peer,       tdmi_find_nccl_shm_too_small, tdmi_find_nccl_warnings,
    tdmi_find_nccl_wrong_interface, tdmi_find_nccl_socket_fallback, tdmi_find_nccl_no_gpu_direct, tdmi_find_nccl_p2p_off,
    tdmi_find_nccl_shm_off,         tdmi_find_nccl_sharp,           tdmi_find_nccl_host_differs,  tdmi_find_nccl_unused_variable,
};

static int64_t ranks_of(const tdmi_nccl_log *log)
{
    const int64_t ranks = log->largest != TDMI_NCCL_NONE ? log->comm[log->largest].ranks : 0;
    return ranks <= INT32_MAX ? ranks : 0;
}

/* Ways by kind and name: "NET/IB GDRDMA", "P2P/IPC/read", with pairs. Few kinds exist; what is beyond the array is left out. */
enum { WAYS_MAX = 32 };
typedef struct way {
    tdmi_nccl_kind kind;
    const char *name;
    bool gdr;
    int64_t pairs, channels;
} way;

static size_t collect_ways(const tdmi_nccl_log *log, way ways[WAYS_MAX])
{
    size_t count = 0;
    for (uint32_t i = 0; i < log->pairs; i++) {
        const tdmi_nccl_pair *pair = &log->pair[i];
        size_t w = 0;
        while (w < count && (ways[w].kind != pair->kind || ways[w].name != pair->way || ways[w].gdr != pair->gdr))
            w++;
        if (w == WAYS_MAX)
            continue;
        if (w == count)
            ways[count++] = (way){.kind = pair->kind, .name = pair->way, .gdr = pair->gdr};
        ways[w].pairs++;
        ways[w].channels += pair->channels;
    }
    return count;
}

static void say_ways(const tdmi_nccl_log *log, tdm_doctor_report *report)
{
    way ways[WAYS_MAX];
    const size_t count = collect_ways(log, ways);
    for (size_t w = 0; w < count; w++)
        tdmi_report_wrap(report, 4, "  %s/%s%s: %" PRId64 " pairs, %" PRId64 " channels", tdmi_nccl_kind_name[ways[w].kind], ways[w].name,
                        ways[w].gdr ? " with GPUDirect RDMA" : "", ways[w].pairs, ways[w].channels);
}

static void say_choices(const tdmi_nccl_log *log, tdm_doctor_report *report)
{
    for (uint32_t c = 0; c < log->choices && c < 12; c++)
        tdmi_report_wrap(report, 4, "  %s%s%" PRId64 " bytes: %s %s, %" PRId64 " times", log->choice[c].op,
                        log->choice[c].op[0] != '\0' ? " of " : "", log->choice[c].nbytes, log->choice[c].algorithm,
                        log->choice[c].protocol, log->choice[c].count);
    if (log->choices > 12)
        tdmi_report_wrap(report, 4, "  and %u more sizes (--json has them)", log->choices - 12);
}

static void introduce(const tdmi_nccl_log *log, tdm_doctor_report *report)
{
    char version[24], ranks[96], rings[64] = "", coll[64] = "";
    const tdmi_nccl_comm *comm = log->largest != TDMI_NCCL_NONE ? &log->comm[log->largest] : NULL;
    int64_t channels = -1;
    tdmi_nccl_version_text(tdmi_nccl_log_version(log), version);
    for (uint32_t p = 0; p < log->processes; p++)
        channels = log->process[p].channels > channels ? log->process[p].channels : channels;
    if (comm != NULL && comm->rings > 0)
        snprintf(rings, sizeof rings, ", %" PRId64 " rings", comm->rings);
    if (channels >= 0)
        snprintf(coll, sizeof coll, ", %" PRId64 " channels", channels);
    if (comm != NULL)
        snprintf(ranks, sizeof ranks, "%" PRId64 " ranks, %u of them in the log", ranks_of(log), comm->members);
    else
        snprintf(ranks, sizeof ranks, "no communicator was made whole, %u process%s in the log", log->processes, log->processes == 1 ? "" : "es");
    tdmi_report_wrap(report, 2, "NCCL %s%s%s: %s, on %u host%s, %u communicator%s%s%s", version, log->cuda[0] != '\0' ? ", CUDA " : "", log->cuda, ranks,
                    log->hosts, log->hosts == 1 ? "" : "s", log->comms, log->comms == 1 ? "" : "s", rings, coll);
    for (uint32_t h = 0; h < log->hosts && h < 8; h++) {
        const tdmi_nccl_host *host = &log->host[h];
        tdmi_report_wrap(report, 4, "  %s: %s%s%s%s%s%s", host->name, host->network[0] != '\0' ? "network " : "network not named",
                        host->network, host->adapters[0] != '\0' ? ", " : "", host->adapters,
                        host->sockets[0] != '\0'     ? ", sockets on "
                        : host->bootstrap[0] != '\0' ? ", bootstrap on "
                                                     : "",
                        host->sockets[0] != '\0' ? host->sockets : host->bootstrap);
    }
    if (log->hosts > 8)
        tdmi_report_wrap(report, 4, "  and %u more hosts", log->hosts - 8);
    say_ways(log, report);
    say_choices(log, report);
    if (log->not_kept > 0)
        tdmi_report_wrap(report, 4, "  the log has more than fits: %" PRId64 " entries were not kept", log->not_kept);
}

static json_t *hosts_json(const tdmi_nccl_log *log)
{
    json_t *list = json_array();
    for (uint32_t h = 0; h < log->hosts; h++) {
        const tdmi_nccl_host *host = &log->host[h];
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I}", "name", host->name, "address", host->address,
                                              "network", host->network, "adapters", host->adapters, "sockets", host->sockets, "bootstrap",
                                              host->bootstrap, "cuda_driver", (json_int_t)host->driver));
    }
    return list;
}

static json_t *ranks_json(const tdmi_nccl_log *log)
{
    json_t *list = json_array();
    for (uint32_t p = 0; p < log->processes; p++) {
        const tdmi_nccl_process *process = &log->process[p];
        char version[24];
        tdmi_nccl_version_text(process->version, version);
        json_array_append_new(list, json_pack("{s:I, s:s, s:I, s:I, s:s}", "rank", (json_int_t)tdmi_nccl_rank_of(log, p), "host",
                                              log->host[process->host].name, "pid", (json_int_t)process->pid, "device",
                                              (json_int_t)process->device, "version", version));
    }
    return list;
}

static json_t *comms_json(const tdmi_nccl_log *log)
{
    json_t *list = json_array();
    for (uint32_t c = 0; c < log->comms; c++) {
        const tdmi_nccl_comm *comm = &log->comm[c];
        int64_t trees = 0;
        for (uint32_t m = comm->first; m != TDMI_NCCL_NONE; m = log->member[m].next_in_comm)
            trees = log->member[m].trees > trees ? log->member[m].trees : trees;
        json_array_append_new(list, json_pack("{s:I, s:I, s:I, s:I, s:I, s:s}", "ranks", (json_int_t)comm->ranks, "seen",
                                              (json_int_t)comm->members, "nodes", (json_int_t)comm->nodes, "rings", (json_int_t)comm->rings,
                                              "trees", (json_int_t)trees, "ring", comm->ring));
    }
    return list;
}

static json_t *ways_json(const tdmi_nccl_log *log)
{
    way ways[WAYS_MAX];
    const size_t count = collect_ways(log, ways);
    json_t *list = json_array();
    for (size_t w = 0; w < count; w++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:I, s:I}", "kind", tdmi_nccl_kind_name[ways[w].kind], "way", ways[w].name,
                                              "gpu_direct", ways[w].gdr, "pairs", (json_int_t)ways[w].pairs, "channels",
                                              (json_int_t)ways[w].channels));
    return list;
}

static json_t *pairs_json(const tdmi_nccl_log *log)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < log->pairs && i < 4096; i++) {
        const tdmi_nccl_pair *pair = &log->pair[i];
        json_array_append_new(list, json_pack("{s:I, s:I, s:I, s:s, s:s, s:b, s:b, s:I}", "communicator",
                                              pair->comm == TDMI_NCCL_NONE ? (json_int_t)-1 : (json_int_t)pair->comm, "from",
                                              (json_int_t)pair->from, "to", (json_int_t)pair->to, "kind", tdmi_nccl_kind_name[pair->kind],
                                              "way", pair->way, "gpu_direct", pair->gdr, "receive", pair->is_receive, "channels",
                                              (json_int_t)pair->channels));
    }
    return list;
}

static json_t *choices_json(const tdmi_nccl_log *log)
{
    json_t *list = json_array();
    for (uint32_t c = 0; c < log->choices; c++)
        json_array_append_new(list, json_pack("{s:s, s:I, s:s, s:s, s:I}", "op", log->choice[c].op, "bytes",
                                              (json_int_t)log->choice[c].nbytes, "algorithm", log->choice[c].algorithm, "protocol",
                                              log->choice[c].protocol, "calls", (json_int_t)log->choice[c].count));
    return list;
}

static json_t *summary(const tdmi_nccl_log *log)
{
    char version[24];
    json_t *variables = json_array();
    tdmi_nccl_version_text(tdmi_nccl_log_version(log), version);
    for (uint32_t v = 0; v < log->variables; v++)
        json_array_append_new(variables, json_pack("{s:s, s:s, s:b}", "name", log->variable[v].name, "value", log->variable[v].value,
                                                   "read", log->variable[v].echoed));
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "version", version, "cuda", log->cuda, "lines",
                     (json_int_t)log->lines, "warnings", (json_int_t)log->warnings, "not_kept", (json_int_t)log->not_kept, "hosts",
                     hosts_json(log), "processes", ranks_json(log), "communicators", comms_json(log), "ways", ways_json(log), "pairs",
                     pairs_json(log), "choices", choices_json(log), "variables", variables);
}

void tdmi_nccl_report(const tdmi_nccl_log *log, tdm_doctor_report *report, json_t **summary_out)
{
    const int before = tdm_doctor_findings(report);
    introduce(log, report);
    for (size_t i = 0; i < sizeof findings / sizeof *findings; i++)
        findings[i](log, report);
    if (tdm_doctor_findings(report) == before)
        tdmi_report_say(report, "nothing is wrong in what NCCL says");
    if (ranks_of(log) > report->ranks)
        report->ranks = (int)ranks_of(log);
    *summary_out = summary(log);
}

tdm_status tdmi_nccl_examine(const char *const *paths, int count, tdm_doctor_report *report, json_t **summary_out)
{
    tdmi_nccl_log *log = NULL;
    const tdm_status status = tdmi_nccl_log_read(paths, count, &log);
    if (status != TDM_OK)
        return status;
    tdmi_nccl_report(log, report, summary_out);
    tdmi_nccl_log_free(log);
    return *summary_out != NULL ? TDM_OK : tdmi_fail(TDM_ERR_NO_MEMORY, "the summary of NCCL's log needs more memory than there is");
}
