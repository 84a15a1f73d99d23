/* rendezvous.c - records and the verdict on who is missing.
 *
 *     set     what/RANK      the own record
 *     add     what/arrived   who is counted last reads all records and puts them together under
 *     get     what/all       for which everybody waits; or there stands who is missing
 *
 * Four requests a rank instead of one for each of n, and one key to wait for. */
#include "group/rendezvous.h"

#include "core/clock.h"
#include "core/memory.h"
#include "group/group.h"
#include "store/store.h"
#include "transport/bytes.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What stands under "all" begins with one of these: the list of records; read them one by one; a verdict with a flag a rank, set
 * for the missing, and its text. */
enum { ALL = 'a', SINGLY = 's', MISSING = 'm' };

/* In the sum under "arrived": ranks count below it, their sizes above. */
#define SIZE_UNIT ((int64_t)1 << 32)

/* Between two looks at what may have happened to the others: the store's server answers to all of them. */
static int64_t look_every_ns(int n)
{
    return 50 * TDMI_NS_PER_MS + n * (TDMI_NS_PER_MS / 4);
}

void tdmi_ranks_text(const bool *set, int n, char *text, size_t nbytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (int r = 0; r < n && used < nbytes; r++)
        if (set[r])
            used += (size_t)snprintf(text + used, nbytes - used, "%s%d", used > 0 ? ", " : "", r);
}

tdm_status tdmi_rendezvous_prefix(tdm_store *store, const char *name, int rank, char prefix[TDMI_PREFIX_MAX])
{
    char key[TDMI_STORE_KEY_MAX];
    int64_t made;
    snprintf(key, sizeof key, "group/%s/made/%d", name, rank);
    tdm_status status = tdmi_store_add(store, key, 1, &made);
    if (status == TDM_OK)
        snprintf(prefix, TDMI_PREFIX_MAX, "group/%s/%lld", name, (long long)made);
    return status;
}

static tdm_status leave_will(tdm_store *store, const char *key, const char *text)
{
    tdm_status status = tdmi_store_will(store, key, text, strlen(text));
    return status == TDM_ERR_UNSUPPORTED ? TDM_OK : status; /* ranks of one process live and die together */
}

tdm_status tdmi_rendezvous_begin(tdm_store *store, const char *prefix, const char *group, int rank)
{
    char key[TDMI_STORE_KEY_MAX], text[256];
    snprintf(key, sizeof key, "%s/gone", prefix);
    snprintf(text, sizeof text, "group %s: rank %d (process %d) died before all ranks had met; see its log", group, rank, (int)getpid());
    return leave_will(store, key, text);
}

tdm_status tdmi_rendezvous_end(tdm_store *store, const char *prefix, const char *group, int rank, tdm_status status)
{
    char key[TDMI_STORE_KEY_MAX], text[TDMI_ERROR_TEXT_MAX], own[TDMI_ERROR_TEXT_MAX];
    if (status == TDM_OK) {
        snprintf(key, sizeof key, "%s/left", prefix);
        return leave_will(store, key, ""); /* from now on its going is the group's own matter */
    }
    if (status == TDM_ERR_TIMEOUT || status == TDM_ERR_PEER_LOST || status == TDM_ERR_MISMATCH)
        return status; /* the others know */
    snprintf(key, sizeof key, "%s/gone", prefix);
    snprintf(own, sizeof own, "%s", tdm_error_text());
    snprintf(text, sizeof text, "group %s: rank %d gave up before all ranks had met: %.800s", group, rank, own);
    (void)!tdmi_store_offer(store, key, text, strlen(text)); /* else they wait until their time is up */
    tdmi_error_set_text(own);
    return status;
}

tdm_status tdmi_rendezvous_gone(tdm_store *store, const char *prefix)
{
    char key[TDMI_STORE_KEY_MAX], *text;
    size_t nbytes;
    bool has;
    snprintf(key, sizeof key, "%s/gone", prefix);
    tdm_status status = tdmi_store_has(store, key, &has);
    if (status != TDM_OK || !has)
        return status;
    status = tdmi_store_get(store, key, tdmi_deadline_in(1), &text, &nbytes);
    if (status != TDM_OK)
        return status;
    (void)tdmi_fail(TDM_ERR_PEER_LOST, "%s", text);
    tdmi_free(text);
    return TDM_ERR_PEER_LOST;
}

