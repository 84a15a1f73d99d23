/* save_codecs.h - state of the gradients' codecs in checkpoints, in optimizer.safetensors behind the moments:
 *
 *     error.RANK.PARAMETER      what that rank has not sent yet
 *     served.PARAMETER          onebit: what the ranks that average its parts have not
 *     factor.PARAMETER.FIRST    powersgd: Q of the piece that begins at element FIRST
 *
 * As many ranks as before go on exactly. Another number of ranks shares the errors out evenly, so that what is not sent yet is still
 * sent once; its factors begin anew where its buckets are cut elsewhere. A lone rank sends nothing and has none of this. */
#ifndef TDMI_TRAIN_SAVE_CODECS_H
#define TDMI_TRAIN_SAVE_CODECS_H

#include "checkpoint/checkpoint.h"
#include "exec/exec.h"
#include "train/settings.h"

typedef struct tdmi_codec_file {
    const tdmi_graph *graph; /* of the training step */
    tdmi_exec *exec;
    int rank, size;
    bool has_served; /* onebit */
    size_t first;    /* of these tensors in the file; add_layout sets it */
} tdmi_codec_file;

/* Of a run on this group; nothing of it is kept. */
tdmi_codec_file tdmi_codecs_of(const tdmi_settings *settings, tdm_group *group, const tdmi_graph *graph, tdmi_exec *exec);
/* Adds the tensors to the optimizer's layout, behind those that are there: the same on all ranks. */
tdm_status tdmi_codecs_add_layout(tdmi_codec_file *codecs, tdmi_layout *layout);
/* Every rank writes its part. */
tdm_status tdmi_codecs_write(const tdmi_codec_file *codecs, tdmi_safetensors_writer *writer);
/* ranks: of the run that wrote the file. */
tdm_status tdmi_codecs_read(const tdmi_codec_file *codecs, const tdmi_safetensors *file, const char *folder, int ranks);

#endif
