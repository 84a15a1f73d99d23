/* each.h - the same work for every file or rank of a job, on several threads. */
#ifndef TDMI_KINETO_EACH_H
#define TDMI_KINETO_EACH_H

#include "core/error.h"

#include <stddef.h>
#include <stdint.h>

/* Calls work(place, arg) for 0 .. count - 1, in any order, each once, up to `threads` at the same time; returns when all have ended. The
 * first failure that is seen is returned with its text; places that were not begun then are left out. */
tdm_status tdmi_each_place(size_t count, int threads, tdm_status (*work)(uint32_t place, void *arg), void *arg);

#endif
