/* request.c - the configuration's lines, and how far apart multiples must be. */
#include "live/request.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SPREADS 8 /* that fit between two multiples: ranks miss each other in one of 8 tries at most, and are then asked again */
#define MULTIPLE_MAX 1000000

static tdm_status check_path(const char *path)
{
    const size_t length = strlen(path), ending = strlen(TDMI_REQUEST_ENDING);
    if (length <= ending || strcmp(path + length - ending, TDMI_REQUEST_ENDING) != 0)
        return tdmi_fail(TDM_ERR_INVALID, "a trace is asked for as %s; its name must end in %s", path, TDMI_REQUEST_ENDING);
    for (const char *at = path; *at != '\0'; at++)
        if (*at == '=' || *at == '#' || (unsigned char)*at <= ' ' || *at == '\x7f')
            return tdmi_fail(TDM_ERR_INVALID, "PyTorch's profiler cannot be told to write to %s: it takes the character with code %d for the "
                             "end of the path; set TMPDIR to a folder without it", path, (unsigned char)*at);
    if (strstr(path, ".json") != path + length - strlen(".json"))
        return tdmi_fail(TDM_ERR_INVALID, "PyTorch's profiler would put the process's number into the folder's name in %s; set TMPDIR to a "
                         "folder without \".json\" in its name", path);
    return TDM_OK;
}

tdm_status tdmi_request_write(const tdmi_request *request, char out[TDMI_REQUEST_MAX])
{
    const tdm_status status = check_path(request->path);
    if (status != TDM_OK)
        return status;
    char when[256];
    if (request->iterations > 0)
        snprintf(when, sizeof when,
                 "PROFILE_START_ITERATION=0\nPROFILE_START_ITERATION_ROUNDUP=%d\nACTIVITIES_ITERATIONS=%d\nACTIVITIES_WARMUP_ITERATIONS=1\n",
                 request->multiple, request->iterations);
    else
        snprintf(when, sizeof when, "PROFILE_START_TIME=%lld\n", (long long)request->start_ms);
    const int length = snprintf(out, TDMI_REQUEST_MAX,
                                "ACTIVITIES_LOG_FILE=%s\nACTIVITIES_WARMUP_PERIOD_SECS=0\nACTIVITIES_DURATION_MSECS=%d\n%s"
                                "PROFILE_REPORT_INPUT_SHAPES=%s\nPROFILE_WITH_STACK=%s\n",
                                request->path, request->duration_ms, when, request->shapes ? "true" : "false", request->stacks ? "true" : "false");
    if (length < 0 || length >= TDMI_REQUEST_MAX)
        return tdmi_fail(TDM_ERR_INVALID, "the path %.200s... is too long for a request; set TMPDIR to a shorter one", request->path);
    return TDM_OK;
}

void tdmi_request_file(const tdmi_request *request, int pid, char *out, size_t nbytes)
{
    const int stem = (int)(strlen(request->path) - strlen(TDMI_REQUEST_ENDING));
    snprintf(out, nbytes, "%.*s_%d" TDMI_REQUEST_ENDING, stem, request->path, pid);
}

int tdmi_request_multiple(double step_s, double spread_s)
{
    const double multiple = step_s > 0 ? ceil(SPREADS * spread_s / step_s) : MULTIPLE_MAX;
    return multiple < 1 ? 1 : multiple < MULTIPLE_MAX ? (int)multiple : MULTIPLE_MAX;
}
