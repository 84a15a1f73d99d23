/* forced.c - TANDEM_ALGO: NAME, for every operation that NAME offers, or a list of OP[:MIN-MAX]=NAME, where the first entry that
 * fits counts: MIN <= size < MAX, sizes in bytes as `tandem bench` prints them, either may be left out. Names are compared
 * without case, so NCCL's Ring and Tree are understood. */
#include "coll/choice.h"

#include "core/config.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 256 };

static const char *names_of_colls(char text[TDMI_NAMES_MAX])
{
    int used = 0;
    for (int coll = 0; coll < TDMI_COLL_COUNT; coll++)
        used += snprintf(text + used, (size_t)(TDMI_NAMES_MAX - used), "%s%s", coll > 0 ? ", " : "", tdmi_coll_name((tdmi_coll)coll));
    return text;
}

/* Reads one entry of TANDEM_ALGO; `text` is cut up. */
static tdm_status parse_entry(char *text, tdmi_choice *out)
{
    char all[TDMI_NAMES_MAX], whole[TEXT_MAX];
    tdmi_choice e = {.coll = TDMI_COLL_COUNT, .min = 0, .max = SIZE_MAX, .why = "forced by TANDEM_ALGO"};
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
    e.algorithm = tdmi_algorithm_find(name);
    if (e.algorithm == NULL)
        return tdmi_fail(TDM_ERR_INVALID, "TANDEM_ALGO: \"%s\" is no algorithm; there are %s", name,
                         tdmi_algorithm_names(TDMI_COLL_COUNT, false, all));
    if (e.coll != TDMI_COLL_COUNT && !e.algorithm->supports(e.coll, false))
        return tdmi_fail(TDM_ERR_UNSUPPORTED, "TANDEM_ALGO: %s has no %s; %s has %s", e.algorithm->name,
                         tdmi_coll_name(e.coll), tdmi_coll_name(e.coll), tdmi_algorithm_names(e.coll, false, all));
    *out = e;
    return TDM_OK;
}

tdm_status tdmi_forced(const tdmi_call *call, int n, const tdmi_algorithm **out)
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
        tdmi_choice e = {.algorithm = NULL};
        tdm_status st = parse_entry(one, &e);
        if (st != TDM_OK)
            return st;
        if (*out == NULL && tdmi_choice_fits(&e, call, nbytes))
            *out = e.algorithm;
    }
    return TDM_OK;
}

