/* reader.h - what the parts of the trace reader share: one file being read. */
#ifndef TDMI_KINETO_READER_H
#define TDMI_KINETO_READER_H

#include "kineto/fields.h"
#include "kineto/lanes.h"
#include "kineto/scanner.h"
#include "kineto/survey.h"
#include "kineto/texts.h"
#include "kineto/trace.h"

#include <stdarg.h>

typedef struct tdmi_reader {
    tdmi_trace *trace;
    tdmi_scanner scanner;
    tdmi_texts *texts;               /* the trace's */
    tdmi_lanes lanes;                /* that have events */
    tdmi_lanes named;                /* that metadata speaks of; a whole process has tid INT64_MIN */
    tdmi_fields top, args;           /* of the event at hand */
    size_t event_capacity, op_capacity, kernel_capacity, copy_capacity, memory_capacity, python_capacity, sync_capacity, collective_capacity;
    uint16_t category_of[64];        /* of a known word: category + 1 */
    int64_t keep_from_ns;            /* events that begin before are not kept */
    uint64_t zero_starts;            /* events at time 0 */
    uint64_t events;                 /* complete events and instants met, kept or not */
    bool rows_only;                  /* as in tdmi_trace_options */
    size_t budget;                   /* bytes that the tables may take */
    tdmi_survey *survey;             /* not NULL: nothing is kept, only counted */

    /* Where in the document we are. */
    unsigned level;                  /* open objects around, the document itself included; 0: it has ended */
    uint64_t arrays;                 /* open arrays of events; 0: we are between members of an object */
    bool in_distributed;             /* level 2 is distributedInfo, which was too large to be read at once */
    bool begun;                      /* an array of events was met */
    bool twice;                      /* more than one such array; told once */
    bool bare;                       /* the document is that array */
    bool json;                       /* it begins as one */
    bool found_events;               /* under its key, or by something that is an event */
    uint64_t looked_again;           /* bytes of damaged entries */
    uint64_t first_damage;           /* offset in the text; UINT64_MAX: none */
    bool after_entry;                /* scanner.keep is the last byte of an entry, and another may follow */
} tdmi_reader;

/* One sentence more for a list of them, or for the trace; without memory for it, it is lost. */
void tdmi_reader_note(tdmi_trace *trace, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tdmi_note_add(char ***note, size_t *count, const char *format, va_list arguments);
void tdmi_notes_free(char **note, size_t count);

/* A field's string as a text of the trace; *out stays as it is where the field is none. */
static inline tdm_status tdmi_reader_text(tdmi_reader *reader, const tdmi_fields *fields, int field, uint32_t *out)
{
    if (tdmi_first(fields, field) != '"')
        return TDM_OK;
    const tdmi_value value = fields->value[field];
    return tdmi_texts_put(reader->texts, fields->text + value.at + 1, value.end - value.at - 1, out);
}

/* event.c: the event in reader->top and reader->args. */
tdm_status tdmi_reader_event(tdmi_reader *reader, uint32_t place);
bool tdmi_reader_is_step(const tdmi_reader *reader, const tdmi_event *event);
/* details.c: what events of this kind have besides; the tables' index. */
tdm_status tdmi_reader_detail(tdmi_reader *reader, tdmi_event_kind kind, uint32_t *out);
/* categories.c: the number of the category in reader->top. */
tdm_status tdmi_reader_category(tdmi_reader *reader, uint16_t *out);
/* head.c: one of the document's own members. */
typedef struct tdmi_head_member {
    size_t key_at, key_nbytes; /* in the window */
    tdmi_value value;
    size_t token;              /* of its bracket or quote */
} tdmi_head_member;
tdm_status tdmi_reader_head(tdmi_reader *reader, const tdmi_head_member *member);
bool tdmi_reader_is_head(const uint8_t *key, size_t nbytes); /* key has 8 readable bytes behind its end */
bool tdmi_reader_is_events(const uint8_t *key, size_t nbytes); /* document.c: it is traceEvents */
/* memory.c: if the tables have outgrown the budget, goes over to a survey: what is in them is counted, and they are emptied. */
tdm_status tdmi_reader_check_memory(tdmi_reader *reader);
void tdmi_reader_forget(tdmi_reader *reader); /* all events so far */
/* document.c: all of the text. */
tdm_status tdmi_reader_document(tdmi_reader *reader);
/* damage.c: finds the next event, or key of the document, behind byte `from` of the window. *found: false at the end of the text. */
tdm_status tdmi_reader_resume(tdmi_reader *reader, size_t from, bool *found);
/* finish.c: lanes' names, notes, and everything into the trace. */
void tdmi_reader_finish(tdmi_reader *reader);

/* Room for one more in a table that doubles. */
#define TDMI_READER_ROOM(array, count, capacity)                                                                       \
    ((count) < (capacity) ? TDM_OK : tdmi_reader_grow((void **)&(array), &(capacity), sizeof *(array)))
tdm_status tdmi_reader_grow(void **array, size_t *capacity, size_t size);

#endif
