/* input.c - looks at the beginning of each file. */
#include "doctor/input.h"

#include "doctor/flight.h"

#include "core/memory.h"
#include "flight/dump.h"
#include "nccl_log/nccl_log.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HEAD_BYTES ((size_t)1 << 16)
#define SEARCHED_NAMED ((size_t)4096)  /* heads: NCCL's lines may stand far down in a job's log, behind those of installers and loaders */
#define SEARCHED_IN_FOLDER ((size_t)64)

static tdm_status add(tdmi_inputs *inputs, tdmi_input_kind kind, const char *path)
{
    struct tdmi_input_list *list = &inputs->of[kind];
    if (list->count % 16 == 0) {
        char **more = tdmi_realloc(list->path, ((size_t)list->count + 16) * sizeof *more, "doctor");
        if (more == NULL)
            return TDM_ERR_NO_MEMORY;
        list->path = more;
    }
    list->path[list->count] = tdmi_strdup(path, "doctor");
    if (list->path[list->count] == NULL)
        return TDM_ERR_NO_MEMORY;
    list->count++;
    return TDM_OK;
}

/* A member of the outer object of a text that begins like JSON. */
static bool has_member(const char *head, size_t nbytes, const char *name)
{
    return memmem(head, nbytes, name, strlen(name)) != NULL;
}

static bool is_recording(const char *head, size_t nbytes)
{
    return tdmi_is_ring(head, nbytes) || (nbytes > 0 && *head == '{' && has_member(head, nbytes, "\"tandem_recorder\""));
}

/* A profiler's trace: anything compressed, or a text that begins like JSON; what is wrong with it its reader says. In a folder there may be
 * other JSON: there a trace also has to show one of the names that traces have. */
static bool is_trace(const char *head, size_t nbytes, bool was_named)
{
    static const char *const members[] = {"\"traceEvents\"", "\"schemaVersion\"", "\"deviceProperties\"", "\"distributedInfo\"", "\"ph\""};
    if (nbytes >= 2 && memcmp(head, "\x1f\x8b", 2) == 0)
        return true;
    size_t at = nbytes >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (at < nbytes && (head[at] == ' ' || head[at] == '\t' || head[at] == '\r' || head[at] == '\n'))
        at++;
    bool has = was_named;
    for (size_t i = 0; i < sizeof members / sizeof *members && !has; i++)
        has = has_member(head, nbytes, members[i]);
    return has && at < nbytes && (head[at] == '{' || head[at] == '[');
}

/* Whether a text, whose beginning was read, has a line of NCCL further down. A line on the border of two pieces is missed; there are more. */
static bool has_nccl_line(FILE *file, char *head, size_t nbytes, size_t pieces)
{
    bool found = false;
    for (size_t i = 0; i < pieces && nbytes == HEAD_BYTES && !found && memchr(head, '\0', nbytes) == NULL; i++) {
        nbytes = fread(head, 1, HEAD_BYTES, file);
        found = tdmi_nccl_log_is(head, nbytes);
    }
    return found;
}

/* *kind_out: TDMI_INPUT_KINDS where the file is of none. */
static tdm_status look(const char *path, char *head, bool was_named, tdmi_input_kind *kind_out, bool *pickle_out)
{
    FILE *file = fopen(path, "rbe");
    if (file == NULL)
        return tdmi_fail_errno(TDM_ERR_BAD_FILE, errno, "cannot read %s", path);
    const size_t nbytes = fread(head, 1, HEAD_BYTES, file);
    *kind_out = is_recording(head, nbytes)                           ? TDMI_INPUT_RECORDING
                : tdmi_flight_is_dump((const uint8_t *)head, nbytes) ? TDMI_INPUT_FLIGHT
                : tdmi_nccl_log_is(head, nbytes)                     ? TDMI_INPUT_NCCL_LOG
                : is_trace(head, nbytes, false)                      ? TDMI_INPUT_TRACE
                                                                     : TDMI_INPUT_KINDS;
    *pickle_out = *kind_out == TDMI_INPUT_KINDS && tdmi_flight_is_pickle((const uint8_t *)head, nbytes);
    if (*pickle_out && was_named)
        *kind_out = TDMI_INPUT_FLIGHT; /* its reader says what is wrong with it */
    const bool may_be_trace = is_trace(head, nbytes, was_named);
    if (*kind_out == TDMI_INPUT_KINDS && has_nccl_line(file, head, nbytes, was_named ? SEARCHED_NAMED : SEARCHED_IN_FOLDER))
        *kind_out = TDMI_INPUT_NCCL_LOG;
    if (*kind_out == TDMI_INPUT_KINDS && may_be_trace)
        *kind_out = TDMI_INPUT_TRACE;
    fclose(file);
    return TDM_OK;
}

/* Keeps the first path of a kind that the error may have to name. */
static tdm_status remember(char **first, const char *path)
{
    if (*first == NULL)
        *first = tdmi_strdup(path, "doctor");
    return *first != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
}

/* The files of a folder and of its folders. A folder with recordings or traces is handed on whole: which of them count is their reader's
 * matter. Traces in the folders of a folder are other jobs. */
