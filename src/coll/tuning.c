/* tuning.c - reading and writing the text of tuning.h. */
#include "coll/tuning.h"

#include "core/memory.h"

#include <tandem/config.h>

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void tdmi_tuning_setting(int ranks, int nodes, const char *transport, const char *memory, char out[TDMI_SETTING_MAX])
{
    snprintf(out, TDMI_SETTING_MAX, "%dx%d/%.7s/%.6s", ranks, nodes, transport, memory);
}

static uint64_t hash(const char *text, size_t nbytes)
{
    uint64_t h = 1469598103934665603ull;
    for (size_t i = 0; i < nbytes; i++)
        h = (h ^ (unsigned char)text[i]) * 1099511628211ull;
    return h;
}

/* ---- reading ---- */

static tdm_status wrong(int line, const char *what)
{
    return tdmi_fail(TDM_ERR_INVALID, "line %d: %s", line, what);
}

static bool read_hex(const char *word, uint64_t *out)
{
    char *end;
    if (strlen(word) != 16 || strspn(word, "0123456789abcdef") != 16)
        return false;
    *out = strtoull(word, &end, 16);
    return true;
}

static bool read_size(const char *word, size_t *out)
{
    char *end;
    errno = 0;
    const unsigned long long value = strtoull(word, &end, 10);
    *out = (size_t)value;
    return word[0] >= '0' && word[0] <= '9' && *end == '\0' && errno == 0;
}

static bool read_ns(const char *word, double *out)
{
    char *end;
    *out = strtod(word, &end);
    return end != word && *end == '\0' && isfinite(*out) && *out >= 0 && *out <= 1e12;
}

static tdm_status read_best(tdmi_tuning *t, char *const *word, int line)
{
    tdmi_best b = {.choice = {.coll = TDMI_COLL_COUNT, .max = SIZE_MAX, .why = "measured on this machine"}};
    if (t->best_count == TDMI_TUNING_LINES_MAX)
        return wrong(line, "too many lines");
    if (strlen(word[1]) >= sizeof b.setting)
        return wrong(line, "the setting is too long");
    memcpy(b.setting, word[1], strlen(word[1]) + 1);
    for (int coll = 0; coll < TDMI_COLL_COUNT; coll++)
        if (strcmp(word[2], tdmi_coll_name((tdmi_coll)coll)) == 0)
            b.choice.coll = (tdmi_coll)coll;
    b.choice.algorithm = tdmi_algorithm_find(word[5]);
    if (b.choice.coll == TDMI_COLL_COUNT || b.choice.algorithm == NULL || !b.choice.algorithm->supports(b.choice.coll, false))
        return wrong(line, "no such operation, or no such algorithm of it");
    if (!read_size(word[3], &b.choice.min) || (strcmp(word[4], "-") != 0 && !read_size(word[4], &b.choice.max)) ||
        b.choice.min >= b.choice.max)
        return wrong(line, "the range of sizes is no range");
    tdmi_best *grown = tdmi_realloc(t->best, (t->best_count + 1) * sizeof *grown, "tuning");
    if (grown == NULL)
        return TDM_ERR_NO_MEMORY;
    t->best = grown;
    t->best[t->best_count++] = b;
    return TDM_OK;
}

static tdm_status read_links(tdmi_tuning *t, char *const *word, int line)
{
    tdmi_costs c = {.alpha = 0};
    if (strlen(word[1]) >= sizeof c.transport || !read_ns(word[2], &c.alpha) || !read_ns(word[3], &c.beta) ||
        !read_ns(word[4], &c.gamma))
        return wrong(line, "costs are a transport and three times in nanoseconds");
    memcpy(c.transport, word[1], strlen(word[1]) + 1);
    tdmi_tuning_set_costs(t, &c);
    return TDM_OK;
}

enum { WORDS = 6 };

/* One line, cut at its spaces. */
static tdm_status read_line(tdmi_tuning *t, char *text, int line)
{
    char *word[WORDS + 1], *next = NULL;
    int words = 0;
    for (char *w = strtok_r(text, " ", &next); w != NULL && words <= WORDS; w = strtok_r(NULL, " ", &next))
        word[words++] = w;
    if (words == 2 && line == 2 && strcmp(word[0], "host") == 0)
        return read_hex(word[1], &t->host) ? TDM_OK : wrong(line, "the host is no 16 hex digits");
    if (words == 6 && line > 2 && strcmp(word[0], "best") == 0)
        return read_best(t, word, line);
    if (words == 5 && line > 2 && strcmp(word[0], "links") == 0)
        return read_links(t, word, line);
    return wrong(line, "not understood");
}

static tdm_status read_all(tdmi_tuning *t, char *text)
{
    char *line = text;
    for (int number = 1;; number++) {
        char *end = strchr(line, '\n');
        uint64_t sum;
        if (end == NULL)
            return wrong(number, "the end is missing");
        *end = '\0';
        if (number == 1 && strcmp(line, "tandem-tuning 1") != 0)
            return wrong(number, "no tuning of version 1");
        if (number > 2 && strncmp(line, "end ", 4) == 0) {
            const bool right = read_hex(line + 4, &sum) && end[1] == '\0';
            for (char *c = text; c < line; c++) /* as it was before it was cut up */
                *c = *c == '\0' ? '\n' : *c;
            return right && sum == hash(text, (size_t)(line - text)) ? TDM_OK : wrong(number, "the hash does not fit: the text is damaged");
        }
        if (number > 1) {
            char copy[256];
            if ((size_t)(end - line) >= sizeof copy)
                return wrong(number, "too long");
            memcpy(copy, line, (size_t)(end - line) + 1);
            tdm_status status = read_line(t, copy, number);
            if (status != TDM_OK)
                return status;
        }
        line = end + 1;
    }
}

