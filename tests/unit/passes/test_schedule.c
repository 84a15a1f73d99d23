/* test_schedule.c - parameters come in the order in which the next forward needs them, at the end of a step or inside the next. */
#include "models/model.h"
#include "passes/passes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static tdmi_graph *made(bool late, bool clip, tdm_dtype precision)
{
    const tdmi_model *model = tdmi_model_find("gpt2");
    tdmi_model_config c;
    assert_int_equal(tdmi_model_preset_find(model, "bytes", &c), TDM_OK);
    tdmi_graph *g = model->build(&c, 1, TDMI_BUILD_LOSS, true);
    const tdmi_pipeline_options options = {.train = true, .precision = precision, .world_size = 2, .bucket_cap_mb = 0.5, .first_bucket_mb = 0.5,
                                           .clip = clip, .shard = 1, .ready_late = late};
    assert_int_equal(tdmi_pipeline_run(g, &options), TDM_OK);
    assert_true(g->bucket_count > 10);
    return g;
}

/* The first forward node that reads a parameter of the bucket. */
static int first_reader(const tdmi_graph *g, int bucket)
{
    for (int i = 0; i < g->node_count; i++)
        for (int k = 0; k < g->node[i].in_count; k++) {
            const tdmi_id t = g->node[i].in[k];
            if (t >= 0 && (g->tensor[t].role == TDMI_ROLE_PARAMETER || g->tensor[t].role == TDMI_ROLE_COPY) && g->tensor[t].bucket <= bucket &&
                bucket <= tdmi_graph_last_bucket(g, t))
                return i;
        }
    fail_msg("nobody reads bucket %d", bucket);
    return -1;
}

static void updates_and_parameters_come_as_the_next_step_needs_them(void **state)
{
    (void)state;
    static const tdmi_op ops[] = {TDMI_OP_UPDATE, TDMI_OP_PARAMETERS_READY};
    for (int late = 0; late < 2; late++) {
        tdmi_graph *g = made(late, true, late ? TDM_BF16 : TDM_F32);
        for (int o = 0; o < 2; o++) {
            int before = -1, count = 0;
            for (int i = 0; i < g->node_count; i++) {
                if (g->node[i].op != ops[o])
                    continue;
                const int reader = first_reader(g, g->node[i].attr.bucket);
                assert_true(reader >= before);
                before = reader;
                count++;
            }
            assert_int_equal(count, g->bucket_count);
        }
        tdmi_graph_destroy(g);
    }
}

static void late_parameters_are_ready_right_before_their_first_reader(void **state)
{
    (void)state;
    for (int clip = 0; clip < 2; clip++) {
        tdmi_graph *g = made(true, clip, TDM_F32);
        int beside = 0;
        for (int i = 0; i < g->node_count; i++) {
            if (g->node[i].op != TDMI_OP_PARAMETERS_READY)
                continue;
            int next = i;
            while (g->node[next].op == TDMI_OP_PARAMETERS_READY)
                next++;
            assert_int_equal(first_reader(g, g->node[i].attr.bucket), next);
            beside += i > 0 && g->node[i - 1].phase == TDMI_PHASE_FORWARD;
        }
        assert_true(beside > 8); /* computation stands between most of them */
        tdmi_graph_destroy(g);
    }
}

static void a_reader_before_its_parameters_is_seen(void **state)
{
    (void)state;
    tdmi_graph *g = made(true, true, TDM_F32);
    int at = g->node_count - 1;
    while (g->node[at].op != TDMI_OP_PARAMETERS_READY)
        at--;
    const tdmi_node ready = g->node[at]; /* changes places with its reader */
    g->node[at] = g->node[at + 1];
    g->node[at + 1] = ready;
    for (int k = 0; k < g->node[at].out_count; k++)
        if (g->node[at].out[k] >= 0)
            g->tensor[g->node[at].out[k]].producer = at;
    assert_int_equal(tdmi_graph_verify(g), TDM_ERR_INTERNAL);
    assert_non_null(strstr(tdm_error_text(), " reads a parameter of it before"));
    tdmi_graph_destroy(g);
    tdmi_graph *none = tdmi_graph_create("none");
    assert_int_equal(tdmi_pass_schedule(none, &(tdmi_pipeline_options){0}), TDM_ERR_INVALID);
    tdmi_graph_destroy(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_and_parameters_come_as_the_next_step_needs_them),
        cmocka_unit_test(late_parameters_are_ready_right_before_their_first_reader),
        cmocka_unit_test(a_reader_before_its_parameters_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
