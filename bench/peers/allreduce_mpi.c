/* allreduce_mpi.c - allreduce through MPI: float32, sum, in place.
 * Usage: mpirun -n N allreduce_mpi BYTES...   prints a line `bytes median_us` for each size. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int s = 1; s < argc; s++) {
        size_t nbytes = (size_t)atol(argv[s]);
        float *buffer = aligned_alloc(4096, (nbytes + 4095) / 4096 * 4096);
        memset(buffer, 0, nbytes);
        int calls = nbytes <= 16384 ? 2000 : nbytes <= 1 << 20 ? 200 : nbytes <= 4 << 20 ? 40 : 10;
        double times[7];
        for (int w = 0; w < 7; w++) {
            MPI_Barrier(MPI_COMM_WORLD);
            double start = MPI_Wtime();
            for (int k = 0; k < calls; k++)
                MPI_Allreduce(MPI_IN_PLACE, buffer, (int)(nbytes / 4), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            times[w] = (MPI_Wtime() - start) / calls;
        }
        qsort(times, 7, sizeof *times, by_value);
        if (rank == 0)
            printf("%10zu %12.2f\n", nbytes, times[3] * 1e6);
        free(buffer);
    }
    MPI_Finalize();
    return 0;
}
