/* doctor.h - what is wrong with a job, from what its ranks left, and with a training script before it runs: what `tandem doctor` prints.
 * In libtandem_doctor. */
#ifndef TANDEM_DOCTOR_H
#define TANDEM_DOCTOR_H

#include <tandem/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_doctor_report tdm_doctor_report;

typedef struct tdm_doctor_options {
    size_t memory_bytes; /* what traces and all that is made of them may take; 0: half of this machine's */
    const char *page;    /* of traces: writes the report as an HTML file too; NULL: none */
} tdm_doctor_options;

/* tdm_doctor - looks at what it is pointed to, each file by its content, and says what is wrong with the job and what to change.
 *   paths    [count] files and folders: rings and dumps of Tandem's flight recorder (docs/recorder.md; of several jobs, or several
 *            recordings of one rank, the newest counts and the report says so), logs of NCCL_DEBUG=INFO, traces of PyTorch's profiler of
 *            one job (docs/doctor.md)
 *   options  NULL: all zero
 *   out      new; freed with tdm_doctor_free
 * Errors  TDM_ERR_BAD_FILE nothing of these is there, it is damaged beyond use, two traces claim one rank, or the page cannot be written
 *         (names the file) |
 *         TDM_ERR_INVALID a page without traces | TDM_ERR_NO_MEMORY          Thread  any
 * Cost    recordings about 2 ms a rank; traces as long as reading them
 * Source  fr_trace of PyTorch's flight recorder; Holistic Trace Analysis.   Since 0.1 */
TDM_API TDM_MUST_CHECK tdm_status tdm_doctor(const char *const *paths, int count, const tdm_doctor_options *options, tdm_doctor_report **out);
/* tdm_doctor_diff - what changed from one job to another, by their traces: by part and phase of an iteration, by kernel, operator and
 * collective, and which findings are gone or new.
 *   a, b     a trace or a folder of one job each
 *   options  NULL: all zero; memory_bytes is for both jobs together, page must be NULL
 * Errors  as tdm_doctor          Thread  any          Since 0.1 */
TDM_API TDM_MUST_CHECK tdm_status tdm_doctor_diff(const char *a, const char *b, const tdm_doctor_options *options, tdm_doctor_report **out);
/* For people, and as one JSON object (docs/cli.md). Live as long as the report. */
TDM_API const char *tdm_doctor_text(const tdm_doctor_report *report);
TDM_API const char *tdm_doctor_json(const tdm_doctor_report *report);
TDM_API int tdm_doctor_findings(const tdm_doctor_report *report);
TDM_API void tdm_doctor_free(tdm_doctor_report *report); /* NULL is fine */

typedef struct tdm_hta_report tdm_hta_report;

/* tdm_hta - what HTA 0.5.0 (HolisticTraceAnalysis) computes of PyTorch profiler traces, its rounding and its faults included (docs/hta.md).
 *   paths         [count] traces (.json, .json.gz), one a rank, or folders of them
 *   memory_bytes  what the traces and all that is made of them may take; 0: half of this machine's
 *   out           new; freed with tdm_hta_free
 * Errors  TDM_ERR_BAD_FILE no trace is there, or none can be read (names the file) | TDM_ERR_NO_MEMORY.   Thread  any, starts its own
 * Source  HTA 0.5.0 of PyPI with pandas 2.2.   Since 0.1 */
TDM_API TDM_MUST_CHECK tdm_status tdm_hta(const char *const *paths, int count, size_t memory_bytes, tdm_hta_report **out);
/* Tables for people, and one JSON object (docs/cli.md). Live as long as the report. */
TDM_API const char *tdm_hta_text(const tdm_hta_report *report);
TDM_API const char *tdm_hta_json(const tdm_hta_report *report);
TDM_API void tdm_hta_free(tdm_hta_report *report); /* NULL is fine */

