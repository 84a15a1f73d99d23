/* launch.c - tdm_launch: what must be known before the ranks start, and their start. supervise.c sees them to their end.
 *
 * Threads: this one, which must be the one that called tdm_launch for as long as the job runs (ranks die with it), and the
 * store's and the watcher's of nodes.c. */
#include "core/config.h"
#include "core/cpu.h"
#include "core/memory.h"
#include "launch/environment.h"
#include "launch/job.h"
#include "launch/port.h"
#include "launch/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_log(const tdmi_job *j, int rank, bool is_stderr)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/rank-%d.%s", j->options->log_dir, rank, is_stderr ? "err" : "out");
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

/* The write ends for a rank's stdout and stderr (-1: it has this process's own). */
static tdm_status open_streams(tdmi_job *j, tdmi_local_rank *r, bool inherit, int ends[2])
{
    r->streams[0] = r->streams[1] = ends[0] = ends[1] = -1;
    if (inherit)
        return TDM_OK;
    char prefix[300] = "", host[256] = "?";
    gethostname(host, sizeof host - 1);
    if (j->nodes != NULL)
        snprintf(prefix, sizeof prefix, "[%s:%d] ", host, r->rank);
    else if (j->shape.size > 1)
        snprintf(prefix, sizeof prefix, "[%d] ", r->rank);
    bool shown = tdmi_rank_list_has(j->options->only_ranks, r->rank);
    for (int i = 0; i < 2; i++) {
        int pipe_ends[2], log_fd = -1;
        if (j->options->log_dir != NULL && (log_fd = open_log(j, r->rank, i == 1)) < 0)
            return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot write to the log folder %s", j->options->log_dir);
        if (pipe2(pipe_ends, O_CLOEXEC) != 0) {
            int error = errno;
            if (log_fd >= 0)
                close(log_fd);
            return tdmi_fail_errno(TDM_ERR_SYSTEM, error, "cannot make a pipe for rank %d", r->rank);
        }
        ends[i] = pipe_ends[1];
        tdm_status status = tdmi_output_add(j->output, pipe_ends[0], i == 1, prefix, shown, log_fd, &r->streams[i]);
        if (status != TDM_OK)
            return status;
    }
    return TDM_OK;
}

static tdm_status start_rank(tdmi_job *j, int local, int null_input, int report)
{
    tdmi_local_rank *r = &j->ranks[local];
    int ends[2];
    char **environment = NULL;
    tdmi_rank_place place = {
        .rank = r->rank, .size = j->shape.size, .local_rank = local, .local_size = j->shape.local_size,
        .node_rank = j->shape.node_rank, .nodes = j->shape.nodes, .master_address = j->shape.master_address,
        .master_port = j->shape.master_port, .job_id = j->shape.job_id, .job_secret = j->secret, .launcher = j->options->name,
        .threads = getenv("OMP_NUM_THREADS") != NULL ? 0 : j->placement.threads, .log_dir = j->options->log_dir,
    };
    bool alone = j->shape.size == 1 && j->options->log_dir == NULL;
    tdm_status status = open_streams(j, r, alone || (j->options->inherit_rank0 && r->rank == 0), ends);
    if (status == TDM_OK)
        status = tdmi_environment_create(&place, &environment);
    if (status == TDM_OK) {
        /* Rank 0 reads what is piped into the launcher. A terminal belongs to its own POSIX session and cannot be read from here. */
        bool reads = r->rank == 0 && !isatty(STDIN_FILENO);
        tdmi_spawn spawn = {
            .path = j->program.path, .argv = j->program.argv, .environment = environment,
            .cpus = j->placement.sets != NULL ? &j->placement.sets[local] : NULL, .input = reads ? -1 : null_input,
            .output = ends[0], .errors = ends[1], .signals = &j->signals.outer_mask, .ignore_hangup = j->signals.ignores_hangup,
        };
        status = tdmi_process_spawn(&spawn, r->rank, report, &r->pid);
    }
    tdmi_free(environment);
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0)
            close(ends[i]);
    if (status == TDM_OK) {
        j->alive++;
        tdmi_guardian_tell(&j->guardian, r->pid, true);
    }
    return status;
}

