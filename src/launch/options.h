/* options.h - checking what the caller of tdm_launch asked for. */
#ifndef TDMI_LAUNCH_OPTIONS_H
#define TDMI_LAUNCH_OPTIONS_H

#include "core/error.h"

#include <tandem/launch.h>

#define TDMI_LAUNCH_RANKS_MAX 4096 /* on one node */
#define TDMI_LAUNCH_NODES_MAX 65536

tdm_status tdmi_launch_options_check(const tdm_launch_options *options);
/* Whether `rank` is in a list such as "0,2-3,7"; NULL: yes. The list has been checked. */
bool tdmi_rank_list_has(const char *list, int rank);

#endif
