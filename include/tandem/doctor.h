/* doctor.h - what is wrong with a job, from what its ranks left: what `tandem doctor` prints. In libtandem_doctor. */
#ifndef TANDEM_DOCTOR_H
#define TANDEM_DOCTOR_H

#include <tandem/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_doctor_report tdm_doctor_report;

/* tdm_doctor - lines the ranks of a job up by group and call, and says who is missing or differs.
 *   paths  [count] rings and dumps of the flight recorder (docs/recorder.md), or folders of them: one a job; of several jobs, or
 *          several recordings of one rank, the newest counts and the report says so
 *   out    new; freed with tdm_doctor_free
 * Errors  TDM_ERR_BAD_FILE no recording is there, or one is damaged (names the file).   Thread  any.   Cost  about 2 ms a rank
 * Source  fr_trace of PyTorch's flight recorder.   Since 0.1 */
TDM_API TDM_MUST_CHECK tdm_status tdm_doctor(const char *const *paths, int count, tdm_doctor_report **out);
/* For people, and as one JSON object (docs/cli.md). Live as long as the report. */
TDM_API const char *tdm_doctor_text(const tdm_doctor_report *report);
TDM_API const char *tdm_doctor_json(const tdm_doctor_report *report);
TDM_API int tdm_doctor_findings(const tdm_doctor_report *report);
TDM_API void tdm_doctor_free(tdm_doctor_report *report); /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
