/* page.c - the frame of the page, verdict, findings, the bars of where an iteration goes. */
#include "doctor/page.h"

#include "core/error.h"
#include "doctor/job_report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* By part of a split: its class in the style sheet, and what people call it. */
typedef struct part {
    const char *class, *title;
    size_t field;
} part;

static const part parts[] = {
    {"compute", "compute", offsetof(tdmi_split, compute_ns)},
    {"comm", "exposed communication", offsetof(tdmi_split, comm_exposed_ns)},
    {"copy", "copies", offsetof(tdmi_split, copy_ns)},
    {"data", "data loading", offsetof(tdmi_split, data_ns)},
    {"sync", "idle: host waits for the device", offsetof(tdmi_split, sync_ns)},
    {"host", "idle: host behind", offsetof(tdmi_split, host_ns)},
    {"kernel", "idle: between kernels", offsetof(tdmi_split, kernel_ns)},
    {"other", "other", offsetof(tdmi_split, other_ns)},
};
enum { PARTS = sizeof parts / sizeof *parts };

static const char style[] =
    ":root{color-scheme:light dark;--line:#ddd;--soft:#f4f5f7;--compute:#15803d;--comm:#d9600b;--copy:#a16207;--data:#b91c1c;--sync:#8b3fd6;"
    "--host:#0b6e99;--kernel:#7c8796;--other:#b9c0ca;--forward:#3b9c5f;--backward:#1d6f8a;--optimizer:#a8559d}\n"
    "@media (prefers-color-scheme:dark){:root{--line:#3a3f47;--soft:#1d2127;--compute:#3fae69;--comm:#f08a3c;--copy:#d0a03a;--data:#ef5a5a;"
    "--sync:#b98af0;--host:#4aa8d8;--kernel:#8a94a3;--other:#59616d;--forward:#5cc183;--backward:#4fa6c4;--optimizer:#d188c7}}\n"
    "*{box-sizing:border-box} body{font:15px/1.45 system-ui,sans-serif;margin:0 auto;padding:20px 16px 48px;max-width:1120px}\n"
    "h1{font-size:22px;margin:0 0 4px} h2{font-size:17px;margin:32px 0 8px} p{margin:6px 0} .quiet{overflow-wrap:anywhere;opacity:.72;font-size:13px;white-space:pre-line}\n"
    ".verdict{font-size:17px;margin:14px 0} .card{border:1px solid var(--line);border-left:5px solid var(--comm);border-radius:6px;padding:10px 14px;margin:10px 0}\n"
    ".card b.gain{float:right;font-size:19px;margin-left:12px} .card h3{font-size:15px;margin:0} .card dl{display:flex;flex-wrap:wrap;gap:2px 18px;margin:8px 0 0;font-size:13px}\n"
    ".says::first-letter{text-transform:uppercase} .card dl div{display:flex;gap:6px} .card dt{opacity:.7} .card dd{margin:0} .card dd,.card p{overflow-wrap:anywhere}\n"
    ".bar{display:flex;align-items:center;gap:8px;margin:3px 0} .bar .name{flex:0 0 76px;text-align:right;font-size:13px} .bar .parts{flex:1;display:flex;height:20px;overflow:hidden;border-radius:3px;background:var(--soft)}\n"
    ".bar .time{flex:0 0 76px;font-size:13px} .bar i{display:block;height:100%;min-width:0} .key{display:flex;flex-wrap:wrap;gap:2px 14px;font-size:13px;margin:6px 0}\n"
    ".key i{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:5px}\n"
    ".compute{background:var(--compute);fill:var(--compute)} .comm{background:var(--comm);fill:var(--comm)} .copy{background:var(--copy);fill:var(--copy)}\n"
    ".data{background:var(--data);fill:var(--data)} .sync{background:var(--sync);fill:var(--sync)} .host{background:var(--host);fill:var(--host)}\n"
    ".kernel{background:var(--kernel);fill:var(--kernel)} .other{background:var(--other);fill:var(--other)} .forward{background:var(--forward);fill:var(--forward)}\n"
    ".backward{background:var(--backward);fill:var(--backward)} .optimizer{background:var(--optimizer);fill:var(--optimizer)}\n"
    ".wide{overflow-x:auto} svg{display:block;width:100%;min-width:640px;height:auto} svg text{font-size:11px;fill:currentColor} .grid{stroke:var(--line)} .lane{fill:var(--soft)}\n"
    "table{border-collapse:collapse;font-size:13px;width:100%} th{font-weight:600;text-align:right;border-bottom:1px solid var(--line);padding:3px 8px} td{text-align:right;padding:3px 8px;white-space:nowrap}\n"
    "th:first-child,td:first-child{text-align:left;white-space:normal;overflow-wrap:anywhere;min-width:120px}\n";

