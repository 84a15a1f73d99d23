/* recorder.c - writing the ring. An entry's key is taken away before the rest changes and put there behind it, so that what a
 * process leaves when it dies in between is no half entry. Two readings of the clock are most of what a call pays; the rest is
 * kept to one cache line, fetched a call ahead. */
#include "trace/recorder.h"

#include "core/config.h"
#include "core/log.h"
#include "core/memory.h"
#include "trace/recorder_file.h"
#include "trace/recorder_layout.h"
#include "trace/recording.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct tdmi_recorder {
    uint8_t *map; /* TDMI_REC_FILE_BYTES */
    tdmi_recorder_file file;
    atomic_uint groups_made;
};

_Static_assert(__BYTE_ORDER == __LITTLE_ENDIAN, "the count of calls is added to in place");
#define BLOCK 16 /* indices that a group takes at once */

_Static_assert((TDMI_REC_ENTRIES & (TDMI_REC_ENTRIES - 1)) == 0, "an index finds its entry by its low bits");

static uint8_t *entry_at(const tdmi_recorder *recorder, uint64_t index)
{
    return recorder->map + TDMI_REC_ENTRIES_AT + (index & (TDMI_REC_ENTRIES - 1)) * TDMI_REC_ENTRY_BYTES;
}

static _Atomic uint64_t *word_at(uint8_t *at)
{
    return (_Atomic uint64_t *)(void *)at; /* every such field lies on a multiple of 8 */
}

static void put_text(uint8_t *at, size_t nbytes, const char *text)
{
    snprintf((char *)at, nbytes, "%s", text);
}

static void put_names(uint8_t *at, const char *const *names)
{
    for (int i = 0; i < TDMI_REC_NAMES; i++)
        if (names[i] != NULL)
            put_text(at + i * TDMI_REC_NAME_BYTES, TDMI_REC_NAME_BYTES, names[i]);
}

/* What to add to the monotonic clock for the time of day. */
static int64_t clock_offset_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * TDMI_NS_PER_S + t.tv_nsec - tdmi_now_ns();
}

static void write_head(uint8_t *map, const tdmi_recorder_options *options)
{
    tdmi_rec_put32(map + TDMI_REC_AT_VERSION, TDMI_REC_VERSION);
    tdmi_rec_put32(map + TDMI_REC_AT_ENTRY_COUNT, TDMI_REC_ENTRIES);
    tdmi_rec_put32(map + TDMI_REC_AT_PID, (uint32_t)getpid());
    tdmi_rec_put32(map + TDMI_REC_AT_STATE, TDMI_REC_OPEN);
    tdmi_rec_put64(map + TDMI_REC_AT_BIRTH, tdmi_process_birth(getpid()));
    tdmi_rec_put32(map + TDMI_REC_AT_RANK, (uint32_t)options->rank);
    tdmi_rec_put32(map + TDMI_REC_AT_SIZE, (uint32_t)options->size);
    tdmi_rec_put64(map + TDMI_REC_AT_OFFSET, (uint64_t)clock_offset_ns());
    gethostname((char *)map + TDMI_REC_AT_HOST, TDMI_REC_HOST_BYTES - 1);
    tdmi_boot_id((char *)map + TDMI_REC_AT_BOOT, TDMI_REC_BOOT_BYTES);
    put_text(map + TDMI_REC_AT_JOB, TDMI_REC_JOB_BYTES, options->job);
    put_names(map + TDMI_REC_AT_OPS, options->ops);
    put_names(map + TDMI_REC_AT_DTYPES, options->dtypes);
    put_names(map + TDMI_REC_AT_REDUCTIONS, options->reductions);
    memcpy(map + TDMI_REC_AT_MAGIC, TDMI_REC_MAGIC, 8);
}

static tdm_status open_ring(const tdmi_recorder_options *options, tdmi_recorder **out)
{
    tdmi_recorder *recorder = tdmi_calloc(1, sizeof *recorder, "flight recorder");
    if (recorder == NULL)
        return TDM_ERR_NO_MEMORY;
    int fd;
    tdm_status status = tdmi_recorder_file_make(options->job, options->rank, TDMI_REC_FILE_BYTES, &recorder->file, &fd);
    if (status == TDM_OK) {
        recorder->map = mmap(NULL, TDMI_REC_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
        if (recorder->map == MAP_FAILED) {
            status = tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot map %s", recorder->file.path);
            tdmi_recorder_file_remove(&recorder->file);
        }
        close(fd);
    }
    if (status != TDM_OK) {
        tdmi_free(recorder);
        return status;
    }
    write_head(recorder->map, options);
    *out = recorder;
    return TDM_OK;
}

tdmi_recorder *tdmi_recorder_open(const tdmi_recorder_options *options)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    tdmi_recorder *recorder = NULL;
    if (strcmp(tdmi_config_text(TDMI_CONFIG_RECORDER_DIR), "off") != 0 && open_ring(options, &recorder) != TDM_OK && !atomic_flag_test_and_set(&said))
        log_warn(TDM_LOG_GROUP, "calls are not recorded: %s; set TANDEM_RECORDER_DIR to a folder with room, or to off", tdm_error_text());
    return recorder;
}

