/* test_huge.c - large blocks lie in huge pages, here and in a peer, take no more memory for it, and do without where it is refused. */
#include "transport/shm/arena.h"
#include "transport/shm/huge.h"

#include "core/log.h"
#include "core/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB ((size_t)1 << 20)

static char report[1024];

static void keep_report(tdmi_area area, tdmi_level level, const char *line, void *arg)
{
    (void)area, (void)level, (void)arg;
    snprintf(report, sizeof report, "%s", line);
}

static size_t backed(const tdmi_arena *arena)
{
    struct stat s;
    assert_int_equal(fstat(tdmi_arena_fd(arena), &s), 0);
    return (size_t)s.st_blocks * 512;
}

static bool kernel_can(void)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, 2 * MIB), 0);
    char *base = tdmi_huge_map(fd, 0, 2 * MIB);
    assert_ptr_not_equal(base, MAP_FAILED);
    const bool can = tdmi_huge_back(base, 2 * MIB) == 0;
    munmap(base, 2 * MIB);
    close(fd);
    return can;
}

static void addresses_agree_with_offsets_in_the_file(void **state)
{
    (void)state;
    int fd = memfd_create("test", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, 8 * MIB), 0);
    assert_int_equal(pwrite(fd, "there", 6, 4096 * 3), 6);
    for (int i = 0; i < 8; i++) {
        char *base = tdmi_huge_map(fd, 4096 * 3, 2 * MIB + 77);
        assert_ptr_not_equal(base, MAP_FAILED);
        assert_int_equal((uintptr_t)base % TDMI_HUGE_PAGE, 4096 * 3);
        assert_string_equal(base, "there");
        base[2 * MIB + 76] = 1;
        assert_int_equal(munmap(base, 2 * MIB + 77), 0);
    }
    close(fd);
}

/* What a peer process finds: 0 if it reads the block and has it in huge pages. */
static int look_as_peer(const tdmi_arena *arena, const char *block, size_t nbytes, size_t huge)
{
    tdmi_arena *peer;
    if (tdmi_arena_map(dup(tdmi_arena_fd(arena)), tdmi_arena_nbytes(arena), &peer) != TDM_OK)
        return 1;
    char *theirs = tdmi_arena_base(peer) + (block - tdmi_arena_base(arena));
    for (size_t i = 0; i < nbytes; i += 4096)
        if (theirs[i] != (char)(i >> 12))
            return 2;
    const size_t found = tdmi_huge_bytes(tdmi_arena_base(peer));
    tdmi_arena_release(peer);
    return found == huge ? 0 : 3;
}

static void take_and_check(size_t nbytes, size_t huge)
{
    tdmi_arena *arena;
    void *small, *block;
    assert_int_equal(tdmi_arena_create(64 * MIB, 640, &arena), TDM_OK);
    assert_int_equal(tdmi_arena_take(arena, 100, &small), TDM_OK);
    const size_t empty = backed(arena);
    for (int round = 0; round < 3; round++) {
        report[0] = '\0';
        assert_int_equal(tdmi_arena_take(arena, nbytes, &block), TDM_OK);
        if (huge > 0 && strstr(report, "refused") != NULL) /* a machine under load has none at times */
            huge = tdmi_huge_bytes(tdmi_arena_base(arena));
        assert_int_equal(tdmi_huge_bytes(tdmi_arena_base(arena)), huge);
        assert_in_range(backed(arena), empty + nbytes, empty + nbytes + 8192);
        char *bytes = block;
        for (size_t i = 0; i < nbytes; i++)
            if (bytes[i] != 0)
                fail_msg("round %d: byte %zu is %d", round, i, bytes[i]);
        for (size_t i = 0; i < nbytes; i += 4096)
            bytes[i] = (char)(i >> 12);
        pid_t child = fork();
        if (child == 0)
            _exit(look_as_peer(arena, block, nbytes, huge));
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        assert_true(tdmi_arena_give(arena, block));
        assert_in_range(backed(arena), empty, empty + 4096);
        if (round == 1) /* a neighbour moves what comes next */
            assert_int_equal(tdmi_arena_take(arena, 100, &small), TDM_OK);
    }
    tdmi_arena_release(arena);
    assert_int_equal(tdmi_memory_held(), 0);
}

static void large_blocks_lie_in_huge_pages_here_and_in_a_peer(void **state)
{
    (void)state;
    if (!kernel_can())
        skip();
    take_and_check(8 * MIB, 8 * MIB);
    assert_true(strstr(report, "of 8.0 MiB of shared memory 8.0 MiB are in huge pages") != NULL || strstr(report, "refused (") != NULL);
    take_and_check(3 * MIB + 5, 2 * MIB);
    take_and_check(2 * MIB - 128, 0);
}

static void where_the_kernel_refuses_small_pages_do(void **state)
{
    (void)state;
    pid_t child = fork(); /* the setting is the process's and lasts */
    if (child == 0) {
        if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0)
            _exit(77);
        take_and_check(8 * MIB, 0);
        const bool says = strstr(report, " 0.0 MiB are in huge pages; MADV_COLLAPSE was refused (") != NULL;
        if (!says)
            fprintf(stderr, "%s\n", report);
        _exit(says ? 0 : 9);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void an_arena_without_room_for_a_huge_page_still_gives_blocks(void **state)
{
    (void)state;
    tdmi_arena *arena;
    void *block;
    assert_int_equal(tdmi_arena_create(3 * MIB, 640, &arena), TDM_OK);
    assert_int_equal(tdmi_arena_take(arena, 5 * MIB / 2, &block), TDM_OK);
    memset(block, 1, 5 * MIB / 2);
    assert_true(tdmi_arena_give(arena, block));
    assert_int_equal(tdmi_arena_take(arena, 5 * MIB / 2, &block), TDM_OK);
    assert_int_equal(*(char *)block, 0);
    tdmi_arena_release(arena);
}

int main(void)
{
    setenv("TANDEM_LOG", "transport=debug", 1);
    tdmi_log_set_sink(keep_report, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_agree_with_offsets_in_the_file),
        cmocka_unit_test(large_blocks_lie_in_huge_pages_here_and_in_a_peer),
        cmocka_unit_test(where_the_kernel_refuses_small_pages_do),
        cmocka_unit_test(an_arena_without_room_for_a_huge_page_still_gives_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