void tdmi_page_escape(FILE *out, const char *text, size_t most)
{
    size_t length = 0;
    for (; *text != '\0'; text++, length++) {
        if (length >= most && ((unsigned char)*text & 0xc0) != 0x80) { /* not within a character */
            fputs("...", out);
            return;
        }
        switch (*text) {
        case '&': fputs("&amp;", out); break;
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '"': fputs("&quot;", out); break;
        default: fputc((unsigned char)*text < ' ' && *text != '\n' ? ' ' : *text, out);
        }
    }
}

void tdmi_page_time(FILE *out, double ns)
{
    if (ns == 0)
        fputc('0', out);
    else if (ns >= 1e9)
        fprintf(out, "%.2f s", ns / 1e9);
    else if (ns >= 1e6)
        fprintf(out, "%.*f ms", ns >= 1e8 ? 0 : 1, ns / 1e6);
    else
        fprintf(out, "%.*f us", ns >= 1e5 ? 0 : 1, ns / 1e3);
}

/* Of lists in evidence. */
#define ITEMS_MAX 8

static void write_name(FILE *out, const char *name) /* "comm_exposed_pct" */
{
    for (; *name != '\0'; name++)
        fputc(*name == '_' ? ' ' : *name, out);
}

static void write_value(FILE *out, const json_t *value)
{
    if (json_is_integer(value))
        fprintf(out, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        fprintf(out, "%.4g", json_real_value(value));
    else if (json_is_string(value))
        tdmi_page_escape(out, json_string_value(value), 200);
    else if (json_is_boolean(value))
        fputs(json_is_true(value) ? "yes" : "no", out);
    else if (json_is_null(value))
        fputs("not known", out);
    else if (json_is_array(value))
        for (size_t i = 0; i < json_array_size(value) && i <= ITEMS_MAX; i++) {
            fputs(i == 0 ? "" : i < ITEMS_MAX ? "; " : "; ...", out);
            if (i < ITEMS_MAX)
                write_value(out, json_array_get(value, i));
        }
    else {
        const char *name;
        json_t *member;
        int written = 0;
        json_object_foreach((json_t *)value, name, member)
        {
            fputs(written++ > 0 ? ", " : "", out);
            write_name(out, name);
            fputc(' ', out);
            write_value(out, member);
        }
    }
}

static void write_finding(FILE *out, const tdmi_finding *f)
{
    fprintf(out, "<section class=\"card\"><b class=\"gain\">%.0f %%</b><h3>", f->gain.pct);
    write_name(out, f->id);
    if (f->rank >= 0)
        fprintf(out, ", rank %d", f->rank);
    fputs("</h3>\n<p class=\"says\">", out);
    tdmi_page_escape(out, f->text, SIZE_MAX);
    fputs(".</p>\n<p><b>What to change.</b> ", out);
    tdmi_page_escape(out, f->advice, SIZE_MAX);
    fprintf(out, ".</p>\n<p class=\"quiet\">An iteration would take ");
    tdmi_page_time(out, (double)f->gain.without_ns);
    fprintf(out, ", %.1f %% less (%.1f to %.1f), by replaying the job without this cause. More: docs/findings/%s.md</p>\n<dl>", f->gain.pct,
            f->gain.low, f->gain.high, f->id);
    const char *name;
    json_t *value;
    json_object_foreach(f->evidence, name, value)
    {
        fputs("<div><dt>", out);
        write_name(out, name);
        fputs("</dt><dd>", out);
        write_value(out, value);
        fputs("</dd></div>", out);
    }
    fputs("</dl></section>\n", out);
}

/* All bars have one scale, so that a slow rank is the longer one. */
static void write_bars(const tdmi_case *c, FILE *out)
{
    int64_t longest = 1;
    for (size_t r = 0; r < c->breakdown->ranks; r++)
        if (c->breakdown->mean[r].length_ns > longest)
            longest = c->breakdown->mean[r].length_ns;
    fputs("<div class=\"key\">", out);
    for (int p = 0; p < PARTS; p++)
        fprintf(out, "<span><i class=\"%s\"></i>%s</span>", parts[p].class, parts[p].title);
    fputs("</div>\n", out);
    for (size_t r = 0; r < c->breakdown->ranks; r++) {
        const tdmi_split *split = &c->breakdown->mean[r];
        fprintf(out, "<div class=\"bar\"><span class=\"name\">rank %d</span><span class=\"parts\">", c->job->rank[r].number);
        for (int p = 0; p < PARTS; p++) {
            const int64_t ns = tdmi_split_ns(split, parts[p].field);
            if (ns <= 0)
                continue;
            fprintf(out, "<i class=\"%s\" style=\"width:%.2f%%\" title=\"%s ", parts[p].class, 100.0 * (double)ns / (double)longest,
                    parts[p].title);
            tdmi_page_time(out, (double)ns);
            fprintf(out, ", %.1f %%\"></i>", 100.0 * (double)ns / (double)(split->length_ns > 0 ? split->length_ns : 1));
        }
        fputs("</span><span class=\"time\">", out);
        tdmi_page_time(out, (double)split->length_ns);
        fputs("</span></div>\n", out);
    }
}

static void write_head(const tdmi_diagnosis *d, FILE *out)
{
    char title[TDMI_JOB_TITLE_BYTES];
    fputs("<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\"><head><meta charset=\"utf-8\"/><title>tandem doctor</title>\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<style>",
          out);
    fputs(style, out);
    fputs("</style></head>\n<body>\n<h1>tandem doctor</h1>\n<p>", out);
    tdmi_job_title(&d->c, title);
    tdmi_page_escape(out, title, SIZE_MAX);
    fputs("</p>\n<p class=\"quiet\">", out);
    for (size_t i = 0; i < d->traces->note_count; i++) {
        tdmi_page_escape(out, d->traces->note[i], SIZE_MAX);
        fputc('\n', out);
    }
    for (size_t r = 0; r < d->job->ranks; r++)
        for (size_t i = 0; i < d->job->rank[r].trace->note_count; i++) {
            fprintf(out, "rank %d: ", d->job->rank[r].number);
            tdmi_page_escape(out, d->job->rank[r].trace->note[i], SIZE_MAX);
            fputc('\n', out);
        }
    fputs("</p>\n", out);
    if (d->findings.count == 0)
        fprintf(out, "<p class=\"verdict\">%s</p>\n", d->c.model->now_ns <= 0 ? "Nothing in the trace takes time."
                                                   : tdmi_case_computes(&d->c) ? "Healthy: limited by computation."
                                                                               : "No single cause, and less than half of an iteration is computation.");
    else
        fputs("<h2>What holds it back</h2>\n", out);
    for (size_t f = 0; f < d->findings.count; f++)
        write_finding(out, &d->findings.of[f]);
}

static tdm_status write_body(const tdmi_diagnosis *d, FILE *out)
{
    write_head(d, out);
    fputs("<h2>Where an iteration goes</h2>\n", out);
    write_bars(&d->c, out);
    tdm_status status = tdmi_page_timeline(&d->c, out);
    status = status != TDM_OK ? status : tdmi_page_collectives(&d->c, out);
    status = status != TDM_OK ? status : tdmi_page_kernels(&d->c, out);
    fprintf(out, "<p class=\"quiet\">tandem %s</p>\n</body></html>\n", tdm_version());
    return status;
}

/* What must not be replaced: a device, a pipe, and a trace that the page is of. */
static tdm_status may_replace(const tdmi_diagnosis *d, const char *path)
{
    struct stat there, trace;
    if (lstat(path, &there) == 0 && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode) && !S_ISLNK(there.st_mode))
        return tdmi_fail(TDM_ERR_INVALID, "%s is no plain file, and the report replaces what is there; give another place with --report", path);
    for (size_t i = 0; i < d->traces->count && stat(path, &there) == 0; i++)
        if (stat(d->traces->rank[i]->path, &trace) == 0 && trace.st_dev == there.st_dev && trace.st_ino == there.st_ino)
            return tdmi_fail(TDM_ERR_INVALID, "%s is a trace that the report is of, and the report would replace it; give another place with --report", path);
    return TDM_OK;
}

