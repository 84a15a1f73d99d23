/* recorder.h - the flight recorder: the last 1,024 calls of each rank, kept in a file that survives the process.
 *
 * It is on for every group of two or more ranks that TANDEM_RECORDER_DIR does not turn off. A rank that ends well leaves nothing;
 * one that dies leaves its ring, one whose group fails a dump (JSON): `tandem doctor` reads both. docs/recorder.md. */
#ifndef TANDEM_RECORDER_H
#define TANDEM_RECORDER_H

#include <tandem/group.h>

#ifdef __cplusplus
extern "C" {
#endif

/* tdm_group_set_label - a name for the calls of this group that follow, such as "step 12": recorded with each of them,
 * and what texts of errors call them, on this rank and on those that met or missed them. Calls under way keep theirs.
 *   label  copied, cut at 127 bytes; NULL or "": none
 * Thread  owner of group.   Cost  about 12 ns, and 10 for each call that follows.   Since 0.1 */
TDM_API void tdm_group_set_label(tdm_group *group, const char *label);

/* tdm_recorder_dump - writes what this rank has recorded, over all its groups, as JSON.
 *   path  a file, replaced; it appears whole or not at all
 * Errors  TDM_ERR_UNSUPPORTED nothing is recorded (recorder off, a group of one) | TDM_ERR_SYSTEM, TDM_ERR_NO_SPACE
 * Thread  owner of group.   Cost  a few ms.   Source  torch.distributed's flight recorder.   Since 0.1 */
TDM_API TDM_MUST_CHECK tdm_status tdm_recorder_dump(const tdm_group *group, const char *path);

/* tdm_recorder_folder - the folder of this job's recordings on this host; NULL: nothing is recorded. Lives as long as the group. */
TDM_API const char *tdm_recorder_folder(const tdm_group *group);

#ifdef __cplusplus
}
#endif
#endif
