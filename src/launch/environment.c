/* environment.c - what torchrun exports, and Tandem's own.
 *
 * TORCHELASTIC_USE_AGENT_STORE is False: rank 0 itself opens the store on MASTER_PORT, no launcher holds it. */
#include "launch/environment.h"

#include "core/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

extern char **environ;

#define SETTINGS_MAX 32

typedef struct settings {
    char text[8192];
    size_t used, count;
    size_t starts[SETTINGS_MAX];
    bool overflow;
} settings;

static void put(settings *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(settings *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(s->text + s->used, sizeof s->text - s->used, format, args);
    va_end(args);
    if (s->count == SETTINGS_MAX || length < 0 || (size_t)length >= sizeof s->text - s->used) {
        s->overflow = true;
        return;
    }
    s->starts[s->count++] = s->used;
    s->used += (size_t)length + 1;
}

static bool is_set(const char *const *entries, size_t count, const char *entry)
{
    size_t length = strcspn(entry, "=");
    for (size_t i = 0; i < count; i++)
        if (strncmp(entries[i], entry, length) == 0 && entries[i][length] == '=')
            return true;
    return false;
}

tdm_status tdmi_environment_with(const char *const *entries, size_t count, char ***out)
{
    size_t kept = 0, used = 0;
    for (char **entry = environ; *entry != NULL; entry++)
        kept += !is_set(entries, count, *entry);
    for (size_t i = 0; i < count; i++)
        used += strlen(entries[i]) + 1;
    /* One block: pointers to the kept entries and to the new ones, NULL, then the text of the new ones. */
    size_t pointers = kept + count + 1;
    char **block = tdmi_malloc(pointers * sizeof *block + used, "environment");
    if (block == NULL)
        return TDM_ERR_NO_MEMORY;
    char *text = (char *)(block + pointers);
    used = 0;
    for (char **entry = environ; *entry != NULL; entry++)
        if (!is_set(entries, count, *entry))
            block[used++] = *entry;
    for (size_t i = 0; i < count; i++) {
        const size_t nbytes = strlen(entries[i]) + 1;
        block[used++] = memcpy(text, entries[i], nbytes);
        text += nbytes;
    }
    block[used] = NULL;
    *out = block;
    return TDM_OK;
}

tdm_status tdmi_environment_create(const tdmi_rank_place *place, char ***out)
{
    settings s = {0};
    put(&s, "RANK=%d", place->rank);
    put(&s, "WORLD_SIZE=%d", place->size);
    put(&s, "LOCAL_RANK=%d", place->local_rank);
    put(&s, "LOCAL_WORLD_SIZE=%d", place->local_size);
    put(&s, "GROUP_RANK=%d", place->node_rank);
    put(&s, "GROUP_WORLD_SIZE=%d", place->nodes);
    put(&s, "ROLE_NAME=default");
    put(&s, "ROLE_RANK=%d", place->rank);
    put(&s, "ROLE_WORLD_SIZE=%d", place->size);
    put(&s, "MASTER_ADDR=%s", place->master_address);
    put(&s, "MASTER_PORT=%d", place->master_port);
    put(&s, "TORCHELASTIC_RUN_ID=%s", place->job_id);
    put(&s, "TORCHELASTIC_RESTART_COUNT=0");
    put(&s, "TORCHELASTIC_MAX_RESTARTS=0");
    put(&s, "TORCHELASTIC_USE_AGENT_STORE=False");
    put(&s, "TORCH_NCCL_ASYNC_ERROR_HANDLING=1");
    put(&s, "TANDEM_JOB_ID=%s", place->job_id);
    put(&s, "TANDEM_JOB_SECRET=%s", place->job_secret);
    put(&s, "TANDEM_LAUNCHER=%s", place->launcher);
    if (place->threads > 0)
        put(&s, "OMP_NUM_THREADS=%d", place->threads);
    if (place->log_dir != NULL)
        put(&s, "TORCHELASTIC_ERROR_FILE=%s/rank-%d.error.json", place->log_dir, place->rank);
    if (s.overflow)
        return tdmi_fail(TDM_ERR_INVALID, "the job's id, secret, address or log folder is too long for the environment");
    const char *entries[SETTINGS_MAX];
    for (size_t i = 0; i < s.count; i++)
        entries[i] = s.text + s.starts[i];
    return tdmi_environment_with(entries, s.count, out);
}
