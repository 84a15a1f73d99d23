/* test_metrics.c - lines and summary: exact where it matters, valid JSON whatever the numbers, no step twice. */
#include "train/metrics.h"

#include "files.h"

#include <jansson.h>
#include <malloc.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>

#include <cmocka.h>

static tdmi_step_metrics sample(int64_t step)
{
    return (tdmi_step_metrics){.step = step, .loss = 1.0 / 3, .lr = 0.1, .grad_norm = 2.5, .samples = 4 * step, .tokens = 64 * step,
                               .step_ms = 1.23456, .data_ms = 0.0004, .tokens_per_s = 51234.5678, .val_loss = NAN};
}

static char *text_of(const char *path)
{
    static char text[1 << 16];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static const char *fresh(const char *name)
{
    const char *dir = files_path(name);
    assert_int_equal(mkdir(dir, 0777), 0);
    return dir;
}

static void losses_keep_every_bit_and_times_three_decimals(void **state)
{
    (void)state;
    tdmi_metrics *m;
    const char *dir = fresh("exact");
    assert_int_equal(tdmi_metrics_open(dir, false, 0, 10, NULL, &m), TDM_OK);
    tdmi_step_metrics s = sample(1);
    s.val_loss = (double)0.1f;
    assert_int_equal(tdmi_metrics_add(m, &s), TDM_OK);
    tdmi_metrics_close(m);
    assert_string_equal(text_of(files_path("exact/metrics.jsonl")),
                        "{\"step\":1,\"loss\":0.3333333333333333,\"lr\":0.1,\"grad_norm\":2.5,\"samples\":4,\"tokens\":64,\"step_ms\":1.235,"
                        "\"data_ms\":0.000,\"forward_ms\":0.000,\"backward_ms\":0.000,\"comm_ms\":0.000,\"comm_exposed_ms\":0.000,"
                        "\"optimizer_ms\":0.000,\"tokens_per_s\":51234.568,\"sent_mb\":0.000,\"images_per_s\":null,\"scale\":null,\"skipped\":null,"
                        "\"val_loss\":0.10000000149011612}\n");
}

static void whatever_the_numbers_the_line_is_json(void **state)
{
    (void)state;
    tdmi_metrics *m;
    const char *dir = fresh("odd");
    static const double odd[] = {NAN, INFINITY, -INFINITY, 1.7976931348623157e308, -1.7976931348623157e308, 5e-324, -0.0};
    assert_int_equal(tdmi_metrics_open(dir, false, 0, 10, NULL, &m), TDM_OK);
    for (int i = 0; i < 7; i++) {
        tdmi_step_metrics s = {.step = INT64_MAX, .loss = odd[i], .lr = odd[i], .grad_norm = odd[i], .samples = INT64_MIN, .tokens = -1,
                               .step_ms = odd[i], .data_ms = odd[i], .forward_ms = odd[i], .backward_ms = odd[i], .comm_ms = odd[i],
                               .comm_exposed_ms = odd[i], .optimizer_ms = odd[i], .tokens_per_s = odd[i], .val_loss = odd[i]};
        assert_int_equal(tdmi_metrics_add(m, &s), TDM_OK);
    }
    tdmi_metrics_close(m);
    char *text = text_of(files_path("odd/metrics.jsonl")), *save;
    int lines = 0;
    for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save), lines++) {
        json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(object);
        json_t *loss = json_object_get(object, "loss");
        assert_true(isfinite(odd[lines]) ? json_number_value(loss) == odd[lines] : json_is_null(loss));
        json_decref(object);
    }
    assert_int_equal(lines, 7);
}

static void a_resumed_run_has_each_step_once(void **state)
{
    (void)state;
    static const char *const tails[] = {"", "{\"step\":4}\n{\"step\":5}\n", "{\"step\":4,\"lo", "nonsense\n{\"step\":3}\n", "{\"step\":\"3\"}\n",
                                        "[3]\n", "\n"};
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        char name[32], before[256];
        tdmi_metrics *m;
        snprintf(name, sizeof name, "again-%zu", i);
        const char *dir = fresh(name);
        snprintf(name, sizeof name, "again-%zu/metrics.jsonl", i);
        snprintf(before, sizeof before, "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n%s", tails[i]);
        files_write(name, before, strlen(before));
        assert_int_equal(tdmi_metrics_open(dir, true, 3, 10, NULL, &m), TDM_OK);
        tdmi_step_metrics s = sample(4);
        assert_int_equal(tdmi_metrics_add(m, &s), TDM_OK);
        tdmi_metrics_close(m);
        assert_int_equal(strncmp(text_of(files_path(name)), "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n{\"step\":4,\"loss\":", 50), 0);
    }
    tdmi_metrics *m; /* the file may be gone */
    assert_int_equal(tdmi_metrics_open(fresh("gone"), true, 3, 10, NULL, &m), TDM_OK);
    tdmi_metrics_close(m);
}

static void a_new_run_begins_an_empty_file(void **state)
{
    (void)state;
    tdmi_metrics *m;
    const char *dir = fresh("new");
    files_write("new/metrics.jsonl", "{\"step\":1}\n", 11);
    assert_int_equal(tdmi_metrics_open(dir, false, 0, 10, NULL, &m), TDM_OK);
    tdmi_metrics_close(m);
    assert_string_equal(text_of(files_path("new/metrics.jsonl")), "");
}

