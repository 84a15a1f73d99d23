/* slow_link.c - the same collective at the same size is much slower in one group than in the others of its kind.
 *
 * Cured: its transfers take what the others' do. */
#include "doctor/edits.h"

#include "core/memory.h"
#include "job/median.h"

#include <stdio.h>
#include <string.h>

/* Above the others' median: links of one kind differ by a tenth. */
#define SLOWER_MIN 1.5
/* Of operation, size and group: more are not looked at. */
#define KINDS_MAX 2000

/* Calls of one kind in one group: its ranks by their places, first to last. */
typedef struct kind {
    const tdmi_meeting *of; /* one of them */
    int64_t median_ns;      /* of the group's transfers */
    int64_t others_ns;      /* the median of the other groups' medians */
    size_t groups;          /* that make the same call */
} kind;

static bool same_call(const tdmi_meeting *a, const tdmi_meeting *b)
{
    return strcmp(a->op, b->op) == 0 && a->nbytes == b->nbytes && a->group_size == b->group_size && a->count == b->count;
}

static bool same_ranks(const tdmi_job *job, const tdmi_meeting *a, const tdmi_meeting *b)
{
    for (uint32_t p = 0; p < a->count && p < b->count; p++)
        if (job->part[a->first + p].place != job->part[b->first + p].place)
            return false;
    return a->count == b->count;
}

/* One of all ranks has nothing to be compared with. */
static bool compares(const tdmi_job *job, const tdmi_meeting *m)
{
    return m->lined_up && m->nbytes > 0 && m->count > 1 && m->count < job->ranks;
}

/* Every kind there is, with the median of its transfers. */
static tdm_status list_kinds(const tdmi_job *job, kind **out, size_t *count_out)
{
    kind *list = NULL;
    size_t count = 0, capacity = 0;
    int64_t *ns = tdmi_malloc((job->meetings + 1) * sizeof *ns, "doctor");
    tdm_status status = ns != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
    for (size_t i = 0; i < job->meetings && count < KINDS_MAX && status == TDM_OK; i++) {
        const tdmi_meeting *m = &job->meeting[i];
        bool known = !compares(job, m);
        for (size_t k = 0; k < count && !known; k++)
            known = same_call(list[k].of, m) && same_ranks(job, list[k].of, m);
        if (known)
            continue;
        kind *more = tdmi_with_room(list, count, &capacity, sizeof *more, "doctor");
        if (more == NULL) {
            status = TDM_ERR_NO_MEMORY;
            break;
        }
        list = more;
        size_t n = 0;
        for (size_t j = i; j < job->meetings; j++)
            if (compares(job, &job->meeting[j]) && same_call(&job->meeting[j], m) && same_ranks(job, &job->meeting[j], m))
                ns[n++] = job->meeting[j].transfer_ns;
        list[count++] = (kind){.of = m, .median_ns = tdmi_median(ns, n, 0)};
    }
    for (size_t k = 0; k < count && status == TDM_OK; k++) {
        size_t n = 0;
        for (size_t j = 0; j < count; j++)
            if (j != k && same_call(list[j].of, list[k].of))
                ns[n++] = list[j].median_ns;
        list[k].groups = n;
        list[k].others_ns = tdmi_median(ns, n, 0);
    }
    tdmi_free(ns);
    *out = list;
    *count_out = count;
    return status;
}

static bool is_slow(const kind *k)
{
    return k->groups > 0 && (double)k->median_ns >= SLOWER_MIN * (double)k->others_ns;
}

static void ranks_text(const tdmi_job *job, const tdmi_meeting *m, char *text, size_t nbytes)
{
    size_t at = 0;
    text[0] = '\0';
    for (uint32_t p = 0; p < m->count && at < nbytes; p++)
        at += (size_t)snprintf(text + at, nbytes - at, "%s%d", p == 0 ? "" : ", ", job->rank[job->part[m->first + p].place].number);
}

static tdm_status edit_slow(const tdmi_job *job, const kind *list, size_t count, const kind *worst, tdmi_edits *edits)
{
    tdm_status status = TDM_OK;
    for (size_t k = 0; k < count && status == TDM_OK; k++) {
        if (!same_ranks(job, list[k].of, worst->of) || !is_slow(&list[k]))
            continue;
        tdmi_edit edit = tdmi_edit_none();
        uint32_t as_others;
        edit.device_ns = list[k].others_ns;
        status = tdmi_edits_add(edits, &edit, &as_others);
        for (size_t i = 0; i < job->meetings && status == TDM_OK; i++) {
            const tdmi_meeting *m = &job->meeting[i];
            if (compares(job, m) && same_call(m, list[k].of) && same_ranks(job, m, list[k].of))
                for (uint32_t p = m->first; p < m->first + m->count; p++)
                    tdmi_edits_mark(edits, job->part[p].place, job->part[p].event, as_others);
        }
    }
    return status;
}

static tdm_status look(tdmi_case *c, const kind *list, size_t count, const kind *worst, tdmi_findings *out)
{
    tdmi_finding f = {.id = "slow_link", .rank = -1, .explains = "communication_exposed straggler", .explains_share = 0.6};
    tdmi_edits edits;
    char ranks[128];
    tdm_status status = tdmi_edits_create(c->job, &edits);
    if (status == TDM_OK)
        status = edit_slow(c->job, list, count, worst, &edits);
    if (status == TDM_OK)
        tdmi_edits_gain(&edits, c->model, &f.gain);
    tdmi_edits_free(&edits);
    if (status != TDM_OK || f.gain.pct < TDMI_GAIN_PCT_MIN)
        return status;
    const tdmi_meeting *m = worst->of;
    const double factor = tdmi_bus_factor(m->op, (int)m->count) * (double)m->nbytes;
    ranks_text(c->job, m, ranks, sizeof ranks);
    f.evidence = json_pack("{s:s, s:s, s:f, s:f, s:f, s:I}", "ranks", ranks, "op", m->op, "megabytes", (double)m->nbytes / 1e6, "busbw_gbps", factor / (double)worst->median_ns,
                           "others_busbw_gbps", factor / (double)worst->others_ns, "groups_compared", (json_int_t)worst->groups);
    snprintf(f.text, sizeof f.text, "ranks %s: a %s of %.1f MB goes at %.1f GB/s bus bandwidth, in the other %zu group%s of its kind at %.1f GB/s", ranks, m->op, (double)m->nbytes / 1e6,
             factor / (double)worst->median_ns, worst->groups, worst->groups == 1 ? "" : "s", factor / (double)worst->others_ns);
    snprintf(f.advice, sizeof f.advice, "%s",
             "Look at the link between these ranks: nvidia-smi topo -m and nvidia-smi nvlink -s (a link that is down, another PCIe switch), between hosts ibstat and the ports' error "
             "counters; NCCL_DEBUG=INFO says which transport the pair uses (tandem doctor reads the log); until then place ranks so that they share no tensor-parallel group");
    tdmi_findings_add(out, &f);
    return TDM_OK;
}

void tdmi_find_slow_link(tdmi_case *c, tdmi_findings *out)
{
    kind *list = NULL;
    size_t count = 0;
    const kind *worst = NULL;
    tdm_status status = list_kinds(c->job, &list, &count);
    for (size_t k = 0; k < count && status == TDM_OK; k++)
        if (is_slow(&list[k]) && (worst == NULL || list[k].median_ns - list[k].others_ns > worst->median_ns - worst->others_ns))
            worst = &list[k];
    if (status == TDM_OK && worst != NULL)
        status = look(c, list, count, worst, out);
    out->failed |= status != TDM_OK;
    tdmi_free(list);
}
