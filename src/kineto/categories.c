/* categories.c - which kind of event a category of any age is. */
#include "kineto/reader.h"

#include "core/memory.h"

#include <pthread.h>
#include <strings.h>

#define CATEGORIES_MAX 256

static const struct {
    const char *text;
    tdmi_event_kind kind;
} known[] = {
    {"cpu_op", TDMI_EVENT_CPU_OP},
    {"Operator", TDMI_EVENT_CPU_OP},
    {"user_annotation", TDMI_EVENT_ANNOTATION},
    {"python_function", TDMI_EVENT_PYTHON},
    {"cuda_runtime", TDMI_EVENT_RUNTIME},
    {"cuda_driver", TDMI_EVENT_RUNTIME},
    {"Runtime", TDMI_EVENT_RUNTIME},
    {"kernel", TDMI_EVENT_KERNEL},
    {"Kernel", TDMI_EVENT_KERNEL},
    {"collective_comm", TDMI_EVENT_KERNEL},
    {"gpu_memcpy", TDMI_EVENT_COPY},
    {"Memcpy", TDMI_EVENT_COPY},
    {"gpu_memset", TDMI_EVENT_SET},
    {"Memset", TDMI_EVENT_SET},
    {"gpu_user_annotation", TDMI_EVENT_GPU_ANNOTATION},
    {"cuda_sync", TDMI_EVENT_SYNC},
    {"xpu_sync", TDMI_EVENT_SYNC},
    {"cuda_event", TDMI_EVENT_SYNC},
    {"overhead", TDMI_EVENT_OVERHEAD},
    {"Trace", TDMI_EVENT_SPAN},
    {"mtia_runtime", TDMI_EVENT_RUNTIME},
    {"glow_runtime", TDMI_EVENT_RUNTIME},
    {"xpu_runtime", TDMI_EVENT_RUNTIME},
    {"xpu_driver", TDMI_EVENT_RUNTIME},
    {"privateuse1_runtime", TDMI_EVENT_RUNTIME},
    {"privateuse1_driver", TDMI_EVENT_RUNTIME},
    {"mtia_ccp_events", TDMI_EVENT_DEVICE},
    {"mtia_insight", TDMI_EVENT_DEVICE},
    {"hpu_op", TDMI_EVENT_DEVICE},
};
enum { KNOWN = sizeof known / sizeof *known, UNKNOWN = 63 };
_Static_assert(KNOWN < UNKNOWN, "known categories have a place in tdmi_reader.category_of");

static pthread_once_t once = PTHREAD_ONCE_INIT;
static tdmi_words words; /* written once under `once` */

static void make_words(void)
{
    tdmi_word word[KNOWN];
    for (uint8_t i = 0; i < KNOWN; i++)
        word[i] = (tdmi_word){known[i].text, i};
    tdmi_words_init(&words, word, KNOWN, UNKNOWN);
}

static tdmi_event_kind kind_of(const char *text)
{
    for (size_t i = 0; i < KNOWN; i++)
        if (strcasecmp(text, known[i].text) == 0)
            return known[i].kind;
    return TDMI_EVENT_OTHER;
}

/* The category of a text, made when it is new. Nobody has hundreds: beyond, they are the last one. */
static tdm_status put(tdmi_reader *r, uint32_t text, uint16_t *out)
{
    tdmi_trace *t = r->trace;
    for (size_t i = 0; i < t->category_count; i++)
        if (t->category[i].text == text) {
            *out = (uint16_t)i;
            return TDM_OK;
        }
    if (t->category == NULL && (t->category = tdmi_calloc(CATEGORIES_MAX, sizeof *t->category, "trace categories")) == NULL)
        return TDM_ERR_NO_MEMORY;
    if (t->category_count < CATEGORIES_MAX)
        t->category[t->category_count++] =
            (tdmi_category){.text = text, .kind = (uint8_t)(t->category_count < CATEGORIES_MAX ? kind_of(r->texts->text[text].text) : TDMI_EVENT_OTHER)};
    *out = (uint16_t)(t->category_count - 1);
    return TDM_OK;
}

tdm_status tdmi_reader_category(tdmi_reader *r, uint16_t *out)
{
    const tdmi_value *value = &r->top.value[TDMI_FIELD_CAT];
    const uint8_t *text = r->top.text + value->at + 1;
    const size_t nbytes = value->end - value->at - 1;
    pthread_once(&once, make_words);
    const uint8_t word = tdmi_words_find(&words, text, nbytes);
    if (r->category_of[word] != 0 && word != UNKNOWN) {
        *out = (uint16_t)(r->category_of[word] - 1);
        return TDM_OK;
    }
    uint32_t number;
    tdm_status status = tdmi_texts_put(r->texts, text, nbytes, &number);
    if (status == TDM_OK)
        status = put(r, number, out);
    if (status == TDM_OK)
        r->category_of[word] = (uint16_t)(*out + 1);
    return status;
}
