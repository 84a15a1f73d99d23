/* own_model.c - a model of your own on any number of ranks: tandem run -n 2 ./own_model */
#include <stdio.h>
#include <stdlib.h>
#include <tandem/tandem.h>

enum { WINDOW = 4, LETTERS = 16, WIDTH = 64, BATCH = 48, STEPS = 500 };

static void check(tdm_status status)
{
    if (status == TDM_OK)
        return;
    fprintf(stderr, "%s\n", tdm_error_text());
    exit(1);
}

/* The letters of a window, side by side, predict the next one. */
static void build(tdm_model *m, int batch)
{
    const int64_t window[] = {batch, WINDOW}, table[] = {LETTERS, WIDTH}, joined[] = {batch, WINDOW * WIDTH};
    const tdm_tensor letters = tdm_model_input(m, "letters", TDM_I32, 2, window), next = tdm_model_input(m, "next", TDM_I32, 1, window);
    tdm_tensor x = tdm_model_parameter(m, "table", 2, table, &(tdm_parameter){.init = TDM_INIT_NORMAL, .scale = 0.5});
    x = tdm_model_reshape(m, tdm_model_embedding(m, "embedding", letters, x, -1), 2, joined);
    x = tdm_model_gelu(m, "gelu", tdm_model_dense(m, "hidden", x, WIDTH));
    tdm_model_loss(m, tdm_model_cross_entropy(m, "loss", tdm_model_dense(m, "out", x, LETTERS), next), 1);
}

/* The rows from this one on: random letters, then the sum of the first and the last. A row is the same whichever rank it is on. */
static void fill(tdm_training *training, unsigned row, int rows)
{
    int32_t *letters = tdm_training_input(training, "letters"), *next = tdm_training_input(training, "next");
    for (int r = 0; r < rows; r++, row++, letters += WINDOW) {
        unsigned random = row * 2654435761u;
        for (int i = 0; i < WINDOW; i++)
            letters[i] = (int32_t)((random = random * 1664525u + 1013904223u) >> 24) % LETTERS;
        next[r] = (letters[0] + letters[WINDOW - 1]) % LETTERS;
    }
}

int main(void)
{
    tdm_group *group;
    tdm_model *model;
    tdm_training *training;
    check(tdm_group_create(NULL, &group));
    const int rank = tdm_group_rank(group), rows = BATCH / tdm_group_size(group);
    check(tdm_model_create("next letter", &model));
    build(model, rows);
    check(tdm_training_create(model, group, NULL, &training));
    for (int step = 1; step <= STEPS; step++) {
        fill(training, (unsigned)(step * BATCH + rank * rows), rows);
        tdm_training_result result;
        check(tdm_training_step(training, 1, NULL, NULL, &result));
        if (step % (STEPS / 10) == 0 && rank == 0)
            printf("step %d loss %.6f\n", step, result.loss);
    }
    tdm_training_destroy(training);
    tdm_model_destroy(model);
    tdm_group_destroy(group);
    return 0;
}
