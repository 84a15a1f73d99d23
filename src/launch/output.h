/* output.h - ranks' output to this process's stdout and stderr: whole lines, a prefix in front, nothing lost, nothing mixed. */
#ifndef TDMI_LAUNCH_OUTPUT_H
#define TDMI_LAUNCH_OUTPUT_H

#include "core/error.h"

#include <poll.h>

typedef struct tdmi_output tdmi_output;

/* name: in front of lines of tdmi_output_say. */
tdm_status tdmi_output_create(const char *name, tdmi_output **out);
/* A stream of a rank. fd: read end of a pipe, taken, made non-blocking. log_fd (-1: none): gets the bytes as they are, taken.
 * shown: lines go to stdout or stderr. The streams of a rank are added stdout first. */
tdm_status tdmi_output_add(tdmi_output *output, int fd, bool is_stderr, const char *prefix, bool shown, int log_fd, int *stream_out);
/* A line of the launcher's own, to stderr behind what is already there. */
void tdmi_output_say(tdmi_output *output, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* For a poll loop: fills in what to wait for (at most tdmi_output_poll_max entries), gives their number. */
size_t tdmi_output_poll_max(const tdmi_output *output);
size_t tdmi_output_prepare(const tdmi_output *output, struct pollfd *items);
/* Reads what can be read without waiting and writes what can be written, after poll. */
void tdmi_output_pump(tdmi_output *output, const struct pollfd *items, size_t count);
/* Reads all that the stream's pipe holds now. */
void tdmi_output_drain(tdmi_output *output, int stream);
/* Takes what the pipes hold now, ends unfinished lines, and closes all streams, whoever else holds their other ends. */
void tdmi_output_finish(tdmi_output *output);
/* Whether everything has been written (or its reader is gone). */
bool tdmi_output_is_flushed(const tdmi_output *output);
/* The stream's last line that is not empty, cut to some hundred bytes; "" if there was none. */
const char *tdmi_output_last_line(const tdmi_output *output, int stream);
void tdmi_output_destroy(tdmi_output *output); /* NULL is fine */

#endif
