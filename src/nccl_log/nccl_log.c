/* nccl_log.c - files to lines, lines to records, records to their readers; and the questions findings ask. */
#include "nccl_log/nccl_log.h"

#include "core/memory.h"
#include "nccl_log/tables.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES_MAX ((size_t)1 << 16) /* NCCL writes at most 1,024 bytes at once; what is longer is read in pieces of this */

tdm_status tdmi_nccl_log_create(tdmi_nccl_log **out)
{
    tdmi_nccl_log *log = tdmi_calloc(1, sizeof *log, "nccl log");
    if (log == NULL)
        return TDM_ERR_NO_MEMORY;
    log->largest = TDMI_NCCL_NONE;
    log->cuda = log->collnet_plugin = "";
    const tdm_status status = tdmi_nccl_tables_create(log);
    if (status != TDM_OK) {
        tdmi_nccl_log_free(log);
        return status;
    }
    *out = log;
    return TDM_OK;
}

void tdmi_nccl_log_free(tdmi_nccl_log *log)
{
    if (log == NULL)
        return;
    tdmi_nccl_tables_free(log);
    tdmi_free(log->by_rank);
    tdmi_free(log);
}

static void read_record(tdmi_nccl_log *log, const tdmi_nccl_record *record)
{
    tdmi_nccl_place place = {.log = log, .record = record, .host = TDMI_NCCL_NONE, .file = (uint32_t)log->files};
    log->records++;
    place.process = tdmi_nccl_process_at(log, record);
    if (place.process == TDMI_NCCL_NONE)
        return;
    tdmi_nccl_process *process = &log->process[place.process];
    place.host = process->host;
    if (process->device < 0)
        process->device = record->device;
    if (record->rank >= 0)
        process->prefix_rank = record->rank;
    if (record->warning) {
        (void)tdmi_nccl_read_warning(&place);
        return;
    }
    (void)(tdmi_nccl_read_transport(&place) || tdmi_nccl_read_comm(&place) || tdmi_nccl_read_start(&place) ||
           tdmi_nccl_read_topology(&place) || tdmi_nccl_read_choice(&place) || tdmi_nccl_read_variable(&place) ||
           tdmi_nccl_read_warning(&place));
}

tdm_status tdmi_nccl_log_line(tdmi_nccl_log *log, const char *line, size_t nbytes)
{
    const tdmi_span span = {line, nbytes};
    const tdmi_nccl_known_hosts known = {.has = tdmi_nccl_host_is_known, .arg = log};
    tdmi_nccl_record record;
    size_t at = 0;
    bool any = false;
    log->lines++;
    while (tdmi_nccl_next_record(span, &at, &known, &record)) {
        any = true;
        read_record(log, &record);
    }
    if (!any)
        tdmi_nccl_read_plain(log, span, (uint32_t)log->files);
    return tdmi_nccl_tables_status(log);
}

