/* host_links.c - the threads of a rank: their calls in order, and a thread that goes on where another stopped.
 *
 * Each training thread is a chain of points: where calls that matter to others begin and end, and where the thread pauses, that is,
 * runs nothing that was recorded for longer than it does between two operators. A thread that pauses while another works waits for it
 * (backward(): the main thread pauses, autograd's thread works): what it does next is bound to the other's last point instead of its own. Without
 * a GPU a thread that pauses until a collective of the CPU ends waits for that. */
#include "job/build.h"

#include "core/memory.h"
#include "job/median.h"
#include "job/order.h"


/* Ways between operators: 1 to 3 us where the program is only torch's own Python or C++. Five times the usual one, and never under
 * 10 us, is something else. */
#define PAUSE_NS_MIN 10000
#define PAUSE_TIMES_USUAL 5

static bool covers(uint8_t role)
{
    return role != TDMI_ROLE_NONE && role != TDMI_ROLE_STEP && role != TDMI_ROLE_OPTIMIZER && role != TDMI_ROLE_FORWARD;
}

/* What is usual on these threads: the way between two operators, and a launch call. */
static tdm_status learn(const tdmi_rank *rank, tdmi_nodes *nodes, int64_t *cover_end)
{
    int64_t *sample = tdmi_malloc((rank->host_count + 1) * sizeof *sample, "replay");
    if (sample == NULL)
        return TDM_ERR_NO_MEMORY;
    size_t count = 0;
    for (size_t i = 0; i < rank->host_count; i++) {
        const uint32_t event = rank->host[i], lane = rank->trace->event[event].lane;
        const int64_t start_ns = tdmi_event_start(rank, event), end_ns = tdmi_event_end(rank, event);
        if (!covers(rank->role[event]))
            continue;
        if (cover_end[lane] != INT64_MIN && start_ns > cover_end[lane])
            sample[count++] = start_ns - cover_end[lane];
        cover_end[lane] = end_ns > cover_end[lane] ? end_ns : cover_end[lane];
    }
    nodes->pause_ns = PAUSE_TIMES_USUAL * tdmi_median(sample, count, 0);
    nodes->pause_ns = nodes->pause_ns > PAUSE_NS_MIN ? nodes->pause_ns : PAUSE_NS_MIN;
    count = 0;
    for (size_t i = 0; i < rank->host_count; i++) {
        const uint32_t event = rank->host[i];
        if (rank->role[event] == TDMI_ROLE_LAUNCH && rank->role[rank->gpu[rank->gpu_of[event]]] == TDMI_ROLE_COMPUTE)
            sample[count++] = rank->trace->event[event].dur_ns;
    }
    nodes->call_ns = tdmi_median(sample, count, 5000);
    tdmi_free(sample);
    return TDM_OK;
}

static int by_kind(const tdmi_key *a, const tdmi_key *b, void *arg)
{
    const tdmi_point *x = (const tdmi_point *)arg + a->index, *y = (const tdmi_point *)arg + b->index;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return (x->event > y->event) - (x->event < y->event);
}

static tdm_status sort_points(tdmi_nodes *nodes)
{
    tdmi_key *key = tdmi_malloc((nodes->points + 1) * sizeof *key, "replay");
    tdmi_point *sorted = tdmi_malloc((nodes->points + 1) * sizeof *sorted, "replay");
    tdm_status status = key != NULL && sorted != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
    for (uint32_t p = 0; status == TDM_OK && p < nodes->points; p++)
        key[p] = (tdmi_key){nodes->point[p].ns, p};
    if (status == TDM_OK)
        status = tdmi_keys_sort(key, nodes->points, by_kind, nodes->point);
    for (size_t p = 0; status == TDM_OK && p < nodes->points; p++)
        sorted[p] = nodes->point[key[p].index];
    tdmi_free(key);
    if (status != TDM_OK) {
        tdmi_free(sorted);
        return status;
    }
    tdmi_free(nodes->point);
    nodes->point = sorted;
    return TDM_OK;
}

typedef struct kinds {
    tdmi_point_kind begin, end;
    bool is_point;
} kinds;

static kinds kinds_of(const tdmi_rank *rank, uint32_t event)
{
    const uint8_t role = rank->role[event];
    return TDMI_ROLE_IS_SYNC(role)                             ? (kinds){TDMI_POINT_SYNC_BEGIN, TDMI_POINT_SYNC_END, true}
           : role == TDMI_ROLE_LAUNCH                          ? (kinds){TDMI_POINT_CALL_BEGIN, TDMI_POINT_CALL_END, true}
           : role == TDMI_ROLE_COMM_CALL && !rank->on_device ? (kinds){TDMI_POINT_CALL_BEGIN, TDMI_POINT_CALL_END, true}
           : role == TDMI_ROLE_DATA                            ? (kinds){TDMI_POINT_DATA_BEGIN, TDMI_POINT_DATA_END, true}
           : role == TDMI_ROLE_STEP                            ? (kinds){TDMI_POINT_STEP_BEGIN, TDMI_POINT_STEP_END, true}
                                                                 : (kinds){0, 0, false};
}

