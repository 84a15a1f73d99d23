/* saved.h - small checkpoints whose content follows from their step, for tests of saving and reading. */
#ifndef TEST_CHECKPOINT_SAVED_H
#define TEST_CHECKPOINT_SAVED_H

#include "checkpoint/checkpoint.h"
#include "files.h"

enum { SAVED_COUNT = 300 };

static tdmi_layout *saved_model, *saved_optimizer;

static int saved_begin(void **state)
{
    return files_begin(state) != 0 || tdmi_layout_create(&saved_model) != TDM_OK ||
           tdmi_layout_create(&saved_optimizer) != TDM_OK ||
           tdmi_layout_add(saved_model, "w", 2, (uint64_t[]){SAVED_COUNT / 10, 10}) != TDM_OK ||
           tdmi_layout_add(saved_optimizer, "exp_avg.w", 1, (uint64_t[]){SAVED_COUNT}) != TDM_OK;
}

static int saved_end(void **state)
{
    tdmi_layout_destroy(saved_model);
    tdmi_layout_destroy(saved_optimizer);
    return files_end(state);
}

static void saved_values(uint64_t step, float *values)
{
    for (int i = 0; i < SAVED_COUNT; i++)
        values[i] = (float)(step * 1000) + (float)i;
}

static tdm_status saved_fill(tdmi_checkpoint_writer *writer, uint64_t step)
{
    float values[SAVED_COUNT];
    saved_values(step, values);
    tdm_status st = tdmi_safetensors_write(tdmi_checkpoint_model_writer(writer), 0, 0, SAVED_COUNT, values);
    if (st == TDM_OK)
        st = tdmi_safetensors_write(tdmi_checkpoint_optimizer_writer(writer), 0, 0, SAVED_COUNT, values);
    return st == TDM_OK ? tdmi_checkpoint_sync(writer) : st;
}

static const uint8_t saved_random[] = {0, 1, 254, 255};
static const tdmi_checkpoint_note saved_notes[] = {{"seed", "42"}, {"data", "a \"b\" \\ é\n"}};

static tdmi_checkpoint_state saved_state(uint64_t step)
{
    return (tdmi_checkpoint_state){.step = step, .epoch = 2, .next = 96, .random = saved_random,
                                   .random_nbytes = sizeof saved_random, .kernels = "matmul onednn\n",
                                   .config = "{\"n_layer\": 2}\n", .notes = saved_notes, .note_count = 2};
}

/* Saves step `step` into `run`, all of it, keeping `keep`. */
static inline tdm_status saved_write(const char *run, uint64_t step, int keep)
{
    tdmi_checkpoint_writer *writer;
    tdm_status st = tdmi_checkpoint_begin(run, step, saved_model, saved_optimizer, &writer);
    if (st != TDM_OK)
        return st;
    const tdmi_checkpoint_state state = saved_state(step);
    st = saved_fill(writer, step);
    if (st == TDM_OK)
        st = tdmi_checkpoint_commit(writer, &state, keep);
    tdmi_checkpoint_end(writer);
    return st;
}

/* Whether the folder of `step` holds what saved_write writes. */
static inline bool saved_is_whole(const char *run, uint64_t step)
{
    char folder[TDMI_PATH_MAX];
    tdmi_checkpoint *c;
    if (tdmi_checkpoint_folder(run, step, folder) != TDM_OK || tdmi_checkpoint_open(folder, true, &c) != TDM_OK)
        return false;
    float values[SAVED_COUNT], model[SAVED_COUNT], optimizer[SAVED_COUNT];
    saved_values(step, values);
    const tdmi_file_tensor *w = tdmi_safetensors_find(tdmi_checkpoint_model(c), "w");
    const tdmi_file_tensor *m = tdmi_safetensors_find(tdmi_checkpoint_optimizer(c), "exp_avg.w");
    bool whole = tdmi_checkpoint_state_of(c)->step == step && w != NULL && m != NULL &&
                 tdmi_safetensors_read(tdmi_checkpoint_model(c), w, 0, SAVED_COUNT, model) == TDM_OK &&
                 tdmi_safetensors_read(tdmi_checkpoint_optimizer(c), m, 0, SAVED_COUNT, optimizer) == TDM_OK &&
                 memcmp(values, model, sizeof values) == 0 && memcmp(values, optimizer, sizeof values) == 0;
    tdmi_checkpoint_close(c);
    return whole;
}

#endif
