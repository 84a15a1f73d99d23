/* config.h - the one table of TANDEM_* variables. A variable exists if and only if it stands here; an unknown TANDEM_*
 * in the environment is warned about once. Ranks as threads share the environment, so nothing here is per rank. */
#ifndef TDMI_CORE_CONFIG_H
#define TDMI_CORE_CONFIG_H

#include "core/error.h"

#include <tandem/config.h>

/* X(NAME, default, help): the variable is TANDEM_NAME */
#define TDMI_CONFIG_MAP(X)                                                                                             \
    X(LOG, "warn", "log levels: LEVEL[,AREA=LEVEL...]; error warn info debug trace")                                   \
    X(TRANSPORT, "auto", "auto (shm inside a node, tcp between nodes), shm, tcp or ucx for every link, or shm+ucx")     \
    X(ENGINE, "native", "who does collectives: native (step lists), mpi (under mpirun or srun) or nccl (device memory)")  \
    X(MPI, "auto", "which MPI engine mpi loads: auto (the one whose mpirun started us), openmpi or mpich")             \
    X(PLUGINS, "", "folder of tandem_mpi_*.so (default: that of libtandem.so)")                                     \
    X(ALGO, "auto", "collective algorithm: NAME, or OP[:MIN-MAX]=NAME,...")                                            \
    X(SUM_ORDER, "canonical", "canonical: same bits everywhere; fast: allows algorithms that reorder sums")            \
    X(TIMEOUT, "300", "seconds a collective waits for its peers")                                                      \
    X(RDZV_TIMEOUT, "60", "seconds a group waits for all ranks to arrive")                                             \
    X(JOB_SECRET, "", "secret shared by the ranks of one job; tandem run makes one")                                   \
    X(JOB_ID, "", "name of the job in logs and messages; tandem run makes one")                                        \
    X(LAUNCHER, "", "the command that started this rank; it names ranks that die")                                     \
    X(NODE_ID, "", "splits one host into virtual nodes: ranks with different ids share no memory")                     \
    X(IFNAME, "", "interface that other nodes connect to: eth (prefix), =eth0, a,b (in order), ^lo,docker, ^=eth0")    \
    X(TCP_STREAMS, "1", "TCP connections that share the data to one peer, 1 to 64; the same on all ranks")             \
    X(ARENA_BYTES, "", "address space of a rank's shared memory arena (default: this machine's memory)")               \
    X(RECORDER_DIR, "", "folder of the flight recorder (default: $XDG_RUNTIME_DIR/tandem, /tmp/tandem-UID); off: none") \
    X(TORCH_HEAP, "", "tandem_torch: most bytes of tensors in memory that peers reach (default: this machine's memory); 0: none") \
    X(CMA, "auto", "off: memory from malloc is never read out of a peer's process, only copied through shared memory") \
    X(TUNE_FILE, "", "file of measured choices (default: in $XDG_CACHE_HOME/tandem or ~/.cache/tandem); off: none, and no links measured") \
    X(ISA, "auto", "kernels: auto, plain, avx2 or avx512")                                                             \
    X(RNG, "avx2", "which of PyTorch's CPU variants random numbers follow: avx2 or default")                           \
    X(DROPOUT_RNG, "auto", "which of PyTorch's generators dropout follows: auto (plain, as PyTorch 2.13), mkl or plain")

typedef enum {
#define TDMI_CONFIG_ENUM(NAME, value, help) TDMI_CONFIG_##NAME,
    TDMI_CONFIG_MAP(TDMI_CONFIG_ENUM)
#undef TDMI_CONFIG_ENUM
    TDMI_CONFIG_COUNT
} tdmi_config_key;

/* The variable's value from the environment, or its default. Never NULL. An empty value counts as unset. */
const char *tdmi_config_text(tdmi_config_key key);
/* The same as a number; a value that is not a number in [min, max] is TDM_ERR_INVALID with a text that says so. */
tdm_status tdmi_config_number(tdmi_config_key key, double min, double max, double *out);
/* Warns about TANDEM_* variables that are not in the table, once a process. */
void tdmi_config_warn_unknown(void);

#endif
