/* tuning.c - what this host measured, and how all ranks of a group come to choose by it alike.
 *
 * The table lies in TANDEM_TUNE_FILE, or in $XDG_CACHE_HOME/tandem (~/.cache/tandem) under the host's fingerprint. When a group is
 * made, rank 0 puts its table into the store and all others take that one, whatever lies on their own disks. If the group has
 * links and the table does not say what they cost, rank 0 and the first rank of another node measure it first, over the link
 * they have just made and that nobody uses yet: a few milliseconds, 40 at most; rank 0 keeps the result for the next group. */
#include "group/group.h"

#include "coll/reduce.h"
#include "core/clock.h"
#include "core/config.h"
#include "core/cpu.h"
#include "core/log.h"
#include "core/memory.h"
#include "store/store.h"

#include <tandem/tuning.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define PATH_BYTES 4096
#define PINGS 16
#define BULK_BYTES ((size_t)128 << 10)
#define BULKS 3
#define PROBE_NS (40 * TDMI_NS_PER_MS)

/* ---- this host's file ---- */

static uint64_t add_hash(uint64_t h, const void *data, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++)
        h = (h ^ ((const unsigned char *)data)[i]) * 1099511628211ull;
    return h;
}

/* Processor, kernel and cores: not those of this rank alone, to which it may be bound. */
static uint64_t fingerprint(void)
{
    struct utsname system;
    const int cores[2] = {(int)sysconf(_SC_NPROCESSORS_ONLN), tdmi_cpu_quota()}, isa = (int)tdmi_cpu_isa();
    uint64_t h = add_hash(1469598103934665603ull, tdmi_cpu_model(), strlen(tdmi_cpu_model()));
    if (uname(&system) == 0)
        h = add_hash(h, system.release, strlen(system.release));
    h = add_hash(h, cores, sizeof cores);
    return add_hash(h, &isa, sizeof isa);
}

/* False: there is to be none. */
static bool find_path(char path[PATH_BYTES])
{
    const char *chosen = tdmi_config_text(TDMI_CONFIG_TUNE_FILE), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int used = -1;
    if (strcmp(chosen, "off") == 0)
        return false;
    if (chosen[0] != '\0')
        used = snprintf(path, PATH_BYTES, "%s", chosen);
    else if (cache != NULL && cache[0] == '/')
        used = snprintf(path, PATH_BYTES, "%s/tandem/collectives-%016llx", cache, (unsigned long long)fingerprint());
    else if (home != NULL && home[0] == '/')
        used = snprintf(path, PATH_BYTES, "%s/.cache/tandem/collectives-%016llx", home, (unsigned long long)fingerprint());
    return used > 0 && used < PATH_BYTES;
}

/* An unreadable file is one warning and an empty table. */
static void load(const char *path, tdmi_tuning *out)
{
    static atomic_bool warned;
    static const char none[] = "";
    char *text = tdmi_calloc(TDMI_TUNING_TEXT_MAX + 1, 1, "tuning");
    FILE *file = text != NULL ? fopen(path, "re") : NULL;
    *out = (tdmi_tuning){.host = fingerprint()};
    if (file != NULL) {
        const size_t nbytes = fread(text, 1, TDMI_TUNING_TEXT_MAX + 1, file);
        fclose(file);
        tdm_status status = tdmi_tuning_read(text != NULL ? text : none, nbytes, out);
        const bool foreign = status == TDM_OK && out->host != fingerprint();
        if ((status != TDM_OK || foreign) && !atomic_exchange(&warned, true))
            log_warn(TDM_LOG_GROUP, "the measured choices in %s are ignored: %s; make new ones with `tandem tune --collectives`", path,
                     foreign ? "another processor, kernel or number of cores made them" : tdm_error_text());
        if (status != TDM_OK || foreign) {
            tdmi_tuning_free(out);
            out->host = fingerprint();
        }
    }
    tdmi_free(text);
}

static void make_folders(const char *path)
{
    char folder[PATH_BYTES];
    for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        memcpy(folder, path, (size_t)(slash - path));
        folder[slash - path] = '\0';
        (void)mkdir(folder, 0700); /* one that cannot be made is noticed when the file is */
    }
}

