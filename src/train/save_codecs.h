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
#include "train/trainer.h"

/* Adds the tensors to t->optimizer_layout, behind those that are there: the same on all ranks. */
tdm_status tdmi_codecs_add_layout(tdmi_trainer *t);
/* Every rank writes its part. */
tdm_status tdmi_codecs_write(tdmi_trainer *t, tdmi_safetensors_writer *writer);
/* ranks: of the run that wrote the file. */
tdm_status tdmi_codecs_read(tdmi_trainer *t, const tdmi_safetensors *file, const char *folder, int ranks);

#endif
