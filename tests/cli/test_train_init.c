/* test_train_init.c - `tandem train --init`: first weights out of files with Hugging Face's names; what evaluation says of them. */
#include "training.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- a safetensors file as header and bytes ---- */

typedef struct tensors {
    json_t *header;
    char *data;
    size_t nbytes;
} tensors;

static tensors open_tensors(const char *path)
{
    tensors t;
    size_t nbytes;
    uint64_t header_nbytes;
    char *bytes = read_file(path, &nbytes);
    memcpy(&header_nbytes, bytes, 8);
    t.header = json_loadb(bytes + 8, (size_t)header_nbytes, 0, NULL);
    assert_non_null(t.header);
    t.nbytes = nbytes - 8 - (size_t)header_nbytes;
    t.data = malloc(t.nbytes);
    memcpy(t.data, bytes + 8 + header_nbytes, t.nbytes);
    free(bytes);
    return t;
}

static void put_tensor(tensors *t, const char *name, const char *dtype, const int *shape, int ndim, const void *data, size_t nbytes)
{
    json_t *entry = json_object(), *dims = json_array();
    for (int i = 0; i < ndim; i++)
        json_array_append_new(dims, json_integer(shape[i]));
    json_object_set_new(entry, "dtype", json_string(dtype));
    json_object_set_new(entry, "shape", dims);
    json_object_set_new(entry, "data_offsets", json_pack("[I,I]", (json_int_t)t->nbytes, (json_int_t)(t->nbytes + nbytes)));
    json_object_set_new(t->header, name, entry);
    t->data = realloc(t->data, t->nbytes + nbytes);
    memcpy(t->data + t->nbytes, data, nbytes);
    t->nbytes += nbytes;
}

/* Takes a tensor out: its bytes (new memory) and their number. */
static char *take_tensor(tensors *t, const char *name, size_t *nbytes)
{
    json_t *entry = json_object_get(t->header, name), *offsets = json_object_get(entry, "data_offsets");
    size_t begin = (size_t)json_integer_value(json_array_get(offsets, 0)), end = (size_t)json_integer_value(json_array_get(offsets, 1));
    char *bytes = malloc(end - begin);
    memcpy(bytes, t->data + begin, end - begin);
    *nbytes = end - begin;
    memmove(t->data + begin, t->data + end, t->nbytes - end);
    t->nbytes -= end - begin;
    json_object_del(t->header, name);
    const char *key;
    json_t *other;
    json_object_foreach(t->header, key, other) {
        json_t *at = json_object_get(other, "data_offsets");
        json_int_t first = json_integer_value(json_array_get(at, 0)), last = json_integer_value(json_array_get(at, 1));
        if (at != NULL && first >= (json_int_t)end) {
            json_array_set_new(at, 0, json_integer(first - (json_int_t)(end - begin)));
            json_array_set_new(at, 1, json_integer(last - (json_int_t)(end - begin)));
        }
    }
    return bytes;
}

static void close_tensors(tensors *t, const char *path, const char *prefix)
{
    json_t *named = json_object();
    const char *key;
    json_t *entry;
    json_object_foreach(t->header, key, entry) {
        char name[200];
        snprintf(name, sizeof name, "%s%s", strcmp(key, "__metadata__") == 0 ? "" : prefix, key);
        json_object_set(named, name, entry);
    }
    char *header = json_dumps(named, JSON_COMPACT);
    uint64_t header_nbytes = strlen(header);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(&header_nbytes, 8, 1, file), 1);
    assert_int_equal(fwrite(header, strlen(header), 1, file), 1);
    assert_int_equal(fwrite(t->data, t->nbytes, 1, file), 1);
    fclose(file);
    free(header);
    json_decref(named);
    json_decref(t->header);
    free(t->data);
}

/* ---- what a file is worth ---- */

