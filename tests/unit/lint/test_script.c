/* test_script.c - what names mean, what runs once a step, and on which ranks. */
#include "lint/train.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../files.h"

static tdmi_syntax syntax;
static tdmi_script script;

static void read_script(const char *text)
{
    assert_int_equal(tdmi_syntax_parse(files_write("train.py", text, strlen(text)), &syntax), TDM_OK);
    assert_int_equal(tdmi_script_read(&syntax, &script), TDM_OK);
}

static void forget(void)
{
    tdmi_script_free(&script);
    tdmi_syntax_free(&syntax);
}

/* The first call in that line. */
static const tdmi_call *call_in(int line)
{
    for (size_t i = 0; i < script.calls; i++)
        if (script.call[i].node->line == line)
            return &script.call[i];
    fail_msg("no call in line %d", line);
    return NULL;
}

static void names_are_followed_to_where_they_come_from(void **state)
{
    (void)state;
    read_script("import torch.distributed as dist, torch.nn as nn\n"
                "from torch.utils.data.distributed import DistributedSampler as Sampler\n"
                "DDP = nn.parallel.distributed.DistributedDataParallel\n"
                "dist.barrier()\n"
                "Sampler(data)\n"
                "DDP(model)\n"
                "from .mine import Adam\n"
                "Adam(x)\n"
                "def f(dist):\n"
                "    dist.barrier()\n"
                "try:\n"
                "    from apex import GradScaler\n"
                "except ImportError:\n"
                "    from torch.cuda.amp import GradScaler\n"
                "GradScaler()\n");
    assert_string_equal(call_in(4)->name, "torch.distributed.barrier");
    assert_string_equal(call_in(5)->name, "torch.utils.data.DistributedSampler");
    assert_string_equal(call_in(6)->name, "torch.nn.parallel.DistributedDataParallel");
    assert_string_equal(call_in(8)->name, "..Adam");
    assert_string_equal(call_in(10)->name, ""); /* an argument */
    assert_string_equal(call_in(15)->name, "torch.cuda.amp.GradScaler");
    forget();
}

static void steps_are_found_from_backward_outwards(void **state)
{
    (void)state;
    read_script("class Trainer:\n"
                "    def batch(self, x):\n"
                "        loss = self.model(x)\n"
                "        loss.backward()\n"
                "        if self.n % 10 == 0:\n"
                "            self.log(loss)\n"
                "    def epoch(self):\n"
                "        for x in self.loader:\n"
                "            if x is None:\n"
                "                continue\n"
                "            self.batch(x)\n"
                "        self.evaluate()\n"
                "    def train(self):\n"
                "        for e in range(10):\n"
                "            self.epoch()\n"
                "def once(x):\n"
                "    f(x).backward()\n"
                "once(1)\n");
    assert_true(tdmi_runs_each_step(&script, call_in(3)->node, true));
    assert_true(tdmi_runs_each_step(&script, call_in(6)->node, false));
    assert_false(tdmi_runs_each_step(&script, call_in(6)->node, true));  /* under a condition */
    assert_false(tdmi_runs_each_step(&script, call_in(11)->node, true)); /* behind a continue */
    assert_false(tdmi_runs_each_step(&script, call_in(12)->node, false));
    assert_false(tdmi_runs_each_step(&script, call_in(15)->node, false)); /* an epoch */
    assert_false(tdmi_runs_each_step(&script, call_in(17)->node, false)); /* no loop at all */
    forget();
}

static void conditions_say_on_which_ranks(void **state)
{
    static const struct {
        const char *condition;
        tdmi_ranks ranks;
    } cases[] = {
        {"rank == 0", TDMI_SOME_RANKS},
        {"0 == dist.get_rank()", TDMI_SOME_RANKS},
        {"not self.local_rank", TDMI_SOME_RANKS},
        {"args.local_rank in [-1, 0]", TDMI_SOME_RANKS},
        {"is_main_process() and step % 10 == 0", TDMI_SOME_RANKS},
        {"int(os.environ['RANK']) == 0", TDMI_SOME_RANKS},
        {"os.environ.get('RANK', '0') == '0'", TDMI_SOME_RANKS},
        {"main", TDMI_SOME_RANKS},
        {"rank != 0", TDMI_OTHER_RANKS},
        {"rank > 0", TDMI_OTHER_RANKS},
        {"dist.get_rank()", TDMI_OTHER_RANKS},
        {"rank != -1", TDMI_ALL_RANKS},
        {"rank >= 0", TDMI_ALL_RANKS},
        {"rank < world_size", TDMI_ALL_RANKS},
        {"not distributed or rank == 0", TDMI_ALL_RANKS},
        {"step == 0", TDMI_ALL_RANKS},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        snprintf(text, sizeof text, "main = rank == 0\nif %s:\n    pass\n", cases[i].condition);
        read_script(text);
        const tdmi_node *condition = NULL;
        for (const tdmi_node *node = syntax.node; condition == NULL; node++)
            condition = node->kind == TDMI_PY_If ? tdmi_child(node, TDMI_IN_test) : NULL;
        if (tdmi_ranks_where(&script, condition) != cases[i].ranks)
            fail_msg("%s: %d", cases[i].condition, tdmi_ranks_where(&script, condition));
        forget();
    }
}

static void ranks_are_followed_through_calls_and_early_returns(void **state)
{
    (void)state;
    read_script("def save(model):\n"
                "    write(model)\n"
                "def save_first(model):\n"
                "    if rank != 0:\n"
                "        return\n"
                "    write(model)\n"
                "def train(model):\n"
                "    if rank == 0:\n"
                "        save(model)\n"
                "    save_first(model)\n");
    assert_true(tdmi_runs_on_some_ranks(&script, call_in(2)->node));
    assert_null(tdmi_rank_condition(&script, call_in(2)->node));
    assert_int_equal(tdmi_rank_condition(&script, call_in(6)->node)->line, 4);
    assert_false(tdmi_runs_on_some_ranks(&script, call_in(10)->node));
    forget();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_followed_to_where_they_come_from),
        cmocka_unit_test(steps_are_found_from_backward_outwards),
        cmocka_unit_test(conditions_say_on_which_ranks),
        cmocka_unit_test(ranks_are_followed_through_calls_and_early_returns),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end) != 0;
}
