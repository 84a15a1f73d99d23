/* The shared heap for tensors: one a process, so all tests here use one after the other. */
#include "heap.h"
#include "runs.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB ((size_t)1 << 20)
#define HEAP_BYTES (256 * MIB)

static heap *h;

/* What a peer sees at the block's place. */
static char *peer_view(const void *block, size_t nbytes)
{
    char *view = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, heap_fd(h), (off_t)((const char *)block - heap_base(h)));
    assert_true(view != MAP_FAILED);
    return view;
}

static bool is_present(const void *block, size_t nbytes)
{
    const size_t first = (size_t)((const char *)block - heap_base(h)) / HEAP_PAGE;
    return memchr(heap_present(h) + first, 0, (nbytes + HEAP_PAGE - 1) / HEAP_PAGE) == NULL;
}

static uint8_t pattern(size_t i, int seed)
{
    return (uint8_t)((i >> 12) * 7 + i + (size_t)seed);
}

static void fill(char *block, size_t nbytes, int seed)
{
    for (size_t i = 0; i < nbytes; i += 64)
        block[i] = (char)pattern(i, seed);
}

static void check(const char *block, size_t nbytes, int seed)
{
    for (size_t i = 0; i < nbytes; i += 64)
        assert_int_equal((uint8_t)block[i], pattern(i, seed));
}

static void open_heap(void **state)
{
    (void)state;
    assert_null(heap_open(0));
    h = heap_open(HEAP_BYTES + 100);
    assert_non_null(h);
    assert_int_equal(heap_nbytes(h), HEAP_BYTES);
    assert_int_equal((uintptr_t)heap_base(h) % (2 * MIB), 0);
    assert_null(heap_open(MIB)); /* one a process */
}

static void a_block_keeps_address_and_bytes_when_it_is_shared(void **state)
{
    (void)state;
    for (size_t nbytes = 70000; nbytes < 12 * MIB; nbytes = nbytes * 2 + 5000) {
        char *block = heap_take(h, nbytes), *other = heap_take(h, nbytes);
        fill(block, nbytes, 1);
        fill(other, nbytes, 2);
        assert_false(is_present(block, HEAP_PAGE));
        assert_true(heap_share(h, block));
        assert_true(heap_share(h, block));
        check(block, nbytes, 1);
        check(other, nbytes, 2);
        assert_true(is_present(block, nbytes));
        char *view = peer_view(block, nbytes);
        check(view, nbytes, 1);
        view[0] = 77; /* both ways */
        block[nbytes - 1] = 78;
        assert_int_equal(block[0], 77);
        assert_int_equal(view[nbytes - 1], 78);
        munmap(view, nbytes);
        heap_give(h, block);
        heap_give(h, other);
    }
    heap_trim(h);
    assert_int_equal(heap_look(h).shared, 0);
}

static void a_shared_block_waits_for_the_next_of_its_size(void **state)
{
    (void)state;
    char *block = heap_take(h, 3 * MIB);
    assert_true(heap_share(h, block));
    heap_give(h, block);
    const uint64_t shares = heap_look(h).shares;
    char *small = heap_take(h, MIB), *again = heap_take(h, 3 * MIB - 100000);
    assert_ptr_not_equal(small, block);
    assert_ptr_equal(again, block);
    assert_true(heap_share(h, again));
    assert_int_equal(heap_look(h).shares, shares);
    heap_give(h, again);
    heap_give(h, small);
    assert_true(heap_trim(h) >= 3 * MIB);
    assert_false(is_present(block, HEAP_PAGE));
    char *fresh = heap_take(h, 3 * MIB); /* and what was shared once is as good as any */
    fill(fresh, 3 * MIB, 4);
    assert_true(heap_share(h, fresh));
    check(fresh, 3 * MIB, 4);
    heap_give(h, fresh);
    heap_trim(h);
}

static void a_full_heap_gives_nothing_and_all_of_it_comes_back(void **state)
{
    (void)state;
    enum { N = 255 };
    char *blocks[N];
    assert_null(heap_take(h, HEAP_BYTES + 1));
    for (int i = 0; i < N; i++)
        assert_non_null(blocks[i] = heap_take(h, MIB));
    assert_null(heap_take(h, 2 * MIB));
    for (int i = 0; i < N; i += 2)
        heap_give(h, blocks[i]);
    assert_null(heap_take(h, 5 * MIB));
    for (int i = 1; i < N; i += 2)
        heap_give(h, blocks[i]);
    char *whole = heap_take(h, HEAP_BYTES);
    assert_ptr_equal(whole, heap_base(h));
    heap_give(h, whole);
    assert_int_equal(heap_look(h).in_use, 0);
    heap_trim(h);
}

static size_t resident(void)
{
    size_t pages = 0, ignored;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%zu %zu", &ignored, &pages), 2);
    fclose(file);
    return pages * HEAP_PAGE;
}