/* The loss on held-out text of a file's weights, on `ranks` ranks: one step that changes nothing. */
static double worth(const char *file, const char *ranks)
{
    static int count;
    const char *run = in_folder("worth-%d", count++);
    TRAIN_WELL("gpt2", "-n", ranks, "--steps", "1", "--lr", "0", "--run", run, "--init", file);
    run_lines lines = read_metrics(run);
    assert_int_equal(lines.count, 1);
    double loss = lines.line[0].val_loss;
    free(lines.line);
    return loss;
}

static double trained_loss; /* of DIR/base/step-30, as the run itself has evaluated it */
static char trained[300];

static void a_checkpoints_own_file_is_worth_what_the_run_said(void **state)
{
    (void)state;
    TRAIN_WELL("gpt2", "-n", "2", "--steps", "30", "--lr", "3e-3", "--run", in_folder("base"));
    run_lines lines = read_metrics(in_folder("base"));
    assert_steps(&lines, 30);
    trained_loss = lines.line[29].val_loss;
    assert_true(trained_loss < 5.4); /* of log 256 = 5.55: it has learnt something */
    free(lines.line);
    snprintf(trained, sizeof trained, "%s", in_folder("base/step-30/model.safetensors"));
    static const char *const ranks[] = {"1", "2", "3"}; /* 36 windows held out: each of them once, the same bits */
    for (int i = 0; i < 3; i++)
        assert_true(worth(trained, ranks[i]) == trained_loss);
}

static void hugging_faces_prefix_and_extra_tensors_are_understood(void **state)
{
    (void)state;
    float mask[16] = {0}, head[256 * 32] = {0};
    tensors t = open_tensors(trained);
    put_tensor(&t, "h.0.attn.bias", "F32", (const int[]){1, 1, 4, 4}, 4, mask, sizeof mask);
    put_tensor(&t, "h.0.attn.masked_bias", "F32", NULL, 0, mask, sizeof *mask);
    close_tensors(&t, in_folder("prefix.safetensors"), "transformer.");
    t = open_tensors(in_folder("prefix.safetensors"));
    put_tensor(&t, "lm_head.weight", "F32", (const int[]){256, 32}, 2, head, sizeof head); /* a copy of wte: not read */
    close_tensors(&t, in_folder("extra.safetensors"), "");
    assert_true(worth(in_folder("extra.safetensors"), "2") == trained_loss);
}

/* The checkpoint with `rows` rows of positions. */
static const char *with_positions(int rows)
{
    size_t nbytes;
    const char *path = in_folder("positions-%d.safetensors", rows);
    tensors t = open_tensors(trained);
    char *wpe = take_tensor(&t, "wpe.weight", &nbytes), *more = calloc((size_t)rows, 32 * sizeof(float));
    assert_int_equal(nbytes, 1024 * 32 * sizeof(float));
    memcpy(more, wpe, (size_t)(rows < 1024 ? rows : 1024) * 32 * sizeof(float));
    put_tensor(&t, "wpe.weight", "F32", (const int[]){rows, 32}, 2, more, (size_t)rows * 32 * sizeof(float));
    close_tensors(&t, path, "");
    free(wpe);
    free(more);
    return path;
}

static void any_number_of_positions_from_seq_up_will_do(void **state)
{
    (void)state;
    assert_true(worth(with_positions(16), "2") == trained_loss);
    assert_true(worth(with_positions(2000), "2") == trained_loss);
    const char *run = in_folder("positions");
    TRAIN_WELL("gpt2", "-n", "2", "--steps", "3", "--run", run, "--init", with_positions(16));
    TRAIN_WELL("gpt2", "-n", "2", "--steps", "5", "--run", run, "--resume", "--init", with_positions(16));
}

static void assert_init_refused(const char *file, const char *expected)
{
    program p;
    TRAIN(&p, "gpt2", "-n", "2", "--steps", "1", "--run", in_folder("refused"), "--init", file);
    assert_int_equal(count_of(p.err, "\n"), 1);
    assert_ended(&p, 3, expected);
    assert_false(exists(in_folder("refused")));
}

