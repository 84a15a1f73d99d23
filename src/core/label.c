/* label.c - cutting a label to its length. */
#include "core/label.h"

void tdmi_label_set(tdmi_label *label, const char *text)
{
    size_t length = text == NULL ? 0 : strnlen(text, TDMI_LABEL_BYTES);
    if (length == TDMI_LABEL_BYTES)
        for (length--; length > 0 && ((uint8_t)text[length] & 0xc0) == 0x80; length--)
            ;
    label->nbytes = length > 0 ? (uint32_t)length + 1 : 0;
    if (length > 0)
        memcpy(label->text, text, length);
    label->text[length] = '\0';
}
