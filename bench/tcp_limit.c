/* tcp_limit.c - what TCP over loopback allows two processes: each sends half of its buffer and sums the half that comes, then
 * they exchange the sums. No framing, no checks, one thread a process, nothing but send, recv and the sum: a measuring stick.
 * Usage: tcp_limit [-s STREAMS] [-c CHUNK] BYTES...   prints a line `bytes median_us` for each size: float32, sum, in place.
 * CHUNK: bytes at most of one send or recv; STREAMS: connections, each carries an equal part. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LARGEST ((size_t)100 << 20)
#define STREAMS_MOST 16
#define WINDOWS 7

static size_t chunk = (size_t)256 << 10;
static int streams = 1, rank;
static int fd[STREAMS_MOST];
static char *segment;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static void connect_streams(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    const int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(listener, STREAMS_MOST) != 0 ||
        getsockname(listener, (struct sockaddr *)&at, &length) != 0)
        fail("listen");
    rank = fork() == 0;
    for (int i = 0; i < streams; i++) {
        fd[i] = rank == 0 ? accept(listener, NULL, NULL) : socket(AF_INET, SOCK_STREAM, 0);
        if (fd[i] < 0 || (rank == 1 && connect(fd[i], (struct sockaddr *)&at, sizeof at) != 0))
            fail("connect");
        setsockopt(fd[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    close(listener);
}

static void add(float *sum, const float *came, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum[i] += came[i];
}

/* Sends `out` and receives into `in`, nbytes each, on all streams at once. */
static void exchange(const char *out, char *in, size_t nbytes, int sums)
{
    size_t sent[STREAMS_MOST] = {0}, got[STREAMS_MOST] = {0}, summed[STREAMS_MOST] = {0}, first[STREAMS_MOST + 1];
    int left = 0;
    for (int s = 0; s <= streams; s++)
        first[s] = nbytes / 4 * (size_t)s / (size_t)streams * 4;
    for (int s = 0; s < streams; s++)
        left += first[s + 1] > first[s] ? 2 : 0;
    while (left > 0)
        for (int s = 0; s < streams; s++) {
            const size_t part = first[s + 1] - first[s];
            if (sent[s] < part) {
                size_t wanted = part - sent[s] < chunk ? part - sent[s] : chunk;
                ssize_t n = send(fd[s], out + first[s] + sent[s], wanted, MSG_DONTWAIT | MSG_NOSIGNAL);
                sent[s] += n > 0 ? (size_t)n : 0;
                left -= sent[s] == part;
            }
            if (got[s] < part) {
                size_t wanted = part - got[s] < chunk ? part - got[s] : chunk, tail = got[s] - summed[s];
                char *to = sums ? segment + (size_t)s * (chunk + 8) + tail : in + first[s] + got[s];
                ssize_t n = recv(fd[s], to, wanted, MSG_DONTWAIT);
                if (n == 0)
                    exit(1);
                got[s] += n > 0 ? (size_t)n : 0;
                if (sums && n > 0) {
                    const size_t whole = (got[s] - summed[s]) / 4 * 4;
                    add((float *)(void *)(in + first[s] + summed[s]), (float *)(void *)(to - tail), whole / 4);
                    memmove(to - tail, to - tail + whole, got[s] - summed[s] - whole);
                    summed[s] += whole;
                }
                left -= got[s] == part;
            }
        }
}

static void allreduce(char *data, size_t nbytes)
{
    if (nbytes <= 16384) { /* each sends all */
        static char copy[16384];
        memcpy(copy, data, nbytes);
        exchange(copy, data, nbytes, 1);
        return;
    }
    char *own = data + (rank == 0 ? 0 : nbytes / 2), *other = data + (rank == 0 ? nbytes / 2 : 0);
    exchange(other, own, nbytes / 2, 1);
    exchange(own, other, nbytes / 2, 0);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    for (int option; (option = getopt(argc, argv, "s:c:")) != -1;) {
        if (option == 's')
            streams = atoi(optarg);
        else if (option == 'c')
            chunk = (size_t)atol(optarg);
        else
            return 2;
    }
    if (optind == argc || streams < 1 || streams > STREAMS_MOST || chunk < 8) {
        fprintf(stderr, "usage: tcp_limit [-s STREAMS] [-c CHUNK] BYTES...\n");
        return 2;
    }
    connect_streams();
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)rank % (size_t)sysconf(_SC_NPROCESSORS_ONLN), &set);
    sched_setaffinity(0, sizeof set, &set);
    char *data = aligned_alloc(4096, LARGEST);
    segment = aligned_alloc(4096, (chunk + 4096) / 4096 * 4096 * STREAMS_MOST * 2);
    if (data == NULL || segment == NULL)
        fail("memory");
    memset(data, 0, LARGEST);
    for (int a = optind; a < argc; a++) {
        size_t nbytes = (size_t)atol(argv[a]) / 8 * 8;
        if (nbytes > LARGEST || nbytes == 0)
            nbytes = LARGEST;
        const int calls = nbytes <= 16384 ? 2000 : nbytes <= 1 << 20 ? 200 : nbytes <= 4 << 20 ? 40 : 10;
        double times[WINDOWS];
        for (int w = 0; w < WINDOWS; w++) {
            char word[8] = "", heard[8];
            exchange(word, heard, sizeof word, 0);
            const double start = now();
            for (int k = 0; k < calls; k++)
                allreduce(data, nbytes);
            times[w] = (now() - start) / calls;
        }
        qsort(times, WINDOWS, sizeof *times, by_value);
        if (rank == 0)
            printf("%10zu %12.2f\n", nbytes, times[WINDOWS / 2] * 1e6);
    }
    if (rank == 1)
        _exit(0);
    while (wait(NULL) > 0) {
    }
    return 0;
}