static void a_file_that_does_not_fit_is_named_with_both_shapes(void **state)
{
    (void)state;
    char expected[400];
    size_t nbytes;
    assert_init_refused(with_positions(15), "wpe.weight has 15 positions, --seq 16 needs as many");
    tensors t = open_tensors(trained);
    char *weight = take_tensor(&t, "h.0.mlp.c_fc.weight", &nbytes);
    put_tensor(&t, "h.0.mlp.c_fc.weight", "F32", (const int[]){128, 32}, 2, weight, nbytes); /* nn.Linear's [out, in] */
    free(weight);
    close_tensors(&t, in_folder("turned.safetensors"), "");
    snprintf(expected, sizeof expected, "%s: tensor h.0.mlp.c_fc.weight is [128, 32], the model needs [32, 128]",
             in_folder("turned.safetensors"));
    assert_init_refused(in_folder("turned.safetensors"), expected);
    t = open_tensors(trained);
    free(take_tensor(&t, "ln_f.bias", &nbytes));
    close_tensors(&t, in_folder("lacks.safetensors"), "");
    snprintf(expected, sizeof expected, "%s: there is no tensor ln_f.bias; it holds another model", in_folder("lacks.safetensors"));
    assert_init_refused(in_folder("lacks.safetensors"), expected);
    t = open_tensors(trained);
    char *bias = take_tensor(&t, "ln_f.bias", &nbytes);
    put_tensor(&t, "ln_f.bias", "I64", (const int[]){16}, 1, bias, nbytes);
    free(bias);
    close_tensors(&t, in_folder("integers.safetensors"), "");
    assert_init_refused(in_folder("integers.safetensors"), "ln_f.bias");
    snprintf(expected, sizeof expected, "%s", in_folder("text.txt"));
    assert_init_refused(in_folder("text.txt"), expected);
    assert_init_refused(in_folder("nothing"), "No such file or directory");
}

static void half_precision_files_are_read(void **state)
{
    (void)state;
    size_t nbytes;
    tensors t = open_tensors(trained);
    char *wte = take_tensor(&t, "wte.weight", &nbytes);
    uint16_t *half = malloc(nbytes / 2);
    for (size_t i = 0; i < nbytes / 4; i++) /* bf16: the upper half of a float */
        memcpy(&half[i], wte + 4 * i + 2, 2);
    put_tensor(&t, "wte.weight", "BF16", (const int[]){256, 32}, 2, half, nbytes / 2);
    free(wte);
    free(half);
    close_tensors(&t, in_folder("bf16.safetensors"), "");
    assert_true(fabs(worth(in_folder("bf16.safetensors"), "2") - trained_loss) < 0.01 * trained_loss);
}

static void without_held_out_text_nothing_is_evaluated(void **state)
{
    (void)state;
    const char *run = in_folder("no-val");
    TRAIN_WELL("gpt2", "-n", "2", "--steps", "4", "--val-fraction", "0", "--run", run);
    run_lines lines = read_metrics(run);
    assert_steps(&lines, 4);
    for (int i = 0; i < 4; i++)
        assert_true(isnan(lines.line[i].val_loss));
    free(lines.line);
    char *summary = read_file(in_folder("no-val/summary.json"), NULL);
    assert_non_null(strstr(summary, "\"val_loss\":null"));
    free(summary);
}

int main(int argc, char **argv)
{
    program_paths(argc, argv);
    setenv("OMP_NUM_THREADS", "1", 1); /* small runs: threads would only wait for each other */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_checkpoints_own_file_is_worth_what_the_run_said),
        cmocka_unit_test(hugging_faces_prefix_and_extra_tensors_are_understood),
        cmocka_unit_test(any_number_of_positions_from_seq_up_will_do),
        cmocka_unit_test(a_file_that_does_not_fit_is_named_with_both_shapes),
        cmocka_unit_test(half_precision_files_are_read),
        cmocka_unit_test(without_held_out_text_nothing_is_evaluated),
    };
    return cmocka_run_group_tests(tests, training_begin, training_end) != 0;
}