static int by_comm_and_rank(const void *a, const void *b, void *arg)
{
    const tdmi_nccl_log *log = arg;
    const tdmi_nccl_member *x = &log->member[*(const uint32_t *)a], *y = &log->member[*(const uint32_t *)b];
    if (x->comm != y->comm)
        return x->comm < y->comm ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

tdm_status tdmi_nccl_log_finish(tdmi_nccl_log *log)
{
    log->by_rank = tdmi_calloc(log->members + 1, sizeof *log->by_rank, "nccl log");
    if (log->by_rank == NULL)
        return TDM_ERR_NO_MEMORY;
    for (uint32_t m = 0; m < log->members; m++)
        log->by_rank[m] = m;
    qsort_r(log->by_rank, log->members, sizeof *log->by_rank, by_comm_and_rank, log);
    for (uint32_t c = 0; c < log->comms; c++)
        if (log->comm[c].members > 0 && (log->largest == TDMI_NCCL_NONE || log->comm[c].ranks > log->comm[log->largest].ranks))
            log->largest = c;
    for (uint32_t m = 0; m < log->members; m++) {
        const tdmi_nccl_member *member = &log->member[m];
        tdmi_nccl_process *process = &log->process[member->process];
        const int64_t ranks = log->comm[member->comm].ranks;
        if (ranks <= process->size)
            continue;
        process->size = ranks;
        process->rank = member->rank;
    }
    return TDM_OK;
}

/* A buffer of whole lines: fills, hands the lines on, keeps the piece behind the last. */
static tdm_status read_lines(tdmi_nccl_log *log, FILE *file, char *buffer)
{
    size_t used = 0, got;
    tdm_status status = TDM_OK;
    while (status == TDM_OK && (got = fread(buffer + used, 1, LINE_BYTES_MAX - used, file)) > 0) {
        size_t at = 0;
        used += got;
        for (const char *end; status == TDM_OK && (end = memchr(buffer + at, '\n', used - at)) != NULL; at = (size_t)(end - buffer) + 1) {
            size_t nbytes = (size_t)(end - buffer) - at;
            if (nbytes > 0 && buffer[at + nbytes - 1] == '\r')
                nbytes--;
            status = tdmi_nccl_log_line(log, buffer + at, nbytes);
        }
        if (status == TDM_OK && at == 0 && used == LINE_BYTES_MAX) {
            status = tdmi_nccl_log_line(log, buffer, used);
            at = used;
        }
        memmove(buffer, buffer + at, used - at);
        used -= at;
    }
    return status == TDM_OK && used > 0 ? tdmi_nccl_log_line(log, buffer, used) : status;
}

static tdm_status read_file(tdmi_nccl_log *log, const char *path, char *buffer)
{
    const int64_t before = log->records;
    FILE *file = fopen(path, "rbe");
    if (file == NULL)
        return tdmi_fail_errno(TDM_ERR_BAD_FILE, errno, "cannot read %s", path);
    tdm_status status = read_lines(log, file, buffer);
    if (status == TDM_OK && ferror(file))
        status = tdmi_fail_errno(TDM_ERR_BAD_FILE, errno != 0 ? errno : EIO, "cannot read %s to its end", path);
    fclose(file);
    if (status == TDM_OK && log->records == before)
        status = tdmi_fail(TDM_ERR_BAD_FILE,
                           "%s has no line of NCCL ('host:pid:tid [device] NCCL INFO ...'): run the job with NCCL_DEBUG=INFO", path);
    log->files++;
    return status;
}

tdm_status tdmi_nccl_log_read(const char *const *paths, int count, tdmi_nccl_log **out)
{
    tdmi_nccl_log *log = NULL;
    char *buffer = tdmi_malloc(LINE_BYTES_MAX, "nccl log");
    tdm_status status = buffer != NULL ? tdmi_nccl_log_create(&log) : TDM_ERR_NO_MEMORY;
    for (int i = 0; i < count && status == TDM_OK; i++)
        status = read_file(log, paths[i], buffer);
    tdmi_free(buffer);
    if (status == TDM_OK)
        status = tdmi_nccl_log_finish(log);
    if (status != TDM_OK) {
        tdmi_nccl_log_free(log);
        return status;
    }
    *out = log;
    return TDM_OK;
}

static bool is_no_host(const void *arg, tdmi_span name)
{
    (void)arg, (void)name;
    return false;
}

bool tdmi_nccl_log_is(const char *bytes, size_t nbytes)
{
    const tdmi_nccl_known_hosts known = {.has = is_no_host};
    const tdmi_span rest = {bytes, nbytes};
    tdmi_nccl_record record;
    size_t at = 0;
    if (nbytes == 0 || memchr(bytes, '\0', nbytes) != NULL)
        return false;
    return tdmi_span_has(rest, "NCCL version 2.") || tdmi_nccl_next_record(rest, &at, &known, &record);
}

tdmi_nccl_version tdmi_nccl_log_version(const tdmi_nccl_log *log)
{
    tdmi_nccl_version newest = 0;
    for (uint32_t p = 0; p < log->processes; p++)
        if (log->process[p].version > newest)
            newest = log->process[p].version;
    for (uint32_t i = 0; i < log->plain_versions && newest == 0; i++)
        newest = log->plain_version[i];
    return newest;
}

void tdmi_nccl_version_text(tdmi_nccl_version version, char text[24])
{
    snprintf(text, 24, version > 0 ? "%d.%d.%d" : "?", version / 10000, version / 100 % 100, version % 100);
}

const char *tdmi_nccl_variable_of(const tdmi_nccl_log *log, uint32_t host, const char *name)
{
    const char *value = NULL;
    for (uint32_t v = 0; v < log->variables; v++) {
        const tdmi_nccl_variable *variable = &log->variable[v];
        if ((variable->host == host || (variable->host == TDMI_NCCL_NONE && value == NULL)) && strcmp(variable->name, name) == 0)
            value = variable->value;
    }
    return value;
}

uint32_t tdmi_nccl_process_of(const tdmi_nccl_log *log, uint32_t comm, int64_t rank)
{
    uint32_t low = 0, high = log->members;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const tdmi_nccl_member *member = &log->member[log->by_rank[middle]];
        if (member->comm < comm || (member->comm == comm && member->rank < rank))
            low = middle + 1;
        else
            high = middle;
    }
    if (low == log->members)
        return TDMI_NCCL_NONE;
    const tdmi_nccl_member *found = &log->member[log->by_rank[low]];
    return found->comm == comm && found->rank == rank ? found->process : TDMI_NCCL_NONE;
}

uint32_t tdmi_nccl_host_at(const tdmi_nccl_log *log, const char *address)
{
    for (uint32_t h = 0; h < log->hosts && address[0] != '\0'; h++)
        if (strcmp(log->host[h].address, address) == 0)
            return h;
    return TDMI_NCCL_NONE;
}

int64_t tdmi_nccl_rank_of(const tdmi_nccl_log *log, uint32_t process)
{
    if (process == TDMI_NCCL_NONE)
        return -1;
    return log->process[process].rank >= 0 ? log->process[process].rank : log->process[process].prefix_rank;
}
