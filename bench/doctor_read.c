/* doctor_read.c - how fast profiler traces become tables.
 *
 *   doctor_read [--times N] [--threads N] [--memory MIB] FILE-OR-FOLDER...
 *
 * A line a reading: MB (10^6 bytes) of JSON a second of wall time, and a second of all cores' time; the last line has the best of both and
 * the peak of memory. The first reading may come from the disk. */
#include "kineto/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    int times = 3, first = 1;
    tdmi_trace_options options = {0};
    for (; first + 1 < argc && strncmp(argv[first], "--", 2) == 0; first += 2) {
        const int value = atoi(argv[first + 1]);
        if (strcmp(argv[first], "--times") == 0)
            times = value;
        else if (strcmp(argv[first], "--threads") == 0)
            options.threads = value;
        else if (strcmp(argv[first], "--memory") == 0)
            options.memory_bytes = (size_t)value << 20;
        else
            break;
    }
    if (first >= argc) {
        fprintf(stderr, "usage: doctor_read [--times N] [--threads N] [--memory MIB] FILE-OR-FOLDER...\n");
        return 2;
    }
    double best_wall = 0, best_core = 0;
    for (int i = 0; i < times; i++) {
        tdmi_job_traces *job;
        const double wall = seconds(CLOCK_MONOTONIC), core = seconds(CLOCK_PROCESS_CPUTIME_ID);
        if (tdmi_job_traces_read((const char *const *)argv + first, (size_t)(argc - first), &options, &job) != TDM_OK) {
            fprintf(stderr, "%s\n", tdm_error_text());
            return 3;
        }
        const double wall_s = seconds(CLOCK_MONOTONIC) - wall, core_s = seconds(CLOCK_PROCESS_CPUTIME_ID) - core;
        double mb = 0;
        size_t events = 0;
        for (size_t r = 0; r < job->count; r++) {
            mb += (double)job->rank[r]->text_bytes / 1e6;
            events += job->rank[r]->event_count;
        }
        best_wall = mb / wall_s > best_wall ? mb / wall_s : best_wall;
        best_core = mb / core_s > best_core ? mb / core_s : best_core;
        printf("%zu ranks, %.1f MB, %zu events: %.3f s, %.0f MB/s; %.0f MB a core's second\n", job->count, mb, events, wall_s, mb / wall_s, mb / core_s);
        tdmi_job_traces_free(job);
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("best %.0f MB/s, %.0f MB a core's second; peak memory %.0f MiB\n", best_wall, best_core, (double)usage.ru_maxrss / 1024);
    return 0;
}
