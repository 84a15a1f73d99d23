/* test_place.c - no two tensors that live at once share memory, found out here by other means than the pass; how much memory
 * is taken; and operands that keep apart modulo a page. */
#include "../graph/small.h"
#include "core/memory.h"
#include "interpret.h"
#include "models/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static tdmi_graph *built(const char *model, const char *preset, int seq, int batch, double dropout, bool train)
{
    const tdmi_model *m = tdmi_model_find(model);
    tdmi_model_config c;
    assert_int_equal(tdmi_model_preset_find(m, preset, &c), TDM_OK);
    c.seq = seq;
    c.dropout = dropout;
    return m->build(&c, batch, TDMI_BUILD_LOSS, train);
}

static tdmi_graph *placed(tdmi_graph *g, bool train)
{
    const tdmi_pipeline_options options = {.train = train, .world_size = 2, .clip = true, .shard = 1};
    assert_int_equal(tdmi_pipeline_run(g, &options), TDM_OK);
    return g;
}

static bool shares(const tdmi_graph *g, tdmi_id t, tdmi_id root)
{
    return t >= 0 && tdmi_graph_root(g, t) == root;
}

static bool touches(const tdmi_graph *g, const tdmi_node *n, tdmi_id root)
{
    for (int k = 0; k < n->in_count; k++)
        if (shares(g, n->in[k], root))
            return true;
    for (int k = 0; k < n->out_count; k++)
        if (shares(g, n->out[k], root))
            return true;
    return false;
}

static bool is_kept(const tdmi_graph *g, tdmi_id root)
{
    for (int t = 0; t < g->tensor_count; t++)
        if ((g->tensor[t].role == TDMI_ROLE_OUTPUT || g->tensor[t].role == TDMI_ROLE_INPUT) && shares(g, t, root))
            return true;
    return false;
}

/* live[node * tensors + root]: some node up to here wrote it, some node from here on touches it. */
static unsigned char *brute_force(const tdmi_graph *g)
{
    const size_t tensors = (size_t)g->tensor_count;
    unsigned char *live = tdmi_calloc((size_t)g->node_count * tensors, 1, "test");
    for (int t = 0; t < g->tensor_count; t++) {
        const tdmi_role role = g->tensor[t].role;
        if (g->tensor[t].alias >= 0 || role == TDMI_ROLE_PARAMETER || role == TDMI_ROLE_GRADIENT)
            continue;
        bool wanted = is_kept(g, t);
        for (int i = g->node_count - 1; i >= 0; i--) {
            wanted = wanted || touches(g, &g->node[i], t);
            live[(size_t)i * tensors + (size_t)t] = wanted;
            if (g->tensor[t].producer == i)
                break;
        }
    }
    return live;
}

static size_t check(tdmi_graph *g)
{
    unsigned char *live = brute_force(g);
    size_t most = 0;
    for (int i = 0; i < g->node_count; i++) {
        const unsigned char *now = &live[(size_t)i * (size_t)g->tensor_count];
        size_t sum = 0;
        for (int t = 0; t < g->tensor_count; t++) {
            if (!now[t])
                continue;
            const size_t nbytes = tdmi_shape_nbytes(&g->tensor[t].shape), begin = g->tensor[t].offset;
            sum += nbytes;
            assert_int_equal(begin % 64, 0);
            assert_true(begin + nbytes <= g->slab_nbytes);
            for (int u = 0; u < t; u++)
                if (now[u] && begin < g->tensor[u].offset + tdmi_shape_nbytes(&g->tensor[u].shape) &&
                    g->tensor[u].offset < begin + nbytes)
                    fail_msg("%s: node %d: %s and %s share memory", g->name, i, g->tensor[u].name, g->tensor[t].name);
        }
        most = sum > most ? sum : most;
    }
    tdmi_free(live);
    int node;
    assert_int_equal(tdmi_place_peak(g, &node), most);
    tdmi_graph_destroy(g);
    return most;
}

static void no_two_tensors_that_live_at_once_share_memory(void **state)
{
    (void)state;
    check(placed(small_graph(0), true));
    check(placed(small_graph(0.1f), true));
    check(placed(small_graph(0), false));
    check(placed(odd_graph(), true));
    check(placed(odd_graph(), false));
    check(placed(built("gpt2", "bytes", 128, 16, 0, true), true));
    check(placed(built("gpt2", "bytes", 33, 3, 0.1, true), true));
    check(placed(built("gpt2", "bytes", 128, 16, 0, false), false));
    check(placed(built("gpt2", "gpt2", 64, 4, 0.1, true), true));
    check(placed(built("mlp", "bytes", 16, 64, 0.1, true), true));
}

