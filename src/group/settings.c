/* settings.c - ranks and sizes as torchrun, tandem run, mpirun and srun export them, and the other options of a group. */
#include "group/settings.h"

#include "core/config.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Who may have started us, and where it says so. The first whose rank variable is set counts. */
typedef struct launcher {
    const char *name, *rank, *size, *local_rank, *local_size;
} launcher;

static const launcher launchers[] = {
    {"torchrun or tandem run", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"MPICH's mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"},
};

void tdm_group_options_init(tdm_group_options *options)
{
    *options = (tdm_group_options){.rank = -1, .size = -1, .local_rank = -1, .local_size = -1};
}

/* An unset variable is `missing`, unless that is below min: then it is an error. */
static tdm_status read_int(const char *variable, int min, int max, int missing, int *out)
{
    const char *text = getenv(variable);
    if (text == NULL || text[0] == '\0') {
        if (missing < min && missing != -1)
            return tdmi_fail(TDM_ERR_INVALID, "%s is not set", variable);
        *out = missing;
        return TDM_OK;
    }
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno != 0 || *end != '\0' || value < min || value > max)
        return tdmi_fail(TDM_ERR_INVALID, "%s is \"%s\"; a whole number from %d to %d is needed", variable, text, min, max);
    *out = (int)value;
    return TDM_OK;
}

static tdm_status read_launcher(tdmi_settings *s)
{
    const launcher *from = NULL;
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers && from == NULL; i++)
        if (getenv(launchers[i].rank) != NULL)
            from = &launchers[i];
    if (from == NULL)
        return tdmi_fail(TDM_ERR_INVALID, "RANK is not set: start the program with `tandem run`, torchrun, mpirun or srun, or set "
                         "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT");
    tdm_status status = read_int(from->size, 1, INT_MAX, -2, &s->size);
    if (status == TDM_OK)
        status = read_int(from->rank, 0, INT_MAX, -2, &s->rank);
    if (status == TDM_OK)
        status = read_int(from->local_rank, 0, INT_MAX, -1, &s->local_rank);
    if (status == TDM_OK)
        status = read_int(from->local_size, 1, INT_MAX, -1, &s->local_size);
    if (status != TDM_OK)
        return tdmi_fail_while(status, "reading what %s exports", from->name);
    if (s->rank >= s->size)
        return tdmi_fail(TDM_ERR_INVALID, "%s is %d, but %s is %d; ranks count from 0", from->rank, s->rank, from->size, s->size);
    return TDM_OK;
}

static tdm_status read_master(tdmi_settings *s)
{
    const char *host = getenv("MASTER_ADDR");
    if (host == NULL || host[0] == '\0')
        return tdmi_fail(TDM_ERR_INVALID, "MASTER_ADDR is not set; set it to the host of rank 0, as other ranks reach it (mpirun: -x "
                         "MASTER_ADDR=HOST -x MASTER_PORT=PORT)");
    if (strlen(host) >= sizeof s->host)
        return tdmi_fail(TDM_ERR_INVALID, "MASTER_ADDR is longer than %zu bytes", sizeof s->host - 1);
    memcpy(s->host, host, strlen(host) + 1);
    tdm_status status = read_int("MASTER_PORT", 1, 65535, -2, &s->port);
    if (status != TDM_OK)
        return tdmi_fail_while(status, "looking for the port at which rank 0 listens");
    /* torchrun's agent may hold MASTER_PORT for its own store; ours then takes the next one. */
    const char *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
    if (agent != NULL && strcmp(agent, "True") == 0)
        s->port = s->port < 65535 ? s->port + 1 : 65534;
    return TDM_OK;
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
    tdm_status status = TDM_OK;
    if (s.rank == -1 && s.size == -1)
        status = read_launcher(&s);
    else if (s.size < 1 || s.rank < 0 || s.rank >= s.size)
        status = tdmi_fail(TDM_ERR_INVALID, "rank %d of %d ranks: a size of at least 1 and a rank below it are needed", s.rank, s.size);
    if (status == TDM_OK && s.store == NULL && s.size > 1)
        status = read_master(&s);
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
