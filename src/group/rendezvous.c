/* rendezvous.c - records and the verdict on who is missing. */
#include "group/rendezvous.h"

#include "core/clock.h"
#include "core/memory.h"
#include "group/group.h"
#include "store/store.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

static void record_key(const char *prefix, const char *what, int rank, char key[TDMI_STORE_KEY_MAX])
{
    snprintf(key, TDMI_STORE_KEY_MAX, "%s/%s/%d", prefix, what, rank);
}

/* The first rank that gives up writes down who is missing; all others read it. */
static tdm_status give_up(tdm_store *store, const char *prefix, const char *what, const char *group, int n, double timeout_s)
{
    char key[TDMI_STORE_KEY_MAX], text[512], ranks[256], *verdict;
    bool missing[n];
    int count = 0;
    for (int r = 0; r < n; r++) {
        bool has;
        record_key(prefix, what, r, key);
        tdm_status status = tdmi_store_has(store, key, &has);
        if (status != TDM_OK)
            return status;
        missing[r] = !has;
        count += !has;
    }
    tdmi_ranks_text(missing, n, ranks, sizeof ranks);
    snprintf(text, sizeof text, "group %s: rank%s %s of %d did not arrive within %g s", group, count == 1 ? "" : "s", ranks, n,
             timeout_s);
    snprintf(key, sizeof key, "%s/%s/verdict", prefix, what);
    tdm_status status = count > 0 ? tdmi_store_offer(store, key, text, strlen(text)) : TDM_OK;
    if (status != TDM_OK)
        return status;
    size_t nbytes;
    status = tdmi_store_get(store, key, tdmi_deadline_in(1), &verdict, &nbytes);
    if (status != TDM_OK)
        return status;
    (void)tdmi_fail(TDM_ERR_TIMEOUT, "%s", verdict);
    tdmi_free(verdict);
    return TDM_ERR_TIMEOUT;
}

static tdm_status heard_verdict(tdm_store *store, const char *prefix, const char *what)
{
    char key[TDMI_STORE_KEY_MAX], *verdict;
    size_t nbytes;
    bool has;
    snprintf(key, sizeof key, "%s/%s/verdict", prefix, what);
    tdm_status status = tdmi_store_has(store, key, &has);
    if (status != TDM_OK || !has)
        return status;
    status = tdmi_store_get(store, key, tdmi_deadline_in(1), &verdict, &nbytes);
    if (status != TDM_OK)
        return status;
    (void)tdmi_fail(TDM_ERR_TIMEOUT, "%s; the other ranks have given up", verdict);
    tdmi_free(verdict);
    return TDM_ERR_TIMEOUT;
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

/* tdmi_store_get that looks now and then whether a rank has gone. */
static tdm_status get_watching(tdm_store *store, const char *prefix, const char *key, int n, int64_t deadline_ns, tdm_group *watched,
                               char **value, size_t *nbytes)
{
    for (;;) {
        int64_t look_ns = tdmi_now_ns() + look_every_ns(n);
        tdm_status status = tdmi_store_get(store, key, look_ns < deadline_ns ? look_ns : deadline_ns, value, nbytes);
        if (status != TDM_ERR_TIMEOUT || tdmi_deadline_passed(deadline_ns))
            return status;
        status = tdmi_rendezvous_gone(store, prefix);
        if (status == TDM_OK && watched != NULL) {
            pthread_mutex_lock(&watched->lock);
            tdmi_group_check(watched);
            pthread_mutex_unlock(&watched->lock);
            status = tdmi_group_failure(watched);
        }
        if (status != TDM_OK)
            return status;
    }
}

tdm_status tdmi_rendezvous(tdm_store *store, const char *prefix, const char *what, tdm_group *watched, const char *group, int rank,
                           int n, const void *record, size_t nbytes, int64_t deadline_ns, double timeout_s, char **records_out,
                           size_t *nbytes_out)
{
    char key[TDMI_STORE_KEY_MAX];
    record_key(prefix, what, rank, key);
    tdm_status status = heard_verdict(store, prefix, what);
    if (status == TDM_OK)
        status = tdmi_store_set(store, key, record, nbytes);
    int have = 0;
    for (; status == TDM_OK && have < n; have++) {
        record_key(prefix, what, have, key);
        status = get_watching(store, prefix, key, n, deadline_ns, watched, &records_out[have], &nbytes_out[have]);
        if (status != TDM_OK)
            break;
    }
    if (status == TDM_OK)
        return TDM_OK;
    for (int r = 0; r < have; r++)
        tdmi_free(records_out[r]);
    return status == TDM_ERR_TIMEOUT && tdmi_deadline_passed(deadline_ns)
               ? give_up(store, prefix, what, group, n, timeout_s)
               : status;
}