static void an_early_output_keeps_its_memory(void **state)
{
    (void)state;
    tdmi_graph *g = tdmi_graph_create("early");
    tdmi_id x = tdmi_graph_input(g, "x", TDM_F32, 2, (const int64_t[]){2, 8});
    const tdmi_id w = small_parameter(g, "w", 8, 8);
    const char *const labels[] = {"first", "second", "third", "fourth"};
    for (int i = 0; i < 4; i++) {
        x = tdmi_linear(g, labels[i], x, w, -1);
        if (i == 0)
            tdmi_graph_output(g, x);
    }
    const size_t most = check(placed(g, false));
    assert_int_equal(most, 4 * 2 * 8 * sizeof(float)); /* x, first, and the two of the node that runs */
}

static void the_slab_is_hardly_larger_than_what_is_in_use_at_once(void **state)
{
    (void)state;
    const struct {
        tdmi_graph *g;
        bool train;
        size_t peak; /* worked out by hand, or what was reached: never more */
    } cases[] = {
        /* the widest layer: 16 x 128 rows of 1,024 + 256 + 256 numbers, tokens and targets, and a loss that is kept */
        {built("gpt2", "bytes", 128, 16, 0, false), false, 12u * 1048576 + 2 * 8192},
        {built("gpt2", "bytes", 128, 16, 0, true), true, 135u * 1048576},
        {built("gpt2", "gpt2", 64, 4, 0, true), true, 195u * 1048576},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int node;
        (void)placed(cases[i].g, cases[i].train);
        const size_t peak = tdmi_place_peak(cases[i].g, &node);
        assert_true(peak <= cases[i].peak);
        assert_true(cases[i].g->slab_nbytes <= peak + peak / 200);
        tdmi_graph_destroy(cases[i].g);
    }
}

static void large_operands_of_a_node_do_not_agree_modulo_a_page(void **state)
{
    (void)state;
    tdmi_graph *g = placed(built("gpt2", "bytes", 128, 16, 0.1, true), true);
    int pairs = 0;
    for (int i = 0; i < g->node_count; i++) {
        const tdmi_node *n = &g->node[i];
        tdmi_id operand[TDMI_NODE_IN_MAX + TDMI_NODE_OUT_MAX];
        int count = 0;
        for (int k = 0; k < n->in_count; k++)
            operand[count++] = n->in[k];
        for (int k = 0; k < n->out_count; k++)
            operand[count++] = n->out[k];
        for (int a = 0; a < count; a++)
            for (int b = 0; b < a; b++) {
                if (operand[a] < 0 || operand[b] < 0)
                    continue;
                const tdmi_tensor *x = &g->tensor[operand[a]], *y = &g->tensor[operand[b]];
                if (x->bucket >= 0 || y->bucket >= 0 || tdmi_shape_nbytes(&x->shape) < 16384 ||
                    tdmi_shape_nbytes(&y->shape) < 16384 || x->offset == y->offset)
                    continue;
                assert_int_not_equal(x->offset % 4096, y->offset % 4096);
                pairs++;
            }
    }
    assert_true(pairs > 50);
    tdmi_graph_destroy(g);
}

static void the_report_names_the_peak_and_what_is_in_it(void **state)
{
    (void)state;
    tdmi_graph *g = placed(built("gpt2", "gpt2", 64, 4, 0, true), true);
    char *text = tdmi_place_report(g);
    assert_non_null(strstr(text, "MiB, at node 87 (cross_entropy loss)\n      49.1 MiB  logits float32[4,64,50257]\n"));
    tdmi_free(text);
    tdmi_graph_destroy(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_two_tensors_that_live_at_once_share_memory),
        cmocka_unit_test(an_early_output_keeps_its_memory),
        cmocka_unit_test(the_slab_is_hardly_larger_than_what_is_in_use_at_once),
        cmocka_unit_test(large_operands_of_a_node_do_not_agree_modulo_a_page),
        cmocka_unit_test(the_report_names_the_peak_and_what_is_in_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