tdm_status tdmi_tuning_read(const char *text, size_t nbytes, tdmi_tuning *out)
{
    *out = (tdmi_tuning){.host = 0};
    if (nbytes > TDMI_TUNING_TEXT_MAX || memchr(text, '\0', nbytes) != NULL)
        return tdmi_fail(TDM_ERR_INVALID, "no text of at most %zu bytes", TDMI_TUNING_TEXT_MAX);
    char *copy = tdmi_calloc(nbytes + 1, 1, "tuning");
    if (copy == NULL)
        return TDM_ERR_NO_MEMORY;
    memcpy(copy, text, nbytes);
    tdm_status status = read_all(out, copy);
    tdmi_free(copy);
    if (status != TDM_OK)
        tdmi_tuning_free(out);
    return status;
}

void tdmi_tuning_free(tdmi_tuning *tuning)
{
    tdmi_free(tuning->best);
    *tuning = (tdmi_tuning){.host = 0};
}

/* ---- writing ---- */

typedef struct writer {
    char *text;
    size_t used;
} writer;

static void put(writer *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(writer *w, const char *format, ...)
{
    const size_t room = TDMI_TUNING_TEXT_MAX - w->used;
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(w->text + w->used, room, format, args);
    va_end(args);
    w->used = n > 0 && (size_t)n < room ? w->used + (size_t)n : TDMI_TUNING_TEXT_MAX;
}

tdm_status tdmi_tuning_write(const tdmi_tuning *tuning, char **out, size_t *nbytes)
{
    writer w = {.text = tdmi_calloc(TDMI_TUNING_TEXT_MAX, 1, "tuning")};
    if (w.text == NULL)
        return TDM_ERR_NO_MEMORY;
    put(&w, "tandem-tuning 1\nhost %016llx\n", (unsigned long long)tuning->host);
    for (size_t i = 0; i < tuning->costs_count; i++)
        put(&w, "links %s %.6g %.6g %.6g\n", tuning->costs[i].transport, tuning->costs[i].alpha, tuning->costs[i].beta,
            tuning->costs[i].gamma);
    for (size_t i = 0; i < tuning->best_count; i++) {
        const tdmi_best *b = &tuning->best[i];
        char max[24] = "-";
        if (b->choice.max != SIZE_MAX)
            snprintf(max, sizeof max, "%zu", b->choice.max);
        put(&w, "best %s %s %zu %s %s\n", b->setting, tdmi_coll_name(b->choice.coll), b->choice.min, max, b->choice.algorithm->name);
    }
    put(&w, "end %016llx\n", (unsigned long long)hash(w.text, w.used < TDMI_TUNING_TEXT_MAX ? w.used : 0));
    if (w.used >= TDMI_TUNING_TEXT_MAX) {
        tdmi_free(w.text);
        return tdmi_fail(TDM_ERR_INVALID, "the tuning is longer than %zu bytes", TDMI_TUNING_TEXT_MAX);
    }
    *out = w.text;
    *nbytes = w.used;
    return TDM_OK;
}

/* ---- changing ---- */

void tdmi_tuning_forget(tdmi_tuning *tuning, const char *setting, tdmi_coll coll)
{
    size_t kept = 0;
    for (size_t i = 0; i < tuning->best_count; i++)
        if (tuning->best[i].choice.coll != coll || strcmp(tuning->best[i].setting, setting) != 0)
            tuning->best[kept++] = tuning->best[i];
    tuning->best_count = kept;
}

tdm_status tdmi_tuning_add(tdmi_tuning *tuning, const char *setting, const tdmi_choice *choice)
{
    tdmi_best *grown = tdmi_realloc(tuning->best, (tuning->best_count + 1) * sizeof *grown, "tuning");
    if (grown == NULL)
        return TDM_ERR_NO_MEMORY;
    tuning->best = grown;
    tdmi_best *b = &tuning->best[tuning->best_count++];
    snprintf(b->setting, sizeof b->setting, "%s", setting);
    b->choice = *choice;
    return TDM_OK;
}

/* The digits that are written, so that the rank that measured and those that read its text reckon alike. */
static double as_written(double ns)
{
    char text[32];
    snprintf(text, sizeof text, "%.6g", ns);
    return strtod(text, NULL);
}

void tdmi_tuning_set_costs(tdmi_tuning *tuning, const tdmi_costs *costs)
{
    const size_t most = sizeof tuning->costs / sizeof *tuning->costs;
    size_t at = 0;
    while (at < tuning->costs_count && strcmp(tuning->costs[at].transport, costs->transport) != 0)
        at++;
    if (at == most)
        return;
    tuning->costs[at] = *costs;
    tuning->costs[at].alpha = as_written(costs->alpha);
    tuning->costs[at].beta = as_written(costs->beta);
    tuning->costs[at].gamma = as_written(costs->gamma);
    tuning->costs_count = at == tuning->costs_count ? at + 1 : tuning->costs_count;
}

const tdmi_costs *tdmi_tuning_costs(const tdmi_tuning *tuning, const char *transport)
{
    for (size_t i = 0; i < tuning->costs_count; i++)
        if (strcmp(tuning->costs[i].transport, transport) == 0)
            return &tuning->costs[i];
    return NULL;
}
