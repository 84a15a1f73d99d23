/* timing.c - clocks around work on the GPU: start = time.time(); model(x); time.time() - start. */
#include "lint/lint.h"

#include <string.h>

/* A pair of readings. */
typedef struct reading {
    const tdmi_node *start; /* the assignment's target */
    const tdmi_node *stop;  /* the second call, or the variable's assignment that holds it */
} reading;

static bool is_clock(const tdmi_script *script, const tdmi_node *expression)
{
    static const char *const clocks[] = {"time.time", "time.perf_counter", "time.monotonic", "timeit.default_timer", "time.perf_counter_ns",
                                         "time.time_ns", "time.process_time"};
    const tdmi_call *call = expression != NULL ? tdmi_call_at(script, expression) : NULL;
    for (size_t i = 0; call != NULL && i < sizeof clocks / sizeof *clocks; i++)
        if (strcmp(call->name, clocks[i]) == 0)
            return true;
    return false;
}

/* The assignment of a clock to a variable that a node sees: the last one before it, in its own loop. NULL: none. A timer that rolls on,
 * from the end of one turn to the end of the next, is right in the long run; its assignment is behind the node, or outside the loop. */
static const tdmi_node *reading_before(const tdmi_script *script, const tdmi_node *variable, const tdmi_node *node)
{
    size_t count;
    const tdmi_binding *all = tdmi_bindings_of(script, variable, &count);
    for (size_t i = count; i-- > 0;)
        if (all[i].node < node)
            return is_clock(script, all[i].value) && tdmi_loop_around(all[i].node) == tdmi_loop_around(node) &&
                           tdmi_function_around(all[i].node) == tdmi_function_around(node)
                       ? all[i].node
                       : NULL;
    return NULL;
}

static bool find(const tdmi_script *script, const tdmi_node *difference, reading *out)
{
    const tdmi_node *left = tdmi_child(difference, TDMI_IN_left), *right = tdmi_child(difference, TDMI_IN_right);
    if (strcmp(difference->text, "Sub") != 0)
        return false;
    out->stop = is_clock(script, left) ? left : reading_before(script, left, difference);
    out->start = out->stop != NULL ? reading_before(script, right, out->stop) : NULL;
    return out->start != NULL;
}

/* A call that runs the model: of a variable called so, or one that a wrapper made; or backward(). */
static bool is_work(const tdmi_script *script, const tdmi_call *call)
{
    const tdmi_node *function = tdmi_child(call->node, TDMI_IN_func);
    return tdmi_is_backward(call) || tdmi_names_model(function) ||
           (function->kind == TDMI_PY_Name && tdmi_may_hold(script, function, tdmi_is_ddp));
}

/* What makes the host wait for the GPU, or may: sync(), a value that is printed. */
static bool waits(const tdmi_call *call)
{
    static const char *const methods[] = {"item", "cpu", "tolist", "numpy", "barrier", "float"};
    const tdmi_node *function = tdmi_child(call->node, TDMI_IN_func);
    if (tdmi_is_named(function) && strcasestr(function->text, "sync") != NULL)
        return true;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (tdmi_calls_method(call->node, methods[i]))
            return true;
    if (!tdmi_calls_method(call->node, "print"))
        return false;
    for (const tdmi_node *node = function + 1; node < tdmi_end(call->node); node++)
        if (node->kind == TDMI_PY_Name)
            return true;
    return false;
}

/* waits, or a function of the script that may. */
static bool may_wait(const tdmi_script *script, const tdmi_call *call)
{
    if (waits(call))
        return true;
    if (call->function == NULL)
        return false;
    for (const tdmi_call *inner = tdmi_call_from(script, call->function); inner < tdmi_call_from(script, tdmi_end(call->function)); inner++)
        if (waits(inner) || inner->function != NULL)
            return true;
    return false;
}

/* Whether the function around is called in a loop, as far as the script shows. */
static bool is_repeated(const tdmi_script *script, const tdmi_node *node)
{
    const tdmi_node *function = tdmi_function_around(node);
    if (tdmi_loop_around(node) != NULL || tdmi_step_around(script, node) != NULL)
        return true;
    for (const tdmi_call *call = script->call; function->parent != NULL && call < script->call + script->calls; call++)
        if (call->function == function && tdmi_loop_around(call->node) != NULL)
            return true;
    return false;
}

/* for ...: ...; break */
static bool runs_once(const tdmi_node *loop)
{
    return tdmi_last_sibling(tdmi_child(loop, TDMI_IN_body))->kind == TDMI_PY_Break;
}

/* if step == 0: around a node, inside its loop */
static bool is_first_turn(const tdmi_node *node)
{
    for (const tdmi_node *at = node; at->parent != NULL && !tdmi_is_loop(at) && !tdmi_is_function(at); at = at->parent) {
        const tdmi_node *test = at->parent->kind == TDMI_PY_If && at->field == TDMI_IN_body ? tdmi_child(at->parent, TDMI_IN_test) : NULL;
        if (test != NULL && test->kind == TDMI_PY_Compare && strcmp(test->text, "Eq") == 0 && tdmi_child(test, TDMI_IN_left)->kind == TDMI_PY_Name &&
            strstr(tdmi_child(test, TDMI_IN_left)->text, "rank") == NULL && tdmi_is_number(tdmi_child(test, TDMI_IN_comparators), 0))
            return true;
    }
    return false;
}

/* What lies between two readings. */
typedef struct between {
    const tdmi_call *work;   /* straight in the block, or NULL */
    const tdmi_call *once;   /* work in a loop that ends in break */
    bool many;               /* work in a loop of several turns */
    bool waited;
    bool warm;               /* work before the first reading */
} between;

static between look(const tdmi_script *script, const reading *at)
{
    between found = {0};
    const tdmi_node *loop = tdmi_loop_around(at->start), *function = tdmi_function_around(at->start);
    for (const tdmi_call *call = tdmi_call_from(script, function); call < tdmi_call_from(script, at->stop); call++) {
        if (tdmi_function_around(call->node) != function)
            continue;
        const bool work = is_work(script, call);
        if (call->node <= at->start || tdmi_contains(tdmi_statement(at->start), call->node)) {
            found.warm |= work;
            continue;
        }
        found.waited |= may_wait(script, call);
        const tdmi_node *inner = tdmi_loop_around(call->node);
        if (work && inner == loop)
            found.work = call;
        else if (work && inner != NULL && runs_once(inner))
            found.once = call;
        else if (work)
            found.many = true;
    }
    return found;
}

void tdmi_lint_timing(tdmi_lint *lint)
{
    const tdmi_script *script = &lint->script;
    const tdmi_syntax *syntax = script->syntax;
    size_t pairs = 0;
    if (!script->uses_cuda)
        return;
    for (const tdmi_node *node = syntax->node; node < syntax->node + syntax->count && pairs < TDMI_LINT_OF_RULE_MAX; node++) {
        reading at;
        if (node->kind != TDMI_PY_BinOp || !find(script, node, &at))
            continue;
        pairs++;
        const between found = look(script, &at);
        const bool single = !found.many && !found.warm && (found.once != NULL || (found.work != NULL && !is_repeated(script, node)));
        if (single || (found.work != NULL && is_first_turn(node)))
            tdmi_lint_say(lint, TDMI_RULE_TIMING_FIRST_BATCH, at.stop, "the clock that line %d starts sees the first batch and no other", at.start->line);
        if (found.work != NULL && !found.waited)
            tdmi_lint_say(lint, TDMI_RULE_TIMING_WITHOUT_SYNC, at.stop, "nothing between here and line %d waits for the GPU", at.start->line);
    }
}
