/* printable.h - foreign text made fit for a terminal: names in files and names of files may hold escape sequences. */
#ifndef TDMI_CORE_PRINTABLE_H
#define TDMI_CORE_PRINTABLE_H

#include <stdbool.h>

/* Control characters, marks that turn the direction of writing, and bytes that are no UTF-8 become '?', each one. In place: the text
 * gets no longer. lines: a newline stays. */
void tdmi_printable(char *text, bool lines);

#endif
