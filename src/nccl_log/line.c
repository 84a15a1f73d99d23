/* line.c - finding the heads of records. A head is looked for backwards from the words "NCCL INFO" and "NCCL WARN", because
 * launchers, clocks and other ranks may have written anything before it. */
#include "nccl_log/line.h"

#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_of_a_host(char c)
{
    /* "<" and ">": logs in reports often have "<host>" for the name */
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '.' || c == '<' || c == '>';
}

/* Number of `digits` digits at `at`, or -1. */
static int64_t fixed(tdmi_span text, size_t at, size_t digits)
{
    int64_t value = 0;
    if (at + digits > text.nbytes)
        return -1;
    for (size_t i = 0; i < digits; i++) {
        if (!is_digit(text.at[at + i]))
            return -1;
        value = value * 10 + (text.at[at + i] - '0');
    }
    return value;
}

/* Seconds of a date without a zone: good for comparing. */
static int64_t seconds_of(int64_t year, int64_t month, int64_t day, int64_t hour, int64_t minute, int64_t second)
{
    if (month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 60)
        return -1;
    return ((((year * 12 + month) * 31 + day) * 24 + hour) * 60 + minute) * 60 + second;
}

/* "2025-11-30 12:34:56" or with a T. */
static int64_t long_time(tdmi_span text, size_t at)
{
    if (at + 19 > text.nbytes || text.at[at + 4] != '-' || text.at[at + 7] != '-' || (text.at[at + 10] != ' ' && text.at[at + 10] != 'T') ||
        text.at[at + 13] != ':' || text.at[at + 16] != ':')
        return -1;
    const int64_t y = fixed(text, at, 4), mo = fixed(text, at + 5, 2), d = fixed(text, at + 8, 2), h = fixed(text, at + 11, 2),
                  mi = fixed(text, at + 14, 2), s = fixed(text, at + 17, 2);
    return y < 0 || mo < 0 || d < 0 || h < 0 || mi < 0 || s < 0 ? -1 : seconds_of(y, mo, d, h, mi, s);
}

/* glog's "E1130 12:34:56.789": the year is not there. */
static int64_t glog_time(tdmi_span text, size_t at)
{
    if (at + 14 > text.nbytes || strchr("IWEF", text.at[at]) == NULL || text.at[at + 5] != ' ' || text.at[at + 8] != ':' ||
        text.at[at + 11] != ':')
        return -1;
    const int64_t mo = fixed(text, at + 1, 2), d = fixed(text, at + 3, 2), h = fixed(text, at + 6, 2), mi = fixed(text, at + 9, 2),
                  s = fixed(text, at + 12, 2);
    return mo < 0 || d < 0 || h < 0 || mi < 0 || s < 0 ? -1 : seconds_of(0, mo, d, h, mi, s);
}

int64_t tdmi_nccl_prefix_time(tdmi_span line)
{
    const size_t end = line.nbytes < 96 ? line.nbytes : 96; /* prefixes are short */
    for (size_t at = 0; at < end; at++) {
        if (at > 0 && line.at[at - 1] != '[' && line.at[at - 1] != ' ' && line.at[at - 1] != ':')
            continue;
        int64_t time_s = long_time(line, at);
        if (time_s < 0)
            time_s = glog_time(line, at);
        if (time_s >= 0)
            return time_s;
    }
    return -1;
}

/* "[rank3]:", "[default3]:", "[3]:", "3: ", "[1,3]<stdout>:" */
int64_t tdmi_nccl_prefix_rank(tdmi_span line)
{
    int64_t rank, job;
    tdmi_span rest;
    if (tdmi_match(line, "[rank%d]%@", &rank, &rest) || tdmi_match(line, "[default%d]:%@", &rank, &rest) ||
        tdmi_match(line, "[%d]:%@", &rank, &rest) || tdmi_match(line, "[%d,%d]<%@", &job, &rank, &rest))
        return rank;
    if (tdmi_match(line, "%d:%@", &rank, &rest) && rest.nbytes > 0 && *rest.at == ' ' && rank >= 0)
        return rank;
    return -1;
}

/* The start of the run of characters that are no space and end before `end`. */
static size_t word_before(tdmi_span line, size_t end, size_t floor)
{
    size_t at = end;
    while (at > floor && line.at[at - 1] != ' ' && line.at[at - 1] != '\t')
        at--;
    return at;
}

