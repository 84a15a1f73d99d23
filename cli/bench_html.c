/* bench_html.c - bus bandwidth over size as one HTML file that needs nothing else: a plot in SVG, log axes, a line an algorithm or
 * engine, a few lines of script that light up a line under its name. It is well-formed XML, so that programs can read it too. */
#include "bench.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

enum { WIDTH = 860, HEIGHT = 460, LEFT = 70, RIGHT = 210, TOP = 20, BOTTOM = 50, SERIES_MAX = 24 };

/* A series has a colour and a dash; no two have both alike. */
static const char *const colours[] = {"#0b6e99", "#d9600b", "#15803d", "#8b3fd6", "#b91c1c", "#a16207", "#64748b", "#d6337f"};
static const char *const dashes[SERIES_MAX / 8] = {"none", "7 4", "2 3"};
_Static_assert(sizeof colours / sizeof *colours * (sizeof dashes / sizeof *dashes) == SERIES_MAX, "all series differ");

typedef struct plot {
    const bench_line *lines;
    size_t count;
    bool by_engine;
    const char *names[SERIES_MAX];
    size_t series;
    double x_min, x_max, y_min, y_max; /* logarithms to base 2 and 10 */
} plot;

static const char *series_of(const plot *p, const bench_line *line)
{
    if (!p->by_engine && line->algorithm != NULL)
        return line->algorithm;
    return strcmp(line->engine, "native") == 0 ? "tandem" : line->engine;
}

/* In place where the operation has that in any line of the series, else out of place; a bandwidth of 0 has no place on a log axis. */
static bool is_shown(const plot *p, const bench_line *line, const char *series)
{
    if (line->busbw_gbps <= 0 || strcmp(series_of(p, line), series) != 0)
        return false;
    for (size_t i = 0; i < p->count && !line->in_place; i++)
        if (p->lines[i].in_place && p->lines[i].bytes == line->bytes && strcmp(series_of(p, &p->lines[i]), series) == 0)
            return false;
    return true;
}

static void survey(plot *p)
{
    p->x_min = p->y_min = INFINITY;
    p->x_max = p->y_max = -INFINITY;
    for (size_t i = 0; i < p->count; i++) {
        const char *name = series_of(p, &p->lines[i]);
        size_t at = 0;
        while (at < p->series && strcmp(p->names[at], name) != 0)
            at++;
        if (!is_shown(p, &p->lines[i], name) || at == SERIES_MAX)
            continue;
        if (at == p->series)
            p->names[p->series++] = name;
        p->x_min = fmin(p->x_min, floor(log2((double)p->lines[i].bytes)));
        p->x_max = fmax(p->x_max, ceil(log2((double)p->lines[i].bytes)));
        p->y_min = fmin(p->y_min, floor(log10(p->lines[i].busbw_gbps)));
        p->y_max = fmax(p->y_max, ceil(log10(p->lines[i].busbw_gbps)));
    }
    p->x_max += p->x_max == p->x_min ? 1 : 0;
    p->y_max += p->y_max == p->y_min ? 1 : 0;
}

static double x_of(const plot *p, double log_bytes)
{
    return LEFT + (log_bytes - p->x_min) / (p->x_max - p->x_min) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const plot *p, double log_gbps)
{
    return HEIGHT - BOTTOM - (log_gbps - p->y_min) / (p->y_max - p->y_min) * (HEIGHT - TOP - BOTTOM);
}

static void write_size(FILE *file, double nbytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    int unit = 0;
    for (; nbytes >= 1024 && unit < 5; unit++)
        nbytes /= 1024;
    fprintf(file, "%.4g %s", nbytes, units[unit]);
}

static void write_axes(FILE *file, const plot *p)
{
    const double step = ceil((p->x_max - p->x_min) / 10);
    for (double x = p->x_min; x <= p->x_max; x += step) {
        fprintf(file, "<path d=\"M%.1f %d V%d\" class=\"grid\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">", x_of(p, x), TOP,
                HEIGHT - BOTTOM, x_of(p, x), HEIGHT - BOTTOM + 18);
        write_size(file, exp2(x));
        fprintf(file, "</text>\n");
    }
    for (double y = p->y_min; y <= p->y_max; y++)
        fprintf(file, "<path d=\"M%d %.1f H%d\" class=\"grid\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", LEFT,
                y_of(p, y), WIDTH - RIGHT, LEFT - 8, y_of(p, y) + 4, pow(10, y));
    fprintf(file, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">size</text>\n", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10);
    fprintf(file, "<text transform=\"translate(16 %d) rotate(-90)\" text-anchor=\"middle\">bus bandwidth, GB/s</text>\n", HEIGHT / 2);
}

