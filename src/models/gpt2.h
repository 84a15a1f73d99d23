/* gpt2.h - the GPT-2 family. */
#ifndef TDMI_MODELS_GPT2_H
#define TDMI_MODELS_GPT2_H

#include "models/model.h"

extern const tdmi_model tdmi_gpt2;

#endif
