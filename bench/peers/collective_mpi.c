/* collective_mpi.c - one collective, or messages to the next rank, through MPI.
 * Usage: mpirun -n N collective_mpi [-d DTYPE] [-o REDOP] [-r ROOT] [-p in|out|both] [-w WARM-UPS] [-i WINDOWS] OP BYTES...
 * Prints for each size and placement `bytes in|out median p10 p90`: microseconds of one call, the mean over the ranks. Sizes are
 * those of `tandem bench`: bytes of the larger buffer. Memory is from malloc. Exit code 2: this MPI cannot do that. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WINDOW_S 2e-3 /* a window holds as many calls as fit, at least one */

static int rank, ranks, root, count;
static char *in, *out;
static MPI_Datatype type = MPI_FLOAT;
static MPI_Op redop = MPI_SUM;
static int type_bytes = 4;

static void refuse(const char *what, const char *value)
{
    if (rank == 0)
        fprintf(stderr, "collective_mpi: %s %s is not for MPI\n", what, value);
    MPI_Finalize();
    exit(2);
}

static void set_type(const char *name)
{
    const struct { const char *name; MPI_Datatype type; int bytes; } types[] = {
        {"float32", MPI_FLOAT, 4}, {"float64", MPI_DOUBLE, 8}, {"int8", MPI_INT8_T, 1}, {"uint8", MPI_UINT8_T, 1},
        {"int32", MPI_INT32_T, 4}, {"uint32", MPI_UINT32_T, 4}, {"int64", MPI_INT64_T, 8}, {"uint64", MPI_UINT64_T, 8},
        {"bool", MPI_C_BOOL, 1}, {"complex64", MPI_C_FLOAT_COMPLEX, 8}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(name, types[i].name) == 0) {
            type = types[i].type;
            type_bytes = types[i].bytes;
            return;
        }
    refuse("type", name);
}

static void set_redop(const char *name)
{
    const struct { const char *name; MPI_Op op; } ops[] = {{"sum", MPI_SUM}, {"min", MPI_MIN}, {"max", MPI_MAX}, {"prod", MPI_PROD},
                                                           {"band", MPI_BAND}, {"bor", MPI_BOR}, {"bxor", MPI_BXOR}};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(name, ops[i].name) == 0) {
            redop = ops[i].op;
            return;
        }
    refuse("reduction", name);
}

/* ---- operations; in == out: in place ---- */

