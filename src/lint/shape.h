/* shape.h - whether a node has below it what its kind cannot be without. */
#ifndef TDMI_LINT_SHAPE_H
#define TDMI_LINT_SHAPE_H

#include "lint/syntax.h"

bool tdmi_is_well_shaped(const tdmi_node *node);

#endif