/* Readers see the old file or the new one. */
static tdm_status save(const char *path, const tdmi_tuning *tuning)
{
    char other[PATH_BYTES + 32], *text;
    size_t nbytes;
    tdm_status status = tdmi_tuning_write(tuning, &text, &nbytes);
    if (status != TDM_OK)
        return status;
    snprintf(other, sizeof other, "%s.%d", path, (int)getpid());
    make_folders(path);
    FILE *file = fopen(other, "we");
    bool good = file != NULL && fwrite(text, 1, nbytes, file) == nbytes;
    good = file != NULL && fclose(file) == 0 && good;
    good = good && rename(other, path) == 0;
    tdmi_free(text);
    if (good)
        return TDM_OK;
    status = tdmi_fail(TDM_ERR_SYSTEM, "%s cannot be written: %s", path, strerror(errno));
    if (file != NULL)
        (void)unlink(other);
    return status;
}

/* ---- what links cost ---- */

static tdm_status push(tdmi_link *link, const char *data, size_t nbytes, int64_t deadline_ns)
{
    bool flushed = link->ops->flush == NULL;
    for (size_t sent = 0; sent < nbytes || !flushed;) {
        const struct iovec part = {(char *)(uintptr_t)data + sent, nbytes - sent};
        size_t moved = 0;
        tdm_status status = sent < nbytes ? link->ops->send(link, &part, 1, &moved) : link->ops->flush(link, &flushed);
        if (status != TDM_OK)
            return status;
        sent += moved;
        if (moved == 0 && !flushed && tdmi_deadline_passed(deadline_ns))
            return tdmi_fail(TDM_ERR_TIMEOUT, "measuring the link got no further");
        if (moved == 0)
            sched_yield();
    }
    return TDM_OK;
}

static tdm_status pull(tdmi_link *link, char *data, size_t nbytes, int64_t deadline_ns)
{
    for (size_t got = 0; got < nbytes;) {
        const struct iovec part = {data + got, nbytes - got};
        size_t moved = 0;
        tdm_status status = link->ops->receive(link, &part, 1, &moved);
        if (status != TDM_OK)
            return status;
        got += moved;
        if (moved == 0 && tdmi_deadline_passed(deadline_ns))
            return tdmi_fail(TDM_ERR_TIMEOUT, "measuring the link got no answer");
        if (moved == 0)
            sched_yield();
    }
    return TDM_OK;
}

/* One message of `nbytes` there and a byte back; the shortest of up to `times`. The first byte says whether another follows. */
static tdm_status ping(tdmi_link *link, char *block, size_t nbytes, int times, int64_t until_ns, int64_t deadline_ns,
                       double *best_ns)
{
    *best_ns = 1e18;
    for (int i = 0, left = times; left > 0; i++) {
        const int64_t begin = tdmi_now_ns();
        left = begin < until_ns || i == 0 ? left - 1 : 0;
        block[0] = left > 0 ? 'm' : 'l'; /* more, last */
        tdm_status status = push(link, block, nbytes, deadline_ns);
        if (status == TDM_OK)
            status = pull(link, block, 1, deadline_ns);
        if (status != TDM_OK)
            return status;
        const double ns = (double)(tdmi_now_ns() - begin);
        *best_ns = ns < *best_ns ? ns : *best_ns;
    }
    return TDM_OK;
}

static tdm_status answer(tdmi_link *link, char *block, size_t nbytes, int64_t deadline_ns)
{
    for (bool more = true; more;) {
        tdm_status status = pull(link, block, nbytes, deadline_ns);
        more = block[0] == 'm';
        if (status == TDM_OK)
            status = push(link, block, 1, deadline_ns);
        if (status != TDM_OK)
            return status;
    }
    return TDM_OK;
}

/* A byte summed, in cache-sized pieces as they are summed when they arrive. */
static double sum_ns(char *block)
{
    double best = 1e18;
    const size_t half = BULK_BYTES / 2, count = half / sizeof(float);
    for (int i = 0; i < 4; i++) {
        const int64_t begin = tdmi_now_ns();
        tdmi_reduce_pair(TDM_F32, TDM_SUM, block, block + half, block, count);
        const double ns = (double)(tdmi_now_ns() - begin) / (double)half;
        best = ns < best ? ns : best;
    }
    return best;
}

