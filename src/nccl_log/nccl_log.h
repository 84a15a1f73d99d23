/* nccl_log.h - what the logs of NCCL_DEBUG=INFO say about a job: versions 2.4 to 2.30, all ranks in one file or in many.
 *
 * Lines are read one after the other and dropped; what they say is kept in tables with limits, so that memory does not grow with
 * the log. Names are kept once. Formats: NCCL's own sources, named beside each reader. */
#ifndef TDMI_NCCL_LOG_NCCL_LOG_H
#define TDMI_NCCL_LOG_NCCL_LOG_H

#include "core/error.h"
#include "nccl_log/match.h"
#include "nccl_log/variables.h"

/* "2.18.3": 21803. 0: unknown. */
typedef int tdmi_nccl_version;
#define TDMI_NCCL_VERSION(minor, patch) (20000 + (minor) * 100 + (patch))

typedef enum { TDMI_NCCL_UNKNOWN, TDMI_NCCL_NO, TDMI_NCCL_YES } tdmi_nccl_answer;

typedef struct tdmi_nccl_host {
    const char *name;
    const char *address;           /* of the interface it was met on, "10.0.0.1"; "" */
    const char *bootstrap, *sockets; /* interfaces: "eth0", "eth0 eth1"; "" */
    const char *adapters;          /* InfiniBand or RoCE, "mlx5_0:1/IB mlx5_1:1/IB"; "" */
    const char *network;           /* "Using network X"; "" */
    tdmi_nccl_answer infiniband;   /* NET/IB found devices */
    tdmi_nccl_answer adapters_gdr; /* what NET said of GPUDirect RDMA for its devices */
    tdmi_nccl_answer dmabuf, peermem_missing, nvls;
    int64_t driver;                /* "cudaDriverVersion 12020"; 0 */
    int64_t gdr_disabled, gdr_distance, gdr_level; /* lines; of the last one: its distance and the limit, -1 */
    bool gdr_level_excluded;       /* the limit itself is too far (before 2.6) */
    int64_t gpu_paths[16], net_paths[16]; /* GPU to GPU, GPU to its nearest adapter, by tdmi_nccl_path */
    bool network_differs;          /* several on one host */
} tdmi_nccl_host;

typedef struct tdmi_nccl_process {
    uint32_t host;
    int64_t pid, rank, size;       /* in the largest communicator; -1 unknown */
    int64_t device;                /* -1 */
    int64_t prefix_rank;           /* a launcher's, -1 */
    tdmi_nccl_version version;
    uint32_t last_member;          /* newest communicator, TDMI_NCCL_NONE */
    uint32_t pending;              /* chain of pairs whose communicator is not known yet */
    int64_t channels, nvls_channels; /* -1 */
    bool collnet;                  /* connected */
    const char *ring;              /* of the communicator that is being made, until its name comes */
    int64_t rings, trees;
} tdmi_nccl_process;

typedef struct tdmi_nccl_comm {
    uint64_t id;                   /* equal on all ranks */
    int64_t ranks, nodes;          /* nodes: 0 unknown */
    const char *ring;              /* channel 0: "0 1 2 3"; "" */
    int64_t rings;
    uint32_t members, first;       /* chain of members */
    bool numbered;                 /* the log named it; else it is known by its order and size */
} tdmi_nccl_comm;

/* A rank of a communicator. */
typedef struct tdmi_nccl_member {
    uint32_t comm, process, next_in_comm, next_in_process;
    int64_t rank, trees;
    bool complete;
} tdmi_nccl_member;

#define TDMI_NCCL_NONE UINT32_MAX

typedef enum { TDMI_NCCL_P2P, TDMI_NCCL_SHM, TDMI_NCCL_NET, TDMI_NCCL_COLLNET } tdmi_nccl_kind;
extern const char *const tdmi_nccl_kind_name[];

typedef struct tdmi_nccl_pair {
    uint32_t process, comm;        /* who said so; comm TDMI_NCCL_NONE: not known */
    int64_t from, to;              /* ranks of comm; to of COLLNET: -1 */
    tdmi_nccl_kind kind;
    const char *way;               /* "IPC", "CUMEM/read", "direct pointer", of NET the network: "IB", "Socket", "AWS Libfabric" */
    bool gdr, is_receive;
    uint64_t devices;              /* bit n: adapter n (n < 64) */
    int64_t channels;
    uint32_t next;                 /* of the chain */
} tdmi_nccl_pair;

/* One choice of algorithm and protocol, over calls of one size. */
typedef struct tdmi_nccl_choice {
    const char *op, *algorithm, *protocol; /* op "" before 2.23 */
    int64_t nbytes, count;
} tdmi_nccl_choice;

typedef struct tdmi_nccl_variable {
    const char *name, *value;
    uint32_t host;                 /* TDMI_NCCL_NONE: a line of no process */
    bool echoed;                   /* NCCL said that it read it; else the log shows that it was set */
    int64_t count;
} tdmi_nccl_variable;

