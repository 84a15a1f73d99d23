/* select.c - which algorithm a call takes: the one the user forces, else the first of the table that can.
 *
 * TANDEM_ALGO is NAME, for every operation that NAME offers, or a list of OP[:MIN-MAX]=NAME, where the first entry that fits
 * counts: MIN <= size < MAX, sizes in bytes as `tandem bench` prints them, either may be left out. Names are compared without
 * case, so NCCL's Ring is understood. */
#include "coll/algorithm.h"

#include "core/config.h"

#include <tandem/collective.h>

#include <stdio.h>
#include <string.h>
#include <strings.h>

const tdmi_algorithm *const tdmi_algorithms[] = {
    &tdmi_direct, &tdmi_direct_staged, &tdmi_halving_doubling, &tdmi_binomial, &tdmi_dissemination, &tdmi_ring,
};
const size_t tdmi_algorithm_count = sizeof tdmi_algorithms / sizeof *tdmi_algorithms;

const char *tdm_algorithm_name(int index)
{
    return index >= 0 && (size_t)index < tdmi_algorithm_count ? tdmi_algorithms[index]->name : NULL;
}

/* One line of a table of choices, the user's or the default. */
typedef struct entry {
    const tdmi_algorithm *algorithm;
    tdmi_coll coll; /* COUNT: every operation that the algorithm offers */
    size_t min, max; /* min <= bytes < max */
    const char *why;
} entry;

/* The first line that fits and whose needs are met counts. */
static const entry defaults[] = {
    {&tdmi_direct_staged, TDMI_COLL_COUNT, 0, 1025, "short message on one node: one meeting instead of two"},
    {&tdmi_direct, TDMI_COLL_COUNT, 0, SIZE_MAX, "all ranks reach each other's buffers"},
    {&tdmi_direct_staged, TDMI_COLL_COUNT, 0, SIZE_MAX, "all ranks are on one node"},
    {&tdmi_ring, TDMI_COLL_BROADCAST, (size_t)1 << 20, SIZE_MAX, "links, long message: a chain keeps all of them busy"},
    {&tdmi_halving_doubling, TDMI_COLL_COUNT, 0, SIZE_MAX, "links: least bytes in few messages, canonical order"},
    {&tdmi_binomial, TDMI_COLL_COUNT, 0, SIZE_MAX, "links: few rounds"},
    {&tdmi_dissemination, TDMI_COLL_COUNT, 0, SIZE_MAX, "links: few rounds"},
};

enum { TEXT_MAX = 256 };

/* Whether another order of additions can give other bits. */
static bool depends_on_order(const tdmi_call *call, int n)
{
    bool reduces = tdmi_coll_reduces(call->coll);
    bool inexact = call->dtype == TDM_F32 || call->dtype == TDM_F64 || call->dtype == TDM_F16 || call->dtype == TDM_BF16;
    return reduces && inexact && n > 2 && call->op != TDM_MIN && call->op != TDM_MAX;
}

/* "direct, ring": the algorithms of this operation, or all where coll is COUNT. */
static const char *names_of(tdmi_coll coll, bool uneven, char text[TEXT_MAX])
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < tdmi_algorithm_count; i++) {
        const char *name = tdmi_algorithms[i]->name;
        if ((coll != TDMI_COLL_COUNT && !tdmi_algorithms[i]->supports(coll, uneven)) || used + strlen(name) + 3 > TEXT_MAX)
            continue;
        if (used > 0) {
            memcpy(text + used, ", ", 3);
            used += 2;
        }
        memcpy(text + used, name, strlen(name) + 1);
        used += strlen(name);
    }
    return text;
}

static const char *names_of_colls(char text[TEXT_MAX])
{
    int used = 0;
    for (int coll = 0; coll < TDMI_COLL_COUNT; coll++)
        used += snprintf(text + used, (size_t)(TEXT_MAX - used), "%s%s", coll > 0 ? ", " : "", tdmi_coll_name((tdmi_coll)coll));
    return text;
}

static const tdmi_algorithm *find(const char *name)
{
    for (size_t i = 0; i < tdmi_algorithm_count; i++)
        if (strcasecmp(name, tdmi_algorithms[i]->name) == 0)
            return tdmi_algorithms[i];
    return NULL;
}

static bool fits(const entry *e, const tdmi_call *call, size_t nbytes)
{
    return (e->coll == TDMI_COLL_COUNT || e->coll == call->coll) && e->algorithm->supports(call->coll, call->uneven) && nbytes >= e->min &&
           nbytes < e->max;
}

