/* variables.h - NCCL_* over the versions: which releases read a variable, and who else does. */
#ifndef TDMI_NCCL_LOG_VARIABLES_H
#define TDMI_NCCL_LOG_VARIABLES_H

typedef struct tdmi_nccl_known_variable {
    const char *name;
    int since, until;     /* versions that read it, first and last; until 0: 2.30.7 and later */
    const char *instead;  /* what took its place, or NULL */
} tdmi_nccl_known_variable;
/* NULL: NCCL never had it. */
const tdmi_nccl_known_variable *tdmi_nccl_variable_known(const char *name);
/* The known one whose name is nearest, at most two letters away, or NULL. */
const tdmi_nccl_known_variable *tdmi_nccl_variable_nearest(const char *name);
/* Who else reads it ("PyTorch", "NVIDIA's SHARP plugin"), or NULL. */
const char *tdmi_nccl_variable_owner(const char *name);

#endif
