/* state.c - state.json, format 1.
 *
 *   {"format": 1, "tandem": "0.1.0", "step": 100, "sampler": {"epoch": 0, "next": 3200}, "random": "<hex>", "kernels": "...",
 *    "notes": {"name": "text"}, "files": {"model.safetensors": {"bytes": 7, "xxh64": "<16 hex digits>"}, ...},
 *    "xxh64": "<hash of this text without this member>"} */
#include "checkpoint/state.h"

#include "core/memory.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { FORMAT = 1, HEX = 16 };

const char *const tdmi_checkpoint_files[TDMI_FILE_COUNT] = {"model.safetensors", "optimizer.safetensors", "config.json"};

/* What stands behind the hashed text, in place of its last two bytes "\n}". */
#define SEAL_FORMAT ",\n  \"xxh64\": \"%016llx\"\n}"
enum { SEAL_BYTES = sizeof ",\n  \"xxh64\": \"0123456789abcdef\"\n}" - 1 };

struct tdmi_state {
    json_t *root; /* owns the texts */
    tdmi_checkpoint_state is;
    tdmi_checkpoint_note *notes;
    uint8_t *random;
    tdmi_file_mark marks[TDMI_FILE_COUNT];
};

static void to_hex(const uint8_t *bytes, size_t nbytes, char *out)
{
    for (size_t i = 0; i < nbytes; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

static bool from_hex(const char *text, size_t digits, uint8_t *out)
{
    for (size_t i = 0; i < digits; i++) {
        char c = text[i];
        int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (value < 0)
            return false;
        out[i / 2] = (uint8_t)(i % 2 == 0 ? value << 4 : out[i / 2] | value);
    }
    return true;
}

static json_t *random_text(const tdmi_checkpoint_state *state)
{
    char *hex = tdmi_calloc(state->random_nbytes * 2 + 1, 1, "random state");
    if (hex == NULL)
        return NULL;
    to_hex(state->random, state->random_nbytes, hex);
    json_t *text = json_string(hex);
    tdmi_free(hex);
    return text;
}

static json_t *notes_object(const tdmi_checkpoint_state *state)
{
    json_t *notes = json_object();
    bool whole = notes != NULL;
    for (size_t i = 0; whole && i < state->note_count; i++)
        whole = json_object_set_new(notes, state->notes[i].name, json_string(state->notes[i].value)) == 0;
    if (whole)
        return notes;
    json_decref(notes);
    return NULL;
}

static json_t *files_object(const tdmi_file_mark *marks)
{
    json_t *files = json_object();
    bool whole = files != NULL;
    for (int i = 0; whole && i < TDMI_FILE_COUNT; i++) {
        char hash[HEX + 1];
        snprintf(hash, sizeof hash, "%016llx", (unsigned long long)marks[i].hash);
        json_t *mark = json_pack("{s:I, s:s}", "bytes", (json_int_t)marks[i].nbytes, "xxh64", hash);
        whole = json_object_set_new(files, tdmi_checkpoint_files[i], mark) == 0;
    }
    if (whole)
        return files;
    json_decref(files);
    return NULL;
}

tdm_status tdmi_state_encode(const tdmi_checkpoint_state *state, const tdmi_file_mark marks[TDMI_FILE_COUNT], char **out)
{
    json_t *root = json_pack("{s:i, s:s, s:I, s:{s:I, s:I}, s:o, s:s, s:o, s:o}", "format", FORMAT, "tandem", tdm_version(),
                             "step", (json_int_t)state->step, "sampler", "epoch", (json_int_t)state->epoch, "next",
                             (json_int_t)state->next, "random", random_text(state), "kernels", state->kernels, "notes",
                             notes_object(state), "files", files_object(marks));
    char *text = root != NULL ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    if (text == NULL)
        return tdmi_fail(TDM_ERR_INVALID, "the state of step %llu cannot be written as JSON: one of its texts is not UTF-8, or "
                         "there is no memory", (unsigned long long)state->step);
    const size_t length = strlen(text);
    char *sealed = tdmi_malloc(length - 2 + SEAL_BYTES + 1, "state text");
    if (sealed != NULL) {
        memcpy(sealed, text, length);
        snprintf(sealed + length - 2, SEAL_BYTES + 1, SEAL_FORMAT, (unsigned long long)XXH64(text, length, 0));
        *out = sealed;
    }
    free(text);
    return sealed != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
}

/* Whether the text ends in the hash of all before it. */
static bool seal_is_whole(const char *text, size_t nbytes)
{
    if (nbytes < SEAL_BYTES)
        return false;
    const size_t kept = nbytes - SEAL_BYTES; /* the hashed text without its last two bytes */
    char seal[SEAL_BYTES + 1];
    XXH64_state_t *hash = XXH64_createState();
    if (hash == NULL)
        return false;
    XXH64_reset(hash, 0);
    XXH64_update(hash, text, kept);
    XXH64_update(hash, "\n}", 2);
    snprintf(seal, sizeof seal, SEAL_FORMAT, (unsigned long long)XXH64_digest(hash));
    XXH64_freeState(hash);
    return memcmp(text + kept, seal, SEAL_BYTES) == 0;
}

static bool take_number(const json_t *object, const char *name, uint64_t *out)
{
    const json_t *value = json_object_get(object, name);
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

static tdm_status take_marks(tdmi_state *s, const char *path)
{
    const json_t *files = json_object_get(s->root, "files");
    for (int i = 0; i < TDMI_FILE_COUNT; i++) {
        const json_t *mark = json_object_get(files, tdmi_checkpoint_files[i]);
        const char *hash = json_string_value(json_object_get(mark, "xxh64"));
        uint8_t bytes[HEX / 2];
        if (!take_number(mark, "bytes", &s->marks[i].nbytes) || hash == NULL || strlen(hash) != HEX || !from_hex(hash, HEX, bytes))
            return tdmi_fail(TDM_ERR_BAD_FILE, "%s has no size and hash of %s", path, tdmi_checkpoint_files[i]);
        for (int b = 0; b < HEX / 2; b++)
            s->marks[i].hash = s->marks[i].hash << 8 | bytes[b];
    }
    return TDM_OK;
}

static tdm_status take_random(tdmi_state *s, const char *path)
{
    const json_t *random = json_object_get(s->root, "random");
    const size_t digits = json_string_length(random);
    if (!json_is_string(random) || digits % 2 != 0)
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s has no random state in hexadecimal digits", path);
    if (digits == 0)
        return TDM_OK;
    s->random = tdmi_malloc(digits / 2, "random state");
    if (s->random == NULL)
        return TDM_ERR_NO_MEMORY;
    if (!from_hex(json_string_value(random), digits, s->random))
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s has a random state that is not in hexadecimal digits", path);
    s->is.random = s->random;
    s->is.random_nbytes = digits / 2;
    return TDM_OK;
}

static tdm_status take_notes(tdmi_state *s, const char *path)
{
    json_t *notes = json_object_get(s->root, "notes");
    if (!json_is_object(notes))
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s has no notes", path);
    if (json_object_size(notes) == 0)
        return TDM_OK;
    s->notes = tdmi_calloc(json_object_size(notes), sizeof *s->notes, "checkpoint notes");
    if (s->notes == NULL)
        return TDM_ERR_NO_MEMORY;
    const char *name;
    json_t *value;
    json_object_foreach(notes, name, value) {
        if (!json_is_string(value))
            return tdmi_fail(TDM_ERR_BAD_FILE, "%s has a note that is no text", path);
        s->notes[s->is.note_count++] = (tdmi_checkpoint_note){name, json_string_value(value)};
    }
    s->is.notes = s->notes;
    return TDM_OK;
}

static tdm_status take_members(tdmi_state *s, const char *path)
{
    uint64_t format;
    if (!take_number(s->root, "format", &format))
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s names no format", path);
    if (format != FORMAT)
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s is of format %llu; this Tandem (%s) reads format %d", path,
                         (unsigned long long)format, tdm_version(), FORMAT);
    const json_t *sampler = json_object_get(s->root, "sampler");
    s->is.kernels = json_string_value(json_object_get(s->root, "kernels"));
    if (!take_number(s->root, "step", &s->is.step) || !take_number(sampler, "epoch", &s->is.epoch) ||
        !take_number(sampler, "next", &s->is.next) || s->is.kernels == NULL)
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s lacks step, sampler or kernels", path);
    tdm_status st = take_marks(s, path);
    if (st == TDM_OK)
        st = take_random(s, path);
    if (st == TDM_OK)
        st = take_notes(s, path);
    return st;
}

tdm_status tdmi_state_decode(const char *path, const char *text, size_t nbytes, tdmi_state **out)
{
    if (!seal_is_whole(text, nbytes))
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s was cut off or changed: it does not end in the hash of its text", path);
    tdmi_state *s = tdmi_calloc(1, sizeof *s, "checkpoint state");
    if (s == NULL)
        return TDM_ERR_NO_MEMORY;
    json_error_t error;
    s->root = json_loadb(text, nbytes, JSON_REJECT_DUPLICATES, &error);
    tdm_status st = s->root != NULL ? take_members(s, path)
                                    : tdmi_fail(TDM_ERR_BAD_FILE, "%s is not JSON at byte %d: %s", path, error.position, error.text);
    if (st != TDM_OK) {
        tdmi_state_free(s);
        return st;
    }
    *out = s;
    return TDM_OK;
}

void tdmi_state_free(tdmi_state *s)
{
    if (s == NULL)
        return;
    json_decref(s->root);
    tdmi_free(s->notes);
    tdmi_free(s->random);
    tdmi_free(s);
}

const tdmi_checkpoint_state *tdmi_state_get(const tdmi_state *s)
{
    return &s->is;
}

const tdmi_file_mark *tdmi_state_marks(const tdmi_state *s)
{
    return s->marks;
}
