/* sub.c - groups of some ranks of a group. Members find each other in the store under a key made of their list, so that
 * groups made at the same time do not meet, and different lists end in a message that shows both. */
#include "group/group.h"

#include "core/clock.h"
#include "core/memory.h"
#include "group/rendezvous.h"
#include "store/store.h"

#include <stdio.h>
#include <string.h>

/* How often this rank made the group of a list. */
struct tdmi_sub_count {
    struct tdmi_sub_count *next;
    uint64_t list;
    unsigned made;
};

void tdmi_group_forget_subs(tdm_group *group)
{
    while (group->sub_counts != NULL) {
        struct tdmi_sub_count *count = group->sub_counts;
        group->sub_counts = count->next;
        tdmi_free(count);
    }
}

static uint64_t hash(const int *ranks, int count)
{
    uint64_t h = 1469598103934665603ull;
    for (int i = 0; i < count; i++)
        for (int byte = 0; byte < 4; byte++)
            h = (h ^ ((uint32_t)ranks[i] >> (8 * byte) & 0xff)) * 1099511628211ull;
    return h;
}

static tdm_status next_turn(tdm_group *parent, uint64_t list, unsigned *turn_out)
{
    struct tdmi_sub_count *count = parent->sub_counts;
    while (count != NULL && count->list != list)
        count = count->next;
    if (count == NULL) {
        count = tdmi_calloc(1, sizeof *count, "group");
        if (count == NULL)
            return TDM_ERR_NO_MEMORY;
        count->list = list;
        count->next = parent->sub_counts;
        parent->sub_counts = count;
    }
    *turn_out = ++count->made;
    return TDM_OK;
}

/* "[0, 3]" */
static void list_text(const int *ranks, int count, char *text, size_t nbytes)
{
    size_t used = (size_t)snprintf(text, nbytes, "[");
    for (int i = 0; i < count && used + 16 < nbytes; i++)
        used += (size_t)snprintf(text + used, nbytes - used, "%s%d", i > 0 ? ", " : "", ranks[i]);
    snprintf(text + used, nbytes - used, "]");
}

static tdm_status check_list(const tdm_group *parent, const int *ranks, int count, int *rank_out)
{
    char text[256];
    if (count < 1 || ranks == NULL)
        return tdmi_fail(TDM_ERR_INVALID, "a sub-group of %s needs at least one rank", parent->name);
    list_text(ranks, count, text, sizeof text);
    *rank_out = -1;
    for (int i = 0; i < count; i++) {
        if (ranks[i] < 0 || ranks[i] >= parent->size)
            return tdmi_fail(TDM_ERR_INVALID, "sub-group %s: group %s has ranks 0 to %d, not %d", text, parent->name,
                             parent->size - 1, ranks[i]);
        for (int j = 0; j < i; j++)
            if (ranks[j] == ranks[i])
                return tdmi_fail(TDM_ERR_INVALID, "sub-group %s: rank %d is listed twice", text, ranks[i]);
        if (ranks[i] == parent->rank)
            *rank_out = i;
    }
    return *rank_out >= 0 ? TDM_OK
                          : tdmi_fail(TDM_ERR_INVALID, "rank %d of group %s is not a member of sub-group %s", parent->rank,
                                      parent->name, text);
}

/* Says in the store what this rank makes, for the messages of those who wait for it elsewhere. */
static tdm_status announce(const tdm_group *parent, const char *text)
{
    char key[TDMI_STORE_KEY_MAX];
    snprintf(key, sizeof key, "%s/making/%d", parent->prefix, parent->rank);
    return tdmi_store_set(parent->world->store, key, text, strlen(text));
}

static void explain(const tdm_group *parent, const int *ranks, int count, const char *own)
{
    char text[TDMI_ERROR_TEXT_MAX], others[512] = "";
    snprintf(text, sizeof text, "%s", tdm_error_text());
    size_t used = 0;
    for (int i = 0; i < count && used + 64 < sizeof others; i++) {
        char key[TDMI_STORE_KEY_MAX], *made;
        size_t nbytes;
        bool has = false;
        snprintf(key, sizeof key, "%s/making/%d", parent->prefix, ranks[i]);
        if (ranks[i] == parent->rank || tdmi_store_has(parent->world->store, key, &has) != TDM_OK || !has ||
            tdmi_store_get(parent->world->store, key, tdmi_deadline_in(1), &made, &nbytes) != TDM_OK)
            continue;
        if (strcmp(made, own) != 0)
            used += (size_t)snprintf(others + used, sizeof others - used, "; rank %d last made %s", ranks[i], made);
        tdmi_free(made);
    }
    (void)tdmi_fail(TDM_ERR_TIMEOUT, "%s%s", text, others);
}

tdm_status tdm_group_create_sub(tdm_group *parent, const int *ranks, int count, tdm_group **out)
{
    if (parent != NULL && tdmi_group_check_process(parent) != TDM_OK)
        return TDM_ERR_INVALID;
    int rank = -1;
    unsigned turn;
    char name[TDMI_GROUP_NAME_MAX], prefix[TDMI_PREFIX_MAX], text[256];
    tdm_status status = check_list(parent, ranks, count, &rank);
    if (status != TDM_OK)
        return status;
    const bool alone = parent->engine != NULL && parent->engine->ops->meets_alone;
    const uint64_t list = hash(ranks, count);
    list_text(ranks, count, text, sizeof text);
    status = next_turn(parent, list, &turn);
    if (status != TDM_OK)
        return status;
    snprintf(name, sizeof name, "%.40s%.*s", parent->name, (int)(sizeof name - 41), text);
    snprintf(prefix, sizeof prefix, "%.90s/%016llx.%u", parent->prefix, (unsigned long long)list, turn);
    if (count > 1 && !alone) {
        status = announce(parent, text);
        if (status != TDM_OK)
            return status;
    }
    tdmi_engine *engine = NULL;
    status = alone ? parent->engine->ops->open_sub(parent->engine, ranks, count, &engine) : TDM_OK;
    if (status == TDM_OK)
        status = tdmi_group_make(parent->world, parent, name, prefix, rank, count, parent->timeout_s, engine, out);
    if (status == TDM_OK && parent->engine != NULL && !alone) {
        status = tdmi_group_attach_engine(*out, parent->engine->ops);
        if (status != TDM_OK)
            tdm_group_destroy(*out);
    }
    if (status == TDM_ERR_TIMEOUT && !alone)
        explain(parent, ranks, count, text);
    return status;
}
