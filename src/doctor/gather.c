/* gather.c - reads what it is pointed to. A ring and a dump of one process are one witness, and the ring, which goes on after the
 * dump, speaks; of several processes that were one rank the last one does. */
#include "doctor/gather.h"

#include "core/memory.h"
#include "trace/recorder_layout.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_BYTES_MAX ((size_t)64 << 20)

bool tdmi_is_ring(const char *bytes, size_t nbytes)
{
    return nbytes >= 8 && memcmp(bytes, TDMI_REC_MAGIC, 8) == 0;
}

static tdm_status read_file(const char *path, char **bytes_out, size_t *nbytes_out)
{
    FILE *file = fopen(path, "rbe");
    if (file == NULL)
        return tdmi_fail_errno(TDM_ERR_BAD_FILE, errno, "cannot read %s", path);
    size_t capacity = (size_t)1 << 18, used = 0, got;
    char *bytes = tdmi_malloc(capacity, "recording");
    while (bytes != NULL && (got = fread(bytes + used, 1, capacity - used, file)) > 0) {
        used += got;
        if (used < capacity)
            continue;
        char *more = capacity < FILE_BYTES_MAX ? tdmi_realloc(bytes, capacity * 2, "recording") : NULL;
        if (more == NULL) {
            tdmi_free(bytes);
            fclose(file);
            return capacity < FILE_BYTES_MAX ? TDM_ERR_NO_MEMORY
                                             : tdmi_fail(TDM_ERR_BAD_FILE, "%s is larger than %zu bytes: no recording", path, FILE_BYTES_MAX);
        }
        bytes = more;
        capacity *= 2;
    }
    fclose(file);
    if (bytes == NULL)
        return TDM_ERR_NO_MEMORY;
    *bytes_out = bytes;
    *nbytes_out = used;
    return TDM_OK;
}

static int64_t last_ns(const tdmi_recording *recording)
{
    return recording->count > 0 ? recording->call[recording->count - 1].created_ns : 0;
}

static void drop(tdmi_witness *witness)
{
    tdmi_free(witness->path);
    tdmi_recording_free(&witness->recording);
}

static tdm_status add_file(tdmi_witnesses *all, const char *path)
{
    char *bytes = NULL;
    size_t nbytes = 0;
    tdmi_witness next = {0};
    tdm_status status = read_file(path, &bytes, &nbytes);
    if (status != TDM_OK)
        return status;
    next.is_ring = tdmi_is_ring(bytes, nbytes);
    status = next.is_ring ? tdmi_recording_parse((const uint8_t *)bytes, nbytes, &next.recording)
                          : tdmi_dump_parse(bytes, nbytes, &next.recording);
    tdmi_free(bytes);
    if (status != TDM_OK)
        return tdmi_fail_while(status, "reading %s", path);
    tdmi_witness *more = tdmi_with_room(all->of, all->count, &all->capacity, sizeof *more, "recordings");
    all->of = more != NULL ? more : all->of;
    next.path = more != NULL ? tdmi_strdup(path, "recording") : NULL;
    if (next.path == NULL) {
        drop(&next);
        return TDM_ERR_NO_MEMORY;
    }
    all->of[all->count++] = next;
    return TDM_OK;
}

static bool ends_with(const char *name, const char *end)
{
    return strlen(name) > strlen(end) && strcmp(name + strlen(name) - strlen(end), end) == 0;
}

/* Recordings in a folder; where there are none, those in its folders. */
static tdm_status add_folder(tdmi_witnesses *all, const char *path, bool may_descend)
{
    struct dirent **names;
    tdm_status status = TDM_OK;
    const size_t before = all->count;
    const int count = scandir(path, &names, NULL, alphasort);
    if (count < 0)
        return tdmi_fail_errno(TDM_ERR_BAD_FILE, errno, "cannot read the folder %s", path);
    for (int pass = 0; pass < 2 && status == TDM_OK && (pass == 0 || (may_descend && all->count == before)); pass++)
        for (int i = 0; i < count && status == TDM_OK; i++) {
            char inside[4096];
            struct stat facts;
            const char *name = names[i]->d_name;
            snprintf(inside, sizeof inside, "%s/%s", path, name);
            if (name[0] == '.' || stat(inside, &facts) != 0)
                continue;
            if (pass == 0 && S_ISREG(facts.st_mode) && strncmp(name, "rank-", 5) == 0 && (ends_with(name, ".ring") || ends_with(name, ".json")))
                status = add_file(all, inside);
            else if (pass == 1 && S_ISDIR(facts.st_mode))
                status = add_folder(all, inside, false);
        }
    for (int i = 0; i < count; i++)
        free(names[i]);
    free(names);
    return status;
}