/* Where the blanks in front of `end` begin. */
static size_t before_blanks(tdmi_span line, size_t end, size_t floor)
{
    while (end > floor && line.at[end - 1] == ' ')
        end--;
    return end;
}

/* "host:pid:tid" in [start, end): gives where the host begins. Behind a prefix without a space, "[rank0]:host:1:2", the name is
 * what may be a host's. */
static bool host_pid_tid(tdmi_span line, size_t start, size_t end, tdmi_nccl_record *out, size_t *host_at)
{
    size_t at = end;
    int64_t *numbers[2] = {&out->tid, &out->pid};
    for (int i = 0; i < 2; i++) {
        const size_t last = at;
        while (at > start && is_digit(line.at[at - 1]))
            at--;
        if (at == last || last - at > 10 || at == start || line.at[at - 1] != ':')
            return false;
        *numbers[i] = fixed(line, at, last - at);
        at--;
    }
    size_t first = at;
    while (first > start && is_of_a_host(line.at[first - 1]))
        first--;
    out->host = (tdmi_span){line.at + first, at - first};
    *host_at = first;
    return out->host.nbytes > 0 && out->host.nbytes < 256;
}

/* The head in front of the words at `mark`; false: none, or a damaged one. */
static bool read_head(tdmi_span line, size_t floor, size_t mark, tdmi_nccl_record *out, size_t *begins)
{
    size_t end = before_blanks(line, mark, floor);
    size_t start = word_before(line, end, floor);
    if (out->warning && end > start && line.at[end - 1] != ']') {
        out->source = (tdmi_span){line.at + start, end - start};
        end = before_blanks(line, start, floor);
        start = word_before(line, end, floor);
    }
    if (!tdmi_match((tdmi_span){line.at + start, end - start}, "[%d]", &out->device))
        return false;
    end = before_blanks(line, start, floor);
    start = word_before(line, end, floor);
    return host_pid_tid(line, start, end, out, begins);
}

/* The next mark at or behind `at`; nbytes where there is none. */
static size_t find_mark(tdmi_span line, size_t at, bool *warning)
{
    for (;;) {
        const tdmi_span rest = tdmi_span_from(line, at);
        at += tdmi_span_find(rest, "NCCL ");
        if (at >= line.nbytes)
            return line.nbytes;
        const tdmi_span level = tdmi_span_from(line, at + 5);
        *warning = tdmi_span_starts(level, "WARN ");
        if (*warning || tdmi_span_starts(level, "INFO "))
            return at;
        at += 5;
    }
}

/* Takes away what another record left in front of the name. */
static void shorten(const tdmi_nccl_known_hosts *known, tdmi_nccl_record *record, size_t *begins)
{
    for (size_t i = 0; i < record->host.nbytes; i++)
        if (known->has(known->arg, tdmi_span_from(record->host, i))) {
            record->host = tdmi_span_from(record->host, i);
            *begins += i;
            return;
        }
}

bool tdmi_nccl_next_record(tdmi_span line, size_t *at, const tdmi_nccl_known_hosts *known, tdmi_nccl_record *out)
{
    bool warning = false, next_warning = false;
    for (size_t mark; *at < line.nbytes && (mark = find_mark(line, *at, &warning)) < line.nbytes;) {
        const size_t text_at = mark + strlen("NCCL INFO "), floor = *at;
        size_t begins = 0, next = find_mark(line, text_at, &next_warning), next_begins = next;
        *out = (tdmi_nccl_record){.warning = warning, .source = {line.at, 0}, .rank = -1, .time_s = -1};
        *at = text_at;
        if (!read_head(line, floor, mark, out, &begins))
            continue;
        if (floor > 0)
            shorten(known, out, &begins);
        if (next < line.nbytes) { /* another rank wrote into this line: the text ends where its head begins */
            tdmi_nccl_record other = {.warning = next_warning};
            if (read_head(line, text_at, next, &other, &next_begins))
                shorten(known, &other, &next_begins);
            else
                next_begins = next;
        }
        out->text = (tdmi_span){line.at + text_at, next_begins - text_at};
        *at = next_begins;
        const tdmi_span before = {line.at + floor, begins - floor};
        out->rank = tdmi_nccl_prefix_rank(before);
        out->time_s = tdmi_nccl_prefix_time(before);
        return true;
    }
    return false;
}
