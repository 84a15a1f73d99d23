/* test_small_shm.c - ranks do not care about /dev/shm: however small it is, read-only or forbidden, they meet and sum. Where
 * memory itself is short, the error says how much is needed, how much there is, and what to set. */
#include "on_ranks.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define RANKS 8

typedef struct setting {
    const char *options; /* of the tmpfs at /dev/shm */
    unsigned long flags;
    size_t nbytes;       /* of an allreduce in memory from malloc */
} setting;

/* A /dev/shm of this process alone. */
static bool mount_shm(const setting *s)
{
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", "/dev/shm", "tmpfs", s->flags, s->options) == 0;
}

static bool may_mount(void)
{
    int status = 0;
    const pid_t child = fork();
    if (child == 0)
        _exit(mount_shm(&(setting){.options = "size=64k"}) ? 0 : 1);
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool all_right(const unsigned char *data, size_t nbytes)
{
    return data[0] == RANKS * (RANKS + 1) / 2 && memcmp(data, data + 1, nbytes - 1) == 0;
}

static const char *sums(tdm_group *none, void *arg)
{
    (void)none;
    const setting *s = arg;
    const tdm_group_options options = ranks_options();
    tdm_group *group;
    CHECK(mount_shm(s), "a /dev/shm with %s: %s", s->options, strerror(errno));
    CHECK_OK(tdm_group_create(&options, &group));
    unsigned char *data = malloc(s->nbytes), *shared;
    CHECK_THAT(data != NULL);
    memset(data, options.rank + 1, s->nbytes);
    CHECK_OK(tdm_allreduce(group, data, data, s->nbytes, TDM_U8, TDM_SUM, NULL));
    CHECK_THAT(all_right(data, s->nbytes));
    free(data);
    CHECK_OK(tdm_alloc(group, 1 << 20, (void **)&shared));
    memset(shared, options.rank + 1, 1 << 20);
    CHECK_OK(tdm_allreduce(group, shared, shared, 1 << 20, TDM_U8, TDM_SUM, NULL));
    CHECK_THAT(all_right(shared, 1 << 20));
    CHECK_OK(tdm_barrier(group, NULL));
    tdm_free(group, shared);
    tdm_group_destroy(group);
    return NULL;
}

static void run(const setting *s)
{
    if (!may_mount())
        skip();
    ranks_run(&(ranks_spec){.n = RANKS, .transport = "shm", .mode = RANKS_PROCESSES, .no_group = true, .rendezvous_timeout_s = 60,
                            .timeout_s = 60, .deadline_s = 120}, sums, (void *)(uintptr_t)s);
}

static void a_small_dev_shm_is_enough(void **state)
{
    (void)state;
    run(&(setting){.options = "size=64m", .nbytes = 1 << 20});
    run(&(setting){.options = "size=4m", .nbytes = 1 << 20});
    run(&(setting){.options = "size=64k", .nbytes = (size_t)256 << 20});
}

static void dev_shm_need_not_be_writable(void **state)
{
    (void)state;
    run(&(setting){.options = "size=64m,mode=000", .nbytes = 1 << 20});
    run(&(setting){.options = "size=64m", .flags = MS_RDONLY, .nbytes = 1 << 20});
}

/* ---- memory itself ---- */

static const char *too_small_an_arena(tdm_group *none, void *arg)
{
    (void)none, (void)arg;
    const tdm_group_options options = ranks_options();
    tdm_group *group;
    char *data = calloc(1, 1 << 20);
    setenv("TANDEM_ARENA_BYTES", "3M", 1);
    CHECK_OK(tdm_group_create(&options, &group));
    CHECK_THAT(tdm_allreduce(group, data, data, 1 << 20, TDM_U8, TDM_SUM, NULL) == TDM_ERR_NO_MEMORY);
    CHECK(strstr(tdm_error_text(), "arena of 3145728 bytes: a block of 2098560 is needed, the largest hole is") != NULL &&
              strstr(tdm_error_text(), "TANDEM_ARENA_BYTES") != NULL,
          "%s", tdm_error_text());
    CHECK_OK(tdm_barrier(group, NULL)); /* the group goes on */
    tdm_group_destroy(group);
    free(data);
    return NULL;
}

static void a_small_arena_says_what_is_needed_and_what_to_set(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm", .mode = RANKS_PROCESSES, .no_group = true}, too_small_an_arena, NULL);
}

/* A cgroup with a limit, of version 2 or 1, below the one this process is in. "": this machine or user has none to give. */
static void make_cgroup(size_t limit, char path[700])
{
    static const struct { const char *line, *root, *limit; } versions[] = {
        {"::/", "/sys/fs/cgroup", "memory.max"}, {":memory:/", "/sys/fs/cgroup/memory", "memory.limit_in_bytes"}};
    char line[512], name[800];
    for (int v = 0; v < 2; v++) {
        FILE *file = fopen("/proc/self/cgroup", "re");
        path[0] = '\0';
        while (file != NULL && path[0] == '\0' && fgets(line, sizeof line, file) != NULL)
            if (strncmp(line + strspn(line, "0123456789"), versions[v].line, strlen(versions[v].line)) == 0)
                snprintf(path, 700, "%s%.*s/tandem-test-%d", versions[v].root, (int)strcspn(strchr(line, '/'), "\n"), strchr(line, '/'),
                         (int)getpid());
        if (file != NULL)
            fclose(file);
        if (path[0] == '\0' || mkdir(path, 0755) != 0)
            continue;
        snprintf(name, sizeof name, "%s/%s", path, versions[v].limit);
        file = fopen(name, "r+e");
        bool set = file != NULL && fprintf(file, "%zu", limit) > 0;
        set = file != NULL && fclose(file) == 0 && set;
        if (set)
            return;
        rmdir(path);
    }
    path[0] = '\0';
}

static const char *a_cgroup_is_limited(tdm_group *none, void *arg)
{
    (void)none;
    const tdm_group_options options = ranks_options();
    char name[800];
    unsigned char *block;
    tdm_group *group;
    snprintf(name, sizeof name, "%s/cgroup.procs", (const char *)arg);
    FILE *file = fopen(name, "we");
    bool moved = file != NULL && fprintf(file, "%d", (int)getpid()) > 0;
    moved = file != NULL && fclose(file) == 0 && moved;
    CHECK(moved, "%s: %s", name, strerror(errno));
    CHECK_OK(tdm_group_create(&options, &group));
    CHECK_THAT(tdm_alloc(group, (size_t)256 << 20, (void **)&block) == TDM_ERR_NO_MEMORY);
    CHECK(strstr(tdm_error_text(), "268435456 bytes needed") != NULL && strstr(tdm_error_text(), "memory limit of this cgroup") != NULL,
          "%s", tdm_error_text());
    CHECK_OK(tdm_alloc(group, 1 << 20, (void **)&block)); /* nobody was killed, and what fits is given */
    memset(block, 1, 1 << 20);
    CHECK_OK(tdm_allreduce(group, block, block, 1 << 20, TDM_U8, TDM_SUM, NULL));
    CHECK_THAT(block[0] == 2 && memcmp(block, block + 1, (1 << 20) - 1) == 0);
    CHECK_OK(tdm_barrier(group, NULL));
    tdm_free(group, block);
    tdm_group_destroy(group);
    return NULL;
}

static void a_limit_of_the_cgroup_is_an_error_and_nobody_is_killed(void **state)
{
    (void)state;
    char path[700];
    make_cgroup((size_t)128 << 20, path);
    if (path[0] == '\0')
        skip();
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm", .mode = RANKS_PROCESSES, .no_group = true}, a_cgroup_is_limited, path);
    for (int i = 0; i < 100 && rmdir(path) != 0; i++) /* busy until the kernel has cleared up behind its processes */
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

static const char *files_are_limited(tdm_group *none, void *arg)
{
    (void)none;
    const tdm_group_options options = ranks_options();
    const char *asked = arg;
    tdm_group *group;
    CHECK_THAT(setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 64 << 20, .rlim_max = 64 << 20}) == 0);
    if (asked == NULL) { /* the default takes what there is */
        CHECK_OK(tdm_group_create(&options, &group));
        tdm_group_destroy(group);
        return NULL;
    }
    setenv("TANDEM_ARENA_BYTES", asked, 1);
    CHECK_THAT(tdm_group_create(&options, &group) != TDM_OK);
    CHECK(strstr(tdm_error_text(), "67108864") != NULL && strstr(tdm_error_text(), "ulimit -f") != NULL, "%s", tdm_error_text());
    return NULL;
}

static void a_limit_of_file_sizes_is_an_error_and_no_signal(void **state)
{
    (void)state;
    ranks_spec spec = {.n = 1, .transport = "shm", .mode = RANKS_PROCESSES, .no_group = true};
    ranks_run(&spec, files_are_limited, NULL);
    ranks_run(&spec, files_are_limited, "1G");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_dev_shm_is_enough),
        cmocka_unit_test(dev_shm_need_not_be_writable),
        cmocka_unit_test(a_small_arena_says_what_is_needed_and_what_to_set),
        cmocka_unit_test(a_limit_of_the_cgroup_is_an_error_and_nobody_is_killed),
        cmocka_unit_test(a_limit_of_file_sizes_is_an_error_and_no_signal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