static int by_rank(const void *a, const void *b)
{
    const tdmi_witness *x = a, *y = b;
    if (x->recording.rank != y->recording.rank)
        return x->recording.rank - y->recording.rank;
    const int64_t x_ns = last_ns(&x->recording), y_ns = last_ns(&y->recording);
    if (x_ns != y_ns)
        return x_ns < y_ns ? 1 : -1; /* the newest first */
    return (int)y->is_ring - (int)x->is_ring;
}

/* Keeps the witnesses that `keep` says; gives how many went. */
static size_t sift(tdmi_witnesses *all, bool (*keep)(const tdmi_witnesses *all, size_t kept, const tdmi_witness *w, const char *job),
                   const char *job)
{
    size_t kept = 0;
    for (size_t i = 0; i < all->count; i++)
        if (keep(all, kept, &all->of[i], job))
            all->of[kept++] = all->of[i];
        else
            drop(&all->of[i]);
    const size_t gone = all->count - kept;
    all->count = kept;
    return gone;
}

static bool of_job(const tdmi_witnesses *all, size_t kept, const tdmi_witness *w, const char *job)
{
    (void)all, (void)kept;
    return strcmp(w->recording.job, job) == 0;
}

static bool first_of_its_rank(const tdmi_witnesses *all, size_t kept, const tdmi_witness *w, const char *job)
{
    (void)job;
    return kept == 0 || all->of[kept - 1].recording.rank != w->recording.rank;
}

static void choose(tdmi_witnesses *all)
{
    char job[sizeof all->of->recording.job] = "";
    int64_t newest_ns = -1;
    for (size_t i = 0; i < all->count; i++)
        if (last_ns(&all->of[i].recording) > newest_ns) {
            newest_ns = last_ns(&all->of[i].recording);
            snprintf(job, sizeof job, "%s", all->of[i].recording.job);
        }
    const size_t other_jobs = sift(all, of_job, job);
    qsort(all->of, all->count, sizeof *all->of, by_rank);
    int processes = 0;
    for (size_t i = 1; i < all->count; i++)
        processes += all->of[i].recording.rank == all->of[i - 1].recording.rank && all->of[i].recording.pid != all->of[i - 1].recording.pid;
    (void)sift(all, first_of_its_rank, job);
    size_t used = 0;
    if (other_jobs > 0)
        used += (size_t)snprintf(all->note, sizeof all->note, "%zu recordings of other jobs are left out", other_jobs);
    if (processes > 0)
        snprintf(all->note + used, sizeof all->note - used, "%s%d recordings of earlier processes of the same ranks are left out",
                 used > 0 ? "; " : "", processes);
}

tdm_status tdmi_gather(const char *const *paths, int count, tdmi_witnesses *out)
{
    tdmi_witnesses all = {0};
    tdm_status status = TDM_OK;
    for (int i = 0; i < count && status == TDM_OK; i++) {
        struct stat facts;
        if (stat(paths[i], &facts) != 0)
            status = tdmi_fail_errno(TDM_ERR_BAD_FILE, errno, "cannot read %s", paths[i]);
        else
            status = S_ISDIR(facts.st_mode) ? add_folder(&all, paths[i], true) : add_file(&all, paths[i]);
    }
    if (status == TDM_OK && all.count == 0)
        status = tdmi_fail(TDM_ERR_BAD_FILE, "no recording in %s: a rank that ends well leaves none", count > 0 ? paths[0] : "nothing");
    if (status != TDM_OK) {
        tdmi_witnesses_free(&all);
        return status;
    }
    choose(&all);
    *out = all;
    return TDM_OK;
}

void tdmi_witnesses_free(tdmi_witnesses *witnesses)
{
    for (size_t i = 0; i < witnesses->count; i++)
        drop(&witnesses->of[i]);
    tdmi_free(witnesses->of);
    *witnesses = (tdmi_witnesses){0};
}
