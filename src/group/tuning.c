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
#include "group/probe.h"
#include "store/store.h"

#include <tandem/tuning.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define PATH_BYTES 4096
#define PINGS 16
#define BULKS 2
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

/* A byte summed, in cache-sized pieces as they are summed when they arrive. */
static double sum_ns(char *block)
{
    double best = 1e18;
    const size_t half = TDMI_PROBE_BYTES / 2, count = half / sizeof(float);
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
    char *block = tdmi_calloc(TDMI_PROBE_BYTES, 1, "link probe");
    if (block == NULL)
        return TDM_ERR_NO_MEMORY;
    tdmi_costs costs = {.alpha = 0};
    double short_ns, long_ns;
    tdm_status status;
    if (group->rank == 0) {
        tdmi_link *link = group->team.channel[probe_peer(group)]->link;
        const int64_t begin = tdmi_now_ns();
        status = tdmi_probe_ping(link, block, 1, PINGS, begin + PROBE_NS / 2, deadline_ns, &short_ns);
        if (status == TDM_OK)
            status = tdmi_probe_ping(link, block, TDMI_PROBE_BYTES, 1, INT64_MAX, deadline_ns, &long_ns); /* empties token buckets */
        if (status == TDM_OK)
            status = tdmi_probe_ping(link, block, TDMI_PROBE_BYTES, BULKS, begin + PROBE_NS, deadline_ns, &long_ns);
        if (status == TDM_OK) {
            snprintf(costs.transport, sizeof costs.transport, "%s", link_name(group));
            costs.alpha = short_ns / 2;
            costs.beta = long_ns > short_ns ? (long_ns - short_ns) / (double)TDMI_PROBE_BYTES : 0;
            costs.gamma = sum_ns(block);
            tdmi_tuning_set_costs(tuning, &costs);
            log_debug(TDM_LOG_GROUP, "group %s: a message over %s costs %.1f us, a byte %.3f ns, a byte summed %.3f ns", group->name,
                      costs.transport, costs.alpha * 1e-3, costs.beta, costs.gamma);
        }
    } else {
        tdmi_link *link = group->team.channel[0]->link;
        status = tdmi_probe_answer(link, block, 1, deadline_ns);
        if (status == TDM_OK)
            status = tdmi_probe_answer(link, block, TDMI_PROBE_BYTES, deadline_ns);
        if (status == TDM_OK)
            status = tdmi_probe_answer(link, block, TDMI_PROBE_BYTES, deadline_ns);
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

/* 'p': a probe comes first; 't': the text, which may be empty. Capital: all pairs are measured at the end. */
static tdm_status give(tdm_group *group, const char *what, bool probes, bool orders, const tdmi_tuning *tuning)
{
    char key[TDMI_STORE_KEY_MAX], *text = NULL;
    size_t nbytes = 0;
    tdm_status status = tuning->best_count + tuning->costs_count > 0 && !probes ? tdmi_tuning_write(tuning, &text, &nbytes) : TDM_OK;
    char *value = status == TDM_OK ? tdmi_calloc(nbytes + 1, 1, "tuning") : NULL;
    if (status == TDM_OK && value == NULL)
        status = TDM_ERR_NO_MEMORY;
    if (status == TDM_OK) {
        value[0] = probes ? 'p' : 't';
        if (orders)
            value[0] = (char)(value[0] - 'a' + 'A');
        if (nbytes > 0)
            memcpy(value + 1, text, nbytes);
        key_of(group, what, key);
        status = tdmi_store_set(group->world->store, key, value, nbytes + 1);
    }
    tdmi_free(text);
    tdmi_free(value);
    return status;
}

static tdm_status take(tdm_group *group, const char *what, int64_t deadline_ns, bool *probes, bool *orders, tdmi_tuning *out)
{
    char key[TDMI_STORE_KEY_MAX], *value;
    size_t nbytes;
    key_of(group, what, key);
    tdm_status status = tdmi_store_get(group->world->store, key, deadline_ns, &value, &nbytes);
    if (status != TDM_OK)
        return tdmi_fail_while(status, "waiting for the measured choices of rank 0 of group %s", group->name);
    *probes = nbytes > 0 && (value[0] == 'p' || value[0] == 'P');
    *orders = nbytes > 0 && (value[0] == 'P' || value[0] == 'T');
    if (nbytes > 1)
        status = tdmi_tuning_read(value + 1, nbytes - 1, out);
    tdmi_free(value);
    return status;
}

/* Rank 0 decides what is measured. */
static tdm_status lead(tdm_group *group, int64_t deadline_ns, bool *orders)
{
    char path[PATH_BYTES];
    const bool wanted = find_path(path), links = wanted && group->local_size < group->size;
    if (wanted)
        load(path, &group->tuning);
    const bool probes = links && tdmi_tuning_costs(&group->tuning, link_name(group)) == NULL;
    *orders = links && group->size > 2 && group->size <= TDMI_ORDER_RANKS_MAX && strcmp(tdmi_config_text(TDMI_CONFIG_SUM_ORDER), "fast") == 0;
    tdm_status status = give(group, "tuning", probes, *orders, &group->tuning);
    if (status != TDM_OK || !probes)
        return status;
    status = probe(group, deadline_ns, &group->tuning);
    if (status == TDM_OK)
        status = give(group, "tuned", false, *orders, &group->tuning);
    if (status == TDM_OK && save(path, &group->tuning) != TDM_OK)
        log_debug(TDM_LOG_GROUP, "what was measured is not kept: %s", tdm_error_text());
    return status;
}

static tdm_status follow(tdm_group *group, int64_t deadline_ns, bool *orders)
{
    bool probes = false;
    tdm_status status = take(group, "tuning", deadline_ns, &probes, orders, &group->tuning);
    if (status != TDM_OK || !probes)
        return status;
    if (group->rank == probe_peer(group))
        status = probe(group, deadline_ns, &group->tuning);
    return status == TDM_OK ? take(group, "tuned", deadline_ns, &probes, orders, &group->tuning) : status;
}

tdm_status tdmi_group_tune(tdm_group *group, int64_t deadline_ns)
{
    bool orders = false;
    if (group->size == 1)
        return TDM_OK;
    tdm_status status = group->rank == 0 ? lead(group, deadline_ns, &orders) : follow(group, deadline_ns, &orders);
    return status == TDM_OK && orders ? tdmi_group_order(group, deadline_ns) : status;
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
