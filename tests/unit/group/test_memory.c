/* test_memory.c - blocks that peers reach: private, shared by a node, adopted. */
#include "on_ranks.h"

#include "core/clock.h"
#include "core/cpu.h"
#include "transport/shm/huge.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- tdm_alloc ---- */

static const char *allocates(tdm_group *group, void *arg)
{
    (void)arg;
    void *blocks[40];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 40; i++) {
            const size_t nbytes = (size_t)i * 1777;
            CHECK_OK(tdm_alloc(group, nbytes, &blocks[i]));
            CHECK((uintptr_t)blocks[i] % 128 == 0, "block %d is not aligned to 128", i);
            for (size_t b = 0; b < nbytes; b++)
                CHECK(((char *)blocks[i])[b] == 0, "round %d, block %d: byte %zu is not zero", round, i, b);
            memset(blocks[i], 0x77, nbytes);
        }
        for (int i = 0; i < 40; i += 2)
            tdm_free(group, blocks[i]);
        for (int i = 1; i < 40; i += 2)
            tdm_free(group, blocks[i]);
        tdm_free(group, NULL);
    }
    return NULL;
}

static void blocks_are_aligned_and_zero_also_when_used_before(void **state)
{
    (void)state;
    const char *const transports[] = {RANKS_TRANSPORTS};
    for (int t = 0; t < (int)(sizeof transports / sizeof *transports); t++)
        for (int n = 1; n <= 2; n++)
            ranks_run(&(ranks_spec){.n = n, .transport = transports[t]}, allocates, NULL);
}

static const char *symmetric_blocks_differ(tdm_group *group, void *arg)
{
    (void)arg;
    for (int i = 0; i < 8; i++) {
        void *block;
        CHECK_OK(tdm_alloc(group, 1 << 20, &block));
        uint64_t phase = (uintptr_t)block % 4096, phases[4];
        CHECK_OK(tdm_all_gather(group, &phase, phases, 1, TDM_I64, NULL));
        for (int a = 0; a < 4; a++)
            for (int b = 0; b < a; b++)
                CHECK(phases[a] != phases[b], "blocks %d of ranks %d and %d agree modulo 4096", i, a, b);
    }
    return NULL;
}

static void equal_blocks_of_different_ranks_do_not_agree_modulo_4096(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 4, .transport = "shm"}, symmetric_blocks_differ, NULL);
}

/* What this process has mapped of arenas in huge pages. */
static size_t huge_bytes_of_arenas(void)
{
    FILE *file = fopen("/proc/self/smaps", "re");
    char line[512];
    unsigned long first, last, kib;
    size_t sum = 0;
    for (bool inside = false; file != NULL && fgets(line, sizeof line, file) != NULL;) {
        if (sscanf(line, "%lx-%lx ", &first, &last) == 2)
            inside = strstr(line, "tandem-arena") != NULL;
        else if (inside && sscanf(line, "ShmemPmdMapped: %lu kB", &kib) == 1)
            sum += (size_t)kib << 10;
    }
    if (file != NULL)
        fclose(file);
    return sum;
}

static const char *large_blocks_are_huge(tdm_group *group, void *arg)
{
    const size_t nbytes = (size_t)8 << 20, count = nbytes / sizeof(float), can = *(size_t *)arg;
    for (int attempt = 0; attempt < 5; attempt++) { /* a machine under load has no huge page at times */
        float *values;
        CHECK_OK(tdm_alloc(group, nbytes, (void **)&values));
        for (size_t i = 0; i < count; i++)
            values[i] = (float)(tdm_group_rank(group) + 1);
        CHECK_OK(tdm_allreduce(group, values, values, count, TDM_F32, TDM_SUM, NULL));
        for (size_t i = 0; i < count; i++)
            CHECK(values[i] == 3, "element %zu is %g", i, (double)values[i]);
        int32_t enough = huge_bytes_of_arenas() >= can; /* a rank has the part of its peer's block that it sums */
        CHECK_OK(tdm_allreduce(group, &enough, &enough, 1, TDM_I32, TDM_MIN, NULL));
        if (enough != 0)
            return NULL;
        CHECK_OK(tdm_barrier(group, NULL));
        tdm_free(group, values);
    }
    return ranks_say("less than %zu bytes are in huge pages", can);
}

static void large_blocks_lie_in_huge_pages_for_both_ranks(void **state)
{
    (void)state;
    int fd = memfd_create("test", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, TDMI_HUGE_PAGE), 0);
    char *base = tdmi_huge_map(fd, 0, TDMI_HUGE_PAGE);
    size_t least = tdmi_huge_back(base, TDMI_HUGE_PAGE) == 0 ? (size_t)12 << 20 : 0;
    munmap(base, TDMI_HUGE_PAGE);
    close(fd);
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, large_blocks_are_huge, &least);
}

