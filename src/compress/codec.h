/* codec.h (internal) - what a compression comes to for one buffer: shared by the codecs, the hooks that send, and forecasts. */
#ifndef TDMI_COMPRESS_CODEC_H
#define TDMI_COMPRESS_CODEC_H

#include "core/error.h"

#include <tandem/compress.h>

#define TDMI_ONEBIT_BLOCK 2048 /* elements with a scale of their own; none reaches over a part's end */

/* The numbers with 0 replaced by what it stands for. */
int tdmi_powersgd_rank(const tdm_compression *compression);
double tdmi_powersgd_min_saving(const tdm_compression *compression);
/* Columns of the factors of a part, 0: it travels whole. */
int tdmi_powersgd_columns(const tdm_compression *compression, const tdm_part *part);
/* Elements of `count` that travel with TOPK: at least 1 where there are any. */
size_t tdmi_topk_kept(const tdm_compression *compression, size_t count);
/* Elements up to the end of the last part. */
size_t tdmi_parts_end(const tdm_part *part, int parts);

#endif
