/* page_timeline.c - one iteration on all ranks: what each rank's host and device do, and when.
 *
 *   rank 0  host     ▭ data ▭ forward ▭ backward ▭ optimizer
 *           compute  ▭▭▭▭▭▭▭▭▭▭▭▭▭
 *           comm        ▭▭▭  ▭▭▭▭
 *           copies   ▭
 *
 * Spans closer to each other than a pixel are drawn as one: a picture of 10^5 kernels has some thousand rectangles at most. */
#include "doctor/page.h"

#include "job/intervals.h"

enum { WIDTH = 1080, LEFT = 118, RIGHT = 12, TOP = 22, LANE = 13, LANE_GAP = 2, RANK_GAP = 10, RANKS_SHOWN = 16 };

/* What is drawn over what: a sync within the optimizer is seen. */
static const char *const host_classes[] = {"forward", "backward", "optimizer", "data", "sync"};
enum { FORWARD, BACKWARD, OPTIMIZER, DATA, SYNC, HOST_CLASSES };

enum { HOST, COMPUTE, COMM, COPY, LANES };

typedef struct lane {
    tdmi_spans spans[HOST_CLASSES]; /* but for the host the first alone */
} lane;

typedef struct window {
    int64_t start_ns, end_ns;
    double ns_a_pixel;
} window;

static tdm_status add(tdmi_spans *spans, const window *w, const tdmi_rank *rank, uint32_t event)
{
    int64_t start = tdmi_event_start(rank, event), end = tdmi_event_end(rank, event);
    start = start < w->start_ns ? w->start_ns : start;
    end = end > w->end_ns ? w->end_ns : end;
    return start < end ? tdmi_spans_add(spans, start, end) : TDM_OK;
}

static int host_class(tdmi_role role)
{
    if (TDMI_ROLE_IS_SYNC(role))
        return SYNC;
    switch (role) {
    case TDMI_ROLE_FORWARD: return FORWARD;
    case TDMI_ROLE_BACKWARD: return BACKWARD;
    case TDMI_ROLE_OPTIMIZER: return OPTIMIZER;
    case TDMI_ROLE_DATA: return DATA;
    default: return -1;
    }
}

static tdm_status collect(const tdmi_rank *rank, const window *w, lane lanes[LANES])
{
    tdm_status status = TDM_OK;
    for (size_t i = 0; i < rank->host_count && status == TDM_OK; i++) {
        const tdmi_role role = rank->role[rank->host[i]];
        const int class = host_class(role);
        if (class >= 0)
            status = add(&lanes[HOST].spans[class], w, rank, rank->host[i]);
        else if (!rank->on_device && role == TDMI_ROLE_OP)
            status = add(&lanes[COMPUTE].spans[0], w, rank, rank->host[i]);
    }
    for (size_t i = 0; i < rank->gpu_count && status == TDM_OK; i++) {
        const tdmi_role role = rank->role[rank->gpu[i]];
        if (role == TDMI_ROLE_COMPUTE || role == TDMI_ROLE_COMM || role == TDMI_ROLE_COPY)
            status = add(&lanes[COMPUTE + (int)(role - TDMI_ROLE_COMPUTE)].spans[0], w, rank, rank->gpu[i]);
    }
    return status;
}

/* A CPU's collectives are parts of meetings only. */
static tdm_status collect_host_comm(const tdmi_job *job, size_t place, const window *w, lane lanes[LANES])
{
    tdm_status status = TDM_OK;
    for (size_t i = 0; i < job->parts && status == TDM_OK; i++)
        if (job->part[i].place == place && job->part[i].gpu == TDMI_NONE)
            status = add(&lanes[COMM].spans[0], w, &job->rank[place], job->part[i].event);
    return status;
}

static double x_of(const window *w, int64_t ns)
{
    return LEFT + (double)(ns - w->start_ns) / w->ns_a_pixel;
}

static void draw(FILE *out, const window *w, const tdmi_spans *spans, const char *class, int y)
{
    for (size_t i = 0; i < spans->count;) {
        const int64_t start = spans->of[i].start_ns;
        int64_t end = spans->of[i].end_ns;
        for (i++; i < spans->count && (double)(spans->of[i].start_ns - end) < w->ns_a_pixel; i++)
            end = spans->of[i].end_ns;
        const double width = (double)(end - start) / w->ns_a_pixel;
        fprintf(out, "<rect class=\"%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>", class, x_of(w, start), y, width < 0.5 ? 0.5 : width,
                LANE);
    }
}