static void write_series(FILE *file, const plot *p, size_t which)
{
    const size_t colour_count = sizeof colours / sizeof *colours, y = TOP + 14 + 20 * which;
    const char *name = p->names[which];
    fprintf(file, "<g class=\"series\" color=\"%s\" stroke-dasharray=\"%s\">\n<polyline points=\"", colours[which % colour_count],
            dashes[which / colour_count]);
    for (size_t i = 0; i < p->count; i++)
        if (is_shown(p, &p->lines[i], name))
            fprintf(file, "%.1f,%.1f ", x_of(p, log2((double)p->lines[i].bytes)), y_of(p, log10(p->lines[i].busbw_gbps)));
    fprintf(file, "\"/>\n");
    for (size_t i = 0; i < p->count; i++)
        if (is_shown(p, &p->lines[i], name)) {
            fprintf(file, "<circle r=\"3\" cx=\"%.1f\" cy=\"%.1f\"><title>%s, ", x_of(p, log2((double)p->lines[i].bytes)),
                    y_of(p, log10(p->lines[i].busbw_gbps)), name);
            write_size(file, (double)p->lines[i].bytes);
            fprintf(file, ": %.4g us, %.4g GB/s, %s</title></circle>\n", p->lines[i].time_us, p->lines[i].busbw_gbps,
                    p->lines[i].in_place ? "in place" : "out of place");
        }
    fprintf(file, "<path d=\"M%d %zu h26\" class=\"line\"/><text x=\"%d\" y=\"%zu\">%s</text>\n</g>\n", WIDTH - RIGHT + 14, y - 4,
            WIDTH - RIGHT + 46, y, name);
}

/* Text that comes from outside goes through here. */
static void write_escaped(FILE *file, const char *text)
{
    for (; *text != '\0' && *text != '\n'; text++)
        switch (*text) {
        case '&': fputs("&amp;", file); break;
        case '<': fputs("&lt;", file); break;
        case '>': fputs("&gt;", file); break;
        default: fputc((unsigned char)*text < ' ' ? ' ' : *text, file);
        }
}

static void write_machine(FILE *file)
{
    char line[256], date[32];
    struct utsname system;
    FILE *cpus = fopen("/proc/cpuinfo", "r");
    while (cpus != NULL && fgets(line, sizeof line, cpus) != NULL)
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':') != NULL) {
            write_escaped(file, strchr(line, ':') + 2);
            fputs(", ", file);
            break;
        }
    if (cpus != NULL)
        fclose(cpus);
    fprintf(file, "%ld cores", sysconf(_SC_NPROCESSORS_ONLN));
    if (uname(&system) == 0) {
        fputs(", ", file);
        write_escaped(file, system.sysname);
        fputc(' ', file);
        write_escaped(file, system.release);
    }
    const time_t now = time(NULL);
    struct tm broken;
    if (localtime_r(&now, &broken) != NULL && strftime(date, sizeof date, "%Y-%m-%d %H:%M", &broken) > 0)
        fprintf(file, ", %s", date);
}

static void write_title(FILE *file, const plot *p)
{
    const bench_line *first = &p->lines[0];
    fprintf(file, "%s of %s", bench_ops[first->plan->op].name, tdm_dtype_name(first->plan->dtype));
    if (bench_ops[first->plan->op].reduces)
        fprintf(file, ", %s", tdm_op_name(first->plan->redop));
    fprintf(file, ", %d ranks, %s", first->ranks, first->transport != NULL ? first->transport : first->engine);
}

static int write_html(const char *path, const bench_line *lines, size_t count, bool by_engine)
{
    plot p = {.lines = lines, .count = count, .by_engine = by_engine};
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return errno;
    survey(&p);
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><title>", file);
    write_title(file, &p);
    fputs("</title>\n<meta name=\"viewport\" content=\"width=device-width\"/>\n"
          "<style>:root{color-scheme:light dark} body{font:14px sans-serif;margin:24px} h1{font-size:22px} div{overflow-x:auto}\n"
          "svg{width:100%;min-width:600px;max-width:1100px;height:auto} svg text{font-size:12px;fill:currentColor} .grid{stroke:#ddd}\n"
          "polyline,.line{fill:none;stroke:currentColor;stroke-width:2} circle{fill:currentColor} .lit polyline{stroke-width:4}\n"
          "@media (prefers-color-scheme:dark){.grid{stroke:#444} .series{filter:brightness(1.5)}}</style></head>\n<body>\n<h1>",
          file);
    write_title(file, &p);
    fprintf(file, "</h1>\n<p>tandem %s. ", tdm_version());
    write_machine(file);
    fprintf(file, ". Medians; in place where the operation has that.</p>\n");
    if (p.series == 0)
        fputs("<p>No result has a bus bandwidth: one rank has no bus, and a barrier moves nothing.</p>\n", file);
    else {
        fprintf(file, "<div><svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\">\n", WIDTH, HEIGHT);
        write_axes(file, &p);
        for (size_t i = 0; i < p.series; i++)
            write_series(file, &p, i);
        fputs("</svg></div>\n<script>document.querySelectorAll('.series').forEach(function (g) {\n"
              "  g.onmouseenter = function () { g.classList.add('lit'); };\n"
              "  g.onmouseleave = function () { g.classList.remove('lit'); };\n});</script>\n", file);
    }
    fputs("</body></html>\n", file);
    const int failed = ferror(file) != 0 ? EIO : 0;
    return fclose(file) != 0 ? errno : failed;
}

bool bench_draw(const char *path, const bench_line *lines, size_t count, bool by_engine)
{
    const int error = count > 0 ? write_html(path, lines, count, by_engine) : 0;
    if (error != 0)
        fprintf(stderr, "tandem bench: --html %s cannot be written: %s\n", path, strerror(error));
    return error == 0;
}
