/* test_threads.c - tiles of a kernel: every one runs once, and the caller's pause comes between them and nowhere else. */
#include "core/clock.h"
#include "kernels/kernel.h"
#include "kernels/threads.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define TILES 8

typedef struct tiled {
    atomic_int ran[TILES];
    atomic_int inside; /* tiles under way */
    int pauses, worst;  /* tiles under way during a pause */
} tiled;

static void long_tile(void *arg, int64_t tile, int worker)
{
    (void)worker;
    tiled *t = arg;
    atomic_fetch_add(&t->inside, 1);
    for (const int64_t begin = tdmi_now_ns(); tdmi_now_ns() - begin < TDMI_NS_PER_MS;)
        ;
    atomic_fetch_add(&t->ran[tile], 1);
    atomic_fetch_sub(&t->inside, 1);
}

static void short_tile(void *arg, int64_t tile, int worker)
{
    (void)worker;
    tiled *t = arg;
    atomic_fetch_add(&t->ran[tile], 1);
}

static void pause(void *arg)
{
    tiled *t = arg;
    const int inside = atomic_load(&t->inside);
    t->pauses++;
    t->worst = inside > t->worst ? inside : t->worst;
}

static void assert_all_ran(tiled *t)
{
    for (int i = 0; i < TILES; i++)
        assert_int_equal(atomic_load(&t->ran[i]), 1);
}

static void a_pause_comes_between_any_two_long_tiles(void **state)
{
    (void)state;
    tiled t = {0};
    tdmi_kernels_set_threads(1);
    tdmi_kernels_set_pause(pause, &t);
    tdmi_kernels_tiles(TILES, long_tile, &t);
    tdmi_kernels_set_pause(NULL, NULL);
    assert_all_ran(&t);
    assert_int_equal(t.pauses, TILES - 1);
    assert_int_equal(t.worst, 0);
}

static void only_the_thread_that_asked_pauses(void **state)
{
    (void)state;
    tiled t = {0};
    tdmi_kernels_set_threads(2);
    tdmi_kernels_set_pause(pause, &t); /* t.pauses is no atomic: the thread sanitizer would tell */
    tdmi_kernels_tiles(TILES, long_tile, &t);
    tdmi_kernels_set_pause(NULL, NULL);
    tdmi_kernels_set_threads(1);
    assert_all_ran(&t);
    assert_true(t.pauses < TILES);
    assert_true(t.worst <= 1);
}

static void without_a_pause_or_time_for_one_tiles_just_run(void **state)
{
    (void)state;
    tiled none = {0}, quick = {0};
    tdmi_kernels_tiles(TILES, long_tile, &none);
    assert_all_ran(&none);
    tdmi_kernels_set_pause(pause, &quick);
    tdmi_kernels_tiles(1, long_tile, &quick);
    tdmi_kernels_set_pause(NULL, NULL);
    assert_int_equal(quick.pauses, 0); /* behind the last tile the caller is back anyway */
    tdmi_kernels_tiles(TILES, short_tile, &(tiled){0});
    assert_int_equal(none.pauses, 0);
}

static void half_of_the_smallest(void *arg, int64_t tile, int worker)
{
    (void)worker;
    volatile float *small = arg;
    small[tile] = small[tile] * 0.5f;
}

static void denormals_are_nothing_inside_a_tile_and_all_they_were_outside(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        volatile float small[TILES];
        for (int i = 0; i < TILES; i++)
            small[i] = 1.2e-38f;
        tdmi_kernels_set_threads(threads);
        tdmi_kernels_tiles(TILES, half_of_the_smallest, (void *)(uintptr_t)small);
        for (int i = 0; i < TILES; i++)
            assert_true(small[i] == 0);
        small[0] = 1.2e-38f;
        half_of_the_smallest((void *)(uintptr_t)small, 0, 0);
        assert_true(small[0] > 0);
    }
    tdmi_kernels_set_threads(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(denormals_are_nothing_inside_a_tile_and_all_they_were_outside),
        cmocka_unit_test(a_pause_comes_between_any_two_long_tiles),
        cmocka_unit_test(only_the_thread_that_asked_pauses),
        cmocka_unit_test(without_a_pause_or_time_for_one_tiles_just_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
