/* settings.c - the options of a group: given ones, else what the launcher and TANDEM_* variables say. */
#include "group/settings.h"

#include "core/config.h"
#include "group/launcher.h"

#include <string.h>

void tdm_group_options_init(tdm_group_options *options)
{
    *options = (tdm_group_options){.rank = -1, .size = -1, .local_rank = -1, .local_size = -1};
}

static tdm_status read_transport(const char *option, tdmi_settings *s)
{
    const char *text = option != NULL ? option : tdmi_config_text(TDMI_CONFIG_TRANSPORT);
    s->force_local = strcmp(text, "shm") == 0;
    s->ucx = strcmp(text, "ucx") == 0 || strcmp(text, "shm+ucx") == 0;
    s->force_links = strcmp(text, "tcp") == 0 || strcmp(text, "ucx") == 0;
    if (s->force_links || s->force_local || s->ucx || strcmp(text, "auto") == 0)
        return TDM_OK;
    return tdmi_fail(TDM_ERR_INVALID, "%s is \"%s\"; there are auto, shm, tcp, ucx and shm+ucx",
                     option != NULL ? "option transport" : "TANDEM_TRANSPORT", text);
}

static tdm_status read_seconds(double option, tdmi_config_key key, const char *what, double *out)
{
    *out = option;
    if (option == 0)
        return tdmi_config_number(key, 1e-3, 1e9, out);
    return option > 0 && option <= 1e9 ? TDM_OK : tdmi_fail(TDM_ERR_INVALID, "%s is %g seconds; it must be above 0", what, option);
}

tdm_status tdmi_settings_make(const tdm_group_options *options, tdmi_settings *out)
{
    tdm_group_options defaults;
    tdm_group_options_init(&defaults);
    if (options == NULL)
        options = &defaults;
    tdmi_settings s = {.store = options->store,
                       .rank = options->rank,
                       .size = options->size,
                       .local_rank = options->local_rank,
                       .local_size = options->local_size};
    const char *name = options->name != NULL ? options->name : "world";
    if (name[0] == '\0' || strlen(name) >= sizeof s.name || strchr(name, '/') != NULL)
        return tdmi_fail(TDM_ERR_INVALID, "group name \"%s\": 1 to %zu bytes without '/' are needed", name, sizeof s.name - 1);
    memcpy(s.name, name, strlen(name) + 1);
    tdm_status status = tdmi_engine_find(options->engine != NULL ? options->engine : tdmi_config_text(TDMI_CONFIG_ENGINE), &s.engine);
    const bool alone = s.engine != NULL && s.engine->meets_alone; /* its ranks need no store, and know who they are */
    if (status == TDM_OK && s.rank == -1 && s.size == -1)
        status = alone ? TDM_OK : tdmi_launcher_ranks(&s);
    else if (status == TDM_OK && (s.size < 1 || s.rank < 0 || s.rank >= s.size))
        status = tdmi_fail(TDM_ERR_INVALID, "rank %d of %d ranks: a size of at least 1 and a rank below it are needed", s.rank, s.size);
    if (status == TDM_OK && !alone && s.store == NULL && s.size > 1)
        status = tdmi_launcher_meeting(&s);
    if (status == TDM_OK)
        status = read_transport(options->transport, &s);
    if (status == TDM_OK)
        status = read_seconds(options->timeout_s, TDMI_CONFIG_TIMEOUT, "timeout_s", &s.timeout_s);
    if (status == TDM_OK)
        status = read_seconds(options->rendezvous_timeout_s, TDMI_CONFIG_RDZV_TIMEOUT, "rendezvous_timeout_s",
                              &s.rendezvous_timeout_s);
    if (status == TDM_OK)
        *out = s;
    return status;
}