typedef enum {
    TDMI_NCCL_WARNING,       /* any other */
    TDMI_NCCL_IB_TIMEOUT,    /* a completion with status 12: the transport's retries are used up */
    TDMI_NCCL_IB_NOT_READY,  /* 13: receiver not ready */
    TDMI_NCCL_IB_FLUSHED,    /* 5: after another error of the same queue */
    TDMI_NCCL_IB_ACCESS,     /* 4, 8, 9, 10: protection and access */
    TDMI_NCCL_IB_ERROR,      /* others */
    TDMI_NCCL_IB_EVENT,      /* the adapter's own: port down ... */
    TDMI_NCCL_CLOSED,        /* a peer's socket closed or reset */
    TDMI_NCCL_CONNECT,       /* could not connect */
    TDMI_NCCL_WATCHDOG,      /* PyTorch's: a collective timed out */
    TDMI_NCCL_SHM_SPACE,     /* a segment in /dev/shm could not be made */
    TDMI_NCCL_MEMLOCK,       /* memory could not be registered or pinned */
    TDMI_NCCL_P2P_BROKEN,    /* P2P off between GPUs that have it */
    TDMI_NCCL_COLLNET_LOST,  /* CollNet or NVLS could not be set up */
    TDMI_NCCL_VERSIONS,      /* ranks with different versions */
    TDMI_NCCL_NO_INTERFACE,  /* no usable interface */
    TDMI_NCCL_SAME_GPU,      /* two ranks on one GPU */
    TDMI_NCCL_CUDA,          /* a CUDA call failed */
    TDMI_NCCL_NOTE           /* an information line that explains another one, as P2P not enabled */
} tdmi_nccl_message_kind;

typedef struct tdmi_nccl_message {
    tdmi_nccl_message_kind kind;
    uint32_t process;              /* TDMI_NCCL_NONE */
    uint32_t file;                 /* of the list that was read */
    int64_t order, time_s, count;  /* time_s -1: no clock on the line */
    int64_t rank;                  /* that the text names, or -1 */
    const char *peer;              /* address without port, or "" */
    const char *text, *source;
    const char *op;                /* of the watchdog, or "" */
} tdmi_nccl_message;

typedef struct tdmi_nccl_log {
    tdmi_nccl_host *host;
    tdmi_nccl_process *process;
    tdmi_nccl_comm *comm;
    tdmi_nccl_member *member;
    tdmi_nccl_pair *pair;
    tdmi_nccl_choice *choice;
    tdmi_nccl_variable *variable;
    tdmi_nccl_message *message;
    uint32_t hosts, processes, comms, members, pairs, choices, variables, messages;
    tdmi_nccl_version plain_version[8]; /* of lines without a process, each once */
    uint32_t plain_versions;
    const char *cuda;              /* "12.4"; "" */
    const char *collnet_plugin;    /* "" none loaded */
    int64_t lines, records, files, not_kept; /* not_kept: entries beyond the limits */
    int64_t warnings;
    uint32_t largest;              /* communicator, TDMI_NCCL_NONE */
    uint32_t *by_rank;             /* members by communicator and rank; made at the end */
    struct tdmi_nccl_names *names; /* behind all texts */
    struct tdmi_nccl_index *index;
} tdmi_nccl_log;

/* The files one after the other, each read once from its start to its end. A file without a line of NCCL is TDM_ERR_BAD_FILE. */
tdm_status tdmi_nccl_log_read(const char *const *paths, int count, tdmi_nccl_log **out);
/* For other sources of lines: create, any number of lines, finish. */
tdm_status tdmi_nccl_log_create(tdmi_nccl_log **out);
tdm_status tdmi_nccl_log_line(tdmi_nccl_log *log, const char *line, size_t nbytes);
tdm_status tdmi_nccl_log_finish(tdmi_nccl_log *log);
void tdmi_nccl_log_free(tdmi_nccl_log *log); /* NULL is fine */

/* Whether there is a line of NCCL in a piece of a text. */
bool tdmi_nccl_log_is(const char *bytes, size_t nbytes);

/* ---- questions ---- */
/* The newest that is known of any process; 0. */
tdmi_nccl_version tdmi_nccl_log_version(const tdmi_nccl_log *log);
/* "2.18.3" */
void tdmi_nccl_version_text(tdmi_nccl_version version, char text[24]);
/* Value of a variable on a host (or of a line of no process), NULL where the log does not have it. */
const char *tdmi_nccl_variable_of(const tdmi_nccl_log *log, uint32_t host, const char *name);
/* The process that is a rank of the communicator of a pair, or TDMI_NCCL_NONE. */
uint32_t tdmi_nccl_process_of(const tdmi_nccl_log *log, uint32_t comm, int64_t rank);
/* The host with this address, or TDMI_NCCL_NONE. */
uint32_t tdmi_nccl_host_at(const tdmi_nccl_log *log, const char *address);
/* Rank for people: in the largest communicator, else the launcher's; -1. */
int64_t tdmi_nccl_rank_of(const tdmi_nccl_log *log, uint32_t process);

/* Kinds of paths from near to far, by the names NCCL prints. */
typedef enum {
    TDMI_NCCL_PATH_LOC, TDMI_NCCL_PATH_NVL, TDMI_NCCL_PATH_NVB, TDMI_NCCL_PATH_C2C, TDMI_NCCL_PATH_PIX, TDMI_NCCL_PATH_PXB,
    TDMI_NCCL_PATH_P2C, TDMI_NCCL_PATH_PXN, TDMI_NCCL_PATH_PHB, TDMI_NCCL_PATH_NODE, TDMI_NCCL_PATH_SYS, TDMI_NCCL_PATH_NET,
    TDMI_NCCL_PATH_DIS, TDMI_NCCL_PATHS
} tdmi_nccl_path;
extern const char *const tdmi_nccl_path_name[TDMI_NCCL_PATHS];
/* The path that a version means by the number it prints; TDMI_NCCL_PATHS: none. */
tdmi_nccl_path tdmi_nccl_path_of_number(tdmi_nccl_version version, int64_t number);

#endif
