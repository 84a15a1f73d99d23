/* script.h - what a script's names mean: imports and their aliases, what is assigned to a variable, which function a call reaches.
 *
 * Only what is certain counts. A name that a function takes as an argument, or gets in two ways, has no value here, and a rule
 * that needs one stays silent. */
#ifndef TDMI_LINT_SCRIPT_H
#define TDMI_LINT_SCRIPT_H

#include "lint/syntax.h"

typedef enum { TDMI_BIND_IMPORT, TDMI_BIND_VALUE, TDMI_BIND_DEFINITION, TDMI_BIND_ARGUMENT, TDMI_BIND_OTHER } tdmi_bind;

/* One way in which a name gets a value. */
typedef struct tdmi_binding {
    const char *name;       /* of a variable, or of an attribute of self */
    const tdmi_node *scope; /* function or module; of self.x the class */
    const tdmi_node *node;  /* what binds: alias, target, FunctionDef or ClassDef, arg */
    const tdmi_node *value; /* of TDMI_BIND_VALUE: the expression; NULL: a part of one, or an element of an iterable */
    const char *full;       /* of TDMI_BIND_IMPORT: the dotted name behind it */
    tdmi_bind kind;
    bool of_self;
} tdmi_binding;

typedef struct tdmi_call {
    const tdmi_node *node;
    const tdmi_node *function; /* the FunctionDef in this script that it reaches (of a class: its __init__); NULL: unknown, or elsewhere */
    char *name;                /* its dotted name as torch spells it first; "": not imported */
} tdmi_call;

typedef struct tdmi_script {
    const tdmi_syntax *syntax;
    tdmi_binding *binding; /* [bindings], by name, by scope, then as in the script */
    size_t bindings;
    bool *every_step;      /* [syntax->count] of loops: one turn is a training step, or a part of it. See train.c */
    bool *step_function;   /* [syntax->count] of functions: called once a step, or a part of it */
    tdmi_call *call;        /* [calls] as in the script */
    const tdmi_call **by_function; /* [calls] by the function they reach, then as in the script */
    struct tdmi_before *before;    /* [syntax->count] of statements: see before.c */
    bool *on_some_ranks;    /* [syntax->count] of functions: each of their calls has a condition on the rank */
    bool trains, distributed, uses_cuda;
    size_t calls;
    char *names; /* dotted names of imports */
} tdmi_script;

tdm_status tdmi_script_read(const tdmi_syntax *syntax, tdmi_script *out);
void tdmi_script_free(tdmi_script *script);

/* The place of a node in the tables by node above. */
static inline size_t tdmi_number_of(const tdmi_script *script, const tdmi_node *node)
{
    return (size_t)(node - script->syntax->node);
}

#define TDMI_NAME_BYTES 160
#define TDMI_BINDINGS_MAX 256

/* The dotted name of a Name or Attribute as torch spells it first: `dist.barrier` -> "torch.distributed.barrier", `DDP` ->
 * "torch.nn.parallel.DistributedDataParallel". "": not imported. Returns `name`. */
const char *tdmi_full_name(const tdmi_script *script, const tdmi_node *expression, char name[TDMI_NAME_BYTES]);
/* Whether a call is `.name(...)` on anything, or a plain or imported function of that name. */
bool tdmi_calls_method(const tdmi_node *call, const char *name);
/* The receiver of a method call; NULL: it is none. */
const tdmi_node *tdmi_receiver(const tdmi_node *call);

/* What tdmi_call has of a call node; NULL: it is no call. */
const tdmi_call *tdmi_call_at(const tdmi_script *script, const tdmi_node *node);
/* The first call at a node or behind it, one past the last if there is none: calls within a node are those from its own to its end's. */
const tdmi_call *tdmi_call_from(const tdmi_script *script, const tdmi_node *node);
/* The calls that reach a function: *count of them. */
const tdmi_call *const *tdmi_calls_of(const tdmi_script *script, const tdmi_node *function, size_t *count_out);
/* For tdmi_script_read: what becomes tdmi_call.function of a call that is of no import. */
const tdmi_node *tdmi_called_function(const tdmi_script *script, const tdmi_node *call);
/* The ClassDef around a node; NULL: none. */
const tdmi_node *tdmi_class_around(const tdmi_node *node);

/* Whether two expressions are the same variable: a Name in one scope, self.x in one class, or the same dotted path. */
bool tdmi_same_variable(const tdmi_script *script, const tdmi_node *a, const tdmi_node *b);
/* The bindings of a Name or of self.x in the scope that has it: *count of them, as in the script. None for a name that is bound more than
 * TDMI_BINDINGS_MAX times: nothing is certain of that. */
const tdmi_binding *tdmi_bindings_of(const tdmi_script *script, const tdmi_node *expression, size_t *count_out);
/* The one expression that the variable holds, followed through plain copies; an expression that is no variable is itself. NULL: unknown. */
const tdmi_node *tdmi_value_of(const tdmi_script *script, const tdmi_node *expression);
/* Whether a call to `full_name` is among the values of the variable, or within one, as in `DDP(m).to(d)`. */
bool tdmi_may_hold(const tdmi_script *script, const tdmi_node *expression, bool (*is)(const char *full_name));

/* ---- what torch calls things ---- */
bool tdmi_is_ddp(const char *full_name);
bool tdmi_is_fsdp(const char *full_name); /* the class; fully_shard is apart */
bool tdmi_is_fully_shard(const char *full_name);
bool tdmi_is_data_parallel(const char *full_name);
bool tdmi_is_loader(const char *full_name);
bool tdmi_is_distributed_sampler(const char *full_name);
bool tdmi_is_optimizer(const char *full_name);
bool tdmi_is_scaler(const char *full_name);
bool tdmi_is_autocast(const char *full_name);
/* A function of torch.distributed that all ranks of the group have to call. */
bool tdmi_is_collective(const char *full_name);

/* The first call, as in the script, for which `is` is true; NULL: none. */
const tdmi_call *tdmi_find_call(const tdmi_script *script, bool (*is)(const char *full_name));
bool tdmi_has_method_call(const tdmi_script *script, const char *name);

#endif
