/* service.c - the requests of the TCP store. A GET for a missing key is parked and answered by whoever makes the key. */
#include "store/service.h"

#include "core/memory.h"
#include "store/wire.h"

#include <string.h>

struct tdmi_parked {
    tdmi_parked *next;
    tdmi_member *member;
    uint64_t id;
    char key[TDMI_STORE_KEY_MAX];
};

static tdm_status answer(tdmi_service *service, tdmi_member *member, uint64_t id, tdm_status code, const void *value,
                         size_t nbytes)
{
    tdmi_store_frame frame = {.code = (uint8_t)code, .id = id, .value_nbytes = nbytes};
    uint8_t header[TDMI_STORE_FRAME_HEADER];
    tdmi_store_frame_header(header, &frame);
    tdm_status status = tdmi_buffer_reserve(&member->out, sizeof header + nbytes);
    if (status != TDM_OK)
        return status;
    (void)!tdmi_buffer_append(&member->out, header, sizeof header); /* reserved above */
    (void)!tdmi_buffer_append(&member->out, value, nbytes);
    if (!member->is_ready) {
        member->is_ready = true;
        member->next_ready = service->ready;
        service->ready = member;
    }
    return TDM_OK;
}

tdmi_member *tdmi_service_next_ready(tdmi_service *service)
{
    tdmi_member *member = service->ready;
    if (member != NULL) {
        service->ready = member->next_ready;
        member->is_ready = false;
    }
    return member;
}

/* The key has come to be: whoever waits for it gets it. */
static void answer_parked(tdmi_service *service, const char *key)
{
    const tdmi_table_entry *entry = tdmi_table_find(&service->table, key);
    for (tdmi_parked **link = &service->parked; entry != NULL && *link != NULL;) {
        tdmi_parked *parked = *link;
        if (strcmp(parked->key, key) != 0) {
            link = &parked->next;
            continue;
        }
        if (answer(service, parked->member, parked->id, TDM_OK, entry->value, entry->nbytes) != TDM_OK)
            return; /* no memory now: it stays parked and runs into its deadline */
        *link = parked->next;
        tdmi_free(parked);
    }
}

static tdm_status park(tdmi_service *service, tdmi_member *member, uint64_t id, const char *key)
{
    tdmi_parked *parked = tdmi_calloc(1, sizeof *parked, "store wait");
    if (parked == NULL)
        return TDM_ERR_NO_MEMORY;
    parked->member = member;
    parked->id = id;
    memcpy(parked->key, key, strlen(key) + 1);
    parked->next = service->parked;
    service->parked = parked;
    return TDM_OK;
}

/* Forgets the member's wait of this id, or all of them. */
static void unpark(tdmi_service *service, const tdmi_member *member, const uint64_t *id)
{
    for (tdmi_parked **link = &service->parked; *link != NULL;) {
        tdmi_parked *parked = *link;
        if (parked->member != member || (id != NULL && parked->id != *id)) {
            link = &parked->next;
            continue;
        }
        *link = parked->next;
        tdmi_free(parked);
    }
}

static tdm_status keep_will(tdmi_member *member, const char *key, const void *value, size_t nbytes)
{
    char *key_copy = tdmi_strdup(key, "store will"), *value_copy = tdmi_malloc(nbytes + 1, "store will");
    if (key_copy == NULL || value_copy == NULL) {
        tdmi_free(key_copy);
        tdmi_free(value_copy);
        return TDM_ERR_NO_MEMORY;
    }
    memcpy(value_copy, value, nbytes);
    tdmi_free(member->will_key);
    tdmi_free(member->will_value);
    member->will_key = key_copy;
    member->will_value = value_copy;
    member->will_nbytes = nbytes;
    return TDM_OK;
}

static tdm_status offer(tdmi_service *service, const char *key, const void *value, size_t nbytes)
{
    if (tdmi_table_find(&service->table, key) != NULL)
        return TDM_OK;
    tdm_status status = tdmi_table_set(&service->table, key, value, nbytes);
    if (status == TDM_OK)
        answer_parked(service, key);
    return status;
}

