/* test_arena.c - blocks of shared memory are zero when they are taken, whatever lay there before. */
#include "transport/shm/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static bool is_zero(const unsigned char *bytes, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

/* Blocks begin and end within pages; a later block may have in its middle the page in which an old one ended. */
static void a_block_over_the_edges_of_old_ones_is_zero(void **state)
{
    (void)state;
    tdmi_arena *arena;
    void *small[40], *large;
    assert_int_equal(tdmi_arena_create((size_t)64 << 20, 384, &arena), TDM_OK);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 40; i++) {
            size_t nbytes = 4096 + 640 * i;
            assert_int_equal(tdmi_arena_take(arena, nbytes, &small[i]), TDM_OK);
            assert_true(is_zero(small[i], nbytes));
            memset(small[i], 0xee, nbytes);
        }
        for (size_t i = 0; i < 40; i++)
            assert_true(tdmi_arena_give(arena, small[i]));
        assert_int_equal(tdmi_arena_take(arena, 1 << 20, &large), TDM_OK);
        assert_true(is_zero(large, 1 << 20));
        memset(large, 0xdd, 1 << 20);
        assert_true(tdmi_arena_give(arena, large));
    }
    tdmi_arena_release(arena);
}

static void giving_a_block_back_leaves_its_neighbours_alone(void **state)
{
    (void)state;
    tdmi_arena *arena;
    void *block[3];
    assert_int_equal(tdmi_arena_create((size_t)64 << 20, 0, &arena), TDM_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tdmi_arena_take(arena, 640, &block[i]), TDM_OK); /* all on one page */
        memset(block[i], 0x11 * (i + 1), 640);
    }
    assert_true(tdmi_arena_give(arena, block[1]));
    assert_false(tdmi_arena_give(arena, block[1]));
    for (int i = 0; i < 3; i += 2)
        for (int k = 0; k < 640; k++)
            assert_int_equal(((unsigned char *)block[i])[k], 0x11 * (i + 1));
    tdmi_arena_release(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_over_the_edges_of_old_ones_is_zero),
        cmocka_unit_test(giving_a_block_back_leaves_its_neighbours_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