static tdm_status collect(const tdmi_rank *rank, tdmi_nodes *nodes, int64_t *cover_end)
{
    nodes->point = tdmi_malloc((4 * rank->host_count + rank->trace->lane_count + 4) * sizeof *nodes->point, "replay");
    if (nodes->point == NULL)
        return TDM_ERR_NO_MEMORY;
    for (size_t i = 0; i < rank->host_count; i++) {
        const uint32_t event = rank->host[i], lane = rank->trace->event[event].lane;
        const int64_t start_ns = tdmi_event_start(rank, event), end_ns = tdmi_event_end(rank, event);
        const kinds k = kinds_of(rank, event);
        if (covers(rank->role[event])) {
            if (cover_end[lane] != INT64_MIN && start_ns > cover_end[lane] + nodes->pause_ns)
                nodes->point[nodes->points++] = (tdmi_point){cover_end[lane], TDMI_NONE, lane, TDMI_NONE, TDMI_POINT_PAUSE_BEGIN};
            if (cover_end[lane] == INT64_MIN || start_ns > cover_end[lane] + nodes->pause_ns)
                nodes->point[nodes->points++] = (tdmi_point){start_ns, TDMI_NONE, lane, TDMI_NONE, TDMI_POINT_PAUSE_END};
            cover_end[lane] = end_ns > cover_end[lane] ? end_ns : cover_end[lane];
        }
        if (!k.is_point)
            continue;
        nodes->point[nodes->points++] = (tdmi_point){start_ns, event, lane, TDMI_NONE, (uint8_t)k.begin};
        nodes->point[nodes->points++] = (tdmi_point){end_ns, event, lane, TDMI_NONE, (uint8_t)k.end};
    }
    for (uint32_t l = 0; l < rank->trace->lane_count; l++) /* and at the end they all pause */
        if (cover_end[l] != INT64_MIN)
            nodes->point[nodes->points++] = (tdmi_point){cover_end[l], TDMI_NONE, l, TDMI_NONE, TDMI_POINT_PAUSE_BEGIN};
    return sort_points(nodes);
}

static void forget(int64_t *cover_end, size_t lanes)
{
    for (size_t l = 0; l < lanes; l++)
        cover_end[l] = INT64_MIN;
}

tdm_status tdmi_host_nodes(tdmi_model *model, uint32_t place, tdmi_nodes *nodes)
{
    const tdmi_rank *rank = &model->job->rank[place];
    const size_t lanes = rank->trace->lane_count;
    int64_t *cover_end = tdmi_malloc((lanes + 1) * sizeof *cover_end, "replay");
    if (cover_end == NULL)
        return TDM_ERR_NO_MEMORY;
    forget(cover_end, lanes);
    tdm_status status = learn(rank, nodes, cover_end);
    forget(cover_end, lanes);
    if (status == TDM_OK)
        status = collect(rank, nodes, cover_end);
    tdmi_free(cover_end);
    for (size_t p = 0; p < nodes->points && status == TDM_OK; p++) {
        tdmi_point *point = &nodes->point[p];
        point->node = tdmi_graph_node(model->graph, point->ns);
        if (point->node == UINT32_MAX)
            status = TDM_ERR_NO_MEMORY;
        else if (point->kind >= TDMI_POINT_STEP_BEGIN)
            nodes->begin[point->event] = point->node;
        else if (point->kind <= TDMI_POINT_STEP_END)
            nodes->end[point->event] = point->node;
    }
    return status;
}