/* Starts all ranks and waits until each runs the program. */
static tdm_status start_ranks(tdmi_job *j)
{
    int report[2] = {-1, -1}, words[2];
    int null_input = open("/dev/null", O_RDWR | O_CLOEXEC);
    tdm_status status = TDM_OK;
    if (null_input < 0 || pipe2(report, O_CLOEXEC) != 0)
        status = tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot prepare to start ranks");
    for (int i = 0; i < j->shape.local_size && status == TDM_OK; i++)
        status = start_rank(j, i, null_input, report[1]);
    if (report[1] >= 0)
        close(report[1]);
    if (status == TDM_OK && read(report[0], words, sizeof words) == (ssize_t)sizeof words) /* ends when all have become the program */
        status = tdmi_fail(TDM_ERR_SYSTEM, "rank %d cannot run %s: %s", words[0], j->program.path, strerror(words[1]));
    if (report[0] >= 0)
        close(report[0]);
    if (null_input >= 0)
        close(null_input);
    return status;
}

/* A name or a secret of random hexadecimal digits. */
static tdm_status make_random(char *text, size_t digits)
{
    uint8_t bytes[64];
    if (getrandom(bytes, digits / 2, 0) != (ssize_t)(digits / 2))
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "the kernel gives no random bytes");
    for (size_t i = 0; i < digits / 2; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return TDM_OK;
}

static tdm_status name_job(tdmi_job *j)
{
    const char *id = tdmi_config_text(TDMI_CONFIG_JOB_ID), *secret = tdmi_config_text(TDMI_CONFIG_JOB_SECRET);
    if (strlen(id) >= sizeof j->shape.job_id || strlen(secret) >= sizeof j->secret || strpbrk(id, " \n\t") != NULL)
        return tdmi_fail(TDM_ERR_INVALID, "TANDEM_JOB_ID has at most %zu bytes and no spaces, TANDEM_JOB_SECRET at most %zu bytes",
                         sizeof j->shape.job_id - 1, sizeof j->secret - 1);
    snprintf(j->shape.job_id, sizeof j->shape.job_id, "%s", id);
    snprintf(j->secret, sizeof j->secret, "%s", secret);
    tdm_status status = TDM_OK;
    if (*id == '\0')
        status = make_random(j->shape.job_id, 12);
    if (status == TDM_OK && *secret == '\0')
        status = make_random(j->secret, 32);
    return status;
}

/* Ranks, addresses, ports: what must be known before the first rank can start. */
static tdm_status prepare(tdmi_job *j)
{
    const tdm_launch_options *options = j->options;
    tdm_status status = tdmi_program_find(options->argv, &j->program);
    if (status != TDM_OK)
        return status;
    j->shape = (tdmi_job_shape){
        .node_rank = options->node_rank, .nodes = options->nodes,
        .local_size = options->ranks > 0 ? options->ranks : tdm_launch_default_ranks(), .master_address = "127.0.0.1",
    };
    j->shape.size = j->shape.local_size;
    if (options->node_rank == 0) {
        status = tdmi_port_hold(options->port, &j->port_holder, &j->shape.master_port);
        if (status != TDM_OK)
            return status;
    }
    if ((status = name_job(j)) != TDM_OK)
        return status;
    if (options->nodes > 1) {
        double timeout_s = options->timeout_s;
        if (timeout_s <= 0 && (status = tdmi_config_number(TDMI_CONFIG_RDZV_TIMEOUT, 0.001, 1e9, &timeout_s)) != TDM_OK)
            return status;
        if ((status = tdmi_nodes_meet(options->rendezvous, timeout_s, &j->shape, &j->nodes)) != TDM_OK)
            return status;
    }
    status = tdmi_placement_choose(j->shape.local_size, getenv("OMP_NUM_THREADS"), &j->placement);
    if (status != TDM_OK)
        return status;
    if (options->log_dir != NULL && mkdir(options->log_dir, 0777) != 0 && errno != EEXIST)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot make the log folder %s", options->log_dir);
    j->ranks = tdmi_calloc((size_t)j->shape.local_size, sizeof *j->ranks, "ranks");
    j->items = tdmi_calloc((size_t)j->shape.local_size * 2 + 4, sizeof *j->items, "ranks");
    if (j->ranks == NULL || j->items == NULL)
        return TDM_ERR_NO_MEMORY;
    for (int i = 0; i < j->shape.local_size; i++)
        j->ranks[i].rank = j->shape.first_rank + i;
    return tdmi_output_create(options->name, &j->output);
}

