/* generate.c - a checkpoint continues a prompt. */
#include "checkpoint/checkpoint.h"
#include "train/weights.h"
#include "train/writer.h"

#include "core/cpu.h"
#include "core/memory.h"

#include <tandem/train.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BYTES 256

/* A checkpoint's own folder, or the newest one of a run's. */
static tdm_status find_folder(const char *path, char out[TDMI_PATH_MAX])
{
    char state[TDMI_PATH_MAX];
    struct stat info;
    tdm_status st = tdmi_disk_path(state, "%s/state.json", path);
    if (st == TDM_OK && stat(state, &info) == 0)
        return tdmi_disk_path(out, "%s", path);
    uint64_t step = 0;
    bool found = false;
    if (st == TDM_OK)
        st = tdmi_checkpoint_find(path, &step, &found);
    if (st == TDM_OK && !found)
        st = tdmi_fail(TDM_ERR_BAD_FILE, "%s: there is no checkpoint; it is neither a folder step-N nor a run that saved one", path);
    return st == TDM_OK ? tdmi_checkpoint_folder(path, step, out) : st;
}

/* Whether the model was trained on bytes; a checkpoint that does not say is judged by its vocabulary. */
static bool is_of_bytes(const tdmi_checkpoint *c, const tdmi_model_config *config)
{
    const char *tokens = tdmi_checkpoint_note_of(c, "tokens");
    return tokens != NULL ? strcmp(tokens, "bytes") == 0 : config->vocab == BYTES;
}

/* A prompt for a model of bytes is its text; for others a list of token ids with commas or spaces between them. */
static tdm_status push_prompt(tdmi_writer *writer, const char *prompt, bool bytes, int vocab)
{
    tdm_status st = TDM_OK;
    if (bytes) {
        for (const unsigned char *c = (const unsigned char *)prompt; *c != '\0' && st == TDM_OK; c++)
            st = tdmi_writer_push(writer, *c);
        return st;
    }
    const char *at = prompt + strspn(prompt, ", ");
    while (*at != '\0' && st == TDM_OK) {
        char *end;
        errno = 0;
        long token = strtol(at, &end, 10);
        if (end == at || errno != 0 || token < 0 || token >= vocab)
            return tdmi_fail(TDM_ERR_INVALID, "--prompt: \"%s\": this model's tokens are numbers below %d, such as 464,3290", at, vocab);
        st = tdmi_writer_push(writer, (int32_t)token);
        at = end + strspn(end, ", ");
    }
    return st;
}

static tdm_status write_tokens(tdmi_writer *writer, const tdm_generate_options *o, bool bytes, int vocab,
                               void (*write)(const char *text, size_t nbytes, void *arg), void *arg)
{
    tdmi_rng rng;
    tdm_status st = tdmi_rng_init(&rng, o->seed);
    if (st == TDM_OK)
        st = push_prompt(writer, o->prompt, bytes, vocab);
    if (st == TDM_OK)
        write(o->prompt, strlen(o->prompt), arg);
    for (int i = 0; i < o->tokens && st == TDM_OK; i++) {
        int32_t token;
        char text[16];
        st = tdmi_writer_next(writer, &rng, o->temperature, o->top_k, &token);
        if (st != TDM_OK)
            break;
        int nbytes = 1;
        text[0] = token < BYTES ? (char)token : '?'; /* a larger vocabulary than bytes need is possible */
        if (!bytes)
            nbytes = snprintf(text, sizeof text, ",%d", token);
        write(text, (size_t)nbytes, arg);
    }
    return st;
}

tdm_status tdm_generate(const tdm_generate_options *o, void (*write)(const char *text, size_t nbytes, void *arg), void *arg)
{
    char folder[TDMI_PATH_MAX];
    tdmi_checkpoint *c = NULL;
    tdmi_writer *writer = NULL;
    tdmi_model_config config;
    bool bytes = false;
    if (o->prompt == NULL || o->prompt[0] == '\0')
        return tdmi_fail(TDM_ERR_INVALID, "--prompt is empty; a text needs a beginning");
    if (o->tokens < 1 || !(o->temperature >= 0) || o->top_k < 0)
        return tdmi_fail(TDM_ERR_INVALID, "tokens %d, temperature %g, top-k %d: at least 1, 0 and 0", o->tokens, o->temperature, o->top_k);
    tdm_status st = find_folder(o->checkpoint, folder);
    if (st == TDM_OK)
        st = tdmi_checkpoint_open(folder, true, &c);
    const char *json = c == NULL ? NULL : tdmi_checkpoint_state_of(c)->config;
    const tdmi_model *model = json == NULL ? NULL : tdmi_model_of_config(json);
    if (st == TDM_OK && model == NULL)
        st = tdmi_fail(TDM_ERR_BAD_FILE, "%s: config.json is of no model that Tandem knows", folder);
    if (st == TDM_OK)
        st = model->config_parse(json, &config);
    if (st == TDM_OK)
        st = tdmi_writer_create(model, &config, NULL, NULL, &writer);
    if (st == TDM_OK)
        st = tdmi_weights_read(tdmi_checkpoint_model(c), folder, model, tdmi_writer_graph(writer), tdmi_writer_exec(writer));
    if (st == TDM_OK)
        bytes = is_of_bytes(c, &config);
    tdmi_checkpoint_close(c);
    if (st == TDM_OK)
        st = write_tokens(writer, o, bytes, config.vocab, write, arg);
    tdmi_writer_destroy(writer);
    return st;
}