/* The first rank that rank 0 talks to over a link. */
static int probe_peer(const tdm_group *group)
{
    int peer = 1;
    while (group->node[peer] == group->node[0])
        peer++;
    return peer;
}

static const char *link_name(const tdm_group *group)
{
    return group->ucx != NULL ? "ucx" : "tcp";
}

static tdm_status probe(tdm_group *group, int64_t deadline_ns, tdmi_tuning *tuning)
{
    char *block = tdmi_calloc(BULK_BYTES, 1, "link probe");
    if (block == NULL)
        return TDM_ERR_NO_MEMORY;
    tdmi_costs costs = {.alpha = 0};
    double short_ns, long_ns;
    tdm_status status;
    if (group->rank == 0) {
        tdmi_link *link = group->team.channel[probe_peer(group)]->link;
        const int64_t begin = tdmi_now_ns();
        status = ping(link, block, 1, PINGS, begin + PROBE_NS / 2, deadline_ns, &short_ns);
        if (status == TDM_OK)
            status = ping(link, block, BULK_BYTES, BULKS, begin + PROBE_NS / 2, deadline_ns, &long_ns);
        if (status == TDM_OK) {
            snprintf(costs.transport, sizeof costs.transport, "%s", link_name(group));
            costs.alpha = short_ns / 2;
            costs.beta = long_ns > short_ns ? (long_ns - short_ns) / (double)BULK_BYTES : 0;
            costs.gamma = sum_ns(block);
            tdmi_tuning_set_costs(tuning, &costs);
            log_debug(TDM_LOG_GROUP, "group %s: a message over %s costs %.1f us, a byte %.3f ns, a byte summed %.3f ns", group->name,
                      costs.transport, costs.alpha * 1e-3, costs.beta, costs.gamma);
        }
    } else {
        tdmi_link *link = group->team.channel[0]->link;
        status = answer(link, block, 1, deadline_ns);
        if (status == TDM_OK)
            status = answer(link, block, BULK_BYTES, deadline_ns);
    }
    tdmi_free(block);
    return status == TDM_OK ? TDM_OK : tdmi_fail_while(status, "measuring the link between ranks 0 and %d of group %s",
                                                       probe_peer(group), group->name);
}

/* ---- the same table on all ranks ---- */

static void key_of(const tdm_group *group, const char *what, char key[TDMI_STORE_KEY_MAX])
{
    snprintf(key, TDMI_STORE_KEY_MAX, "%s/%s", group->prefix, what);
}

/* 'p': a probe comes first; then the text, which may be empty. */
static tdm_status give(tdm_group *group, const char *what, bool probes, const tdmi_tuning *tuning)
{
    char key[TDMI_STORE_KEY_MAX], *text = NULL;
    size_t nbytes = 0;
    tdm_status status = tuning->best_count + tuning->costs_count > 0 && !probes ? tdmi_tuning_write(tuning, &text, &nbytes) : TDM_OK;
    char *value = status == TDM_OK ? tdmi_calloc(nbytes + 1, 1, "tuning") : NULL;
    if (status == TDM_OK && value == NULL)
        status = TDM_ERR_NO_MEMORY;
    if (status == TDM_OK) {
        value[0] = probes ? 'p' : 't';
        if (nbytes > 0)
            memcpy(value + 1, text, nbytes);
        key_of(group, what, key);
        status = tdmi_store_set(group->world->store, key, value, nbytes + 1);
    }
    tdmi_free(text);
    tdmi_free(value);
    return status;
}

static tdm_status take(tdm_group *group, const char *what, int64_t deadline_ns, bool *probes, tdmi_tuning *out)
{
    char key[TDMI_STORE_KEY_MAX], *value;
    size_t nbytes;
    key_of(group, what, key);
    tdm_status status = tdmi_store_get(group->world->store, key, deadline_ns, &value, &nbytes);
    if (status != TDM_OK)
        return tdmi_fail_while(status, "waiting for the measured choices of rank 0 of group %s", group->name);
    *probes = nbytes > 0 && value[0] == 'p';
    if (nbytes > 1)
        status = tdmi_tuning_read(value + 1, nbytes - 1, out);
    tdmi_free(value);
    return status;
}

