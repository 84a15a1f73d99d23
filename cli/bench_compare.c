/* bench_compare.c - `tandem bench --compare`: Tandem and its peers take turns, each a fresh job; medians and ratios of medians. */
#include "bench_compare.h"

#include "command.h"

#include "measure/measure.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TURNS = 3, RUN_S = 900, SIDES_MAX = BENCH_PEERS_MAX + 1, QUANTILES = 3 };

/* What one side needed for one size and placement: median, p10 and p90 of each turn. */
typedef struct times {
    double us[QUANTILES][TURNS];
    size_t turns;
} times;

typedef struct comparison {
    const bench_comparison *asked;
    char self[PATH_MAX], folder[64], errors[128];
    bench_peer peers[BENCH_PEERS_MAX];
    size_t peer_count;
    bench_plan peer_plan; /* as asked, in malloc memory */
    bench_line *lines;    /* [keys] Tandem's, a size and placement each; then the same for each peer */
    char (*names)[3][32]; /* [keys] engine, transport and algorithm of Tandem's lines */
    times *all;           /* [keys] for each side */
    size_t keys;
} comparison;

static volatile sig_atomic_t stopped;
static void stop(int number)
{
    stopped = number;
}

static size_t sides(const comparison *c)
{
    return 1 + c->peer_count;
}

static void note(times *t, const double us[QUANTILES])
{
    for (int q = 0; q < QUANTILES && t->turns < TURNS; q++)
        t->us[q][t->turns] = us[q];
    t->turns += t->turns < TURNS ? 1 : 0;
}

/* ---- Tandem ---- */

static void say_self(const comparison *c, bench_words *w)
{
    const bench_plan *p = c->asked->plan;
    bench_say(w, "%s", c->self);
    bench_say(w, "bench");
    bench_say(w, "%s", bench_ops[p->op].name);
    bench_say(w, "-n%d", c->asked->ranks);
    bench_say(w, "-b%zu", p->min_bytes);
    bench_say(w, "-e%zu", p->max_bytes);
    bench_say(w, "-f%.17g", p->factor);
    bench_say(w, "-d%s", tdm_dtype_name(p->dtype));
    bench_say(w, "-o%s", tdm_op_name(p->redop));
    bench_say(w, "-r%d", p->root);
    bench_say(w, "-w%d", p->warm_ups);
    bench_say(w, "-i%d", p->iterations);
    bench_say(w, "--memory=%s", c->asked->memory);
    bench_say(w, "--csv");
    bench_say(w, "-q");
}

/* One line of --csv: op,bytes,count,dtype,redop,ranks,engine,transport,algo,memory,in_place,time_us,p10,p90,algbw,busbw,wrong */
static bool read_line(const char *text, bench_line *line, double us[QUANTILES], char names[3][32])
{
    char in_place[8];
    unsigned long long wrong;
    if (sscanf(text, "%*[^,],%zu,%zu,%*[^,],%*[^0-9]%d,%31[^,],%31[^,],%31[^,],%*[^,],%7[^,],%lf,%lf,%lf,%*f,%*f,%llu", &line->bytes,
               &line->count, &line->ranks, names[0], names[1], names[2], in_place, &us[0], &us[1], &us[2], &wrong) != 11)
        return false;
    line->in_place = strcmp(in_place, "true") == 0;
    line->wrong = wrong;
    return true;
}

static bool make_room(comparison *c, size_t keys)
{
    c->lines = calloc(keys * SIDES_MAX, sizeof *c->lines);
    c->all = calloc(keys * SIDES_MAX, sizeof *c->all);
    c->names = calloc(keys, sizeof *c->names);
    return c->lines != NULL && c->all != NULL && c->names != NULL;
}

