/* test_reading.c - memory from malloc is read from the peer's process where that is possible, and goes through shared memory
 * where it is not; the results are the same, and all ranks take the same way. */
#include "on_ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT_MAX 300007 /* float32 */

typedef struct setting {
    unsigned forbidden;  /* bit r: rank r calls forbid first */
    bool (*forbid)(void);
    bool off;            /* TANDEM_CMA=off */
    bool reads;          /* what must come of it */
    const char *because; /* of the text why not */
} setting;

/* From now on process_vm_readv fails with EPERM, as in many containers. */
static bool forbid_by_seccomp(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* A user namespace of its own, as each rank in a container of its own: there it may do everything, but not to its sisters. */
static bool forbid_by_namespace(void)
{
    char map[64];
    const unsigned user = (unsigned)geteuid();
    if (unshare(CLONE_NEWUSER) != 0)
        return false;
    const int fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
    const int length = snprintf(map, sizeof map, "0 %u 1", user);
    const bool written = fd >= 0 && write(fd, map, (size_t)length) == length;
    close(fd);
    return written;
}

/* The kernel's own ptrace check says no, as under Yama's scope: a process that must not be dumped is read only by those who have
 * the right to trace all, which this one gives up too. */
static bool forbid_by_ptrace_check(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &head, data) != 0)
        return false;
    data[CAP_TO_INDEX(CAP_SYS_PTRACE)].effective &= ~CAP_TO_MASK(CAP_SYS_PTRACE);
    data[CAP_TO_INDEX(CAP_SYS_PTRACE)].permitted &= ~CAP_TO_MASK(CAP_SYS_PTRACE);
    return syscall(SYS_capset, &head, data) == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
}

static bool works_in_a_child(bool (*forbid)(void))
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0)
        _exit(forbid() ? 0 : 1);
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Whether this machine lets a process read a sister process. */
static bool machine_allows_reading(void)
{
    int hold[2], here = 1, status = 0;
    char end;
    if (pipe(hold) != 0)
        return false;
    const pid_t read_one = fork();
    if (read_one == 0) {
        close(hold[1]);
        _exit(read(hold[0], &end, 1) != 0);
    }
    const pid_t reader = fork();
    if (reader == 0) {
        const struct iovec own = {.iov_base = &here, .iov_len = sizeof here};
        _exit(process_vm_readv(read_one, &own, 1, &own, 1, 0) != (ssize_t)sizeof here);
    }
    const bool waited = waitpid(reader, &status, 0) == reader;
    close(hold[0]);
    close(hold[1]);
    waitpid(read_one, NULL, 0);
    return waited && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void fill(float *data, size_t count, int rank)
{
    for (size_t i = 0; i < count; i++)
        data[i] = (float)((i * 7 + (size_t)rank * 13) % 1009);
}

static size_t count_wrong(const float *data, size_t first, size_t count, int n)
{
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++) {
        float sum = 0;
        for (int r = 0; r < n; r++)
            sum += (float)(((first + i) * 7 + (size_t)r * 13) % 1009);
        wrong += data[i] != sum;
    }
    return wrong;
}

static const char *right_at(tdm_group *group, size_t count, bool in_place, float *a, float *b)
{
    const int rank = tdm_group_rank(group), n = tdm_group_size(group);
    float *out = in_place ? a : b;
    fill(a, count, rank);
    CHECK_OK(tdm_allreduce(group, a, out, count, TDM_F32, TDM_SUM, NULL));
    CHECK(count_wrong(out, 0, count, n) == 0, "allreduce of %zu", count);
    const size_t part = count / (size_t)n;
    fill(a, part * (size_t)n, rank);
    out = in_place ? a + part * (size_t)rank : b;
    CHECK_OK(tdm_reduce_scatter(group, a, out, part, TDM_F32, TDM_SUM, NULL));
    CHECK(count_wrong(out, part * (size_t)rank, part, n) == 0, "reduce_scatter of %zu", part);
    out = in_place ? a : b;
    float *own = in_place ? a + part * (size_t)rank : a;
    fill(own, part, rank);
    CHECK_OK(tdm_all_gather(group, own, out, part, TDM_F32, NULL));
    for (int r = 0; r < n; r++)
        for (size_t i = 0; i < part; i++)
            CHECK(out[(size_t)r * part + i] == (float)((i * 7 + (size_t)r * 13) % 1009), "all_gather of %zu", part);
    fill(a, part * (size_t)n, rank);
    out = in_place ? a : b;
    CHECK_OK(tdm_alltoall(group, a, out, part, TDM_F32, NULL));
    for (int r = 0; r < n; r++)
        for (size_t i = 0; i < part; i++)
            CHECK(out[(size_t)r * part + i] == (float)((((size_t)rank * part + i) * 7 + (size_t)r * 13) % 1009), "alltoall of %zu", part);
    fill(a, count, rank);
    CHECK_OK(tdm_broadcast(group, a, count, TDM_F32, n - 1, NULL));
    for (size_t i = 0; i < count; i++)
        CHECK(a[i] == (float)((i * 7 + (size_t)(n - 1) * 13) % 1009), "broadcast of %zu", count);
    return NULL;
}

static const char *all_sizes(tdm_group *group)
{
    static const size_t counts[] = {0, 1, 3, 1000, 8191, 20000, 65536, COUNT_MAX};
    float *a = malloc(COUNT_MAX * sizeof *a), *b = malloc(COUNT_MAX * sizeof *b);
    const char *wrong = NULL;
    for (size_t i = 0; i < 2 * sizeof counts / sizeof *counts && wrong == NULL; i++)
        wrong = right_at(group, counts[i / 2], i % 2 == 1, a, b);
    free(a);
    free(b);
    return wrong;
}