void tdmi_recorder_close(tdmi_recorder *recorder)
{
    if (recorder == NULL)
        return;
    munmap(recorder->map, TDMI_REC_FILE_BYTES);
    tdmi_recorder_file_remove(&recorder->file);
    tdmi_free(recorder);
}

const char *tdmi_recorder_folder(const tdmi_recorder *recorder)
{
    return recorder->file.folder;
}

tdm_status tdmi_recorder_dump(const tdmi_recorder *recorder, const char *path)
{
    tdmi_recording recording;
    tdm_status status = tdmi_recording_parse(recorder->map, TDMI_REC_FILE_BYTES, &recording);
    if (status != TDM_OK)
        return status;
    status = tdmi_recording_write_json(&recording, path);
    tdmi_recording_free(&recording);
    return status;
}

void tdmi_recorder_fail(tdmi_recorder *recorder, tdm_status status, const char *text)
{
    char path[TDMI_REC_PATH_MAX + 8], kept[TDMI_ERROR_TEXT_MAX];
    if (recorder == NULL)
        return;
    snprintf(kept, sizeof kept, "%s", tdm_error_text());
    put_text(recorder->map + TDMI_REC_AT_ERROR, TDMI_ERROR_TEXT_MAX, text);
    tdmi_rec_put32(recorder->map + TDMI_REC_AT_STATUS, (uint32_t)status);
    tdmi_rec_put32(recorder->map + TDMI_REC_AT_STATE, TDMI_REC_FAILED);
    snprintf(path, sizeof path, "%.*s.json", (int)(strlen(recorder->file.path) - strlen(".ring")), recorder->file.path);
    if (tdmi_recorder_dump(recorder, path) != TDM_OK)
        log_warn(TDM_LOG_GROUP, "no dump of the last calls: %s", tdm_error_text());
    tdmi_error_set_text(kept);
}

/* ---- calls ---- */

void tdmi_recorder_add_group(tdmi_recorder *recorder, const char *name, uint64_t id, int rank, int size, tdmi_recorder_group *out)
{
    *out = (tdmi_recorder_group){0};
    if (recorder == NULL)
        return;
    out->recorder = recorder;
    out->id = id;
    out->slot = atomic_fetch_add_explicit(&recorder->groups_made, 1, memory_order_relaxed) % TDMI_REC_GROUPS;
    uint8_t *group = recorder->map + TDMI_REC_GROUPS_AT + out->slot * TDMI_REC_GROUP_BYTES;
    tdmi_rec_put64(group + TDMI_REC_G_ID, id);
    tdmi_rec_put32(group + TDMI_REC_G_SIZE, (uint32_t)size);
    tdmi_rec_put32(group + TDMI_REC_G_RANK, (uint32_t)rank);
    put_text(group + TDMI_REC_G_NAME, TDMI_REC_GROUP_NAME_BYTES, name);
}

/* The bytes from op to root, written at once. */
static uint64_t kind_of(const tdmi_recorder_group *group, const tdmi_recorder_call *call)
{
    const unsigned op = (unsigned)call->op | (call->fused ? TDMI_REC_FLAG : 0) | (call->uneven ? TDMI_REC_UNEVEN : 0);
    const unsigned dtype = (unsigned)call->dtype | (group->label.nbytes > 0 ? TDMI_REC_FLAG : 0);
    return op | dtype << 8 | (unsigned)call->reduction << 16 | (unsigned)TDMI_CALL_CREATED << 24 | (uint64_t)(uint32_t)call->root << 32;
}

static uint64_t key_of(const tdmi_recorder_group *group, uint64_t index)
{
    return htole64(index << TDMI_REC_SLOT_BITS | group->slot);
}