static tdm_status draw_rank(const tdmi_case *c, FILE *out, const window *w, size_t place, int y)
{
    static const char *const names[LANES] = {"host", "compute", "comm", "copies"}, *const classes[LANES] = {NULL, "compute", "comm", "copy"};
    lane lanes[LANES] = {0};
    const tdmi_rank *rank = &c->job->rank[place];
    tdm_status status = collect(rank, w, lanes);
    if (status == TDM_OK)
        status = collect_host_comm(c->job, place, w, lanes);
    fprintf(out, "<text x=\"0\" y=\"%d\" font-weight=\"600\">rank %d</text>\n", y + LANE - 3, rank->number);
    for (int l = 0; l < LANES; l++) {
        const int top = y + l * (LANE + LANE_GAP);
        fprintf(out, "<rect class=\"lane\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/><text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>",
                LEFT, top, WIDTH - LEFT - RIGHT, LANE, LEFT - 6, top + LANE - 3, names[l]);
        for (int k = 0; k < (l == HOST ? HOST_CLASSES : 1); k++) {
            tdmi_spans_merge(&lanes[l].spans[k]);
            draw(out, w, &lanes[l].spans[k], l == HOST ? host_classes[k] : classes[l], top);
            tdmi_spans_free(&lanes[l].spans[k]);
        }
        fputc('\n', out);
    }
    return status;
}

/* The iteration in the middle of those that count, from its first start to its last end. */
static bool choose(const tdmi_case *c, window *w, int64_t *number)
{
    const tdmi_job *job = c->job;
    size_t least = SIZE_MAX;
    for (size_t r = 0; r < job->ranks; r++)
        least = job->rank[r].iterations < least ? job->rank[r].iterations : least;
    if (job->ranks == 0 || least == 0)
        return false;
    const size_t first = c->model->first_steady < least ? c->model->first_steady : least - 1, at = first + (least - first) / 2;
    *w = (window){INT64_MAX, INT64_MIN, 0};
    *number = job->rank[0].iteration[at].number;
    for (size_t r = 0; r < job->ranks; r++) {
        const tdmi_iteration *i = &job->rank[r].iteration[at];
        w->start_ns = i->start_ns < w->start_ns ? i->start_ns : w->start_ns;
        w->end_ns = i->end_ns > w->end_ns ? i->end_ns : w->end_ns;
    }
    w->ns_a_pixel = (double)(w->end_ns - w->start_ns) / (WIDTH - LEFT - RIGHT);
    return w->end_ns > w->start_ns;
}

static void draw_axis(FILE *out, const window *w, int bottom)
{
    const double length = (double)(w->end_ns - w->start_ns);
    double step = 1;
    for (int k = 0; length / step > 8; k++)
        step *= k % 3 == 1 ? 2.5 : 2; /* 1, 2, 5, 10 */
    for (double ns = 0; ns <= length; ns += step) {
        const double x = LEFT + ns / w->ns_a_pixel;
        fprintf(out, "<path class=\"grid\" d=\"M%.1f %d V%d\"/><text x=\"%.1f\" y=\"12\" text-anchor=\"middle\">", x, TOP - 6, bottom, x);
        tdmi_page_time(out, ns);
        fputs("</text>\n", out);
    }
}

tdm_status tdmi_page_timeline(const tdmi_case *c, FILE *out)
{
    const size_t shown = c->job->ranks < RANKS_SHOWN ? c->job->ranks : RANKS_SHOWN;
    const int rank_height = LANES * (LANE + LANE_GAP) + RANK_GAP, bottom = TOP + (int)shown * rank_height;
    window w;
    int64_t number;
    tdm_status status = TDM_OK;
    if (!choose(c, &w, &number))
        return TDM_OK;
    fprintf(out, "<h2>One iteration on %s</h2>\n<p class=\"quiet\">", shown < c->job->ranks ? "the first ranks" : "all ranks");
    if (c->job->rank[0].has_steps)
        fprintf(out, "ProfilerStep#%lld. ", (long long)number);
    if (shown < c->job->ranks)
        fprintf(out, "%zu of %zu ranks. ", shown, c->job->ranks);
    if (c->job->clock_spread_ns > 100000) {
        fputs("Clocks of hosts are apart by up to ", out);
        tdmi_page_time(out, (double)c->job->clock_spread_ns);
        fputs(", put right here. ", out);
    }
    fputs("</p>\n<div class=\"key\">", out);
    for (int k = 0; k < HOST_CLASSES; k++)
        fprintf(out, "<span><i class=\"%s\"></i>%s</span>", host_classes[k], k == SYNC ? "host waits for the device" : host_classes[k]);
    fprintf(out, "</div>\n<div class=\"wide\"><svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\">\n", WIDTH, bottom);
    draw_axis(out, &w, bottom);
    for (size_t r = 0; r < shown && status == TDM_OK; r++)
        status = draw_rank(c, out, &w, r, TOP + (int)r * rank_height);
    fputs("</svg></div>\n", out);
    return status;
}
