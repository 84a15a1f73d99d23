/* names.h - texts of a log, each kept once: two names are the same text if they are the same pointer. */
#ifndef TDMI_NCCL_LOG_NAMES_H
#define TDMI_NCCL_LOG_NAMES_H

#include "core/error.h"
#include "nccl_log/match.h"

typedef struct tdmi_nccl_names tdmi_nccl_names;

tdmi_nccl_names *tdmi_nccl_names_create(void);
void tdmi_nccl_names_destroy(tdmi_nccl_names *names); /* NULL is fine */
/* The text, cut at 1,000 bytes and with '?' for bytes that are not printable ASCII. "" with *status TDM_ERR_NO_SPACE beyond 8 MB of
 * names, or TDM_ERR_NO_MEMORY. */
const char *tdmi_nccl_names_keep(tdmi_nccl_names *names, tdmi_span text, tdm_status *status);
/* The same where it is kept already, else NULL. */
const char *tdmi_nccl_names_find(const tdmi_nccl_names *names, tdmi_span text);

#endif
