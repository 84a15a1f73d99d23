/* label.c - cutting a label to its length. */
#include "core/label.h"

void tdmi_label_set(tdmi_label *label, const char *text)
{
    if (text == NULL || text[0] == '\0') {
        label->nbytes = 0;
        label->text[0] = '\0';
        return;
    }
    /* Not strnlen and memcpy: gcc knows how little that can be and makes a `rep movsq` of it, which takes 30 ns. */
    const char *end = memccpy(label->text, text, '\0', TDMI_LABEL_BYTES);
    if (end != NULL) {
        label->nbytes = (uint32_t)(end - label->text);
        return;
    }
    size_t length = TDMI_LABEL_BYTES - 1;
    while (length > 0 && ((uint8_t)text[length] & 0xc0) == 0x80)
        length--;
    label->text[length] = '\0';
    label->nbytes = (uint32_t)length + 1;
}
