/* test_16_huge.c - elsewhere counts past 2^31 and byte sizes past 4 GiB hang, crash or give garbage. Needs about 9 GB: run only with
 * -Dhuge_tests=true, alone. usage: test_16_huge [shm|tcp] */
#include "reports.h"

static void fill(uint8_t *data, size_t count, int rank)
{
    for (size_t i = 0; i < count; i++)
        data[i] = (uint8_t)((i * 31 + (size_t)rank) % 7);
}

static const char *sums_bytes(tdm_group *group, void *arg)
{
    (void)arg;
    const size_t count = ((size_t)1 << 31) + 17, places[] = {0, ((size_t)1 << 31) - 1, (size_t)1 << 31, count - 1};
    void *block;
    CHECK_OK(tdm_alloc(group, count, &block));
    uint8_t *data = block;
    fill(data, count, tdm_group_rank(group));
    CHECK_OK(tdm_allreduce(group, data, data, count, TDM_U8, TDM_SUM, NULL));
    for (size_t k = 0; k < 4; k++) {
        const size_t i = places[k];
        CHECK(data[i] == i * 31 % 7 + (i * 31 + 1) % 7, "element %zu is %d", i, data[i]);
    }
    tdm_free(group, block);
    return NULL;
}

/* More than 4 GiB on each rank. */
static const char *sums_words(tdm_group *group, void *arg)
{
    (void)arg;
    const size_t count = ((size_t)1 << 30) + 5;
    const uint32_t rank = (uint32_t)tdm_group_rank(group);
    void *block;
    CHECK_OK(tdm_alloc(group, count * sizeof(uint32_t), &block));
    uint32_t *data = block;
    for (size_t i = 0; i < count; i++)
        data[i] = (uint32_t)i * 5 + rank;
    CHECK_OK(tdm_allreduce(group, data, data, count, TDM_U32, TDM_SUM, NULL));
    for (size_t i = 0; i < count; i += i + 4099 < count ? 4099 : 1)
        CHECK(data[i] == (uint32_t)i * 10 + 1, "element %zu is %u", i, data[i]);
    tdm_free(group, block);
    return NULL;
}

/* Parts of more than 2^31 elements, together more than 4 GiB. */
static const char *gathers_bytes(tdm_group *group, void *arg)
{
    (void)arg;
    const size_t count = ((size_t)1 << 31) + 7;
    const int rank = tdm_group_rank(group);
    void *block;
    CHECK_OK(tdm_alloc(group, 2 * count, &block));
    uint8_t *data = block;
    fill(data + (size_t)rank * count, count, rank);
    CHECK_OK(tdm_all_gather(group, data + (size_t)rank * count, data, count, TDM_U8, NULL));
    for (int r = 0; r < 2; r++)
        for (size_t i = 0; i < count; i += i + 4099 < count ? 4099 : 1)
            CHECK(data[(size_t)r * count + i] == (i * 31 + (size_t)r) % 7, "byte %zu of rank %d", i, r);
    tdm_free(group, block);
    return NULL;
}

static const char *sums_halves(tdm_group *group, void *arg)
{
    (void)arg;
    const size_t count = ((size_t)1 << 30) + 3;
    void *block;
    CHECK_OK(tdm_alloc(group, count * 2, &block));
    uint16_t *data = block;
    for (size_t i = 0; i < count; i++)
        data[i] = 0x3f80; /* 1 */
    CHECK_OK(tdm_allreduce(group, data, data, count, TDM_BF16, TDM_SUM, NULL));
    for (size_t i = 0; i < count; i += i + 4099 < count ? 4099 : 1)
        CHECK(data[i] == 0x4000, "element %zu", i);
    tdm_free(group, block);
    return NULL;
}

int main(int argc, char **argv)
{
    const char *transport = argc > 1 ? argv[1] : "shm";
    const ranks_body bodies[] = {sums_bytes, sums_words, gathers_bytes, sums_halves};
    for (int i = 0; i < 4; i++)
        ranks_run(&(ranks_spec){.n = 2, .transport = transport, .timeout_s = 250, .deadline_s = 280}, bodies[i], NULL);
    return 0;
}
