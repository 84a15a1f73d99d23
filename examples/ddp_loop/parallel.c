/* parallel.c - the program of single.c on several ranks, each with its share of every batch:
 *     tandem run -n 4 ./parallel */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <tandem/tandem.h>

enum { IN = 2, HIDDEN = 64, OUT = 3, SAMPLES = 1536, BATCH = 96, STEPS = 400 };
enum { W1, B1, W2, B2, PARAMETERS };
static const size_t count[PARAMETERS] = {HIDDEN * IN, HIDDEN, OUT * HIDDEN, OUT};
static float *weight[PARAMETERS], *gradient[PARAMETERS];
static const char *const name[PARAMETERS] = {"w1", "b1", "w2", "b2"};
static tdm_group *group;
static tdm_reducer *reducer;
static int id[PARAMETERS];

static float point[SAMPLES][IN]; /* the data, in random order */
static int label[SAMPLES];
static float hidden[BATCH][HIDDEN], output[BATCH][OUT]; /* of the batch under way; output: probabilities, then their error */

static void check(tdm_status status)
{
    if (status == TDM_OK)
        return;
    fprintf(stderr, "%s\n", tdm_error_text());
    exit(1);
}

static float uniform(void)
{
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / (float)(1 << 24);
}

static void make_data(void)
{
    for (int i = 0; i < SAMPLES; i++) {
        float radius = uniform();
        label[i] = (int)(uniform() * OUT);
        float angle = 4 * radius + 2.0944f * (float)label[i] + 0.3f * (uniform() - 0.5f);
        point[i][0] = radius * cosf(angle);
        point[i][1] = radius * sinf(angle);
    }
}

static void make_weights(void)
{
    for (int p = 0; p < PARAMETERS; p++) {
        weight[p] = calloc(count[p], sizeof(float));
        gradient[p] = tdm_reducer_gradient(reducer, id[p]);
        float bound = p == W1 ? 2.0f : 0.2f;
        for (size_t k = 0; k < count[p]; k++)
            weight[p][k] = (2 * uniform() - 1) * bound;
    }
}

/* The mean loss over samples [first, first + n). */
static float forward(int first, int n)
{
    float loss = 0;
    for (int i = 0; i < n; i++) {
        const float *x = point[first + i];
        for (int h = 0; h < HIDDEN; h++)
            hidden[i][h] = tanhf(weight[B1][h] + weight[W1][h * IN] * x[0] + weight[W1][h * IN + 1] * x[1]);
        float sum = 0;
        for (int o = 0; o < OUT; o++) {
            float z = weight[B2][o];
            for (int h = 0; h < HIDDEN; h++)
                z += weight[W2][o * HIDDEN + h] * hidden[i][h];
            output[i][o] = expf(z);
            sum += output[i][o];
        }
        for (int o = 0; o < OUT; o++)
            output[i][o] /= sum;
        loss -= logf(output[i][label[first + i]]) / (float)n;
    }
    return loss;
}

/* The gradient of that mean, last layer first. */
static void backward(int first, int n)
{
    for (int p = 0; p < PARAMETERS; p++)
        for (size_t k = 0; k < count[p]; k++)
            gradient[p][k] = 0;
    for (int i = 0; i < n; i++)
        for (int o = 0; o < OUT; o++) {
            output[i][o] = (output[i][o] - (o == label[first + i] ? 1.0f : 0.0f)) / (float)n;
            gradient[B2][o] += output[i][o];
            for (int h = 0; h < HIDDEN; h++)
                gradient[W2][o * HIDDEN + h] += output[i][o] * hidden[i][h];
        }
    check(tdm_reducer_ready(reducer, id[B2])); /* from here on the ranks may add up the last layer */
    check(tdm_reducer_ready(reducer, id[W2]));
    for (int i = 0; i < n; i++)
        for (int h = 0; h < HIDDEN; h++) {
            float d = 0;
            for (int o = 0; o < OUT; o++)
                d += weight[W2][o * HIDDEN + h] * output[i][o];
            d *= 1 - hidden[i][h] * hidden[i][h];
            gradient[B1][h] += d;
            for (int k = 0; k < IN; k++)
                gradient[W1][h * IN + k] += d * point[first + i][k];
        }
    check(tdm_reducer_ready(reducer, id[B1]));
    check(tdm_reducer_ready(reducer, id[W1]));
    check(tdm_reducer_wait(reducer)); /* gradients are now the mean over all ranks */
}

static void update(float rate)
{
    for (int p = 0; p < PARAMETERS; p++)
        for (size_t k = 0; k < count[p]; k++)
            weight[p][k] -= rate * gradient[p][k];
}

int main(void)
{
    check(tdm_group_create(NULL, &group));
    check(tdm_reducer_create(group, NULL, &reducer));
    for (int p = 0; p < PARAMETERS; p++)
        check(tdm_reducer_add(reducer, name[p], count[p], &id[p]));
    check(tdm_reducer_commit(reducer));
    int rank = tdm_group_rank(group), share = BATCH / tdm_group_size(group);
    make_data();
    make_weights();
    for (int step = 0; step < STEPS; step++) {
        int first = step * BATCH % SAMPLES + rank * share;
        float loss = forward(first, share);
        backward(first, share);
        update(0.5f);
        check(tdm_allreduce(group, &loss, &loss, 1, TDM_F32, TDM_AVG, NULL));
        if ((step + 1) % 20 == 0 && rank == 0)
            printf("step %d loss %.6f\n", step + 1, (double)loss);
    }
    tdm_reducer_destroy(reducer);
    tdm_group_destroy(group);
    return 0;
}