static void trim_returns_memory_to_the_system(void **state)
{
    (void)state;
    char *block = heap_take(h, 64 * MIB), *shared = heap_take(h, 32 * MIB);
    memset(block, 1, 64 * MIB);
    memset(shared, 1, 32 * MIB);
    assert_true(heap_share(h, shared));
    const size_t before = resident();
    heap_give(h, block);
    heap_give(h, shared);
    assert_true(heap_look(h).resting >= 96 * MIB);
    assert_true(heap_trim(h) >= 96 * MIB);
    assert_int_equal(heap_look(h).resting, 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(resident() + 90 * MIB < before);
#else
    (void)before;
#endif
}

static void a_child_of_fork_changes_nothing_of_its_parent(void **state)
{
    (void)state;
    char *own = heap_take(h, MIB), *shared = heap_take(h, 3 * MIB);
    fill(own, MIB, 1);
    fill(shared, 3 * MIB, 2);
    assert_true(heap_share(h, shared));
    const pid_t child = fork();
    if (child == 0) {
        bool right = heap_take(h, MIB) == NULL && !heap_share(h, own) && heap_trim(h) == 0;
        for (size_t i = 0; i < MIB; i += 64)
            right = right && (uint8_t)own[i] == pattern(i, 1) && (uint8_t)shared[i] == pattern(i, 2);
        memset(own, 9, MIB);
        memset(shared, 9, 3 * MIB);
        heap_give(h, own);
        heap_give(h, shared);
        _exit(right ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    check(own, MIB, 1);
    check(shared, 3 * MIB, 2);
    heap_give(h, own);
    heap_give(h, shared);
    heap_trim(h);
}

static void *takes_and_gives(void *arg)
{
    const int seed = (int)(intptr_t)arg;
    unsigned state = (unsigned)seed + 1;
    char *blocks[8] = {0};
    size_t sizes[8] = {0};
    int marks[8] = {0};
    for (int i = 0; i < 2000; i++) {
        state = state * 1103515245u + 12345u;
        const int at = (int)(state >> 16) % 8;
        if (blocks[at] != NULL) {
            if (blocks[at][0] != (char)marks[at] || blocks[at][sizes[at] - 1] != (char)marks[at])
                return "another thread wrote here";
            heap_give(h, blocks[at]);
            blocks[at] = NULL;
            continue;
        }
        sizes[at] = 65536 + (state >> 8) % (3 * MIB);
        marks[at] = seed * 16 + i % 16;
        blocks[at] = heap_take(h, sizes[at]);
        if (blocks[at] == NULL)
            continue; /* full */
        blocks[at][0] = blocks[at][sizes[at] - 1] = (char)marks[at];
        if (i % 50 == 0 && !heap_share(h, blocks[at]))
            return "not shared";
    }
    for (int i = 0; i < 8; i++)
        if (blocks[i] != NULL)
            heap_give(h, blocks[i]);
    return NULL;
}

static void threads_get_different_blocks(void **state)
{
    (void)state;
    pthread_t threads[4];
    for (intptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, takes_and_gives, (void *)i), 0);
    for (int i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    assert_int_equal(heap_look(h).in_use, 0);
    heap_trim(h);
    char *whole = heap_take(h, HEAP_BYTES); /* no page was lost */
    assert_non_null(whole);
    heap_give(h, whole);
}

static void runs_are_found_by_size_and_alignment(void **state)
{
    (void)state;
    runs r;
    assert_true(runs_open(&r, 10000));
    const uint32_t a = runs_take(&r, RUNS_PRIVATE, 3, 1), b = runs_take(&r, RUNS_PRIVATE, 512, 512);
    assert_int_equal(a, 0);
    assert_int_equal(b, 512);
    assert_int_equal(runs_take(&r, RUNS_PRIVATE, 509, 1), 3); /* the gap before it */
    assert_int_equal(runs_take(&r, RUNS_PRIVATE, 10000 - 1024 + 1, 1), RUNS_NONE);
    assert_int_equal(runs_give(&r, a, RUNS_PRIVATE, 3, true), 0);
    assert_int_equal(runs_give(&r, 3, RUNS_PRIVATE, 100, true), 0);
    assert_int_equal(r.table[0].pages, 512);
    assert_int_equal(r.dirty_pages[RUNS_PRIVATE], 103);
    assert_int_equal(runs_give(&r, b, RUNS_PRIVATE, 0, true), 0);
    assert_int_equal(r.table[0].pages, 10000);
    assert_int_equal(runs_take_whole(&r, RUNS_SHARED, 1), RUNS_NONE);
    runs_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_heap),
        cmocka_unit_test(a_block_keeps_address_and_bytes_when_it_is_shared),
        cmocka_unit_test(a_shared_block_waits_for_the_next_of_its_size),
        cmocka_unit_test(a_full_heap_gives_nothing_and_all_of_it_comes_back),
        cmocka_unit_test(trim_returns_memory_to_the_system),
        cmocka_unit_test(a_child_of_fork_changes_nothing_of_its_parent),
        cmocka_unit_test(threads_get_different_blocks),
        cmocka_unit_test(runs_are_found_by_size_and_alignment),
    };
    return cmocka_run_group_tests_name("heap", tests, NULL, NULL) != 0;
}
