/* page_tables.c - collectives by operation, size and group; kernels by time. */
#include "doctor/page.h"

#include "core/memory.h"
#include "doctor/job_report.h"
#include "job/kernels.h"

enum { ROWS_SHOWN = 20 };

static void write_bytes(FILE *out, int64_t nbytes)
{
    if (nbytes < 0)
        fputs("not said", out);
    else if (nbytes >= 1000000)
        fprintf(out, "%.1f MB", (double)nbytes / 1e6);
    else
        fprintf(out, "%.1f kB", (double)nbytes / 1e3);
}

static void write_rate(FILE *out, double gbps)
{
    fputs("</td><td>", out);
    if (gbps > 0)
        fprintf(out, "%.2f GB/s", gbps);
}

static void write_collective(FILE *out, const tdmi_traffic *t)
{
    fputs("<tr><td>", out);
    tdmi_page_escape(out, t->op, 60);
    fputs("</td><td>", out);
    write_bytes(out, t->nbytes);
    fprintf(out, "</td><td>%d</td><td>%lld</td><td>", t->group_size, (long long)t->count);
    if (t->lined_up)
        tdmi_page_time(out, (double)t->wait_ns);
    else
        fputs("not to be told", out);
    fputs("</td><td>", out);
    tdmi_page_time(out, (double)t->transfer_ns);
    write_rate(out, t->algbw_gbps);
    write_rate(out, t->busbw_gbps);
    fputs("</td></tr>\n", out);
}

tdm_status tdmi_page_collectives(const tdmi_case *c, FILE *out)
{
    tdmi_traffic *traffic;
    size_t count;
    const tdm_status status = tdmi_traffic_sum(c->job, &traffic, &count);
    if (status != TDM_OK)
        return status;
    if (count > 0)
        fputs("<h2>Collectives</h2>\n<div class=\"wide\"><table><tr><th>operation</th><th>bytes of a rank</th><th>ranks</th><th>times</th>"
              "<th>wait for the last rank</th><th>transfer</th><th>algorithm</th><th>bus</th></tr>\n",
              out);
    for (size_t i = 0; i < count && i < ROWS_SHOWN; i++)
        write_collective(out, &traffic[i]);
    if (count > 0)
        fputs("</table></div>\n", out);
    tdmi_free(traffic);
    return TDM_OK;
}

tdm_status tdmi_page_kernels(const tdmi_case *c, FILE *out)
{
    tdmi_kernels kernels;
    double all_ns = 1;
    const tdm_status status = tdmi_kernels_sum(c->job, &kernels);
    if (status != TDM_OK)
        return status;
    for (size_t i = 0; i < kernels.count; i++)
        all_ns += (double)kernels.of[i].ns;
    if (kernels.count > 0)
        fprintf(out, "<h2>%s by time</h2>\n<div class=\"wide\"><table><tr><th>name</th><th>times</th><th>each</th><th>share</th></tr>\n",
                c->job->on_device ? "Kernels" : "Operators");
    for (size_t i = 0; i < kernels.count && i < ROWS_SHOWN; i++) {
        fputs("<tr><td>", out);
        tdmi_page_escape(out, kernels.of[i].name, 110);
        fprintf(out, "</td><td>%lld</td><td>", (long long)kernels.of[i].count);
        tdmi_page_time(out, (double)kernels.of[i].ns / (double)kernels.of[i].count);
        fprintf(out, "</td><td>%.1f %%</td></tr>\n", 100.0 * (double)kernels.of[i].ns / all_ns);
    }
    if (kernels.count > 0)
        fputs("</table></div>\n", out);
    tdmi_kernels_free(&kernels);
    return TDM_OK;
}
