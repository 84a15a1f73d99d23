/* mlp.h - a language model without attention. */
#ifndef TDMI_MODELS_MLP_H
#define TDMI_MODELS_MLP_H

#include "models/model.h"

extern const tdmi_model tdmi_mlp;

#endif