static tdm_status replace(const char *path, const char *text, size_t nbytes)
{
    char *beside = NULL;
    if (asprintf(&beside, "%s.%d.tmp", path, (int)getpid()) < 0)
        return tdmi_fail(TDM_ERR_NO_MEMORY, "no memory for the name of %s", path);
    FILE *file = fopen(beside, "w");
    int error = file == NULL ? errno : 0;
    if (file != NULL && fwrite(text, 1, nbytes, file) != nbytes)
        error = errno;
    if (file != NULL && fclose(file) != 0 && error == 0)
        error = errno;
    if (error == 0 && rename(beside, path) != 0)
        error = errno;
    if (error != 0 && file != NULL)
        (void)unlink(beside);
    free(beside);
    return error == 0 ? TDM_OK : tdmi_fail(TDM_ERR_BAD_FILE, "cannot write the report %s: %s; give another place with --report", path, strerror(error));
}

tdm_status tdmi_page_write(const tdmi_diagnosis *d, const char *path)
{
    char *text = NULL;
    size_t nbytes = 0;
    FILE *out = open_memstream(&text, &nbytes);
    if (out == NULL)
        return tdmi_fail(TDM_ERR_NO_MEMORY, "no memory for the report %s", path);
    tdm_status status = write_body(d, out);
    if (fclose(out) != 0 && status == TDM_OK)
        status = tdmi_fail(TDM_ERR_NO_MEMORY, "no memory for the report %s", path);
    if (status == TDM_OK)
        status = may_replace(d, path);
    if (status == TDM_OK)
        status = replace(path, text, nbytes);
    free(text);
    return status;
}
