/* bench_print.c - results for people (the table of nccl-tests), for programs (JSON lines) and for spreadsheets (CSV). */
#include "bench.h"

#include <stdio.h>
#include <string.h>

static const char *redop_name(const bench_plan *plan)
{
    return bench_ops[plan->op].reduces ? tdm_op_name(plan->redop) : "none";
}

void bench_print_head(bench_format format, const bench_plan *plan, int ranks, const char *transport, const char *sum_order)
{
    if (format == BENCH_CSV)
        printf("op,bytes,count,dtype,redop,ranks,engine,transport,algo,memory,in_place,time_us,time_us_p10,time_us_p90,algbw_gbps,"
               "busbw_gbps,wrong\n");
    if (format != BENCH_TABLE)
        return;
    printf("# tandem %s  %s over %d ranks, %s, %s memory, sum order %s\n", tdm_version(), bench_ops[plan->op].name, ranks, transport,
           plan->malloc_memory ? "malloc" : "tandem", sum_order);
    printf("# medians of %d samples after %d warm-ups; 1 GB = 1e9 bytes\n", plan->iterations, plan->warm_ups);
    printf("#\n#%62s%38s\n", "out-of-place", "in-place");
    printf("#%12s%14s%10s%8s%8s%9s%8s%8s%7s%9s%8s%8s%7s\n", "size", "count", "type", "redop", "root", "time", "algbw", "busbw",
           "#wrong", "time", "algbw", "busbw", "#wrong");
    printf("#%12s%14s%10s%8s%8s%9s%8s%8s%7s%9s%8s%8s%7s\n", "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)",
           "(GB/s)", "(GB/s)", "");
}

static void print_cells(const bench_line *line)
{
    if (line == NULL)
        printf("%9s%8s%8s%7s", "N/A", "N/A", "N/A", "N/A");
    else
        printf("%9.*f%8.2f%8.2f%7llu", line->time_us < 1000 ? 2 : line->time_us < 1e6 ? 1 : 0, line->time_us, line->algbw_gbps,
               line->busbw_gbps, (unsigned long long)line->wrong);
}

static void print_row(const bench_line *lines, size_t count)
{
    const bench_plan *plan = lines->plan;
    const bench_line *places[2] = {NULL, NULL};
    static const char *algorithm = ""; /* of the rows above; a column of its own would not be nccl-tests' table */
    if (strcmp(algorithm, lines->algorithm) != 0)
        printf("# algorithm: %s\n", lines->algorithm);
    algorithm = lines->algorithm;
    for (size_t i = 0; i < count; i++)
        places[lines[i].in_place] = &lines[i];
    printf("%13zu%14zu%10s%8s%8d", lines->bytes, lines->count, tdm_dtype_name(plan->dtype), redop_name(plan), bench_root(plan));
    print_cells(places[0]);
    print_cells(places[1]);
    printf("\n");
}

/* Results of other programs are not. */
static bool is_checked(const bench_line *line)
{
    return line->algorithm != NULL;
}

static void print_name(const char *field, const char *name)
{
    if (name != NULL)
        printf("\"%s\":\"%s\",", field, name);
    else
        printf("\"%s\":null,", field);
}

static void print_json(const bench_line *line)
{
    const bench_plan *plan = line->plan;
    printf("{\"op\":\"%s\",\"bytes\":%zu,\"count\":%zu,\"dtype\":\"%s\",", bench_ops[plan->op].name, line->bytes, line->count,
           tdm_dtype_name(plan->dtype));
    print_name("redop", bench_ops[plan->op].reduces ? tdm_op_name(plan->redop) : NULL);
    printf("\"ranks\":%d,\"engine\":\"%s\",", line->ranks, line->engine);
    print_name("transport", line->transport);
    print_name("algo", line->algorithm);
    printf("\"memory\":\"%s\",\"in_place\":%s,", plan->malloc_memory ? "malloc" : "tandem", line->in_place ? "true" : "false");
    printf("\"time_us\":%.3f,\"time_us_p10\":%.3f,\"time_us_p90\":%.3f,\"algbw_gbps\":%.6g,\"busbw_gbps\":%.6g,",
           line->time_us, line->time_us_p10, line->time_us_p90, line->algbw_gbps, line->busbw_gbps);
    if (is_checked(line))
        printf("\"wrong\":%llu}\n", (unsigned long long)line->wrong);
    else
        printf("\"wrong\":null}\n");
}

static void print_csv(const bench_line *line)
{
    const bench_plan *plan = line->plan;
    printf("%s,%zu,%zu,%s,%s,%d,%s,%s,%s,%s,%s,%.3f,%.3f,%.3f,%.6g,%.6g,", bench_ops[plan->op].name, line->bytes, line->count,
           tdm_dtype_name(plan->dtype), bench_ops[plan->op].reduces ? tdm_op_name(plan->redop) : "", line->ranks, line->engine,
           line->transport != NULL ? line->transport : "", line->algorithm != NULL ? line->algorithm : "",
           plan->malloc_memory ? "malloc" : "tandem", line->in_place ? "true" : "false", line->time_us, line->time_us_p10,
           line->time_us_p90, line->algbw_gbps, line->busbw_gbps);
    if (is_checked(line))
        printf("%llu", (unsigned long long)line->wrong);
    printf("\n");
}

void bench_print_lines(bench_format format, const bench_line *lines, size_t count)
{
    if (format == BENCH_TABLE)
        print_row(lines, count);
    for (size_t i = 0; i < count && format != BENCH_TABLE; i++)
        if (format == BENCH_JSON)
            print_json(&lines[i]);
        else
            print_csv(&lines[i]);
    fflush(stdout);
}

void bench_print_foot(bench_format format, uint64_t wrong, double sum_of_busbw, size_t lines)
{
    if (format != BENCH_TABLE)
        return;
    printf("# Wrong elements        : %llu %s\n", (unsigned long long)wrong, wrong == 0 ? "OK" : "FAILED");
    printf("# Average bus bandwidth : %.4g GB/s\n", lines > 0 ? sum_of_busbw / (double)lines : 0.0);
}