/* The error text of a refused request travels back as the answer's value. */
static tdm_status answer_plain(tdmi_service *service, tdmi_member *member, uint64_t id, tdm_status code)
{
    const char *text = code == TDM_OK ? "" : tdm_error_text();
    return answer(service, member, id, code, text, strlen(text));
}

static tdm_status serve(tdmi_service *service, tdmi_member *member, const tdmi_store_frame *frame)
{
    char key[TDMI_STORE_KEY_MAX];
    memcpy(key, frame->key, frame->key_nbytes); /* the parser has bounded it */
    key[frame->key_nbytes] = '\0';
    const tdmi_table_entry *entry;
    tdm_status status;
    switch ((tdmi_store_op)frame->code) {
    case TDMI_STORE_SET:
        status = tdmi_table_set(&service->table, key, frame->value, frame->value_nbytes);
        if (status == TDM_OK)
            answer_parked(service, key);
        return answer_plain(service, member, frame->id, status);
    case TDMI_STORE_GET:
        entry = tdmi_table_find(&service->table, key);
        if (entry != NULL)
            return answer(service, member, frame->id, TDM_OK, entry->value, entry->nbytes);
        return park(service, member, frame->id, key);
    case TDMI_STORE_ADD: {
        int64_t sum;
        uint8_t bytes[8];
        status = tdmi_table_add(&service->table, key, (int64_t)tdmi_read_le64(frame->value), &sum);
        if (status != TDM_OK)
            return answer_plain(service, member, frame->id, status);
        answer_parked(service, key);
        tdmi_write_le64(bytes, (uint64_t)sum);
        return answer(service, member, frame->id, TDM_OK, bytes, sizeof bytes);
    }
    case TDMI_STORE_HAS: {
        uint8_t is_there = tdmi_table_find(&service->table, key) != NULL;
        return answer(service, member, frame->id, TDM_OK, &is_there, 1);
    }
    case TDMI_STORE_DELETE:
        tdmi_table_remove(&service->table, key);
        return answer_plain(service, member, frame->id, TDM_OK);
    case TDMI_STORE_OFFER:
        return answer_plain(service, member, frame->id, offer(service, key, frame->value, frame->value_nbytes));
    case TDMI_STORE_WILL:
        return answer_plain(service, member, frame->id, keep_will(member, key, frame->value, frame->value_nbytes));
    case TDMI_STORE_CANCEL:
        unpark(service, member, &frame->id);
        return TDM_OK;
    }
    return tdmi_fail(TDM_ERR_INTERNAL, "store operation %u passed the parser", frame->code);
}

tdm_status tdmi_service_feed(tdmi_service *service, tdmi_member *member, const void *bytes, size_t nbytes)
{
    tdm_status status = tdmi_buffer_append(&member->in, bytes, nbytes);
    while (status == TDM_OK) {
        tdmi_store_frame frame;
        int64_t taken = tdmi_store_frame_parse(tdmi_buffer_front(&member->in), tdmi_buffer_held(&member->in), true, &frame);
        if (taken < 0)
            return TDM_ERR_MISMATCH;
        if (taken == 0)
            return TDM_OK;
        status = serve(service, member, &frame);
        tdmi_buffer_take(&member->in, (size_t)taken);
    }
    return status;
}

void tdmi_service_leave(tdmi_service *service, tdmi_member *member)
{
    unpark(service, member, NULL);
    for (tdmi_member **link = &service->ready; member->is_ready && *link != NULL; link = &(*link)->next_ready)
        if (*link == member) {
            *link = member->next_ready;
            break;
        }
    member->is_ready = false;
    if (member->will_key != NULL)
        (void)!offer(service, member->will_key, member->will_value, member->will_nbytes); /* without memory: deadlines tell */
    tdmi_free(member->will_key);
    tdmi_free(member->will_value);
    tdmi_buffer_free(&member->in);
    tdmi_buffer_free(&member->out);
}

void tdmi_service_free(tdmi_service *service)
{
    tdmi_table_clear(&service->table);
}
