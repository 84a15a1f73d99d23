/* test_run.c - what run() promises for every kernel that this CPU has: no allocation, the same bits again and at any
 * alignment, and outputs in the memory of an input where op.h allows it. Allocations are seen by linking malloc and its kin
 * to the functions below (our own code, not that of shared libraries). */
#include "cases.h"

#include "core/cpu.h"
#include "core/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void *__real_malloc(size_t nbytes);
void *__real_calloc(size_t count, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t nbytes);
int __real_posix_memalign(void **out, size_t alignment, size_t nbytes);
void *__wrap_malloc(size_t nbytes);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t nbytes);
int __wrap_posix_memalign(void **out, size_t alignment, size_t nbytes);

static unsigned allocations; /* one thread allocates: kernels run on one here */

void *__wrap_malloc(size_t nbytes)
{
    allocations++;
    return __real_malloc(nbytes);
}

void *__wrap_calloc(size_t count, size_t size)
{
    allocations++;
    return __real_calloc(count, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t nbytes)
{
    allocations++;
    return __real_aligned_alloc(alignment, nbytes);
}

int __wrap_posix_memalign(void **out, size_t alignment, size_t nbytes)
{
    allocations++;
    return __real_posix_memalign(out, alignment, nbytes);
}

static const case_sizes sizes = {.B = 2, .T = 37, .C = 66, .H = 3, .V = 131, .P = 40, .I = 67, .O = 112};

static void for_each_kernel(void (*check)(const tdmi_kernel *kernel))
{
    for (tdmi_op op = 0; op < TDMI_OP_COUNT; op++) {
        const tdmi_kernel *const *kernels;
        const size_t count = tdmi_kernels_of(op, &kernels);
        for (size_t i = 0; i < count; i++)
            if (kernels[i]->isa <= (int)tdmi_cpu_isa())
                check(kernels[i]);
    }
}

static void check_allocations(const tdmi_kernel *kernel)
{
    node_case c;
    case_create(&c, kernel->op, &sizes, 5);
    tdmi_bound_kernel bound = {.kernel = kernel, .io = c.io};
    if (kernel->prepare != NULL)
        assert_int_equal(kernel->prepare(&bound.io, &bound.state, &bound.workspace_nbytes), TDM_OK);
    void *workspace = tdmi_malloc(bound.workspace_nbytes, "test workspace");
    assert_non_null(workspace);
    const unsigned before = allocations;
    for (int i = 0; i < 3; i++)
        tdmi_kernel_run(&bound, (const void *const *)c.in, c.out, workspace);
    if (allocations != before)
        fail_msg("%s made %u allocations in run", kernel->name, allocations - before);
    tdmi_free(workspace);
    tdmi_kernel_unbind(&bound);
    case_destroy(&c);
}

static void run_allocates_nothing(void **state)
{
    (void)state;
    const unsigned before = allocations;
    tdmi_free(tdmi_malloc(1, "test"));
    assert_int_not_equal(allocations, before); /* the count counts */
    for_each_kernel(check_allocations);
}

/* Moves a tensor by 4 bytes from wherever it is. */
static void *moved(const void *from, size_t nbytes, void **block)
{
    char *to = tdmi_malloc(nbytes + 4, "test tensor");
    assert_non_null(to);
    *block = to;
    return memcpy(to + 4, from, nbytes);
}

static void check_bits(const tdmi_kernel *kernel)
{
    node_case once, again;
    case_create(&once, kernel->op, &sizes, 5);
    case_create(&again, kernel->op, &sizes, 5);
    void *blocks[TDMI_NODE_IN_MAX + TDMI_NODE_OUT_MAX] = {0};
    node_case away = again;
    for (int i = 0; i < away.io.in_count; i++)
        if (away.in[i] != NULL)
            away.in[i] = moved(again.in[i], tdmi_shape_nbytes(&away.io.in[i]), &blocks[i]);
    for (int i = 0; i < away.io.out_count; i++)
        if (away.out[i] != NULL)
            away.out[i] = moved(again.out[i], tdmi_shape_nbytes(&away.io.out[i]), &blocks[TDMI_NODE_IN_MAX + i]);
    case_run(&once, kernel);
    case_run(&again, kernel);
    case_run(&away, kernel);
    for (int i = 0; i < once.io.out_count; i++) {
        const size_t nbytes = tdmi_shape_nbytes(&once.io.out[i]);
        if (once.out[i] != NULL && memcmp(once.out[i], again.out[i], nbytes) != 0)
            fail_msg("%s gave other bits in output %d when run again", kernel->name, i);
        if (once.out[i] != NULL && memcmp(once.out[i], away.out[i], nbytes) != 0)
            fail_msg("%s gave other bits in output %d at another alignment", kernel->name, i);
    }
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        tdmi_free(blocks[i]);
    case_destroy(&once);
    case_destroy(&again);
}

static void bits_are_the_same_again_and_at_any_alignment(void **state)
{
    (void)state;
    for_each_kernel(check_bits);
}

static void check_in_place(const tdmi_kernel *kernel)
{
    switch (kernel->op) {
    case TDMI_OP_GELU_BACKWARD:
    case TDMI_OP_DROPOUT_BACKWARD:
    case TDMI_OP_CROSS_ENTROPY_BACKWARD:
    case TDMI_OP_ADD: break;
    default: return;
    }
    node_case apart, shared;
    case_create(&apart, kernel->op, &sizes, 5);
    case_create(&shared, kernel->op, &sizes, 5);
    void *own = shared.out[0];
    shared.out[0] = shared.in[0];
    case_run(&apart, kernel);
    case_run(&shared, kernel);
    if (memcmp(apart.out[0], shared.out[0], tdmi_shape_nbytes(&apart.io.out[0])) != 0)
        fail_msg("%s gave other bits in the memory of its input", kernel->name);
    shared.out[0] = own;
    case_destroy(&apart);
    case_destroy(&shared);
}

static void an_output_may_be_in_the_memory_of_its_input(void **state)
{
    (void)state;
    for_each_kernel(check_in_place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_allocates_nothing),
        cmocka_unit_test(bits_are_the_same_again_and_at_any_alignment),
        cmocka_unit_test(an_output_may_be_in_the_memory_of_its_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
