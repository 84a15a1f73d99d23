/* test_arena.c - blocks take memory when they are taken, and give it back. */
#include "transport/shm/arena.h"

#include "core/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <linux/mempolicy.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

static size_t backed(const tdmi_arena *arena)
{
    struct stat s;
    assert_int_equal(fstat(tdmi_arena_fd(arena), &s), 0);
    return (size_t)s.st_blocks * 512;
}

static void memory_comes_with_a_block_and_goes_with_it(void **state)
{
    (void)state;
    tdmi_arena *arena;
    void *block, *space;
    assert_int_equal(tdmi_arena_create((size_t)1 << 30, 640, &arena), TDM_OK);
    const size_t empty = backed(arena);
    assert_true(empty <= 8192);
    assert_int_equal(tdmi_arena_take(arena, 1 << 20, &block), TDM_OK);
    assert_true(backed(arena) >= empty + (1 << 20));
    assert_int_equal((uintptr_t)block % 4096, 640);
    assert_int_equal(tdmi_arena_reserve(arena, 1 << 20, &space), TDM_OK);
    assert_true(backed(arena) < empty + (1 << 20) + 16384);
    assert_true(tdmi_arena_give(arena, block));
    assert_true(backed(arena) <= empty + 8192); /* a page it shared with a neighbour may stay */
    assert_false(tdmi_arena_give(arena, block));
    assert_true(tdmi_arena_give(arena, space));
    tdmi_arena_release(arena);
}

static void memory_is_wanted_from_the_owners_node(void **state)
{
    (void)state;
    tdmi_arena *arena, *peer;
    int mode = -1;
    unsigned long nodes[16] = {0};
    assert_int_equal(tdmi_arena_create(1 << 20, 0, &arena), TDM_OK);
    tdmi_arena_prefer(arena, -1);
    tdmi_arena_prefer(arena, 1000); /* which no kernel has: nothing happens */
    assert_int_equal(tdmi_arena_map(dup(tdmi_arena_fd(arena)), tdmi_arena_nbytes(arena), &peer), TDM_OK);
    tdmi_arena_prefer(arena, 0);
    char *theirs = tdmi_arena_base(peer) + 8192; /* it holds for whoever takes memory */
    if (syscall(SYS_get_mempolicy, &mode, nodes, 8 * sizeof nodes, theirs, MPOL_F_ADDR) == 0) {
        assert_int_equal(mode, MPOL_PREFERRED);
        assert_int_equal(nodes[0], 1);
    }
    theirs[0] = 1;
    tdmi_arena_release(peer);
    tdmi_arena_release(arena);
}

static void a_peer_maps_the_same_memory(void **state)
{
    (void)state;
    tdmi_arena *arena, *peer;
    void *block;
    assert_int_equal(tdmi_arena_create(1 << 20, 0, &arena), TDM_OK);
    assert_int_equal(tdmi_arena_map(dup(tdmi_arena_fd(arena)), tdmi_arena_nbytes(arena), &peer), TDM_OK);
    assert_int_equal(tdmi_arena_take(arena, 100, &block), TDM_OK);
    memcpy(block, "hello", 6);
    assert_string_equal(tdmi_arena_base(peer) + ((char *)block - tdmi_arena_base(arena)), "hello");
    assert_int_equal(tdmi_arena_number(peer), 0);
    tdmi_arena_release(peer);
    tdmi_arena_release(arena);
}

static void threads_find_an_arena_of_their_process_by_its_number(void **state)
{
    (void)state;
    tdmi_arena *arena;
    assert_int_equal(tdmi_arena_create(1 << 20, 0, &arena), TDM_OK);
    const uint64_t number = tdmi_arena_number(arena);
    assert_ptr_equal(tdmi_arena_find(number), arena);
    assert_null(tdmi_arena_find(number + 1));
    assert_null(tdmi_arena_find(0));
    tdmi_arena_release(arena);
    assert_ptr_equal(tdmi_arena_find(number), arena); /* one reference is left */
    tdmi_arena_release(arena);
    tdmi_arena_release(arena);
    assert_null(tdmi_arena_find(number));
}

static void a_full_arena_says_how_large_the_hole_is(void **state)
{
    (void)state;
    tdmi_arena *arena;
    void *block;
    assert_int_equal(tdmi_arena_create(1 << 20, 0, &arena), TDM_OK);
    assert_int_equal(tdmi_arena_take(arena, 600000, &block), TDM_OK);
    assert_int_equal(tdmi_arena_take(arena, 600000, &block), TDM_ERR_NO_MEMORY);
    assert_non_null(strstr(tdm_error_text(), "a block of 600000 is needed, the largest hole is 44"));
    assert_int_equal(tdmi_arena_take(arena, 2 << 20, &block), TDM_ERR_NO_MEMORY);
    assert_non_null(strstr(tdm_error_text(), "TANDEM_ARENA_BYTES"));
    tdmi_arena_release(arena);
    assert_int_equal(tdmi_memory_held(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_comes_with_a_block_and_goes_with_it),
        cmocka_unit_test(memory_is_wanted_from_the_owners_node),
        cmocka_unit_test(a_peer_maps_the_same_memory),
        cmocka_unit_test(threads_find_an_arena_of_their_process_by_its_number),
        cmocka_unit_test(a_full_arena_says_how_large_the_hole_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