/* One exchange of records. */
typedef struct exchange {
    tdm_store *store;
    const char *prefix, *what, *group;
    tdm_group *watched;
    int rank, n;
    int64_t deadline_ns;
    double timeout_s;
} exchange;

static void key_of(const exchange *x, const char *name, char key[TDMI_STORE_KEY_MAX])
{
    snprintf(key, TDMI_STORE_KEY_MAX, "%s/%s/%s", x->prefix, x->what, name);
}

static void record_key(const exchange *x, int rank, char key[TDMI_STORE_KEY_MAX])
{
    char number[16];
    snprintf(number, sizeof number, "%d", rank);
    key_of(x, number, key);
}

/* tdmi_store_get that looks now and then whether a rank has gone. */
static tdm_status get_watching(const exchange *x, const char *key, char **value, size_t *nbytes)
{
    for (;;) {
        const int64_t look_ns = tdmi_now_ns() + look_every_ns(x->n);
        tdm_status status = tdmi_store_get(x->store, key, look_ns < x->deadline_ns ? look_ns : x->deadline_ns, value, nbytes);
        if (status != TDM_ERR_TIMEOUT || tdmi_deadline_passed(x->deadline_ns))
            return status;
        status = tdmi_rendezvous_gone(x->store, x->prefix);
        if (status == TDM_OK && x->watched != NULL) {
            pthread_mutex_lock(&x->watched->lock);
            tdmi_group_check(x->watched);
            pthread_mutex_unlock(&x->watched->lock);
            status = tdmi_group_failure(x->watched);
        }
        if (status != TDM_OK)
            return status;
    }
}

static void free_records(char **records, int count)
{
    for (int r = 0; r < count; r++)
        tdmi_free(records[r]);
}

static tdm_status get_singly(const exchange *x, char **records, size_t *nbytes)
{
    for (int r = 0; r < x->n; r++) {
        char key[TDMI_STORE_KEY_MAX];
        record_key(x, r, key);
        const tdm_status status = get_watching(x, key, &records[r], &nbytes[r]);
        if (status != TDM_OK) {
            free_records(records, r);
            return status;
        }
    }
    return TDM_OK;
}

/* ---- the list of all records: their lengths, then the records ---- */

static tdm_status offer_list(const exchange *x)
{
    char key[TDMI_STORE_KEY_MAX], *records[x->n];
    size_t nbytes[x->n], total = 1 + (size_t)x->n * 4;
    tdm_status status = get_singly(x, records, nbytes);
    if (status != TDM_OK)
        return status;
    for (int r = 0; r < x->n; r++)
        total += nbytes[r];
    const bool fits = total <= TDMI_STORE_VALUE_MAX;
    char *list = tdmi_malloc(fits ? total : 1, "list of records");
    if (list != NULL) {
        list[0] = fits ? ALL : SINGLY;
        char *at = list + 1 + (size_t)x->n * 4;
        for (int r = 0; fits && r < x->n; r++) {
            tdmi_put_u32((uint8_t *)list + 1 + (size_t)r * 4, (uint32_t)nbytes[r]);
            memcpy(at, records[r], nbytes[r]);
            at += nbytes[r];
        }
        key_of(x, "all", key);
        status = tdmi_store_offer(x->store, key, list, fits ? total : 1);
    }
    free_records(records, x->n);
    tdmi_free(list);
    return list != NULL ? status : TDM_ERR_NO_MEMORY;
}

static tdm_status damaged(const exchange *x)
{
    return tdmi_fail(TDM_ERR_MISMATCH, "group %s: the list of its ranks is damaged in the store", x->group);
}

static tdm_status take_list(const exchange *x, const char *list, size_t length, char **records, size_t *nbytes)
{
    size_t at = (size_t)x->n * 4;
    if (length < at)
        return damaged(x);
    for (int r = 0; r < x->n; r++) {
        nbytes[r] = tdmi_get_u32((const uint8_t *)list + (size_t)r * 4);
        tdm_status status = nbytes[r] <= length - at ? TDM_OK : damaged(x);
        records[r] = status == TDM_OK ? tdmi_malloc(nbytes[r] + 1, "record of a rank") : NULL;
        if (records[r] == NULL) {
            free_records(records, r);
            return status == TDM_OK ? TDM_ERR_NO_MEMORY : status;
        }
        memcpy(records[r], list + at, nbytes[r]);
        records[r][nbytes[r]] = '\0';
        at += nbytes[r];
    }
    return TDM_OK;
}