static void allreduce(void) { MPI_Allreduce(in == out ? MPI_IN_PLACE : in, out, count, type, redop, MPI_COMM_WORLD); }
static void broadcast(void) { MPI_Bcast(out, count, type, root, MPI_COMM_WORLD); }
static void reduce_scatter(void) { MPI_Reduce_scatter_block(in == out ? MPI_IN_PLACE : in, out, count, type, redop, MPI_COMM_WORLD); }
static void all_gather(void) { MPI_Allgather(in == out ? MPI_IN_PLACE : in, count, type, out, count, type, MPI_COMM_WORLD); }
static void alltoall(void) { MPI_Alltoall(in == out ? MPI_IN_PLACE : in, count, type, out, count, type, MPI_COMM_WORLD); }
static void barrier(void) { MPI_Barrier(MPI_COMM_WORLD); }
static void reduce(void)
{
    MPI_Reduce(in == out && rank == root ? MPI_IN_PLACE : in, out, count, type, redop, root, MPI_COMM_WORLD);
}
static void gather(void)
{
    MPI_Gather(in == out && rank == root ? MPI_IN_PLACE : in, count, type, out, count, type, root, MPI_COMM_WORLD);
}
static void scatter(void)
{
    MPI_Scatter(in, count, type, in == out && rank == root ? MPI_IN_PLACE : out, count, type, root, MPI_COMM_WORLD);
}
static void sendrecv(void)
{
    MPI_Sendrecv(in, count, type, (rank + 1) % ranks, 0, out, count, type, (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

static const struct operation {
    const char *name;
    void (*call)(void);
    int has_parts, out_of_place, in_place;
} operations[] = {
    {"allreduce", allreduce, 0, 1, 1}, {"reduce_scatter", reduce_scatter, 1, 1, 1}, {"all_gather", all_gather, 1, 1, 1},
    {"broadcast", broadcast, 0, 0, 1}, {"reduce", reduce, 0, 1, 1}, {"gather", gather, 1, 1, 1}, {"scatter", scatter, 1, 1, 1},
    {"alltoall", alltoall, 1, 1, 1}, {"sendrecv", sendrecv, 0, 1, 0}, {"barrier", barrier, 0, 1, 0}};

/* ---- timing ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(const double *sorted, int n, double q)
{
    const double place = q * (n - 1);
    const int below = (int)place;
    return below + 1 < n ? sorted[below] + (place - below) * (sorted[below + 1] - sorted[below]) : sorted[n - 1];
}

/* Calls of one window, alike on all ranks. */
static int calls_of_a_window(const struct operation *op)
{
    int calls = 1;
    for (double took = 0; took < WINDOW_S && calls < 100000; calls *= took < WINDOW_S / 4 ? 4 : took < WINDOW_S ? 2 : 1) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double start = MPI_Wtime();
        for (int k = 0; k < calls; k++)
            op->call();
        took = MPI_Wtime() - start;
        MPI_Bcast(&took, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    }
    return calls;
}

static void measure(const struct operation *op, size_t nbytes, const char *place, int warm_ups, int windows, double *times)
{
    const int calls = calls_of_a_window(op);
    for (int w = 0; w < warm_ups; w++)
        op->call();
    for (int w = 0; w < windows; w++) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double start = MPI_Wtime();
        for (int k = 0; k < calls; k++)
            op->call();
        times[w] = (MPI_Wtime() - start) / calls * 1e6;
    }
    MPI_Allreduce(MPI_IN_PLACE, times, windows, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    for (int w = 0; w < windows; w++)
        times[w] /= ranks;
    qsort(times, (size_t)windows, sizeof *times, by_value);
    if (rank == 0)
        printf("%zu %s %.3f %.3f %.3f\n", nbytes, place, quantile(times, windows, 0.5), quantile(times, windows, 0.1),
               quantile(times, windows, 0.9));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const struct operation *op = NULL;
    const char *places = "both";
    int warm_ups = 3, windows = 9;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (int option; (option = getopt(argc, argv, "d:o:r:p:w:i:")) != -1;)
        switch (option) {
        case 'd': set_type(optarg); break;
        case 'o': set_redop(optarg); break;
        case 'r': root = atoi(optarg); break;
        case 'p': places = optarg; break;
        case 'w': warm_ups = atoi(optarg); break;
        case 'i': windows = atoi(optarg); break;
        default: refuse("an option", "like that");
        }
    for (size_t i = 0; optind < argc && i < sizeof operations / sizeof *operations; i++)
        if (strcmp(argv[optind], operations[i].name) == 0)
            op = &operations[i];
    if (op == NULL || windows < 1)
        refuse("operation", optind < argc ? argv[optind] : "(none)");
    double *times = malloc((size_t)windows * sizeof *times);
    for (int a = optind + 1; a < argc && times != NULL; a++) {
        const size_t nbytes = (size_t)atoll(argv[a]), capacity = (nbytes + (size_t)(ranks * type_bytes) + 4095) / 4096 * 4096;
        count = (int)(nbytes / (size_t)type_bytes / (size_t)(op->has_parts ? ranks : 1));
        count += count == 0 ? 1 : 0;
        char *one = aligned_alloc(4096, capacity), *other = aligned_alloc(4096, capacity);
        if (one == NULL || other == NULL)
            refuse("a size like", argv[a]);
        memset(one, 0, capacity);
        memset(other, 0, capacity);
        in = one;
        for (int in_place = 0; in_place < 2; in_place++) {
            const char *name = in_place ? "in" : "out";
            out = in_place ? one : other;
            if ((in_place ? op->in_place : op->out_of_place) && (strcmp(places, "both") == 0 || strcmp(places, name) == 0))
                measure(op, nbytes, name, warm_ups, windows, times);
        }
        free(one);
        free(other);
    }
    free(times);
    MPI_Finalize();
    return 0;
}
