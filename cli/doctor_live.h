/* doctor_live.h - `tandem doctor -- COMMAND...` and `tandem doctor --attach PID|JOB`. */
#ifndef TANDEM_CLI_DOCTOR_LIVE_H
#define TANDEM_CLI_DOCTOR_LIVE_H

#include "doctor_library.h"
#include "option.h"

/* The rows of a live job in doctor's table of options; `values` has a tdm_live_options `live`, in which 0 and NULL mean: not given. */
#define CLI_LIVE_OPTIONS(values)                                                                                                        \
    {"attach", 0, "PID|JOB", CLI_TEXT, offsetof(values, live.attach), NULL, 0, 0, NULL, NULL,                                           \
     "looks into a job that runs: the number of a rank, of torchrun or of what is\nabove it, or the job's name (torchrun's --rdzv-id)"}, \
    {"iterations", 0, "N", CLI_INT, offsetof(values, live.iterations), NULL, 1, 1000, NULL, NULL,                                       \
     "of a live job: steps of the optimizer to trace [4]"},                                                                                 \
    {"keep-traces", 0, "DIR", CLI_TEXT, offsetof(values, live.keep), NULL, 0, 0, NULL, NULL,                                            \
     "of a live job: leaves its traces there, rankR.pt.trace.json"},                                                                    \
    {"shapes", 0, NULL, CLI_FLAG, offsetof(values, live.shapes), NULL, 0, 0, NULL, NULL,                                                \
     "of a live job: records operators' shapes; larger traces, slower tracing"},                                                        \
    {"stacks", 0, NULL, CLI_FLAG, offsetof(values, live.stacks), NULL, 0, 0, NULL, NULL,                                                \
     "of a live job: records Python's stacks; larger traces, slower tracing"},                                                          \
    {"stop", 0, NULL, CLI_FLAG, offsetof(values, live.stop), NULL, 0, 0, NULL, NULL, "ends COMMAND once its traces are there"},         \
    {"timeout", 0, "SEC", CLI_NUMBER, offsetof(values, live.timeout_s), NULL, 0.001, 1e9, NULL, NULL,                                   \
     "of a live job: time for its ranks to be there and to train [300]"}

/* How many words stand behind the first "--" of a command line that has not been parsed yet. */
int cli_doctor_live_words(int argc, char **argv);
/* options: the library's values stand for those that were not given.
 * Starts the command, which is all of `arguments`, or joins the job of `options.attach`, prints what is found once the traces are there,
 * and waits for the command's end. Gives the exit code.
 *   command_words  as above: the arguments must be these alone
 *   how            memory and page of the examination
 *   quiet          no lines about what is being done */
int cli_doctor_live(tdm_live_options options, const tdm_doctor_options *how, char **arguments, int count, int command_words, bool json,
                    bool quiet);

#endif