/* ---- arriving, and who does not ---- */

/* Stores the own record. *is_last: all others have, or sizes differ, and nobody need wait for more. */
static tdm_status arrive(const exchange *x, const void *record, size_t nbytes, bool *is_last)
{
    char key[TDMI_STORE_KEY_MAX];
    int64_t sum = 0;
    record_key(x, x->rank, key);
    tdm_status status = tdmi_store_set(x->store, key, record, nbytes);
    if (status != TDM_OK)
        return status;
    key_of(x, "arrived", key);
    status = tdmi_store_add(x->store, key, SIZE_UNIT * x->n + 1, &sum); /* counts ranks, and adds up their sizes */
    const int64_t count = sum % SIZE_UNIT;
    *is_last = count == x->n && sum / SIZE_UNIT == count * x->n;
    if (status == TDM_OK && sum / SIZE_UNIT != count * x->n) {
        key_of(x, "all", key);
        status = tdmi_store_offer(x->store, key, &(char){SINGLY}, 1);
    }
    return status;
}

/* The first rank that gives up writes down who is missing; all others read it. */
static tdm_status give_up(const exchange *x)
{
    char key[TDMI_STORE_KEY_MAX], ranks[256], text[512], verdict[1 + (size_t)x->n + sizeof text];
    bool missing[x->n];
    int count = 0;
    for (int r = 0; r < x->n; r++) {
        bool has;
        record_key(x, r, key);
        const tdm_status status = tdmi_store_has(x->store, key, &has);
        if (status != TDM_OK)
            return status;
        missing[r] = !has;
        verdict[1 + r] = (char)missing[r];
        count += missing[r];
    }
    tdmi_ranks_text(missing, x->n, ranks, sizeof ranks);
    snprintf(text, sizeof text, "group %s: rank%s %s of %d did not arrive within %g s", x->group, count == 1 ? "" : "s", ranks, x->n, x->timeout_s);
    verdict[0] = count > 0 ? MISSING : SINGLY;
    memcpy(verdict + 1 + x->n, text, strlen(text));
    key_of(x, "all", key);
    return tdmi_store_offer(x->store, key, verdict, count > 0 ? 1 + (size_t)x->n + strlen(text) : 1);
}

/* What stands under "all": a block with a NUL behind it. */
static tdm_status read_outcome(const exchange *x, const char *outcome, size_t length, char **records, size_t *nbytes)
{
    switch (length > 0 ? outcome[0] : '\0') {
    case ALL:
        return take_list(x, outcome + 1, length - 1, records, nbytes);
    case SINGLY:
        return get_singly(x, records, nbytes);
    case MISSING:
        if (length > 1 + (size_t)x->n)
            return tdmi_fail(TDM_ERR_TIMEOUT, "%s%s", outcome + 1 + x->n, outcome[1 + x->rank] ? "; the other ranks have given up" : "");
        break;
    default:
        break;
    }
    return damaged(x);
}

tdm_status tdmi_rendezvous(tdm_store *store, const char *prefix, const char *what, tdm_group *watched, const char *group, int rank,
                           int n, const void *record, size_t nbytes, int64_t deadline_ns, double timeout_s, char **records_out,
                           size_t *nbytes_out)
{
    const exchange x = {store, prefix, what, group, watched, rank, n, deadline_ns, timeout_s};
    char key[TDMI_STORE_KEY_MAX], *outcome;
    size_t length;
    bool is_last;
    tdm_status status = arrive(&x, record, nbytes, &is_last);
    if (status == TDM_OK && is_last)
        status = offer_list(&x);
    if (status != TDM_OK)
        return status;
    key_of(&x, "all", key);
    status = get_watching(&x, key, &outcome, &length);
    if (status == TDM_ERR_TIMEOUT && tdmi_deadline_passed(deadline_ns)) {
        status = give_up(&x);
        if (status == TDM_OK)
            status = tdmi_store_get(store, key, tdmi_deadline_in(1), &outcome, &length);
    }
    if (status != TDM_OK)
        return status;
    status = read_outcome(&x, outcome, length, records_out, nbytes_out);
    tdmi_free(outcome);
    return status;
}