/* These three together are in the environment of this job's processes and of no others, also within jobs started by jobs. */
static tdm_status start_guardian(tdmi_job *j)
{
    snprintf(j->guard_text[0], sizeof j->guard_text[0], "TANDEM_JOB_ID=%s", j->shape.job_id);
    snprintf(j->guard_text[1], sizeof j->guard_text[1], "MASTER_PORT=%d", j->shape.master_port);
    snprintf(j->guard_text[2], sizeof j->guard_text[2], "GROUP_RANK=%d", j->shape.node_rank);
    for (int i = 0; i < 3; i++)
        j->guard_entries[i] = j->guard_text[i];
    return tdmi_guardian_start(j->guard_entries, 3, &j->guardian);
}

static tdm_status run_guarded(tdmi_job *j)
{
    tdm_status status = start_guardian(j);
    if (status != TDM_OK)
        return status;
    if (!j->options->quiet && *j->placement.note != '\0')
        tdmi_output_say(j->output, "%s", j->placement.note);
    status = start_ranks(j);
    if (status == TDM_OK) {
        tdmi_job_supervise(j);
    } else {
        char text[TDMI_ERROR_TEXT_MAX];
        memcpy(text, tdm_error_text(), sizeof text);
        tdmi_job_kill(j);
        tdmi_error_set_text(text);
    }
    tdmi_guardian_dismiss(&j->guardian);
    return status;
}

static void release(tdmi_job *j)
{
    tdmi_nodes_leave(j->nodes);
    tdmi_output_destroy(j->output);
    tdmi_placement_free(&j->placement);
    tdmi_program_free(&j->program);
    tdmi_free(j->ranks);
    tdmi_free(j->items);
    if (j->port_holder >= 0)
        close(j->port_holder);
}

/* Runs the job with this process's signals set up for it, and puts them back. */
static tdm_status run_with_signals(tdmi_job *j)
{
    int was_subreaper = 0;
    tdm_status status = tdmi_signals_take(&j->signals);
    if (status != TDM_OK)
        return status;
    prctl(PR_GET_CHILD_SUBREAPER, &was_subreaper);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    status = run_guarded(j);
    prctl(PR_SET_CHILD_SUBREAPER, was_subreaper);
    tdmi_signals_give_back(&j->signals);
    return status;
}

int tdm_launch_default_ranks(void)
{
    return tdmi_cpu_usable();
}

tdm_status tdm_launch(const tdm_launch_options *options, int *exit_code)
{
    tdm_status status = tdmi_launch_options_check(options);
    if (status != TDM_OK)
        return status;
    tdmi_config_warn_unknown();
    tdmi_process_occupy_standard();
    tdmi_job j = {.options = options, .port_holder = -1, .exit_code = -1};
    status = prepare(&j); /* a signal in here simply ends the process: nothing has been started */
    if (status == TDM_OK)
        status = run_with_signals(&j);
    if (status == TDM_OK)
        *exit_code = j.exit_code;
    char text[TDMI_ERROR_TEXT_MAX];
    memcpy(text, tdm_error_text(), sizeof text);
    release(&j);
    tdmi_error_set_text(text);
    return status;
}
