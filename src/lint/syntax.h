/* syntax.h - a Python script as a tree in memory. CPython's own parser makes it, in a process of its own; nothing of the script is
 * run or imported.
 *
 *   syntax.json lines  ->  node[0 .. count)   in preorder: the subtree of a node is node .. node + node->size
 *
 * Names are CPython's (module ast). Nodes of a kind or a field that no rule looks at are TDMI_PY_OTHER and TDMI_IN_OTHER. */
#ifndef TDMI_LINT_SYNTAX_H
#define TDMI_LINT_SYNTAX_H

#include "core/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TDMI_PY_MAP(X)                                                                                                 \
    X(Module) X(FunctionDef) X(AsyncFunctionDef) X(ClassDef) X(Lambda) X(Return) X(Assign) X(AugAssign) X(AnnAssign)   \
    X(For) X(AsyncFor) X(While) X(If) X(With) X(AsyncWith) X(Try) X(Import) X(ImportFrom) X(Global) X(Expr) X(Break)   \
    X(Continue) X(BoolOp) X(NamedExpr) X(BinOp) X(UnaryOp) X(IfExp) X(Dict) X(Set) X(ListComp) X(SetComp) X(DictComp)  \
    X(GeneratorExp) X(Compare) X(Call) X(FormattedValue) X(JoinedStr) X(Constant) X(Attribute) X(Subscript)            \
    X(Starred) X(Name) X(List) X(Tuple) X(comprehension) X(ExceptHandler) X(arguments) X(arg) X(keyword) X(alias)      \
    X(withitem)

typedef enum {
#define TDMI_PY_ENUM(name) TDMI_PY_##name,
    TDMI_PY_MAP(TDMI_PY_ENUM)
#undef TDMI_PY_ENUM
    TDMI_PY_OTHER
} tdmi_py;

#define TDMI_IN_MAP(X)                                                                                                 \
    X(body) X(orelse) X(finalbody) X(handlers) X(test) X(iter) X(target) X(targets) X(value) X(func) X(args)           \
    X(keywords) X(items) X(context_expr) X(optional_vars) X(left) X(right) X(operand) X(comparators) X(elts) X(keys)   \
    X(values) X(slice) X(names)

typedef enum {
#define TDMI_IN_ENUM(name) TDMI_IN_##name,
    TDMI_IN_MAP(TDMI_IN_ENUM)
#undef TDMI_IN_ENUM
    TDMI_IN_OTHER
} tdmi_in;

/* Of a Constant. */
typedef enum { TDMI_NO_CONSTANT, TDMI_STR, TDMI_NUMBER, TDMI_BOOL, TDMI_NONE, TDMI_OTHER_CONSTANT } tdmi_constant;

typedef struct tdmi_node {
    uint8_t kind;     /* tdmi_py */
    uint8_t field;    /* tdmi_in: what it is to its parent */
    uint8_t constant; /* tdmi_constant */
    bool is_true;     /* of a TDMI_BOOL */
    int line, column; /* from 1; those of the nearest ancestor that has some */
    uint32_t size;             /* nodes of the subtree, itself included */
    struct tdmi_node *parent;  /* NULL: the module */
    /* Name: id. Attribute: attr. FunctionDef, ClassDef: name. arg, keyword: arg, "" for **. alias: name. ImportFrom: module.
     * Compare, BoolOp, BinOp, UnaryOp, AugAssign: the operators' names. Global: the names. Constant: a string's first bytes. */
    const char *text;
    const char *extra; /* alias: the name after "as", or "". ImportFrom: the level */
    double number;     /* of a TDMI_NUMBER */
} tdmi_node;

typedef struct tdmi_syntax {
    tdmi_node *node; /* [count]; node[0] is the module */
    size_t count;
    char python[32]; /* version of the parser */
    char *text;      /* what the nodes' texts lie in */
} tdmi_syntax;

/* Reads what the parser's process prints: a head and one node a line, in JSON.
 * Errors  TDM_ERR_BAD_FILE the parser refused the script (its words), or the lines are damaged | TDM_ERR_NO_MEMORY */
tdm_status tdmi_syntax_read(const char *bytes, size_t nbytes, tdmi_syntax *out);
/* Has python3 parse the file. Errors as above, and TDM_ERR_BAD_FILE without python3, behind a deadline, for a file too large. */
tdm_status tdmi_syntax_parse(const char *path, tdmi_syntax *out);
void tdmi_syntax_free(tdmi_syntax *syntax);

/* The first child in that field, and the next one in the same; NULL: none. */
const tdmi_node *tdmi_child(const tdmi_node *node, tdmi_in field);
const tdmi_node *tdmi_sibling(const tdmi_node *node);
/* The last one in that field: node itself if none follows. */
const tdmi_node *tdmi_last_sibling(const tdmi_node *node);
size_t tdmi_children(const tdmi_node *node, tdmi_in field);
/* The keyword argument of a call: its value, or NULL. */
const tdmi_node *tdmi_keyword(const tdmi_node *call, const char *name);
/* Argument by place, or by keyword; place -1: keyword only. NULL: not given, or behind *args. */
const tdmi_node *tdmi_argument(const tdmi_node *call, int place, const char *name);
/* Whether a call has *args or **options, so that what is not seen may be given. */
bool tdmi_has_unseen_arguments(const tdmi_node *call);

static inline const tdmi_node *tdmi_end(const tdmi_node *node)
{
    return node + node->size;
}

static inline bool tdmi_contains(const tdmi_node *outer, const tdmi_node *inner)
{
    return inner >= outer && inner < tdmi_end(outer);
}

static inline bool tdmi_is_function(const tdmi_node *node)
{
    return node->kind == TDMI_PY_FunctionDef || node->kind == TDMI_PY_AsyncFunctionDef || node->kind == TDMI_PY_Lambda;
}

static inline bool tdmi_is_loop(const tdmi_node *node)
{
    return node->kind == TDMI_PY_For || node->kind == TDMI_PY_AsyncFor || node->kind == TDMI_PY_While;
}

static inline bool tdmi_is_with(const tdmi_node *node)
{
    return node->kind == TDMI_PY_With || node->kind == TDMI_PY_AsyncWith;
}

/* A Name or an Attribute: `text` is the last part of what it names. */
static inline bool tdmi_is_named(const tdmi_node *node)
{
    return node->kind == TDMI_PY_Name || node->kind == TDMI_PY_Attribute;
}

bool tdmi_is_number(const tdmi_node *node, double value); /* a constant of that value; -1 too */
bool tdmi_is_bool(const tdmi_node *node, bool value);
bool tdmi_is_none(const tdmi_node *node);
bool tdmi_is_text(const tdmi_node *node, const char *text); /* a string constant of that text */
/* node is named, and the last part of that is `name`. */
bool tdmi_ends_in(const tdmi_node *node, const char *name);
/* The statement around an expression. */
const tdmi_node *tdmi_statement(const tdmi_node *node);
/* The function around a node, or the module; a function is around its body, not around itself. */
const tdmi_node *tdmi_function_around(const tdmi_node *node);
/* The innermost loop around a node inside its function; NULL: none. Only a loop's body is inside it. */
const tdmi_node *tdmi_loop_around(const tdmi_node *node);
/* Whether only one of two nodes can run: they are in different branches of an if. Neither is within the other. */
bool tdmi_are_alternatives(const tdmi_node *a, const tdmi_node *b);

#endif
