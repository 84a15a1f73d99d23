/* trace.c - what a trace in memory answers, and its end. */
#include "kineto/trace.h"

#include "core/memory.h"
#include "kineto/reader.h"
#include "kineto/texts.h"

#include <string.h>

const char *tdmi_trace_text(const tdmi_trace *t, uint32_t text)
{
    return text < t->text_count ? t->text[text].text : "";
}

uint32_t tdmi_trace_find_text(const tdmi_trace *t, const char *text)
{
    enum { BEHIND = 16 };
    const size_t nbytes = strlen(text);
    uint8_t *copy = tdmi_calloc(1, nbytes + BEHIND, "trace texts");
    if (copy == NULL)
        return TDMI_NONE;
    memcpy(copy, text, nbytes);
    const uint32_t found = tdmi_texts_find(t->texts, copy, nbytes);
    tdmi_free(copy);
    return found;
}

const char *tdmi_wrong_text(tdmi_wrong which)
{
    static const char *const text[TDMI_WRONG_KINDS] = {
#define WRONG_TEXT(NAME, words) words,
        TDMI_WRONG_MAP(WRONG_TEXT)
#undef WRONG_TEXT
    };
    return (unsigned)which < TDMI_WRONG_KINDS ? text[which] : "";
}

void tdmi_trace_free(tdmi_trace *t)
{
    if (t == NULL)
        return;
    for (size_t i = 0; i < t->group_count; i++)
        tdmi_free(t->group[i].rank);
    if (t->texts != NULL)
        tdmi_texts_drop(t->texts);
    tdmi_free(t->texts);
    tdmi_notes_free(t->note, t->note_count);
    tdmi_free(t->group);
    tdmi_free(t->device);
    tdmi_free(t->event);
    tdmi_free(t->lane);
    tdmi_free(t->category);
    tdmi_free(t->op);
    tdmi_free(t->kernel);
    tdmi_free(t->copy);
    tdmi_free(t->memory);
    tdmi_free(t->python);
    tdmi_free(t->sync);
    tdmi_free(t->collective);
    tdmi_free(t->path);
    tdmi_free(t);
}