/* A job that runs, unchanged: PyTorch's profiler listens to a daemon of its machine where KINETO_USE_DAEMON is set (docs/doctor.md). */
typedef struct tdm_live_options {
    const char *const *argv;  /* a command to start, NULL at its end; NULL: a job that runs already */
    const char *attach;       /* which one: the number of a rank, of torchrun or of what is above it, or the job's name */
    int iterations;           /* steps of the optimizer to trace */
    double timeout_s;         /* for the ranks to be there and to train */
    const char *keep;         /* folder for the traces; NULL: they are removed */
    bool shapes, stacks;      /* of operators' inputs; of Python. Each makes traces larger and tracing slower */
    bool stop;                /* end the job that was started once its traces are there */
    bool output_to_errors;    /* its stdout goes to this process's stderr */
    void (*say)(const char *line, void *arg); /* what is being done, for people, a line each; NULL: nobody listens */
    void *arg;
} tdm_live_options;
typedef struct tdm_live tdm_live;

/* 4 iterations, 300 s, nothing kept. The caller sets argv or attach. */
TDM_API void tdm_live_options_init(tdm_live_options *options);
/* tdm_live_begin - starts the command, or finds the job, and answers its profilers from now on.
 *   options  copied; its texts are borrowed until the end
 *   out      new; ended with tdm_live_end
 * For a process whose business this is: until the end it owns the process's signals. INT, TERM, HUP, QUIT, USR1 and USR2 go to the
 * command's processes; a job that was joined is left alone, and INT, TERM, HUP and QUIT end the looking.
 * Errors  TDM_ERR_INVALID no such command, process or job, or it does not listen (says how to start it) | TDM_ERR_EXISTS somebody else
 *         answers the profilers | TDM_ERR_SYSTEM          Thread  one, for all calls          Since 0.1 */
TDM_API TDM_MUST_CHECK tdm_status tdm_live_begin(const tdm_live_options *options, tdm_live **out);
/* tdm_live_collect - has all ranks trace the same few steps and waits for their files.
 *   paths_out, count_out  a trace a rank, rankR.pt.trace.json: for tdm_doctor. Live until the end
 * Ranks that do not answer are named through `say`, and do without.
 * Errors  TDM_ERR_TIMEOUT no rank came, trained or left a trace in time | TDM_ERR_PEER_LOST the job has ended, or a rank is stopped |
 *         TDM_ERR_INTERRUPTED          Cost  the ranks are slower during these steps, by up to a factor of two; and twice before, one rank */
TDM_API TDM_MUST_CHECK tdm_status tdm_live_collect(tdm_live *live, const char *const **paths_out, int *count_out);
/* tdm_live_end - waits for the end of the command that was started, or ends it (stop); then nothing of this is left but `keep`. NULL is fine.
 *   exit_code  the command's, 128 + N if signal N ended it or the looking; 0 for one that was stopped, and for a job that was joined */
TDM_API void tdm_live_end(tdm_live *live, int *exit_code);

typedef struct tdm_lint_report tdm_lint_report;

/* tdm_lint - reads a training script for PyTorch and says what in it is wrong or slow (docs/lint.md has the rules).
 *   script    a Python file. python3 (CPython, 3.8 or newer) parses it in a process of its own; nothing of it is run or imported
 *   launch    the line that starts the job, split as a shell does; NULL: not known, and rules that need it stay silent
 *   env_file  NAME=VALUE lines that the job gets in its environment; NULL: none
 *   out       new; freed with tdm_lint_free
 * Errors  TDM_ERR_BAD_FILE a file is unreadable, or the script no Python (names line and column) | TDM_ERR_INVALID an open quote in launch
 * Thread  any; the parser ends with this thread.   Cost  about 50 ms, and 60 bytes of memory a byte of script; 60 s and 4 GiB at most
 * Since 0.1 */
TDM_API TDM_MUST_CHECK tdm_status tdm_lint(const char *script, const char *launch, const char *env_file, tdm_lint_report **out);
/* For people, and as one JSON object (docs/cli.md). Live as long as the report. */
TDM_API const char *tdm_lint_text(const tdm_lint_report *report);
TDM_API const char *tdm_lint_json(const tdm_lint_report *report);
TDM_API int tdm_lint_errors(const tdm_lint_report *report);
TDM_API void tdm_lint_free(tdm_lint_report *report); /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
