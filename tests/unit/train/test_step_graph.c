/* test_step_graph.c - a limit of memory holds for the whole forecast that --explain prints. */
#include "train/step_graph.h"

#include "exec/forecast.h"
#include "on_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* The settings of two ranks of one node; long enough windows for kernels that want room. */
static tdmi_settings with(const char *compress, size_t memory)
{
    tdm_train_options o;
    tdmi_settings s;
    tdm_train_options_init(&o);
    o.model = "gpt2";
    o.layers = 4;
    o.width = 64;
    o.heads = 2;
    o.seq = 256;
    o.vocab = 256;
    o.batch = 2;
    o.accum = 2;
    o.shard = 1;
    o.clip = 1;
    o.compress = compress;
    o.memory = memory;
    assert_int_equal(tdmi_settings_resolve(&o, &s), TDM_OK);
    tdmi_step_place(&s, 2, 2, 1);
    return s;
}

static tdmi_memory_forecast forecast_of(const char *compress, size_t memory)
{
    const tdmi_settings s = with(compress, memory);
    const tdmi_exec_options executor = tdmi_step_executor(&s, NULL, NULL, NULL);
    tdmi_graph *g;
    tdmi_memory_forecast f;
    assert_int_equal(tdmi_step_graph(&s, &g), TDM_OK);
    assert_int_equal(tdmi_exec_forecast(g, &executor, 2, 2, &f), TDM_OK);
    tdmi_graph_destroy(g);
    return f;
}

static void a_limit_counts_everything(void **state)
{
    (void)state;
    static const char *const compress[] = {NULL, "powersgd:4", "bf16"};
    for (int i = 0; i < 3; i++) {
        const tdmi_memory_forecast all = forecast_of(compress[i], 0);
        const size_t whole = tdmi_forecast_of_process(&all);
        assert_true(all.workspace > 0 && (all.codecs > 0) == (i > 0) && (all.travelling > 0) == (i > 0));
        /* A limit just below the whole is missed by the workspace alone, or by what travels. */
        const size_t limit = whole - (all.workspace + all.travelling) / 2;
        const tdmi_memory_forecast f = forecast_of(compress[i], limit);
        assert_true(f.activations < all.activations);
        assert_true(tdmi_forecast_of_process(&f) <= limit);
        const tdmi_memory_forecast same = forecast_of(compress[i], whole);
        assert_int_equal(same.activations, all.activations);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_limit_counts_everything)};
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
