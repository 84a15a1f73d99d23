/* test_replay.c - the graph by itself: order, fit, and what changes when links do. */
#include "job/replay.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static tdmi_graph *graph;
static int64_t now[8];

static uint32_t node(int64_t ns)
{
    return tdmi_graph_node(graph, ns);
}

static void link_to(uint32_t to, uint32_t from, int64_t ns, tdmi_due due)
{
    assert_int_equal(tdmi_graph_link(graph, to, &(tdmi_link){.from = from, .event = UINT32_MAX, .ns = ns, .due = (uint8_t)due}), TDM_OK);
}

static int64_t no_compute(const tdmi_link *link, const void *arg)
{
    (void)arg;
    return link->due == TDMI_DUE_COMPUTE ? 0 : link->due == TDMI_DUE_SYNC ? TDMI_CUT : link->ns;
}

static int set_up(void **state)
{
    (void)state;
    return tdmi_graph_create(&graph) != TDM_OK;
}

static int tear_down(void **state)
{
    (void)state;
    tdmi_graph_free(graph);
    return 0;
}

/* Two chains that meet: computing until 70, copying until 50, both awaited at 80. */
static void another_link_holds_when_the_first_is_gone(void **state)
{
    (void)state;
    size_t cut;
    const uint32_t met = node(80), start = node(0), computed = node(70), copied = node(50); /* made in any order */
    link_to(met, computed, 4, TDMI_DUE_EVENT); /* asks for 74 only: the one that asks latest takes the rest */
    link_to(met, copied, 4, TDMI_DUE_EVENT);
    link_to(computed, start, 70, TDMI_DUE_COMPUTE);
    link_to(copied, start, 90, TDMI_DUE_COPY); /* asks for more than was measured */
    assert_int_equal(tdmi_graph_finish(graph, &cut), TDM_OK);
    assert_int_equal(cut, 0);
    tdmi_replay(graph, &(tdmi_variation){0}, now);
    assert_int_equal(now[met], 80);
    assert_int_equal(now[copied], 50);
    tdmi_replay(graph, &(tdmi_variation){.change = no_compute}, now);
    assert_int_equal(now[computed], 0);
    assert_int_equal(now[met], 54);
}

static void a_circle_is_cut_at_its_earliest_node(void **state)
{
    (void)state;
    size_t cut;
    const uint32_t start = node(0), a = node(10), b = node(20);
    link_to(a, start, 10, TDMI_DUE_HOST);
    link_to(a, b, 0, TDMI_DUE_EVENT);
    link_to(b, a, 10, TDMI_DUE_HOST);
    assert_int_equal(tdmi_graph_finish(graph, &cut), TDM_OK);
    assert_int_equal(cut, 1);
    tdmi_replay(graph, &(tdmi_variation){0}, now);
    assert_int_equal(now[a], 10);
    assert_int_equal(now[b], 20);
}

static void a_link_can_be_taken_away(void **state)
{
    (void)state;
    size_t cut;
    const uint32_t start = node(0), device = node(90), host = node(5), waited = node(100);
    link_to(device, start, 90, TDMI_DUE_COPY);
    link_to(host, start, 5, TDMI_DUE_HOST);
    link_to(waited, device, 10, TDMI_DUE_SYNC);
    link_to(waited, host, 2, TDMI_DUE_HOST);
    assert_int_equal(tdmi_graph_finish(graph, &cut), TDM_OK);
    tdmi_replay(graph, &(tdmi_variation){.change = no_compute}, now);
    assert_int_equal(now[waited], 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(another_link_holds_when_the_first_is_gone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_circle_is_cut_at_its_earliest_node, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_link_can_be_taken_away, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