uint32_t tdmi_point_before(const tdmi_nodes *nodes, int64_t ns)
{
    size_t low = 0, high = nodes->points;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (nodes->point[middle].ns <= ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? (uint32_t)(low - 1) : TDMI_NONE;
}

/* ---- links ---- */

typedef struct thread {
    uint32_t last;          /* point; TDMI_NONE */
    int loading, calling;   /* how many spans of the loader are open, and calls of the CPU's collectives */
    bool pauses;
} thread;

/* A pause ends: the thread may have waited for another thread, or for a collective of the CPU. */
static tdm_status end_pause(tdmi_model *model, uint32_t place, tdmi_nodes *nodes, const thread *threads, const tdmi_point *point)
{
    const tdmi_rank *rank = &model->job->rank[place];
    const uint32_t own = threads[point->lane].last;
    const int64_t since_ns = own != TDMI_NONE ? nodes->point[own].ns : INT64_MIN;
    uint32_t other = TDMI_NONE;
    for (uint32_t l = 0; l < rank->trace->lane_count; l++) {
        const uint32_t last = threads[l].last;
        if (l != point->lane && last != TDMI_NONE && nodes->point[last].ns > since_ns && (other == TDMI_NONE || last > other))
            other = last;
    }
    const uint32_t comm = own != TDMI_NONE ? tdmi_comm_ended(rank, nodes, point->ns) : TDMI_NONE;
    tdm_status status = TDM_OK;
    if (comm != TDMI_NONE && tdmi_event_end(rank, comm) > since_ns && (other == TDMI_NONE || tdmi_event_end(rank, comm) > nodes->point[other].ns))
        status = tdmi_bind(model, place, nodes->end[comm], point->node, TDMI_DUE_SYNC, point->ns - tdmi_event_end(rank, comm), comm);
    else if (other != TDMI_NONE)
        status = tdmi_bind(model, place, nodes->point[other].node, point->node, TDMI_DUE_PAUSE, point->ns - nodes->point[other].ns, TDMI_NONE);
    else if (own != TDMI_NONE)
        return tdmi_bind(model, place, nodes->point[own].node, point->node, TDMI_DUE_PAUSE, point->ns - since_ns, TDMI_NONE);
    if (status == TDM_OK && own != TDMI_NONE)
        status = tdmi_bind(model, place, nodes->point[own].node, point->node, TDMI_DUE_ORDER, 0, TDMI_NONE);
    return status;
}

/* The way from a thread's last point to its next. */
static tdm_status go_on(tdmi_model *model, uint32_t place, tdmi_nodes *nodes, const thread *t, const tdmi_point *point)
{
    const tdmi_rank *rank = &model->job->rank[place];
    const tdmi_point *last = &nodes->point[t->last];
    const int64_t ns = point->ns - last->ns;
    if (t->loading > 0)
        return tdmi_bind(model, place, last->node, point->node, TDMI_DUE_DATA, ns, point->event);
    if (t->calling > 0)
        return tdmi_bind(model, place, last->node, point->node, TDMI_DUE_TRANSFER, ns, point->event);
    /* Calls that may wait for the device: sync_links.c says for what. What they cost by themselves is no more than a launch does. */
    if ((point->kind == TDMI_POINT_SYNC_END || point->kind == TDMI_POINT_CALL_END) && tdmi_call_waits(rank, nodes, point->event))
        return tdmi_bind(model, place, last->node, point->node, TDMI_DUE_OTHER, ns < nodes->call_ns ? ns : nodes->call_ns, point->event);
    return tdmi_bind(model, place, last->node, point->node, rank->on_device ? TDMI_DUE_HOST : TDMI_DUE_COMPUTE, ns, point->event);
}

tdm_status tdmi_host_links(tdmi_model *model, uint32_t place, tdmi_nodes *nodes)
{
    const tdmi_rank *rank = &model->job->rank[place];
    const size_t lanes = rank->trace->lane_count;
    thread *threads = tdmi_calloc(lanes + 1, sizeof *threads, "replay");
    if (threads == NULL)
        return TDM_ERR_NO_MEMORY;
    for (size_t l = 0; l < lanes; l++)
        threads[l].last = TDMI_NONE;
    tdm_status status = TDM_OK;
    for (uint32_t p = 0; p < nodes->points && status == TDM_OK; p++) {
        const tdmi_point *point = &nodes->point[p];
        thread *t = &threads[point->lane];
        if (point->kind == TDMI_POINT_PAUSE_END)
            status = t->last != TDMI_NONE || p > 0 ? end_pause(model, place, nodes, threads, point) : TDM_OK;
        else if (t->pauses) /* an iteration's end within a pause */
            status = tdmi_bind(model, place, nodes->point[t->last].node, point->node, TDMI_DUE_PAUSE, point->ns - nodes->point[t->last].ns, TDMI_NONE);
        else if (t->last != TDMI_NONE)
            status = go_on(model, place, nodes, t, point);
        else if (p > 0)
            status = tdmi_bind(model, place, nodes->point[p - 1].node, point->node, TDMI_DUE_PAUSE, point->ns - nodes->point[p - 1].ns, TDMI_NONE);
        t->pauses = point->kind == TDMI_POINT_PAUSE_BEGIN || (t->pauses && point->kind != TDMI_POINT_PAUSE_END);
        if (!rank->on_device)
            t->calling += (point->kind == TDMI_POINT_CALL_BEGIN) - (point->kind == TDMI_POINT_CALL_END);
        t->loading += (point->kind == TDMI_POINT_DATA_BEGIN) - (point->kind == TDMI_POINT_DATA_END);
        t->last = p;
    }
    tdmi_free(threads);
    return status;
}