static void the_summary_has_medians_and_shares(void **state)
{
    (void)state;
    tdmi_metrics *m;
    const char *dir = fresh("summary");
    static const double ms[] = {100, 2, 3, 1, 4}; /* the first step is slow: a median does not care */
    char *also = NULL;
    size_t also_nbytes;
    FILE *stream = open_memstream(&also, &also_nbytes);
    assert_int_equal(tdmi_metrics_open(dir, false, 0, 5, stream, &m), TDM_OK);
    for (int i = 0; i < 5; i++) {
        tdmi_step_metrics s = sample(i + 1);
        s.step_ms = ms[i];
        s.comm_ms = ms[i] / 2;
        s.comm_exposed_ms = ms[i] / 4;
        s.tokens_per_s = 64 / ms[i] * 1e3;
        assert_int_equal(tdmi_metrics_add(m, &s), TDM_OK);
    }
    tdmi_summary s = {.model = "gpt2", .parameters = 1234, .ranks = 2, .steps = 5, .peak_rss_mb = 12.5, .train_loss = 1.0 / 3, .val_loss = NAN, .seconds = 7};
    assert_int_equal(tdmi_metrics_summarise(m, &s), TDM_OK);
    tdmi_metrics_close(m);
    fclose(stream);
    const char *text = text_of(files_path("summary/summary.json"));
    assert_string_equal(text, "{\"model\":\"gpt2\",\"parameters\":1234,\"ranks\":2,\"steps\":5,\"median_step_ms\":3.000,\"tokens_per_s\":21333.333,"
                              "\"images_per_s\":null,\"comm_share\":0.500,\"exposed_comm_share\":0.250,\"peak_rss_mb\":12.500,\"sent_mb\":0.000,\"plain_mb\":0.000,"
                              "\"train_loss\":0.3333333333333333,\"val_loss\":null,\"seconds\":7.000}\n");
    assert_string_equal(strstr(also, "{\"model\""), text); /* the second stream has it too, behind the steps */
    free(also);
    assert_int_equal(access(files_path("summary/.summary.json.tmp"), F_OK), -1);
}

static void a_long_run_keeps_the_median_of_its_last_steps(void **state)
{
    (void)state;
    tdmi_metrics *m;
    assert_int_equal(tdmi_metrics_open(fresh("long"), false, 0, 3, NULL, &m), TDM_OK);
    for (int i = 0; i < 10; i++) { /* more than it has room for */
        tdmi_step_metrics s = sample(i + 1);
        s.step_ms = i;
        assert_int_equal(tdmi_metrics_add(m, &s), TDM_OK);
    }
    tdmi_summary s = {.model = "mlp"};
    assert_int_equal(tdmi_metrics_summarise(m, &s), TDM_OK);
    assert_true(s.median_step_ms == 8);
    tdmi_metrics_close(m);
    assert_int_equal(tdmi_metrics_open(fresh("endless"), false, 0, 1000000000, NULL, &m), TDM_OK); /* no room for so many is asked for */
    tdmi_metrics_close(m);
}

static void a_line_takes_no_memory(void **state)
{
    (void)state;
    tdmi_metrics *m;
    tdmi_step_metrics s = sample(1);
    assert_int_equal(tdmi_metrics_open(fresh("flat"), false, 0, 100, NULL, &m), TDM_OK);
    assert_int_equal(tdmi_metrics_add(m, &s), TDM_OK); /* the stream takes its buffer */
    size_t held = mallinfo2().uordblks;
    for (int i = 0; i < 50; i++)
        assert_int_equal(tdmi_metrics_add(m, &s), TDM_OK);
    assert_int_equal(mallinfo2().uordblks, held);
    tdmi_metrics_close(m);
}

static void a_folder_that_cannot_be_written_is_named(void **state)
{
    (void)state;
    tdmi_metrics *m;
    assert_int_equal(tdmi_metrics_open("/proc/nowhere", false, 0, 1, NULL, &m), TDM_ERR_SYSTEM);
    assert_non_null(strstr(tdm_error_text(), "/proc/nowhere/metrics.jsonl"));
    FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    assert_int_equal(tdmi_metrics_open(fresh("full"), false, 0, 1, full, &m), TDM_OK);
    tdmi_step_metrics s = sample(1);
    assert_int_equal(tdmi_metrics_add(m, &s), TDM_ERR_NO_SPACE);
    tdmi_metrics_close(m);
    fclose(full);
}

static void pss_is_something(void **state)
{
    (void)state;
    assert_in_range(tdmi_own_pss(), 100 << 10, (size_t)4 << 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_keep_every_bit_and_times_three_decimals),
        cmocka_unit_test(whatever_the_numbers_the_line_is_json),
        cmocka_unit_test(a_resumed_run_has_each_step_once),
        cmocka_unit_test(a_new_run_begins_an_empty_file),
        cmocka_unit_test(the_summary_has_medians_and_shares),
        cmocka_unit_test(a_long_run_keeps_the_median_of_its_last_steps),
        cmocka_unit_test(a_line_takes_no_memory),
        cmocka_unit_test(a_folder_that_cannot_be_written_is_named),
        cmocka_unit_test(pss_is_something),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end) != 0;
}
