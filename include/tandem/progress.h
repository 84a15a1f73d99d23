/* progress.h - a thread of the caller that sees to it that calls go on and end while nobody waits for them. */
#ifndef TANDEM_PROGRESS_H
#define TANDEM_PROGRESS_H

#include <tandem/group.h>

#ifdef __cplusplus
extern "C" {
#endif

/* tdm_progress - advances what is under way in the groups of this rank, and sleeps, without spinning, until there is news: a call or
 * message of them is over, one of the groups has failed, or tdm_progress_wake was called.
 *   group    any of the groups that come from one world group
 *   seen     what the caller has seen of the news, 0 at first; becomes what there is. It returns at once where that differs, so
 *            nothing is missed between two calls: call, test what is under way, call again
 *   seconds  sleeps at most so long
 * Errors  TDM_ERR_INVALID in a child of fork(). A failed group is news and no error: its handles say it
 * Thread  any, beside those that make calls and wait; several at once, each with its own `seen`. The groups must live on
 * Cost    where nothing is under way: the sleep; a wake-up: some microseconds                            Since  0.2 */
TDM_API TDM_MUST_CHECK tdm_status tdm_progress(tdm_group *group, uint32_t *seen, double seconds);
/* Ends the sleep of all threads that are in tdm_progress. Thread: any. */
TDM_API void tdm_progress_wake(tdm_group *group);

#ifdef __cplusplus
}
#endif
#endif