static int run_tandem(comparison *c)
{
    bench_words w = {0};
    char *text = NULL;
    say_self(c, &w);
    int code = bench_capture(&w, NULL, RUN_S, &text);
    bench_words_free(&w);
    size_t lines = 0, key = 0;
    for (const char *at = text; at != NULL && (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    if (text != NULL && c->lines == NULL && !make_room(c, lines + 1))
        code = CLI_NO_SPACE;
    for (char *rest = text, *one; code == CLI_DONE && (one = strsep(&rest, "\n")) != NULL && key < lines;) {
        double us[QUANTILES];
        bench_line line = {.plan = c->asked->plan};
        char names[3][32];
        if (!read_line(one, &line, us, names))
            continue; /* the head */
        memcpy(c->names[key], names, sizeof names);
        line.engine = c->names[key][0];
        line.transport = c->names[key][1];
        line.algorithm = c->names[key][2];
        line.wrong = line.wrong > c->lines[key].wrong ? line.wrong : c->lines[key].wrong;
        c->lines[key] = line;
        note(&c->all[key], us);
        key++;
    }
    c->keys = c->keys == 0 ? key : c->keys;
    free(text);
    return code;
}

/* ---- peers ---- */

static void say_failure(const comparison *c, bench_peer *peer, int code)
{
    char line[512], last[512] = "";
    FILE *file = fopen(c->errors, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strspn(line, " \t\n-=*") < strlen(line))
            snprintf(last, sizeof last, "%.*s", (int)strcspn(line, "\n"), line);
    if (file != NULL)
        fclose(file);
    fprintf(stderr, "tandem bench: %s %s is left out: exit code %d%s%s\n", peer->name, peer->version, code, *last != '\0' ? ": " : "", last);
    peer->fails = true;
}

/* `bytes in|out median p10 p90`, behind "[0] " where a launcher says who writes. */
static void take_peer_line(comparison *c, size_t side, const char *text)
{
    size_t nbytes;
    double us[QUANTILES];
    char place[4];
    text += strncmp(text, "[0] ", 4) == 0 ? 4 : 0;
    if (sscanf(text, "%zu %3s %lf %lf %lf", &nbytes, place, &us[0], &us[1], &us[2]) != 5)
        return;
    for (size_t k = 0; k < c->keys; k++)
        if (c->lines[k].bytes == nbytes && c->lines[k].in_place == (strcmp(place, "in") == 0))
            note(&c->all[side * c->keys + k], us);
}

static void run_peer(comparison *c, size_t side)
{
    bench_peer *peer = &c->peers[side - 1];
    size_t *sizes = calloc(c->keys + 1, sizeof *sizes), count = 0;
    bench_words w = {0};
    char *text = NULL;
    if (sizes == NULL)
        return;
    for (size_t k = 0; k < c->keys; k++)
        if (count == 0 || sizes[count - 1] != c->lines[k].bytes)
            sizes[count++] = c->lines[k].bytes;
    bench_peer_command(peer, &c->peer_plan, c->asked->ranks, c->self, sizes, count, &w);
    const int code = bench_capture(&w, c->errors, RUN_S, &text);
    if (code != 0 && stopped == 0)
        say_failure(c, peer, code);
    for (char *rest = text, *one; code == 0 && (one = strsep(&rest, "\n")) != NULL;)
        take_peer_line(c, side, one);
    free(text);
    free(sizes);
    bench_words_free(&w);
}

/* ---- results ---- */

/* Medians over the turns, into the lines of all sides. */
static void summarise(comparison *c)
{
    for (size_t side = 0; side < sides(c); side++)
        for (size_t k = 0; k < c->keys; k++) {
            times *t = &c->all[side * c->keys + k];
            bench_line *line = &c->lines[side * c->keys + k];
            if (side > 0) {
                *line = c->lines[k];
                line->engine = c->peers[side - 1].name;
                line->plan = &c->peer_plan;
                line->transport = line->algorithm = NULL;
            }
            double *out[QUANTILES] = {&line->time_us, &line->time_us_p10, &line->time_us_p90};
            for (int q = 0; q < QUANTILES; q++)
                *out[q] = t->turns > 0 ? tdmi_summarise(t->us[q], t->turns).median : 0;
            bench_bandwidths(line);
        }
}

static bool has_time(const comparison *c, size_t side, size_t key)
{
    return c->all[side * c->keys + key].turns > 0;
}

static void print_table(const comparison *c)
{
    const bench_plan *p = c->asked->plan;
    printf("# tandem %s  %s of %s over %d ranks, %s memory, beside", tdm_version(), bench_ops[p->op].name, tdm_dtype_name(p->dtype),
           c->asked->ranks, c->asked->memory);
    for (size_t i = 0; i < c->peer_count; i++)
        printf("%s %s %s", i > 0 ? "," : "", c->peers[i].name, c->peers[i].version);
    printf("%s\n# medians of %d turns; ratio: how many times as long as Tandem a peer takes\n#\n", c->peer_count == 0 ? " nobody" : "", TURNS);
    printf("#%12s%14s%10s%13s%11s", "size", "count", "in place", "tandem", "busbw");
    for (size_t i = 0; i < c->peer_count; i++)
        printf("%13s%9s", c->peers[i].name, "ratio");
    printf("\n#%12s%14s%10s%13s%11s", "(B)", "(elements)", "", "(us)", "(GB/s)");
    for (size_t i = 0; i < c->peer_count; i++)
        printf("%13s%9s", "(us)", "");
    printf("\n");
    for (size_t k = 0; k < c->keys; k++) {
        const bench_line *own = &c->lines[k];
        printf("%13zu%14zu%10s%13.2f%11.2f", own->bytes, own->count, own->in_place ? "yes" : "no", own->time_us, own->busbw_gbps);
        for (size_t side = 1; side < sides(c); side++)
            if (has_time(c, side, k) && own->time_us > 0)
                printf("%13.2f %8.2f", c->lines[side * c->keys + k].time_us, c->lines[side * c->keys + k].time_us / own->time_us);
            else
                printf("%13s %8s", "N/A", "N/A");
        printf("\n");
    }
}

static int show(const comparison *c)
{
    uint64_t wrong = 0;
    if (c->asked->format == BENCH_TABLE)
        print_table(c);
    else
        bench_print_head(c->asked->format, c->asked->plan, c->asked->ranks, "", "");
    size_t have = 0;
    for (size_t i = 0; i < sides(c) * c->keys; i++) {
        if (!has_time(c, i / c->keys, i % c->keys))
            continue;
        if (c->asked->format != BENCH_TABLE)
            bench_print_lines(c->asked->format, &c->lines[i], 1);
        wrong += i < c->keys ? c->lines[i].wrong : 0;
        c->lines[have++] = c->lines[i]; /* from here on only those that were measured */
    }
    if (c->asked->html != NULL && !bench_draw(c->asked->html, c->lines, have, true))
        return CLI_FAILED;
    return wrong > 0 ? CLI_FAILED : CLI_DONE;
}

static int take_turns(comparison *c)
{
    for (int turn = 0; turn < TURNS; turn++) {
        const int code = run_tandem(c);
        if (code != CLI_DONE)
            return stopped != 0 ? CLI_SIGNAL + stopped : code;
        for (size_t side = 1; side < sides(c) && stopped == 0; side++)
            if (!c->peers[side - 1].fails)
                run_peer(c, side);
        if (stopped != 0)
            return CLI_SIGNAL + stopped;
    }
    summarise(c);
    return show(c);
}

static void remove_folder(const comparison *c)
{
    for (size_t i = 0; i < c->peer_count; i++)
        if (strncmp(c->peers[i].program, c->folder, strlen(c->folder)) == 0)
            unlink(c->peers[i].program);
    unlink(c->errors);
    rmdir(c->folder);
}

int bench_compare(const bench_comparison *asked)
{
    comparison c = {.asked = asked, .peer_plan = *asked->plan, .folder = "/tmp/tandem-bench-XXXXXX"};
    const struct sigaction action = {.sa_handler = stop};
    const ssize_t length = readlink("/proc/self/exe", c.self, sizeof c.self - 1);
    if (length < 0 || mkdtemp(c.folder) == NULL) {
        fprintf(stderr, "tandem bench: --compare needs /proc/self/exe and a folder in /tmp: one of them cannot be had\n");
        return CLI_NO_SPACE;
    }
    snprintf(c.errors, sizeof c.errors, "%s/errors", c.folder);
    c.peer_plan.malloc_memory = true;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    c.peer_count = bench_find_peers(asked->peers, c.self, c.folder, c.peers);
    const int code = stopped != 0 ? CLI_SIGNAL + stopped : take_turns(&c);
    remove_folder(&c);
    free(c.lines);
    free(c.names);
    free(c.all);
    return code;
}
