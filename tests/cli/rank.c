/* rank.c - the program that tests of `tandem run` start: rank WHAT [ARGS...], one kind of behaviour each. */
#include <tandem/tandem.h>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t user_signals;

static void on_user_signal(int sig)
{
    (void)sig;
    user_signals++;
    ssize_t written = write(STDOUT_FILENO, "usr1\n", 5);
    (void)written;
}

static void say(const char *text)
{
    ssize_t written = write(STDOUT_FILENO, text, strlen(text));
    (void)written;
}

static void sleep_ms(long ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0)
        ;
}

/* lines COUNT NBYTES: numbered lines, then one without an end. */
static int lines(const char *rank, int count, int nbytes)
{
    char *body = malloc((size_t)nbytes + 1);
    if (body == NULL)
        return 1;
    memset(body, 'a' + atoi(rank), (size_t)nbytes);
    body[nbytes] = '\0';
    for (int i = 0; i < count; i++)
        printf("%s %06d %s\n", rank, i, body);
    printf("tail of %s", rank);
    free(body);
    return fflush(stdout) != 0;
}

/* binary: every byte but the newline, on both streams. */
static int binary(void)
{
    char bytes[256];
    for (int i = 0; i < 256; i++)
        bytes[i] = (char)(i == '\n' ? 'N' : i);
    for (int stream = 1; stream <= 2; stream++)
        if (write(stream, bytes, sizeof bytes) != sizeof bytes || write(stream, "\n", 1) != 1)
            return 1;
    return 0;
}

/* stay: until killed, deaf to SIGTERM; says so first. */
static int stay(void)
{
    signal(SIGTERM, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    say("ready\n");
    sleep_ms(60000);
    return 0;
}

/* linger: until a signal ends it; says so first. */
static int linger(void)
{
    say("ready\n");
    sleep_ms(60000);
    return 0;
}

/* escape: leaves a process behind that is out of its session, deaf to SIGTERM, and holds the output open. */
static int escape(void)
{
    if (fork() == 0) {
        setsid();
        if (fork() != 0)
            _exit(0);
        _exit(stay());
    }
    sleep_ms(100);
    return 0;
}

/* user MS: waits for SIGUSR1, then as long again as may bring a second one. */
static int user(int ms)
{
    signal(SIGUSR1, on_user_signal);
    say("ready\n");
    for (int waited = 0; user_signals == 0 && waited < 30000; waited += 20)
        sleep_ms(20);
    for (int waited = 0; waited < ms; waited += 20)
        sleep_ms(20);
    return user_signals == 1 ? 0 : 1;
}

/* threads: what a rank may use. */
static int threads(void)
{
    const char *threads = getenv("OMP_NUM_THREADS");
    cpu_set_t set;
    char text[256];
    sched_getaffinity(0, sizeof set, &set);
    int used = snprintf(text, sizeof text, "omp %s cpus", threads != NULL ? threads : "unset");
    for (int cpu = 0; cpu < CPU_SETSIZE && used < 240; cpu++)
        if (CPU_ISSET(cpu, &set))
            used += snprintf(text + used, sizeof text - (size_t)used, " %d", cpu);
    printf("%s\n", text);
    return 0;
}

/* meet: what a program of the library does. */
static int meet(void)
{
    tdm_group *group;
    if (tdm_group_create(NULL, &group) != TDM_OK) {
        fprintf(stderr, "%s\n", tdm_error_text());
        return 1;
    }
    tdm_status status = tdm_barrier(group, NULL);
    tdm_group_destroy(group);
    return status != TDM_OK;
}

/* allreduce CALLS NBYTES: so many calls of that size. */
static int allreduce(int calls, size_t nbytes)
{
    tdm_group *group;
    float *data = calloc(1, nbytes);
    tdm_status status = data != NULL ? tdm_group_create(NULL, &group) : TDM_ERR_NO_MEMORY;
    if (status == TDM_OK) {
        for (int i = 0; i < calls && status == TDM_OK; i++)
            status = tdm_allreduce(group, data, data, nbytes / sizeof *data, TDM_F32, TDM_SUM, NULL);
        tdm_group_destroy(group);
    }
    free(data);
    if (status != TDM_OK)
        fprintf(stderr, "%s\n", tdm_error_text());
    return status != TDM_OK;
}

/* clock: the time, at once; stays a second. */
static int clock_line(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("%lld\n", (long long)now.tv_sec * 1000000000 + now.tv_nsec);
    fflush(stdout);
    sleep_ms(1000);
    return 0;
}

/* fail RANK CODE: that rank says something on stderr and ends with the code, or by signal -CODE; the others stay. */
static int fail(const char *rank, const char *which, int code)
{
    if (strcmp(rank, which) != 0) {
        sleep_ms(60000);
        return 0;
    }
    fprintf(stderr, "first words\nlast words of %s\n\n", rank);
    if (code < 0)
        raise(-code);
    return code;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "", *rank = getenv("RANK");
    if (rank == NULL)
        return 99;
    if (strcmp(what, "lines") == 0 && argc == 4)
        return lines(rank, atoi(argv[2]), atoi(argv[3]));
    if (strcmp(what, "fail") == 0 && argc == 4)
        return fail(rank, argv[2], atoi(argv[3]));
    if (strcmp(what, "allreduce") == 0 && argc == 4)
        return allreduce(atoi(argv[2]), (size_t)atol(argv[3]));
    if (strcmp(what, "user") == 0 && argc == 3)
        return user(atoi(argv[2]));
    static const struct {
        const char *what;
        int (*run)(void);
    } plain[] = {{"binary", binary}, {"stay", stay}, {"linger", linger}, {"escape", escape}, {"threads", threads}, {"meet", meet}, {"clock", clock_line}};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(what, plain[i].what) == 0)
            return plain[i].run();
    return 98;
}
