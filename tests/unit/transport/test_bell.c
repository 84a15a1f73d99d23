/* test_bell.c - a rank that is about to sleep and one that rings: one of them sees the other. */
#include "transport/shm/node_parts.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#define ROUNDS 30000u

typedef struct bell {
    tdmi_node *node;
    _Alignas(128) _Atomic uint32_t word;   /* what the ringer writes */
    _Alignas(128) _Atomic uint32_t ready;  /* threads at the start of a round, all rounds together */
    _Alignas(128) _Atomic uint32_t over;   /* rounds that the ringer is through with */
} bell;

/* Spins, for the two must then run at the same time; but not for ever where they share a core. */
static void wait_until(_Atomic uint32_t *word, uint32_t least)
{
    for (int spins = 0; atomic_load(word) < least; spins++)
        if (spins % 1000 == 999)
            sched_yield();
}

static void start_together(bell *b, uint32_t round)
{
    atomic_fetch_add(&b->ready, 1);
    wait_until(&b->ready, 2 * round);
}

static void *ringer(void *arg)
{
    bell *b = arg;
    tdmi_control *control = b->node->peers[0].control;
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        start_together(b, round);
        atomic_uint wait = atomic_load(&control->sleeping) + round % 8; /* the line is at hand, as it is in earnest */
        while (wait > 0)
            wait--;
        atomic_store_explicit(&b->word, round, memory_order_release);
        tdmi_node_ring(b->node, 0);
        atomic_store(&b->over, round);
    }
    return NULL;
}

/* How often neither the sleeper saw the word nor the ringer the sleeper. */
static unsigned count_lost(bool fences)
{
    bell b = {.word = 0};
    pthread_t thread;
    unsigned lost = 0;
    assert_int_equal(tdmi_node_create(0, 1, 1 << 20, &b.node), TDM_OK);
    tdmi_control *control = b.node->peers[0].control;
    control->fences = control->fences && fences;
    assert_int_equal(pthread_create(&thread, NULL, ringer, &b), 0);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        start_together(&b, round);
        const uint32_t heard = tdmi_node_sleep_begin(b.node, TDMI_SLEEP_FUTEX);
        const bool seen = atomic_load_explicit(&b.word, memory_order_acquire) == round;
        wait_until(&b.over, round);
        lost += !seen && atomic_load(&control->bell) == heard;
        atomic_store(&control->sleeping, 0);
    }
    pthread_join(thread, NULL);
    tdmi_node_destroy(b.node);
    return lost;
}

static void no_ring_is_lost_where_the_sleeper_makes_the_fences(void **state)
{
    (void)state;
    assert_int_equal(count_lost(true), 0);
}

static void nor_where_each_side_makes_its_own(void **state)
{
    (void)state;
    assert_int_equal(count_lost(false), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_ring_is_lost_where_the_sleeper_makes_the_fences),
        cmocka_unit_test(nor_where_each_side_makes_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
