/* test_memory.c - labelled allocation. */
#include "core/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void find_label(const char *label, size_t nbytes, void *arg)
{
    if (strcmp(label, "wanted") == 0)
        *(size_t *)arg = nbytes;
}

static void blocks_are_counted_under_their_label(void **state)
{
    (void)state;
    uint64_t before = tdmi_memory_allocations();
    size_t held = tdmi_memory_held();
    char *a = tdmi_malloc(100, "wanted"), *b = tdmi_calloc(10, 5, "wanted");
    assert_int_equal(tdmi_memory_allocations() - before, 2);
    assert_int_equal(tdmi_memory_held() - held, 150);
    size_t nbytes = 0;
    tdmi_memory_by_label(find_label, &nbytes);
    assert_int_equal(nbytes, 150);
    a = tdmi_realloc(a, 200, "ignored");
    tdmi_memory_by_label(find_label, &nbytes);
    assert_int_equal(nbytes, 250);
    tdmi_free(a);
    tdmi_free(b);
    tdmi_free(NULL);
    assert_int_equal(tdmi_memory_held(), held);
}

static void alignment_is_kept(void **state)
{
    (void)state;
    for (size_t alignment = 16; alignment <= 1u << 16; alignment *= 2) {
        void *block = tdmi_aligned_alloc(alignment, 3, "aligned");
        assert_int_equal((uintptr_t)block % alignment, 0);
        tdmi_free(block);
    }
}

/* Large blocks grow through the system's pages, small ones are copied: both keep what they hold and are counted. */
static void a_block_that_grows_and_shrinks_keeps_its_bytes(void **state)
{
    (void)state;
    const size_t held = tdmi_memory_held();
    size_t nbytes = 1000;
    unsigned char *block = tdmi_malloc(nbytes, "growing");
    for (size_t i = 0; i < nbytes; i++)
        block[i] = (unsigned char)(i * 7);
    while (nbytes < (size_t)64 << 20) {
        const size_t before = nbytes;
        nbytes = nbytes * 3 / 2;
        block = tdmi_realloc(block, nbytes, "growing");
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % 64, 0);
        assert_int_equal(tdmi_memory_held(), held + nbytes);
        for (size_t i = before; i < nbytes; i++)
            block[i] = (unsigned char)(i * 7);
    }
    for (; nbytes > 100000; nbytes /= 2)
        block = tdmi_realloc(block, nbytes, "growing");
    for (size_t i = 0; i < nbytes; i++)
        assert_int_equal(block[i], (unsigned char)(i * 7));
    tdmi_free(block);
    assert_int_equal(tdmi_memory_held(), held);
}

static void an_array_has_room_for_one_more(void **state)
{
    (void)state;
    size_t capacity = 0;
    int *array = NULL;
    for (size_t i = 0; i < 1000; i++) {
        int *more = tdmi_with_room(array, i, &capacity, sizeof *more, "test array");
        assert_non_null(more);
        assert_true(i < capacity);
        array = more;
        array[i] = (int)i;
    }
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(array[i], i);
    const size_t before = capacity;
    const uint64_t allocations = tdmi_memory_allocations();
    assert_ptr_equal(tdmi_with_room(array, 1000, &capacity, sizeof *array, "test array"), array);
    assert_true(tdmi_memory_allocations() == allocations);
    assert_null(tdmi_with_room(array, capacity, &capacity, SIZE_MAX / 8, "test array")); /* no machine has it: all stays */
    assert_true(capacity == before);
    assert_int_equal(array[999], 999);
    tdmi_free(array);
}

static void a_size_no_machine_has_is_an_error_with_its_label(void **state)
{
    (void)state;
    assert_null(tdmi_calloc(SIZE_MAX / 4, 8, "monster"));
    assert_non_null(strstr(tdm_error_text(), "monster"));
    assert_null(tdmi_malloc(SIZE_MAX - 10, "giant"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_counted_under_their_label),
        cmocka_unit_test(alignment_is_kept),
        cmocka_unit_test(a_block_that_grows_and_shrinks_keeps_its_bytes),
        cmocka_unit_test(an_array_has_room_for_one_more),
        cmocka_unit_test(a_size_no_machine_has_is_an_error_with_its_label),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