tdm_status tdmi_group_tune(tdm_group *group, int64_t deadline_ns)
{
    char path[PATH_BYTES];
    bool probes = false;
    tdm_status status = TDM_OK;
    if (group->size == 1)
        return TDM_OK;
    if (group->rank == 0) {
        const bool wanted = find_path(path);
        if (wanted)
            load(path, &group->tuning);
        probes = wanted && group->local_size < group->size && tdmi_tuning_costs(&group->tuning, link_name(group)) == NULL;
        status = give(group, "tuning", probes, &group->tuning);
        if (status == TDM_OK && probes)
            status = probe(group, deadline_ns, &group->tuning);
        if (status == TDM_OK && probes)
            status = give(group, "tuned", false, &group->tuning);
        if (status == TDM_OK && probes && save(path, &group->tuning) != TDM_OK)
            log_debug(TDM_LOG_GROUP, "what was measured is not kept: %s", tdm_error_text());
        return status;
    }
    status = take(group, "tuning", deadline_ns, &probes, &group->tuning);
    if (status == TDM_OK && probes && group->local_size < group->size && group->rank == probe_peer(group))
        status = probe(group, deadline_ns, &group->tuning);
    if (status == TDM_OK && probes)
        status = take(group, "tuned", deadline_ns, &probes, &group->tuning);
    return status;
}

/* ---- public ---- */

tdm_status tdm_tuning_file(char *out, size_t capacity)
{
    char path[PATH_BYTES];
    if (!find_path(path))
        return tdmi_fail(TDM_ERR_INVALID, "there is no place for measured choices: TANDEM_TUNE_FILE is off, or neither it nor "
                         "XDG_CACHE_HOME nor HOME is set");
    if ((size_t)snprintf(out, capacity, "%s", path) >= capacity)
        return tdmi_fail(TDM_ERR_INVALID, "the path %s has more than %zu bytes", path, capacity - 1);
    return TDM_OK;
}

static tdm_status add_line(tdmi_tuning *tuning, const char *setting, const tdm_tuning_line *line)
{
    tdmi_choice choice = {.algorithm = tdmi_algorithm_find(line->algorithm), .coll = TDMI_COLL_COUNT, .min = line->min, .max = line->max};
    for (int coll = 0; coll < TDMI_COLL_COUNT; coll++)
        if (strcmp(line->op, tdmi_coll_name((tdmi_coll)coll)) == 0)
            choice.coll = (tdmi_coll)coll;
    if (choice.algorithm == NULL || choice.coll == TDMI_COLL_COUNT || line->min >= line->max)
        return tdmi_fail(TDM_ERR_INVALID, "%s from %zu to %zu by %s is no choice", line->op, line->min, line->max, line->algorithm);
    return tdmi_tuning_add(tuning, setting, &choice);
}

tdm_status tdm_tuning_save(tdm_group *group, const char *memory, const tdm_tuning_line *lines, size_t count)
{
    char path[PATH_BYTES], setting[32];
    tdmi_tuning tuning;
    tdm_status status = tdm_tuning_file(path, sizeof path);
    if (status != TDM_OK)
        return status;
    load(path, &tuning);
    tdmi_tuning_setting(group->size, tdmi_topology_nodes(&group->team.topology), tdm_group_transport(group), memory, setting);
    for (int coll = 0; coll < TDMI_COLL_COUNT; coll++)
        for (size_t i = 0; i < count; i++)
            if (strcmp(lines[i].op, tdmi_coll_name((tdmi_coll)coll)) == 0)
                tdmi_tuning_forget(&tuning, setting, (tdmi_coll)coll);
    for (size_t i = 0; i < count && status == TDM_OK; i++)
        status = add_line(&tuning, setting, &lines[i]);
    if (status == TDM_OK)
        status = save(path, &tuning);
    tdmi_tuning_free(&tuning);
    return status;
}
