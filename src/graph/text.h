/* text.h - shapes and roles as text, for messages and listings. */
#ifndef TDMI_GRAPH_TEXT_H
#define TDMI_GRAPH_TEXT_H

#include "graph/graph.h"

#define TDMI_SHAPE_TEXT_MAX 128

/* "float32[4,64,768]" into text[TDMI_SHAPE_TEXT_MAX]; returns text. */
const char *tdmi_shape_text(const tdmi_shape *shape, char *text);
const char *tdmi_role_text(tdmi_role role);
const char *tdmi_phase_text(tdmi_phase phase);

#endif
