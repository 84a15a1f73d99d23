/* test_registry.c - finding models and presets by name. */
#include "models/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void models_are_found_by_name_and_an_unknown_one_lists_them(void **state)
{
    (void)state;
    assert_string_equal(tdmi_model_find("gpt2")->name, "gpt2");
    assert_string_equal(tdmi_model_find("mlp")->name, "mlp");
    assert_null(tdmi_model_find("resnet50"));
    assert_non_null(strstr(tdm_error_text(), "there is no model \"resnet50\"; there are: gpt2, mlp"));
}

static void models_are_found_by_their_config(void **state)
{
    (void)state;
    assert_string_equal(tdmi_model_of_config("{\"model_type\": \"mlp\"}")->name, "mlp");
    assert_null(tdmi_model_of_config("{\"model_type\": \"bert\"}"));
    assert_non_null(strstr(tdm_error_text(), "model_type \"bert\"; known are: gpt2, mlp"));
    assert_null(tdmi_model_of_config("{\"model_type\": 7}"));
    assert_null(tdmi_model_of_config("no json"));
}

static void every_preset_builds_and_defaults_are_sound(void **state)
{
    (void)state;
    const char *const names[] = {"gpt2", "mlp"};
    for (size_t i = 0; i < 2; i++) {
        const tdmi_model *model = tdmi_model_find(names[i]);
        for (int p = 0; p < model->preset_count; p++) {
            tdmi_graph *g = model->build(&model->presets[p].config, model->defaults.batch, TDMI_BUILD_LOSS, true);
            assert_int_equal(tdmi_graph_status(g), TDM_OK);
            assert_int_equal(tdmi_graph_verify(g), TDM_OK);
            tdmi_graph_destroy(g);
        }
        assert_true(model->defaults.lr > 0 && model->defaults.beta1 < 1 && model->defaults.beta2 < 1 && model->defaults.eps > 0);
    }
}

static void the_first_preset_is_the_default_and_an_unknown_one_lists_them(void **state)
{
    (void)state;
    tdmi_model_config c;
    assert_int_equal(tdmi_model_preset_find(tdmi_model_find("gpt2"), NULL, &c), TDM_OK);
    assert_int_equal(c.width, 768);
    assert_int_equal(tdmi_model_preset_find(tdmi_model_find("gpt2"), "bytes", &c), TDM_OK);
    assert_int_equal(c.width, 256);
    assert_int_equal(tdmi_model_preset_find(tdmi_model_find("gpt2"), "huge", &c), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "gpt2 has no preset \"huge\"; there are: gpt2, gpt2-medium, gpt2-large, gpt2-xl, bytes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_are_found_by_name_and_an_unknown_one_lists_them),
        cmocka_unit_test(models_are_found_by_their_config),
        cmocka_unit_test(every_preset_builds_and_defaults_are_sound),
        cmocka_unit_test(the_first_preset_is_the_default_and_an_unknown_one_lists_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