static const char *asks_for_too_much(tdm_group *group, void *arg)
{
    const size_t nbytes = *(size_t *)arg;
    char number[32];
    void *block;
    tdm_status status = tdm_alloc(group, nbytes, &block);
    CHECK(status == TDM_ERR_NO_MEMORY, "%s: %s", tdm_status_name(status), tdm_error_text());
    snprintf(number, sizeof number, "%zu bytes", nbytes);
    CHECK(strstr(tdm_error_text(), number) != NULL, "the text does not say how much: %s", tdm_error_text());
    CHECK_OK(tdm_alloc(group, 64, &block));
    tdm_free(group, block);
    return NULL;
}

static void a_machine_without_room_is_an_error_and_not_a_crash(void **state)
{
    (void)state;
    char arena[32];
    size_t nbytes = tdmi_memory_total() + ((size_t)1 << 30); /* more than the arena, then more than the machine */
    ranks_run(&(ranks_spec){.n = 1, .transport = "shm"}, asks_for_too_much, &nbytes);
    snprintf(arena, sizeof arena, "%zu", 2 * nbytes);
    setenv("TANDEM_ARENA_BYTES", arena, 1);
    ranks_run(&(ranks_spec){.n = 1, .transport = "shm"}, asks_for_too_much, &nbytes);
    unsetenv("TANDEM_ARENA_BYTES");
}

/* ---- tdm_alloc_node ---- */

static const char *shares_one_copy(tdm_group *group, void *arg)
{
    (void)arg;
    const int rank = tdm_group_local_rank(group), n = tdm_group_local_size(group);
    for (int round = 0; round < 3; round++) {
        void *first, *second;
        CHECK_OK(tdm_alloc_node(group, 100000 * sizeof(int), &first));
        CHECK_OK(tdm_alloc_node(group, 64, &second));
        int *shared = first;
        CHECK(shared[rank] == 0, "round %d: not zero", round);
        CHECK_OK(tdm_barrier(group, NULL));
        shared[rank * 1000] = tdm_group_rank(group) + 1;
        CHECK_OK(tdm_barrier(group, NULL));
        for (int r = 0; r < n; r++)
            CHECK(shared[r * 1000] == tdm_group_rank(group) - rank + r + 1, "what local rank %d wrote is not there", r);
        CHECK_OK(tdm_barrier(group, NULL));
        if (rank == 0)
            tdm_free(group, first);
        else
            CHECK(shared[0] == tdm_group_rank(group) - rank + 1, "the first to free it took it from the others");
        CHECK_OK(tdm_barrier(group, NULL));
        if (rank != 0)
            tdm_free(group, first);
        tdm_free(group, second);
    }
    return NULL;
}

static void a_node_block_is_one_copy_until_the_last_rank_frees_it(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 3, .transport = "shm"}, shares_one_copy, NULL);
    ranks_run(&(ranks_spec){.n = 3, .transport = "shm", .mode = RANKS_PROCESSES}, shares_one_copy, NULL);
    ranks_run(&(ranks_spec){.n = 5, .transport = "nodes"}, shares_one_copy, NULL);
    ranks_run(&(ranks_spec){.n = 2, .transport = "tcp"}, shares_one_copy, NULL);
    ranks_run(&(ranks_spec){.n = 1, .transport = "shm"}, shares_one_copy, NULL);
}

static const char *asks_for_different_sizes(tdm_group *group, void *arg)
{
    (void)arg;
    void *block;
    tdm_status status = tdm_alloc_node(group, tdm_group_rank(group) == 1 ? 200 : 100, &block);
    CHECK(status == TDM_ERR_MISMATCH, "%s: %s", tdm_status_name(status), tdm_error_text());
    CHECK(strstr(tdm_error_text(), "100") != NULL && strstr(tdm_error_text(), "200") != NULL, "%s", tdm_error_text());
    CHECK_OK(tdm_alloc_node(group, 100, &block));
    tdm_free(group, block);
    return NULL;
}

static void node_blocks_of_different_sizes_are_an_error_on_all_ranks(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, asks_for_different_sizes, NULL);
}

static const char *reduces_node_memory(tdm_group *group, void *arg)
{
    (void)arg;
    const int rank = tdm_group_rank(group), n = tdm_group_size(group);
    void *block; /* one copy: each rank sums its own part of it with the others' parts */
    CHECK_OK(tdm_alloc_node(group, 5000 * sizeof(float) * (size_t)n, &block));
    float *part = (float *)block + 5000 * rank;
    for (int i = 0; i < 5000; i++)
        part[i] = (float)(rank + 1);
    CHECK_OK(tdm_allreduce(group, part, part, 5000, TDM_F32, TDM_SUM, NULL));
    for (int i = 0; i < 5000; i++)
        CHECK(part[i] == (float)(n * (n + 1) / 2), "element %d is %g", i, (double)part[i]);
    CHECK_OK(tdm_barrier(group, NULL));
    tdm_free(group, block);
    return NULL;
}