static tdm_status sort_folder(tdmi_inputs *inputs, const char *path, char *head, bool may_descend)
{
    struct dirent **names;
    tdm_status status = TDM_OK;
    bool recordings = false, traces = false, pickle;
    const int count = scandir(path, &names, NULL, alphasort);
    if (count < 0)
        return tdmi_fail_errno(TDM_ERR_BAD_FILE, errno, "cannot read the folder %s", path);
    for (int i = 0; i < count && status == TDM_OK; i++) {
        char inside[4096];
        struct stat facts;
        tdmi_input_kind kind;
        if (names[i]->d_name[0] == '.' || (size_t)snprintf(inside, sizeof inside, "%s/%s", path, names[i]->d_name) >= sizeof inside ||
            stat(inside, &facts) != 0)
            continue;
        if (S_ISDIR(facts.st_mode) && may_descend)
            status = sort_folder(inputs, inside, head, false);
        if (!S_ISREG(facts.st_mode) || look(inside, head, false, &kind, &pickle) != TDM_OK)
            continue;
        if (kind == TDMI_INPUT_RECORDING)
            recordings = true;
        else if (kind == TDMI_INPUT_TRACE)
            traces = true;
        else if (kind != TDMI_INPUT_KINDS)
            status = add(inputs, kind, inside);
        else if (pickle)
            status = remember(&inputs->pickle, inside);
    }
    if (recordings && status == TDM_OK)
        status = add(inputs, TDMI_INPUT_RECORDING, path);
    if (traces && status == TDM_OK)
        status = may_descend ? add(inputs, TDMI_INPUT_TRACE, path) : remember(&inputs->inside, path);
    for (int i = 0; i < count; i++)
        free(names[i]);
    free(names);
    return status;
}

static tdm_status sort_file(tdmi_inputs *inputs, const char *path, char *head)
{
    tdmi_input_kind kind;
    bool pickle;
    const tdm_status status = look(path, head, true, &kind, &pickle);
    if (status != TDM_OK)
        return status;
    if (kind == TDMI_INPUT_KINDS)
        return tdmi_fail(
            TDM_ERR_BAD_FILE,
            "%s is nothing the doctor reads: a trace of PyTorch's profiler, a recording of Tandem (docs/recorder.md), a log of "
            "NCCL_DEBUG=INFO or a dump of PyTorch's flight recorder was expected", path);
    return add(inputs, kind, path);
}

/* Why there is nothing to look at, and what in the folders comes nearest. */
static tdm_status fail_empty(const tdmi_inputs *inputs, const char *path)
{
    static const char *const nothing = "no recording in %s, no log of NCCL, no trace or dump of PyTorch; %s%s";
    char why[TDMI_ERROR_TEXT_MAX];
    tdmi_flight_job job;
    if (inputs->inside != NULL)
        return tdmi_fail(TDM_ERR_BAD_FILE, "%s holds folders of traces, which are not entered, for each is of a job of its own; give one of them, such as %s", path,
                         inputs->inside);
    if (inputs->pickle == NULL)
        return tdmi_fail(TDM_ERR_BAD_FILE, nothing, path, "a rank that ends well leaves no recording", "");
    if (tdmi_flight_gather((const char *const *)&inputs->pickle, 1, &job) == TDM_OK) {
        tdmi_flight_job_free(&job);
        return tdmi_fail(TDM_ERR_BAD_FILE, nothing, path, "give it the dump itself: ", inputs->pickle);
    }
    snprintf(why, sizeof why, "%s", tdm_error_text());
    return tdmi_fail(TDM_ERR_BAD_FILE, nothing, path, "of its pickles the first: ", why);
}

tdm_status tdmi_inputs_sort(const char *const *paths, int count, tdmi_inputs *out)
{
    tdmi_inputs inputs = {0};
    char *head = tdmi_malloc(HEAD_BYTES, "doctor");
    tdm_status status = head != NULL ? TDM_OK : TDM_ERR_NO_MEMORY;
    int all = 0;
    for (int i = 0; i < count && status == TDM_OK; i++) {
        struct stat facts;
        if (stat(paths[i], &facts) != 0)
            status = tdmi_fail_errno(TDM_ERR_BAD_FILE, errno, "cannot read %s", paths[i]);
        else if (!S_ISDIR(facts.st_mode) && !S_ISREG(facts.st_mode)) /* a pipe may have no end, and nobody at its other one */
            status = tdmi_fail(TDM_ERR_BAD_FILE, "%s is no plain file and no folder; write what comes from there to a file first", paths[i]);
        else
            status = S_ISDIR(facts.st_mode) ? sort_folder(&inputs, paths[i], head, true) : sort_file(&inputs, paths[i], head);
    }
    tdmi_free(head);
    for (int kind = 0; kind < TDMI_INPUT_KINDS; kind++)
        all += inputs.of[kind].count;
    if (status == TDM_OK && all == 0)
        status = fail_empty(&inputs, count > 0 ? paths[0] : "nothing");
    if (status != TDM_OK) {
        tdmi_inputs_free(&inputs);
        return status;
    }
    *out = inputs;
    return TDM_OK;
}

void tdmi_inputs_free(tdmi_inputs *inputs)
{
    for (int kind = 0; kind < TDMI_INPUT_KINDS; kind++) {
        for (int i = 0; i < inputs->of[kind].count; i++)
            tdmi_free(inputs->of[kind].path[i]);
        tdmi_free(inputs->of[kind].path);
    }
    tdmi_free(inputs->pickle);
    tdmi_free(inputs->inside);
    *inputs = (tdmi_inputs){0};
}
