/* label.h - a caller's own name for what he calls, such as "step 12": a text with its length, so that copies touch what is used. */
#ifndef TDMI_CORE_LABEL_H
#define TDMI_CORE_LABEL_H

#include <stdint.h>
#include <string.h>

#define TDMI_LABEL_BYTES 128 /* with the final NUL */

/* All zero: none. */
typedef struct tdmi_label {
    uint32_t nbytes; /* of text, with its NUL; 0: none */
    char text[TDMI_LABEL_BYTES];
} tdmi_label;

/* Cut at 127 bytes, between characters. NULL or "": none. */
void tdmi_label_set(tdmi_label *label, const char *text);

/* The text alone, where memory is known to be large enough; "" for none. */
static inline void tdmi_label_put(const tdmi_label *label, char to[TDMI_LABEL_BYTES])
{
    to[0] = '\0';
    if (label->nbytes > 0)
        memcpy(to, label->text, label->nbytes);
}

static inline void tdmi_label_copy(const tdmi_label *from, tdmi_label *to)
{
    to->nbytes = from->nbytes;
    tdmi_label_put(from, to->text);
}

#endif