static void collectives_work_in_node_memory(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 3, .transport = "shm", .mode = RANKS_PROCESSES}, reduces_node_memory, NULL);
    ranks_run(&(ranks_spec){.n = 4, .transport = "nodes"}, reduces_node_memory, NULL);
}

/* ---- tdm_memory_register ---- */

#define HEAP_BYTES ((size_t)1 << 20)

static const char *registers_a_heap(tdm_group *group, void *arg)
{
    (void)arg;
    const int rank = tdm_group_rank(group), n = tdm_group_size(group);
    for (int round = 0; round < 3; round++) {
        const int fd = memfd_create("heap", 0);
        CHECK(fd >= 0 && ftruncate(fd, (off_t)HEAP_BYTES + 8192) == 0, "no heap");
        char *heap = mmap(NULL, HEAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 8192);
        CHECK(heap != MAP_FAILED, "no mapping");
        CHECK_OK(tdm_memory_register(group, fd, 8192, HEAP_BYTES, heap));
        close(fd);
        float *data = (float *)(void *)(heap + 4000);
        for (int i = 0; i < 10000; i++)
            data[i] = (float)(rank + i);
        tdm_work *work;
        CHECK_OK(tdm_allreduce(group, data, data, 10000, TDM_F32, TDM_SUM, &work));
        CHECK_OK(tdm_work_wait(work));
        for (int i = 0; i < 10000; i++)
            CHECK(data[i] == (float)(n * i + n * (n - 1) / 2), "round %d: element %d is %g", round, i, (double)data[i]);
        CHECK_OK(tdm_barrier(group, NULL));
        tdm_memory_unregister(group, heap);
        munmap(heap, HEAP_BYTES);
    }
    return NULL;
}

static void registered_memory_is_reduced_in_place(void **state)
{
    (void)state;
    for (int mode = 0; mode < 2; mode++)
        ranks_run(&(ranks_spec){.n = 3, .transport = "shm", .mode = mode ? RANKS_PROCESSES : RANKS_THREADS}, registers_a_heap, NULL);
    ranks_run(&(ranks_spec){.n = 2, .transport = "tcp"}, registers_a_heap, NULL);
    ranks_run(&(ranks_spec){.n = 1, .transport = "shm"}, registers_a_heap, NULL);
}

static const char *takes_the_direct_way(tdm_group *group, void *arg)
{
    (void)arg;
    const int fd = memfd_create("heap", 0);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)HEAP_BYTES) == 0, "no heap");
    char *heap = mmap(NULL, HEAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK_OK(tdm_memory_register(group, fd, 0, HEAP_BYTES, heap));
    close(fd);
    float *unshared = malloc(100000);
    for (int which = 0; which < 3; which++) {
        tdm_work *work;
        bool done = false;
        /* direct needs the memory of all ranks within reach; one rank without makes all take the other way */
        float *data = which == 0 || (which == 1 && tdm_group_rank(group) != 0) ? (float *)(void *)heap : unshared;
        memset(data, 0, 80000);
        CHECK_OK(tdm_allreduce(group, data, data, 20000, TDM_F32, TDM_SUM, &work));
        while (!done)
            CHECK_OK(tdm_work_test(work, &done));
        CHECK(strcmp(tdm_work_algorithm(work), which == 0 ? "direct" : "direct_staged") == 0, "case %d: %s", which,
              tdm_work_algorithm(work));
        CHECK_OK(tdm_work_wait(work));
    }
    CHECK_OK(tdm_barrier(group, NULL));
    free(unshared);
    return NULL;
}

static void the_way_depends_on_the_memory_of_all_ranks(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 3, .transport = "shm", .mode = RANKS_PROCESSES}, takes_the_direct_way, NULL);
    ranks_run(&(ranks_spec){.n = 2, .transport = "shm"}, takes_the_direct_way, NULL);
}

