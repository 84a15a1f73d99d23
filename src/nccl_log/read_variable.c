/* read_variable.c - NCCL_* variables: those NCCL says it has read, and those a shell or a job script shows that it set.
 * Formats: misc/param.cc "NCCL_X set by environment to Y.", others "NCCL_IB_HCA set to Y", plugins "NCCL_X set by environment to Y". */
#include "nccl_log/tables.h"

#include <string.h>

static bool is_name(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static size_t name_length(tdmi_span text)
{
    size_t n = 0;
    while (n < text.nbytes && n < 64 && is_name(text.at[n]))
        n++;
    return n;
}

static void add(tdmi_nccl_log *log, uint32_t host, tdmi_span name, tdmi_span value, bool echoed)
{
    const tdmi_nccl_variable key = {.name = tdmi_nccl_name(log, name), .value = tdmi_nccl_name(log, value), .host = host, .echoed = echoed};
    tdmi_nccl_variable *variable = tdmi_nccl_variable_add(log, &key);
    if (variable != NULL)
        variable->count++;
}

bool tdmi_nccl_read_variable(const tdmi_nccl_place *place)
{
    tdmi_span text = place->record->text, value;
    if (tdmi_span_starts(text, "NET/Plugin: NCCL_") || tdmi_span_starts(text, "TUNER/Plugin: NCCL_"))
        text = tdmi_span_from(text, tdmi_span_find(text, "NCCL_"));
    if (!tdmi_span_starts(text, "NCCL_"))
        return false;
    const tdmi_span name = {text.at, name_length(text)};
    const tdmi_span rest = tdmi_span_from(text, name.nbytes);
    if (!tdmi_match(rest, " set by environment to %r", &value) && !tdmi_match(rest, " set to %r", &value))
        return false;
    while (value.nbytes > 0 && (value.at[value.nbytes - 1] == ' ' || value.at[value.nbytes - 1] == '.'))
        value.nbytes--;
    add(place->log, place->host, name, value, true);
    return true;
}

/* What stands behind "=": up to the closing quote, or to what ends a word of a shell. A comma inside is the value's. */
static tdmi_span value_of(tdmi_span rest)
{
    const char quote = *rest.at == '"' || *rest.at == '\'' ? *rest.at : '\0';
    size_t n = 0;
    if (quote != '\0') {
        rest = tdmi_span_from(rest, 1);
        while (n < rest.nbytes && rest.at[n] != quote)
            n++;
        return (tdmi_span){rest.at, n};
    }
    while (n < rest.nbytes && rest.at[n] != '\0' && strchr(" \t;)\"'", rest.at[n]) == NULL)
        n++;
    if (n > 0 && rest.at[n - 1] == ',')
        n--;
    return (tdmi_span){rest.at, n};
}

/* "export NCCL_X=y", "+ NCCL_X=y python", "-x NCCL_X=y", "NCCL_X=y" of printenv: every one of a line. */
static void read_assignments(tdmi_nccl_log *log, tdmi_span line)
{
    char before = ' ';
    for (size_t at; (at = tdmi_span_find(line, "NCCL_")) < line.nbytes;) {
        if (at > 0)
            before = line.at[at - 1];
        const bool own_word = !is_name(before) && (before < 'a' || before > 'z') && before != '$' && before != '{';
        const tdmi_span from = tdmi_span_from(line, at), name = {from.at, name_length(from)};
        line = tdmi_span_from(from, name.nbytes);
        before = 'A';
        if (!own_word || line.nbytes < 2 || *line.at != '=' || line.at[1] == '=' || line.at[1] == ' ')
            continue;
        const tdmi_span value = value_of(tdmi_span_from(line, 1));
        if (value.nbytes == 0)
            continue;
        add(log, TDMI_NCCL_NONE, name, value, false);
        line = tdmi_span_from(line, (size_t)(value.at + value.nbytes - line.at));
        before = ' ';
    }
}

/* "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=12, OpType=ALLREDUCE, ..., Timeout(ms)=600000) ran for ..." */
static void read_watchdog(tdmi_nccl_log *log, tdmi_span line, uint32_t file)
{
    const size_t at = tdmi_span_find(line, "Watchdog caught collective operation timeout");
    const tdmi_span text = tdmi_span_from(line, at);
    tdmi_span op;
    if (at == line.nbytes)
        return;
    tdmi_nccl_message key = {.kind = TDMI_NCCL_WATCHDOG,
                             .process = TDMI_NCCL_NONE,
                             .file = file,
                             .order = log->lines,
                             .time_s = tdmi_nccl_prefix_time(line),
                             .rank = tdmi_nccl_prefix_rank(line),
                             .peer = "",
                             .source = "",
                             .op = ""};
    for (size_t i = 0; i + 6 < at; i++) { /* "[Rank 3]" before 2.3, "[PG 0 Rank 3]" and longer since */
        int64_t rank;
        if (tdmi_match(tdmi_span_from(line, i), "Rank %d]", &rank))
            key.rank = rank;
    }
    if (tdmi_match(tdmi_span_from(text, tdmi_span_find(text, "OpType=")), "OpType=%w,", &op))
        key.op = tdmi_nccl_name(log, op);
    key.text = tdmi_nccl_name(log, text);
    tdmi_nccl_message *message = tdmi_nccl_message_add(log, &key);
    if (message != NULL)
        message->count++;
}

void tdmi_nccl_read_plain(tdmi_nccl_log *log, tdmi_span line, uint32_t file)
{
    const size_t version = tdmi_span_find(line, "NCCL version ");
    if (version < line.nbytes && tdmi_nccl_read_version(log, TDMI_NCCL_NONE, tdmi_span_from(line, version))) {
        log->records++;
        return;
    }
    read_watchdog(log, line, file);
    read_assignments(log, line);
}
