/* test_syntax.c - the parser's lines as a tree, whole and damaged. */
#include "lint/syntax.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../files.h"

/* f(1, x=None)  */
static const char good[] = "{\"nodes\": 7, \"python\": \"3.11.2\"}\n"
                           "[\"Module\",\"\",-1,1,1,\"\",\"\"]\n"
                           "[\"Expr\",\"body\",0,1,1,\"\",\"\"]\n"
                           "[\"Call\",\"value\",1,1,1,\"\",\"\"]\n"
                           "[\"Name\",\"func\",2,1,1,\"f\",\"\"]\n"
                           "[\"Constant\",\"args\",2,1,3,1,\"int\"]\n"
                           "[\"keyword\",\"keywords\",2,1,6,\"x\",\"\"]\n"
                           "[\"Constant\",\"value\",5,1,8,null,\"NoneType\"]\n";

static void lines_become_a_tree(void **state)
{
    (void)state;
    tdmi_syntax syntax;
    assert_int_equal(tdmi_syntax_read(good, sizeof good - 1, &syntax), TDM_OK);
    const tdmi_node *call = &syntax.node[2];
    assert_int_equal(syntax.count, 7);
    assert_int_equal(call->size, 5);
    assert_string_equal(tdmi_child(call, TDMI_IN_func)->text, "f");
    assert_true(tdmi_is_number(tdmi_argument(call, 0, "n"), 1));
    assert_true(tdmi_is_none(tdmi_keyword(call, "x")));
    assert_null(tdmi_argument(call, 1, "y"));
    assert_ptr_equal(tdmi_statement(tdmi_keyword(call, "x")), &syntax.node[1]);
    tdmi_syntax_free(&syntax);
}

static void lines_cut_anywhere_are_refused(void **state)
{
    (void)state;
    tdmi_syntax syntax;
    for (size_t nbytes = 0; nbytes + 1 < sizeof good - 1; nbytes++)
        assert_int_equal(tdmi_syntax_read(good, nbytes, &syntax), TDM_ERR_BAD_FILE);
}

/* The good lines with one text replaced by another. */
static tdm_status read_with(const char *from, const char *to)
{
    char text[sizeof good + 128];
    tdmi_syntax syntax;
    const char *at = strstr(good, from);
    assert_non_null(at);
    const int length = snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, to, at + strlen(from));
    tdm_status status = tdmi_syntax_read(text, (size_t)length, &syntax);
    if (status == TDM_OK)
        tdmi_syntax_free(&syntax);
    return status;
}

static void a_tree_that_is_none_is_refused(void **state)
{
    (void)state;
    assert_int_equal(read_with("\"nodes\": 7", "\"nodes\": 6"), TDM_ERR_BAD_FILE); /* a keyword without its value */
    assert_int_equal(read_with("\"nodes\": 7", "\"nodes\": 2147483647"), TDM_ERR_BAD_FILE);
    assert_int_equal(read_with("\"func\",2", "\"func\",3"), TDM_ERR_BAD_FILE);  /* its own parent */
    assert_int_equal(read_with("\"args\",2", "\"args\",-1"), TDM_ERR_BAD_FILE); /* a second root */
    assert_int_equal(read_with("\"value\",5", "\"value\",4"), TDM_ERR_BAD_FILE); /* below what is finished */
    assert_int_equal(read_with("\"func\",2", "\"args\",2"), TDM_ERR_BAD_FILE);  /* a call of nothing */
    assert_int_equal(read_with("\"Module\"", "\"Expr\""), TDM_ERR_BAD_FILE);
    assert_int_equal(read_with("\"python\"", "\"error\": \"line 1: no\", \"python\""), TDM_ERR_BAD_FILE);
    assert_non_null(strstr(tdm_error_text(), "line 1: no (Python 3.11.2)"));
}

static void python_parses_a_file(void **state)
{
    (void)state;
    tdmi_syntax syntax;
    static const char text[] = "for i in range(3):\n    if i:\n        f(i)\n    else:\n        g(i)\n";
    assert_int_equal(tdmi_syntax_parse(files_write("a.py", text, sizeof text - 1), &syntax), TDM_OK);
    const tdmi_node *f = NULL, *g = NULL;
    for (const tdmi_node *node = syntax.node; node < syntax.node + syntax.count; node++)
        if (node->kind == TDMI_PY_Call && node->line > 1)
            *(f == NULL ? &f : &g) = node;
    assert_int_equal(f->line, 3);
    assert_int_equal(f->column, 9);
    assert_int_equal(tdmi_loop_around(f)->kind, TDMI_PY_For);
    assert_true(tdmi_are_alternatives(f, g));
    assert_false(tdmi_are_alternatives(f, f + 1));
    assert_null(tdmi_loop_around(tdmi_loop_around(f)));
    tdmi_syntax_free(&syntax);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_become_a_tree),
        cmocka_unit_test(lines_cut_anywhere_are_refused),
        cmocka_unit_test(a_tree_that_is_none_is_refused),
        cmocka_unit_test(python_parses_a_file),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end) != 0;
}