/* Pages that peers do not reach are read like memory from malloc, until they are the file's. */
static const char *registers_page_by_page(tdm_group *group, void *arg)
{
    (void)arg;
    const int rank = tdm_group_rank(group), n = tdm_group_size(group);
    const int fd = memfd_create("heap", 0);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)HEAP_BYTES) == 0, "no heap");
    char *heap = mmap(NULL, HEAP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t present[HEAP_BYTES / 4096] = {0};
    CHECK(heap != MAP_FAILED, "no mapping");
    CHECK_OK(tdm_memory_register_sparse(group, fd, 0, HEAP_BYTES, heap, present));
    float *data = (float *)(void *)(heap + 8192);
    for (int shared = 0; shared < 3; shared++) { /* no page, some, all */
        if (shared > 0) {
            const size_t nbytes = shared == 1 ? 8192 : 81920;
            CHECK(mmap(data, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 8192) != MAP_FAILED, "not mapped");
            memset(present + 2, 1, nbytes / 4096);
        }
        for (int i = 0; i < 20000; i++)
            data[i] = (float)(rank + i);
        tdm_work *work;
        bool done = false;
        CHECK_OK(tdm_allreduce(group, data, data, 20000, TDM_F32, TDM_SUM, &work));
        while (!done)
            CHECK_OK(tdm_work_test(work, &done));
        CHECK((strcmp(tdm_work_algorithm(work), "direct") == 0) == (shared == 2), "%d: %s", shared, tdm_work_algorithm(work));
        CHECK_OK(tdm_work_wait(work));
        for (int i = 0; i < 20000; i++)
            CHECK(data[i] == (float)(n * i + n * (n - 1) / 2), "%d: element %d is %g", shared, i, (double)data[i]);
    }
    CHECK_OK(tdm_barrier(group, NULL));
    tdm_memory_unregister(group, heap);
    munmap(heap, HEAP_BYTES);
    close(fd);
    return NULL;
}

static void pages_are_used_in_place_once_they_are_present(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 3, .transport = "shm", .mode = RANKS_PROCESSES}, registers_page_by_page, NULL);
}

static const char *registers_nonsense(tdm_group *group, void *arg)
{
    (void)arg;
    char byte;
    CHECK(tdm_memory_register(group, -1, 0, 100, &byte) == TDM_ERR_INVALID, "no descriptor");
    CHECK(tdm_memory_register(group, 0, 0, 0, &byte) == TDM_ERR_INVALID, "no bytes");
    CHECK(tdm_memory_register(group, 0, 100, 100, &byte) == TDM_ERR_INVALID && strstr(tdm_error_text(), "byte 100") != NULL, "%s",
          tdm_error_text());
    CHECK(tdm_memory_register_sparse(group, 0, 0, 100, &byte, (uint8_t *)&byte) == TDM_ERR_INVALID && strstr(tdm_error_text(), "whole pages") != NULL,
          "%s", tdm_error_text());
    CHECK(tdm_memory_register_sparse(group, 0, 0, 4096, &byte, NULL) == TDM_ERR_INVALID, "no pages");
    tdm_memory_unregister(group, &byte);
    return NULL;
}

static void nonsense_is_not_registered(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 1, .transport = "shm"}, registers_nonsense, NULL);
}

static const char *one_dies_first(tdm_group *group, void *arg)
{
    (void)arg;
    void *block;
    if (tdm_group_rank(group) == 1)
        raise(SIGKILL);
    const int64_t start_ns = tdmi_now_ns();
    tdm_status status = tdm_alloc_node(group, 64, &block);
    CHECK(status == TDM_ERR_PEER_LOST, "%s: %s", tdm_status_name(status), tdm_error_text());
    CHECK(strstr(tdm_error_text(), "rank 1 of group") != NULL, "the text does not name rank 1: %s", tdm_error_text());
    CHECK(tdmi_now_ns() - start_ns < 2 * TDMI_NS_PER_S, "it took %lld ns", (long long)(tdmi_now_ns() - start_ns));
    return NULL;
}

static void a_rank_that_died_is_not_waited_for(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 3, .transport = "shm", .mode = RANKS_PROCESSES, .timeout_s = 30, .dies = 1u << 1}, one_dies_first, NULL);
}

int main(void)
{
    setenv("UCX_TLS", "tcp", 0); /* opening all of them takes its time */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned_and_zero_also_when_used_before),
        cmocka_unit_test(equal_blocks_of_different_ranks_do_not_agree_modulo_4096),
        cmocka_unit_test(large_blocks_lie_in_huge_pages_for_both_ranks),
        cmocka_unit_test(a_machine_without_room_is_an_error_and_not_a_crash),
        cmocka_unit_test(a_node_block_is_one_copy_until_the_last_rank_frees_it),
        cmocka_unit_test(node_blocks_of_different_sizes_are_an_error_on_all_ranks),
        cmocka_unit_test(collectives_work_in_node_memory),
        cmocka_unit_test(registered_memory_is_reduced_in_place),
        cmocka_unit_test(pages_are_used_in_place_once_they_are_present),
        cmocka_unit_test(the_way_depends_on_the_memory_of_all_ranks),
        cmocka_unit_test(nonsense_is_not_registered),
        cmocka_unit_test(a_rank_that_died_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
