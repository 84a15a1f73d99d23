/* progress.c - the bar: step, loss, tokens a second, time left, share of communication. */
#include "train/progress.h"

#include "core/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BAR_CELLS 24
#define DRAW_EVERY_NS (100 * TDMI_NS_PER_MS)
#define LINES_A_RUN 20 /* where there is no terminal */

void tdmi_progress_begin(tdmi_progress *p, bool quiet, int64_t first_step, int64_t steps)
{
    *p = (tdmi_progress){.quiet = quiet,
                         .terminal = isatty(STDERR_FILENO) == 1,
                         .first_step = first_step,
                         .steps = steps,
                         .begin_ns = tdmi_now_ns(),
                         .printed_step = first_step};
}

static void format_duration(char *text, size_t nbytes, double seconds)
{
    int64_t s = (int64_t)(seconds + 0.5);
    if (s >= 3600)
        snprintf(text, nbytes, "%lld:%02lld:%02lld", (long long)s / 3600, (long long)s / 60 % 60, (long long)s % 60);
    else
        snprintf(text, nbytes, "%lld:%02lld", (long long)s / 60, (long long)s % 60);
}

void tdmi_progress_step(tdmi_progress *p, int64_t step, double loss, double tokens, double step_ms, double comm_exposed_ms)
{
    if (p->quiet)
        return;
    p->tokens += tokens;
    p->seconds += step_ms / 1e3;
    p->exposed_seconds += comm_exposed_ms / 1e3;
    int64_t now = tdmi_now_ns();
    bool last = step >= p->steps;
    if (p->terminal ? !last && now - p->drawn_ns < DRAW_EVERY_NS
                    : !last && (step - p->printed_step) * LINES_A_RUN < p->steps - p->first_step)
        return;
    p->drawn_ns = now;
    p->printed_step = step;
    double a_step = (double)(now - p->begin_ns) / 1e9 / (double)(step - p->first_step);
    char left[32];
    format_duration(left, sizeof left, a_step * (double)(p->steps - step));
    char bar[BAR_CELLS * 3 + 1] = "";
    if (p->terminal)
        for (int i = 0; i < BAR_CELLS; i++)
            strcat(bar, i * p->steps < step * BAR_CELLS ? "\u2588" : "\u2591"); /* three bytes a cell */
    fprintf(stderr, "%s%s%sstep %lld/%lld  loss %.4f  %.0f tokens/s  left %s  communication %.1f %%%s", p->terminal ? "\r" : "",
            bar, p->terminal ? " " : "", (long long)step, (long long)p->steps, loss, p->seconds > 0 ? p->tokens / p->seconds : 0, left,
            p->seconds > 0 ? p->exposed_seconds / p->seconds * 100 : 0, p->terminal ? "\033[K" : "\n");
    p->line_open = p->terminal;
    p->tokens = p->seconds = p->exposed_seconds = 0;
}

void tdmi_progress_line(tdmi_progress *p, const char *format, ...)
{
    if (p->quiet)
        return;
    char line[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    fprintf(stderr, "%s%s\n", p->line_open ? "\r\033[K" : "", line);
    p->line_open = false;
    p->drawn_ns = 0;
}

void tdmi_progress_end(tdmi_progress *p)
{
    if (p->line_open)
        fputc('\n', stderr);
    p->line_open = false;
}