/* The way that a gather of memory from malloc takes, or its first rank's memory is shared: then only the others are read. */
static const char *takes(tdm_group *group, const char *algorithm, const char *text_has, bool first_is_shared)
{
    enum { PART = 30000 };
    const int rank = tdm_group_rank(group), n = tdm_group_size(group);
    char text[8192];
    void *in = NULL;
    tdm_work *work;
    bool done = false;
    float *out = malloc((size_t)n * PART * sizeof *out);
    const bool shared = first_is_shared && rank == 0;
    if (shared)
        CHECK_OK(tdm_alloc(group, PART * sizeof(float), &in));
    else
        in = malloc(PART * sizeof(float));
    fill(in, PART, rank);
    CHECK_OK(tdm_all_gather(group, in, out, PART, TDM_F32, &work));
    while (!done)
        CHECK_OK(tdm_work_test(work, &done));
    CHECK(strcmp(tdm_work_algorithm(work), algorithm) == 0, "%s instead of %s", tdm_work_algorithm(work), algorithm);
    tdm_work_explain(work, text, sizeof text);
    CHECK(strstr(text, text_has) != NULL, "\"%s\" is not in %s", text_has, text);
    CHECK_OK(tdm_work_wait(work));
    for (int r = 0; r < n; r++)
        CHECK(out[(size_t)r * PART + 11] == (float)((11 * 7 + (size_t)r * 13) % 1009), "all_gather: part %d is wrong", r);
    CHECK_OK(tdm_barrier(group, NULL));
    if (shared)
        tdm_free(group, in);
    else
        free(in);
    free(out);
    return NULL;
}

static const char *reads_or_not(tdm_group *none, void *arg)
{
    (void)none;
    const setting *s = arg;
    const tdm_group_options options = ranks_options();
    tdm_group *group, *sub;
    if ((s->forbidden >> options.rank & 1) != 0)
        CHECK(s->forbid(), "forbidding: %s", strerror(errno));
    if (s->off)
        setenv("TANDEM_CMA", "off", 1);
    CHECK_OK(tdm_group_create(&options, &group));
    const char *wrong = all_sizes(group);
    for (int mixed = 0; mixed < 2 && wrong == NULL; mixed++)
        wrong = takes(group, s->reads ? "direct_read" : "direct_staged", s->because, mixed == 1);
    if (wrong == NULL && options.rank < 2) { /* a group made from it knows too */
        CHECK_OK(tdm_group_create_sub(group, (int[]){1, 0}, 2, &sub));
        wrong = takes(sub, s->reads ? "direct_read" : "direct_staged", s->because, false);
        tdm_group_destroy(sub);
    }
    if (wrong == NULL)
        CHECK_OK(tdm_barrier(group, NULL));
    tdm_group_destroy(group);
    return wrong;
}

static void run(ranks_mode mode, const setting *s)
{
    for (int n = 2; n <= 3; n++)
        ranks_run(&(ranks_spec){.n = n, .transport = "shm", .mode = mode, .no_group = true}, reads_or_not, (void *)(uintptr_t)s);
}

static void peers_are_read_where_the_kernel_allows_it(void **state)
{
    (void)state;
    if (!machine_allows_reading())
        skip();
    run(RANKS_PROCESSES, &(setting){.reads = true, .because = "process_vm_readv works between all ranks"});
}

static void threads_are_read_without_the_kernel(void **state)
{
    (void)state;
    run(RANKS_THREADS, &(setting){.reads = true, .because = "process_vm_readv works between all ranks"});
}

static void forbidden_for_all_ranks_it_goes_through_shared_memory(void **state)
{
    (void)state;
    run(RANKS_PROCESSES, &(setting){.forbidden = ~0u, .forbid = forbid_by_seccomp, .because = "rank 0 cannot read the memory of rank 1: process_vm_readv: "
                                                                 "Operation not permitted (ptrace scope, seccomp"});
}

static void forbidden_for_one_rank_all_take_the_same_way(void **state)
{
    (void)state;
    run(RANKS_PROCESSES, &(setting){.forbidden = 2, .forbid = forbid_by_seccomp, .because = "rank 1 cannot read the memory of rank 0"});
}

static void ranks_in_user_namespaces_of_their_own_do_not_read(void **state)
{
    (void)state;
    if (!works_in_a_child(forbid_by_namespace))
        skip();
    run(RANKS_PROCESSES, &(setting){.forbidden = ~0u, .forbid = forbid_by_namespace,
                                    .because = "process_vm_readv: Operation not permitted (ptrace scope, seccomp or a user namespace"});
}

static void where_the_ptrace_check_says_no_they_do_not_read(void **state)
{
    (void)state;
    run(RANKS_PROCESSES, &(setting){.forbidden = ~0u, .forbid = forbid_by_ptrace_check,
                                    .because = "process_vm_readv: Operation not permitted (ptrace scope, seccomp or a user namespace"});
}

static void it_can_be_switched_off(void **state)
{
    (void)state;
    run(RANKS_PROCESSES, &(setting){.off = true, .because = "rank 0 has TANDEM_CMA=off"});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peers_are_read_where_the_kernel_allows_it),
        cmocka_unit_test(threads_are_read_without_the_kernel),
        cmocka_unit_test(forbidden_for_all_ranks_it_goes_through_shared_memory),
        cmocka_unit_test(forbidden_for_one_rank_all_take_the_same_way),
        cmocka_unit_test(ranks_in_user_namespaces_of_their_own_do_not_read),
        cmocka_unit_test(where_the_ptrace_check_says_no_they_do_not_read),
        cmocka_unit_test(it_can_be_switched_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
