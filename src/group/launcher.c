/* launcher.c - torchrun, tandem run, mpirun, srun, Kubernetes: each says in its own variables which rank this process is. Few say
 * where the ranks can meet: on one host they need no telling, in a Slurm job the first host of the step is where rank 0 runs.
 *
 * A port that nobody gave comes from the job's identity, so that jobs on one host do not meet; should two have one port, the
 * identity, which is then the secret too, keeps them apart. */
#include "group/launcher.h"

#include "core/config.h"

#include <tandem/launch.h>

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PORT_FIRST 20000 /* below the ports that kernels give away */
#define PORT_COUNT 12000
#define PORT_OF_PODS 29500 /* each has an address of its own */
#define SLURM_SPECIAL_STEPS 4294967280ull /* from here on: batch scripts, shells of salloc */

typedef enum { BY_TORCHRUN, BY_OPEN_MPI, BY_HYDRA, BY_SRUN, BY_PMI, BY_LWS, BY_INDEXED_JOB } starter;

/* Who may have started us, and where it says so. The first whose `rank` and `also` are set counts. */
typedef struct launcher {
    const char *name, *rank, *also, *size, *local_rank, *local_size;
} launcher;

static const launcher launchers[] = {
    [BY_TORCHRUN] = {"torchrun or tandem run", "RANK", NULL, "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    [BY_OPEN_MPI] = {"Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", NULL, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    /* started by srun itself in a Slurm job, so before srun */
    [BY_HYDRA] = {"MPICH's mpirun", "PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    [BY_SRUN] = {"srun", "SLURM_PROCID", NULL, "SLURM_NTASKS", "SLURM_LOCALID", NULL},
    [BY_PMI] = {"a launcher with PMI", "PMI_RANK", NULL, "PMI_SIZE", NULL, NULL},
    [BY_LWS] = {"a LeaderWorkerSet", "LWS_WORKER_INDEX", NULL, "LWS_GROUP_SIZE", NULL, NULL},
    [BY_INDEXED_JOB] = {"an Indexed Job of Kubernetes", "JOB_COMPLETION_INDEX", NULL, "WORLD_SIZE", NULL, NULL},
};

static const char *text_of(const char *variable)
{
    const char *text = variable != NULL ? getenv(variable) : NULL;
    return text != NULL && text[0] != '\0' ? text : NULL;
}

static const launcher *find_launcher(void)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (getenv(launchers[i].rank) != NULL && (launchers[i].also == NULL || getenv(launchers[i].also) != NULL))
            return &launchers[i];
    return NULL;
}

/* An unset variable is `missing`, unless that is below -1: then it is an error. */
static tdm_status read_int(const char *variable, int min, int max, int missing, int *out)
{
    const char *text = text_of(variable);
    if (text == NULL) {
        if (missing < -1)
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

/* ---- ranks ---- */

static tdm_status read_slurm(tdmi_settings *s)
{
    const char *tasks = text_of("SLURM_STEP_TASKS_PER_NODE"), *step = text_of("SLURM_STEP_ID");
    int node = -1;
    tdm_status status = TDM_OK;
    if (text_of("SLURM_STEP_NUM_TASKS") != NULL) /* a step may have fewer than the job */
        status = read_int("SLURM_STEP_NUM_TASKS", 1, INT_MAX, -1, &s->size);
    if (status == TDM_OK)
        status = read_int("SLURM_NODEID", 0, INT_MAX, -1, &node);
    if (status != TDM_OK)
        return status;
    if (s->size > 1 && step != NULL && strtoull(step, NULL, 10) >= SLURM_SPECIAL_STEPS)
        return tdmi_fail(TDM_ERR_INVALID, "this is the script of a Slurm job, not one of its %d tasks: start the program with srun or "
                         "tandem run", s->size);
    s->local_size = tdmi_slurm_tasks_on(tasks != NULL ? tasks : text_of("SLURM_TASKS_PER_NODE") != NULL ? getenv("SLURM_TASKS_PER_NODE") : "", node);
    return s->local_size < 0 ? read_int("SLURM_NTASKS_PER_NODE", 1, INT_MAX, -1, &s->local_size) : TDM_OK;
}

tdm_status tdmi_launcher_ranks(tdmi_settings *s)
{
    const launcher *from = find_launcher();
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
    if (status == TDM_OK && from == &launchers[BY_SRUN])
        status = read_slurm(s);
    if (status != TDM_OK)
        return tdmi_fail_while(status, "reading what %s exports", from->name);
    if (s->rank >= s->size)
        return tdmi_fail(TDM_ERR_INVALID, "%s is %d, but %s is %d; ranks count from 0", from->rank, s->rank, from->size, s->size);
    return TDM_OK;
}

/* ---- where to meet ---- */

/* The process that started all ranks of this host, if it is Hydra's; else the parent. */
static int proxy_of_hydra(void)
{
    int pid = getppid();
    for (int up = 0, at = pid; up < 16 && at > 1; up++) {
        char path[64], text[512];
        int parent = 0;
        snprintf(path, sizeof path, "/proc/%d/stat", at);
        FILE *file = fopen(path, "re");
        if (file == NULL)
            break;
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
        const char *name = strchr(text, '('), *end = strrchr(text, ')');
        if (name == NULL || end == NULL || sscanf(end + 1, " %*c %d", &parent) != 1)
            break;
        if (strncmp(name, "(hydra_pmi_prox", 15) == 0)
            return at;
        at = parent;
    }
    return pid;
}

/* What this job is and no other on this host; "": nothing tells. */
static void identity(const launcher *from, char *text, size_t nbytes)
{
    text[0] = '\0';
    const char *name = text_of("PMIX_NAMESPACE") != NULL ? getenv("PMIX_NAMESPACE") : text_of("OMPI_MCA_ess_base_jobid");
    if (from == &launchers[BY_SRUN] && text_of("SLURM_JOB_ID") != NULL)
        snprintf(text, nbytes, "slurm %s.%s", getenv("SLURM_JOB_ID"), text_of("SLURM_STEP_ID") != NULL ? getenv("SLURM_STEP_ID") : "0");
    else if (from == &launchers[BY_OPEN_MPI] && name != NULL)
        snprintf(text, nbytes, "open mpi %s", name);
    else if (from == &launchers[BY_HYDRA])
        snprintf(text, nbytes, "hydra %d", proxy_of_hydra());
}

static bool is_one_host(const launcher *from, const tdmi_settings *s)
{
    const char *nodes = text_of("SLURM_STEP_NUM_NODES") != NULL ? getenv("SLURM_STEP_NUM_NODES") : text_of("SLURM_NNODES");
    if (from == &launchers[BY_SRUN])
        return nodes != NULL && strcmp(nodes, "1") == 0;
    return (from == &launchers[BY_OPEN_MPI] || from == &launchers[BY_HYDRA]) && s->local_size == s->size;
}

static tdm_status use_host(tdmi_settings *s, const char *what, const char *host)
{
    if (strlen(host) >= sizeof s->host)
        return tdmi_fail(TDM_ERR_INVALID, "%s is longer than %zu bytes", what, sizeof s->host - 1);
    memcpy(s->host, host, strlen(host) + 1);
    return TDM_OK;
}

static tdm_status need_secret(const launcher *from, const tdmi_settings *s)
{
    if (tdmi_config_text(TDMI_CONFIG_JOB_SECRET)[0] != '\0')
        return TDM_OK;
    return tdmi_fail(TDM_ERR_INVALID, "the ranks meet at %s, over the network, and the job has no secret: %s", s->host,
                     from == &launchers[BY_SRUN] ? "put `export TANDEM_JOB_SECRET=$(openssl rand -hex 16)` in front of srun, which hands it to all tasks"
                                                 : "set TANDEM_JOB_SECRET to the same value in all pods, from a Secret");
}

/* MASTER_ADDR is not set: does the launcher say enough? */
static tdm_status find_host(const launcher *from, tdmi_settings *s, bool *implied)
{
    const char *nodes = text_of("SLURM_STEP_NODELIST") != NULL ? getenv("SLURM_STEP_NODELIST") : text_of("SLURM_JOB_NODELIST");
    *implied = false;
    if (is_one_host(from, s)) {
        *implied = true;
        return use_host(s, "loopback", "127.0.0.1");
    }
    if (from == &launchers[BY_SRUN] && nodes != NULL) {
        if (!tdmi_slurm_first_host(nodes, s->host, sizeof s->host))
            return tdmi_fail(TDM_ERR_INVALID, "SLURM_STEP_NODELIST or SLURM_JOB_NODELIST is \"%s\", whose first host is not clear; set MASTER_ADDR", nodes);
        return need_secret(from, s);
    }
    if (from == &launchers[BY_LWS] && text_of("LWS_LEADER_ADDRESS") != NULL) {
        tdm_status status = use_host(s, "LWS_LEADER_ADDRESS", getenv("LWS_LEADER_ADDRESS"));
        return status == TDM_OK ? need_secret(from, s) : status;
    }
    if (from == &launchers[BY_INDEXED_JOB])
        return tdmi_fail(TDM_ERR_INVALID, "MASTER_ADDR is not set; set it to the first pod: JOB-0.SERVICE, with the headless service that is the "
                         "pods' subdomain");
    return tdmi_fail(TDM_ERR_INVALID, "MASTER_ADDR is not set; set it to the host of rank 0, as other ranks reach it (Open MPI: mpirun -x "
                     "MASTER_ADDR=HOST -x MASTER_PORT=PORT -x TANDEM_JOB_SECRET=SECRET; MPICH: -genv MASTER_ADDR HOST ...)");
}

static int port_of(const char *identity_text)
{
    uint64_t h = 1469598103934665603ull;
    for (const char *c = identity_text; *c != '\0'; c++)
        h = (h ^ (uint8_t)*c) * 1099511628211ull;
    return PORT_FIRST + (int)(h % PORT_COUNT);
}

tdm_status tdmi_launcher_meeting(tdmi_settings *s)
{
    const launcher *from = find_launcher();
    const char *host = text_of("MASTER_ADDR");
    char who[128];
    bool implied = false;
    tdm_status status = host != NULL ? use_host(s, "MASTER_ADDR", host) : find_host(from, s, &implied);
    if (status != TDM_OK)
        return status;
    identity(from, who, sizeof who);
    const bool pods = from == &launchers[BY_LWS] || from == &launchers[BY_INDEXED_JOB];
    const int otherwise = pods ? PORT_OF_PODS : who[0] != '\0' ? port_of(who) : -2;
    status = read_int("MASTER_PORT", 1, 65535, otherwise, &s->port);
    if (status != TDM_OK)
        return tdmi_fail_while(status, "looking for the port at which rank 0 listens");
    if (implied)
        snprintf(s->secret, sizeof s->secret, "%s", who);
    /* torchrun's agent may hold MASTER_PORT for its own store; ours then takes the next one. */
    const char *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
    if (agent != NULL && strcmp(agent, "True") == 0)
        s->port = s->port < 65535 ? s->port + 1 : 65534;
    return TDM_OK;
}

tdm_status tdm_launch_place_read(tdm_launch_place *out)
{
    tdmi_settings settings = {.rank = -1};
    const tdm_status status = tdmi_launcher_ranks(&settings);
    if (status != TDM_OK)
        return status;
    *out = (tdm_launch_place){.rank = settings.rank, .size = settings.size, .local_rank = settings.local_rank, .local_size = settings.local_size};
    if (tdmi_launcher_meeting(&settings) == TDM_OK) { /* else whoever makes a group is told what is missing */
        memcpy(out->host, settings.host, sizeof out->host);
        out->port = settings.port;
    }
    return TDM_OK;
}