uint64_t tdmi_recorder_begin(tdmi_recorder_group *group, const tdmi_recorder_call *call, int64_t now_ns)
{
    tdmi_recorder *recorder = group->recorder;
    if (recorder == NULL)
        return 0;
    if (group->left == 0) { /* a locked addition waits for all stores before it: one in 16 calls does */
        group->next = atomic_fetch_add_explicit(word_at(recorder->map + TDMI_REC_AT_TAKEN), BLOCK, memory_order_relaxed) + 1;
        group->left = BLOCK;
    }
    const uint64_t index = group->next++;
    group->left--;
    uint8_t *entry = entry_at(recorder, index);
    atomic_store_explicit(word_at(entry), 0, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst); /* whoever reads comes when this process is gone: order of instructions is enough */
    tdmi_rec_put64(entry + TDMI_REC_E_GROUP, group->id);
    tdmi_rec_put64(entry + TDMI_REC_E_NUMBER, call->number);
    tdmi_rec_put64(entry + TDMI_REC_E_COUNT, call->count);
    tdmi_rec_put64(entry + TDMI_REC_E_CREATED, (uint64_t)now_ns);
    tdmi_rec_put64(entry + TDMI_REC_E_STARTED, 0);
    tdmi_rec_put64(entry + TDMI_REC_E_FINISHED, 0);
    tdmi_rec_put64(entry + TDMI_REC_E_OP, kind_of(group, call));
    if (group->label.nbytes > 0)
        memcpy(entry + TDMI_REC_E_LABEL, group->label.text, group->label.nbytes);
    atomic_store_explicit(word_at(entry), key_of(group, index), memory_order_release);
    const uint8_t *next = entry_at(recorder, index + 1);
    __builtin_prefetch(next, 1);
    if (group->label.nbytes > 0)
        __builtin_prefetch(next + TDMI_REC_E_LABEL, 1);
    return index;
}

/* NULL: nothing is recorded, or the entry is another call's by now. */
static uint8_t *entry_of(const tdmi_recorder_group *group, uint64_t index)
{
    if (index == 0)
        return NULL;
    uint8_t *entry = entry_at(group->recorder, index);
    return atomic_load_explicit(word_at(entry), memory_order_relaxed) == key_of(group, index) ? entry : NULL;
}

void tdmi_recorder_started(tdmi_recorder_group *group, uint64_t index, bool at_once)
{
    uint8_t *entry = entry_of(group, index);
    if (entry == NULL)
        return;
    const uint64_t now_ns = at_once ? tdmi_rec_get64(entry + TDMI_REC_E_CREATED) : (uint64_t)tdmi_quick_ns(&group->clock);
    tdmi_rec_put64(entry + TDMI_REC_E_STARTED, now_ns);
    entry[TDMI_REC_E_STATE] = TDMI_CALL_STARTED;
}

void tdmi_recorder_finished(tdmi_recorder_group *group, uint64_t index, tdmi_call_state state)
{
    uint8_t *entry = entry_of(group, index);
    if (entry == NULL)
        return;
    tdmi_rec_put64(entry + TDMI_REC_E_FINISHED, (uint64_t)tdmi_quick_ns(&group->clock));
    entry[TDMI_REC_E_STATE] = (uint8_t)state;
}

void tdmi_recorder_finished_at_once(tdmi_recorder_group *group, uint64_t index)
{
    uint8_t *entry = entry_of(group, index);
    if (entry == NULL)
        return;
    tdmi_rec_put64(entry + TDMI_REC_E_FINISHED, tdmi_rec_get64(entry + TDMI_REC_E_CREATED));
    entry[TDMI_REC_E_STATE] = TDMI_CALL_FINISHED;
}

void tdmi_recorder_arrivals(tdmi_recorder_group *group, uint64_t index, const bool *missing, int size)
{
    uint8_t *entry = entry_of(group, index);
    if (entry == NULL)
        return;
    uint64_t arrived = 0;
    int count = 0, first = -1;
    for (int r = 0; r < size; r++) {
        if (!missing[r] && r < 64)
            arrived |= (uint64_t)1 << r;
        if (missing[r] && first < 0)
            first = r;
        count += missing[r];
    }
    if ((entry[TDMI_REC_E_REDUCTION] & TDMI_REC_FLAG) == 0)
        tdmi_rec_put64(entry + TDMI_REC_E_MISSED, 0);
    tdmi_rec_put64(entry + TDMI_REC_E_ARRIVED, arrived);
    tdmi_rec_put32(entry + TDMI_REC_E_FIRST_MISSING, (uint32_t)first);
    tdmi_rec_put32(entry + TDMI_REC_E_MISSING, (uint32_t)count);
    if (count > 0 && tdmi_rec_get64(entry + TDMI_REC_E_MISSED) == 0)
        tdmi_rec_put64(entry + TDMI_REC_E_MISSED, (uint64_t)tdmi_now_ns());
    atomic_signal_fence(memory_order_seq_cst);
    entry[TDMI_REC_E_REDUCTION] |= TDMI_REC_FLAG;
}