/* Reads one entry of TANDEM_ALGO; `text` is cut up. */
static tdm_status parse_entry(char *text, entry *out)
{
    char all[TEXT_MAX], whole[TEXT_MAX];
    entry e = {.coll = TDMI_COLL_COUNT, .min = 0, .max = SIZE_MAX, .why = "forced by TANDEM_ALGO"};
    memcpy(whole, text, strlen(text) + 1);
    char *name = strchr(text, '=');
    if (name != NULL) {
        *name++ = '\0';
        char *min = strchr(text, ':'), *max = NULL;
        if (min != NULL) {
            *min++ = '\0';
            max = strchr(min, '-');
            if (max == NULL)
                return tdmi_fail(TDM_ERR_INVALID, "TANDEM_ALGO: \"%s\" has no size range; write OP:MIN-MAX=NAME, as in "
                                 "allreduce:0-64K=direct", whole);
            *max++ = '\0';
            if ((*min != '\0' && tdm_parse_size(min, "TANDEM_ALGO", &e.min) != TDM_OK) ||
                (*max != '\0' && tdm_parse_size(max, "TANDEM_ALGO", &e.max) != TDM_OK))
                return TDM_ERR_INVALID;
            if (e.min >= e.max)
                return tdmi_fail(TDM_ERR_INVALID, "TANDEM_ALGO: the range of \"%s\" is empty", whole);
        }
        for (int coll = 0; coll < TDMI_COLL_COUNT; coll++)
            if (strcmp(text, tdmi_coll_name((tdmi_coll)coll)) == 0)
                e.coll = (tdmi_coll)coll;
        if (e.coll == TDMI_COLL_COUNT)
            return tdmi_fail(TDM_ERR_INVALID, "TANDEM_ALGO: \"%s\" in \"%s\" is no operation; there are %s", text, whole,
                             names_of_colls(all));
    } else {
        name = text;
    }
    e.algorithm = find(name);
    if (e.algorithm == NULL)
        return tdmi_fail(TDM_ERR_INVALID, "TANDEM_ALGO: \"%s\" is no algorithm; there are %s", name,
                         names_of(TDMI_COLL_COUNT, false, all));
    if (e.coll != TDMI_COLL_COUNT && !e.algorithm->supports(e.coll, false))
        return tdmi_fail(TDM_ERR_UNSUPPORTED, "TANDEM_ALGO: %s has no %s; %s has %s", e.algorithm->name,
                         tdmi_coll_name(e.coll), tdmi_coll_name(e.coll), names_of(e.coll, false, all));
    *out = e;
    return TDM_OK;
}

/* The algorithm that TANDEM_ALGO names for this call, NULL if none. Every entry is read, so that a wrong one is found at the
 * first call and not at the first that it would fit. */
static tdm_status forced(const tdmi_call *call, int n, const tdmi_algorithm **out)
{
    const char *text = tdmi_config_text(TDMI_CONFIG_ALGO);
    *out = NULL;
    if (strcmp(text, "auto") == 0)
        return TDM_OK;
    const size_t nbytes = tdmi_call_bytes(call, n);
    while (*text != '\0') {
        char one[TEXT_MAX];
        size_t length = strcspn(text, ",");
        if (length == 0 || length >= sizeof one)
            return tdmi_fail(TDM_ERR_INVALID, "TANDEM_ALGO=%s has an entry that is empty or too long",
                             tdmi_config_text(TDMI_CONFIG_ALGO));
        memcpy(one, text, length);
        one[length] = '\0';
        text += length + (text[length] == ',');
        entry e = {.algorithm = NULL};
        tdm_status st = parse_entry(one, &e);
        if (st != TDM_OK)
            return st;
        if (*out == NULL && fits(&e, call, nbytes))
            *out = e.algorithm;
    }
    return TDM_OK;
}

static const char *missing(unsigned needs)
{
    if ((needs & TDMI_NEEDS_SHARED) != 0)
        return "every rank's buffers in shared memory of one node (tdm_alloc), and the transport not forced to tcp";
    if ((needs & TDMI_NEEDS_STAGE) != 0)
        return "all ranks on one node, and the transport not forced to tcp";
    return "links between the ranks";
}

tdm_status tdmi_select(const tdmi_call *call, const tdmi_topology *topology, unsigned reach, const tdmi_algorithm **out,
                       const char **why)
{
    const int n = topology->n;
    const char *order = tdmi_config_text(TDMI_CONFIG_SUM_ORDER), *reason = "forced by TANDEM_ALGO";
    const tdmi_algorithm *choice;
    char names[TEXT_MAX];
    if (strcmp(order, "canonical") != 0 && strcmp(order, "fast") != 0)
        return tdmi_fail(TDM_ERR_INVALID, "TANDEM_SUM_ORDER=%s is neither canonical nor fast", order);
    tdm_status st = forced(call, n, &choice);
    if (st != TDM_OK)
        return st;
    if (choice != NULL && n > 1 && (choice->needs & ~reach) != 0)
        return tdmi_fail(TDM_ERR_UNSUPPORTED, "%s over %d ranks: algorithm %s needs %s; %s has %s", tdmi_coll_name(call->coll),
                         n, choice->name, missing(choice->needs & ~reach), tdmi_coll_name(call->coll),
                         names_of(call->coll, call->uneven, names));
    if (choice != NULL && choice->reorders && depends_on_order(call, n) && strcmp(order, "fast") != 0)
        return tdmi_fail(TDM_ERR_UNSUPPORTED, "%s over %d ranks: algorithm %s adds in another order than the canonical tree, "
                         "so the %s of %s has other bits; allow that with TANDEM_SUM_ORDER=fast (--sum-order fast)",
                         tdmi_coll_name(call->coll), n, choice->name, tdm_op_name(call->op), tdm_dtype_name(call->dtype));
    const size_t nbytes = tdmi_call_bytes(call, n);
    for (size_t i = 0; choice == NULL && i < sizeof defaults / sizeof *defaults; i++)
        if (fits(&defaults[i], call, nbytes) && (n == 1 || (defaults[i].algorithm->needs & ~reach) == 0)) {
            choice = defaults[i].algorithm;
            reason = n == 1 ? "the only rank: a copy" : defaults[i].why;
        }
    if (choice == NULL)
        return tdmi_fail(TDM_ERR_INTERNAL, "%s over %d ranks: the group says it has neither links nor memory in common",
                         tdmi_coll_name(call->coll), n);
    *out = choice;
    if (why != NULL)
        *why = reason;
    return TDM_OK;
}
