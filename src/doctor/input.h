/* input.h - what the doctor was pointed to, sorted by what it is: told by the content of files, never by their names. */
#ifndef TDMI_DOCTOR_INPUT_H
#define TDMI_DOCTOR_INPUT_H

#include "core/error.h"

typedef enum {
    TDMI_INPUT_RECORDING, /* of Tandem's flight recorder, or a folder with such files */
    TDMI_INPUT_NCCL_LOG,
    TDMI_INPUT_TRACE, /* of PyTorch's profiler, or a folder with such files */
    TDMI_INPUT_FLIGHT,    /* dumps of PyTorch's flight recorder */
    TDMI_INPUT_KINDS
} tdmi_input_kind;

typedef struct tdmi_inputs {
    struct tdmi_input_list {
        char **path;
        int count;
    } of[TDMI_INPUT_KINDS];
    char *pickle;  /* the first in a folder that is no dump by its beginning; NULL */
    char *inside;  /* the first folder in a folder that has traces; NULL */
} tdmi_inputs;

/* Files and folders, folders one level deep. What is in a folder and is of no kind is left out; a file that was named and is of no kind
 * is TDM_ERR_BAD_FILE, as is the case that nothing is left: the text names a damaged pickle, or a folder in it to be given, if there is one. */
tdm_status tdmi_inputs_sort(const char *const *paths, int count, tdmi_inputs *out);
void tdmi_inputs_free(tdmi_inputs *inputs);

#endif
