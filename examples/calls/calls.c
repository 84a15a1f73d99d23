/* calls.c - what a group of ranks can do, one after the other: a sum, messages, an operation of one's own, a call that is kept and
 * made again, small calls made as one. It needs the headers and libtandem alone.
 *
 *     cc calls.c $(pkg-config --cflags --libs tandem) -o calls
 *     tandem run -n 2 ./calls            (or torchrun --no-python, mpirun, srun; or RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT) */
#include <tandem/tandem.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* A call that fails has written what went wrong, with whom and what to do. */
static void check(tdm_status status, const char *call)
{
    if (status == TDM_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", call, tdm_status_name(status), tdm_error_text());
    exit(1);
}
#define OK(call) check(call, #call)

static void expect(bool right, const char *what)
{
    if (right)
        return;
    fprintf(stderr, "%s is wrong\n", what);
    exit(1);
}

static void sum(tdm_group *group)
{
    const float own = (float)(tdm_group_rank(group) + 1);
    const int n = tdm_group_size(group);
    float all;
    OK(tdm_allreduce(group, &own, &all, 1, TDM_F32, TDM_SUM, NULL)); /* NULL: wait for it */
    expect(all == (float)(n * (n + 1) / 2), "the sum");
}

/* Each rank tells the next one its number. */
static void pass_on(tdm_group *group)
{
    const int32_t rank = tdm_group_rank(group), n = tdm_group_size(group);
    int32_t heard = -1;
    tdm_message message;
    tdm_work *receive;
    OK(tdm_recv(group, &heard, 1, TDM_I32, TDM_ANY_SOURCE, 7, &message, &receive)); /* a handle: it goes on behind the send */
    OK(tdm_send(group, &rank, 1, TDM_I32, (rank + 1) % n, 7, NULL));
    OK(tdm_work_wait(receive));
    expect(message.from == (rank + n - 1) % n && heard == message.from && message.count == 1, "the message");
}

static void take_larger(void *context, const void *a, const void *b, void *out, size_t count, tdm_dtype dtype)
{
    const float *x = a, *y = b;
    float *z = out;
    (void)context, (void)dtype; /* float32: that is what the call says */
    for (size_t i = 0; i < count; i++)
        z[i] = fabsf(x[i]) >= fabsf(y[i]) ? x[i] : y[i];
}

static void reduce_by_own_operation(tdm_group *group)
{
    const int rank = tdm_group_rank(group), last = tdm_group_size(group) - 1;
    float value = (float)(rank % 2 == 0 ? rank : -rank);
    tdm_op largest;
    OK(tdm_op_create(take_larger, NULL, "largest", &largest));
    OK(tdm_allreduce(group, &value, &value, 1, TDM_F32, largest, NULL));
    OK(tdm_op_free(largest));
    expect(value == (float)(last % 2 == 0 ? last : -last), "the largest");
}

/* The same call in every step: planned once. Memory of tdm_alloc is not copied on the way to ranks of the same node. */
static void keep(tdm_group *group)
{
    enum { COUNT = 1000, STEPS = 5 };
    const int rank = tdm_group_rank(group);
    tdm_work *work = NULL;
    void *block;
    OK(tdm_alloc(group, COUNT * sizeof(float), &block));
    float *gradients = block;
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < COUNT; i++)
            gradients[i] = (float)(step + rank);
        if (step == 0) {
            OK(tdm_allreduce(group, gradients, gradients, COUNT, TDM_F32, TDM_AVG, &work));
            OK(tdm_work_keep(work));
        } else {
            OK(tdm_work_start(work));
        }
        OK(tdm_work_wait(work)); /* here the rank could have computed meanwhile */
        expect(gradients[COUNT - 1] == (float)step + (float)(tdm_group_size(group) - 1) / 2, "an average");
    }
    tdm_work_free(work);
    tdm_free(group, block);
}

static void make_as_one(tdm_group *group)
{
    enum { TENSORS = 20, COUNT = 30 };
    static float tensors[TENSORS][COUNT];
    OK(tdm_coalesce_begin(group));
    for (int i = 0; i < TENSORS; i++) {
        tensors[i][0] = (float)i;
        OK(tdm_allreduce(group, tensors[i], tensors[i], COUNT, TDM_F32, TDM_SUM, NULL));
    }
    OK(tdm_coalesce_end(group, NULL));
    expect(tensors[TENSORS - 1][0] == (float)((TENSORS - 1) * tdm_group_size(group)), "a sum of the set");
}

int main(void)
{
    tdm_group *group;
    OK(tdm_group_create(NULL, &group)); /* NULL: rank, size and address from the environment */
    sum(group);
    pass_on(group);
    reduce_by_own_operation(group);
    keep(group);
    make_as_one(group);
    if (tdm_group_rank(group) == 0)
        printf("%d ranks over %s: all right\n", tdm_group_size(group), tdm_group_transport(group));
    tdm_group_destroy(group);
    return 0;
}
