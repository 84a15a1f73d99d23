/* python.c - CPython's parser in a process of its own: `python3 -I -S -c PROGRAM < SCRIPT`. It reads the script as data, imports
 * nothing but the standard library, has a bound on memory and time, and dies with the thread that started it.
 *
 * The process prints a head, {"nodes": N, "python": "3.11.7"} or {"error": WHY, "python": ...}, and then the nodes in preorder, one a
 * line: [kind, field, parent's number, line, column, text or constant, extra]. Flat, so that depth costs no stack. */
#include "lint/syntax.h"

#include "core/clock.h"
#include "core/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SCRIPT_BYTES_MAX (8u << 20)
#define OUTPUT_BYTES_MAX ((size_t)512 << 20)
#define PARSER_BYTES_MAX ((rlim_t)4 << 30)
#define PARSER_SECONDS 60

static const char program[] =
    "import ast, io, json, sys, tokenize\n"
    "NODES_MAX = 4000000\n"
    "PLAIN = (ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop)\n"
    "python = '%d.%d.%d' % sys.version_info[:3]\n"
    "\n"
    "def refuse(why):\n"
    "    print(json.dumps({'error': clean(why), 'python': python}))\n"
    "    sys.exit(0)\n"
    "\n"
    "def clean(text):\n"
    "    return text[:200].replace('\\0', ' ').encode('utf-8', 'replace').decode('utf-8')\n"
    "\n"
    "def constant(value):\n"
    "    kind = type(value).__name__\n"
    "    if isinstance(value, str):\n"
    "        return clean(value), kind\n"
    "    if isinstance(value, (int, float)) and not isinstance(value, bool):\n"
    "        try:\n"
    "            return (value if abs(value) < 2 ** 53 else max(-1e308, min(1e308, float(value)))), kind\n"
    "        except OverflowError:\n"
    "            return 1e308, kind\n"
    "    return (value if isinstance(value, bool) else None), kind\n"
    "\n"
    "def texts(node):\n"
    "    if isinstance(node, ast.Constant):\n"
    "        return constant(node.value)\n"
    "    if isinstance(node, ast.ImportFrom):\n"
    "        return clean(node.module or ''), str(node.level or 0)\n"
    "    if isinstance(node, ast.alias):\n"
    "        return clean(node.name), clean(node.asname or '')\n"
    "    if isinstance(node, ast.Compare):\n"
    "        return clean(','.join(type(o).__name__ for o in node.ops)), ''\n"
    "    if isinstance(node, (ast.Global, ast.Nonlocal)):\n"
    "        return clean(','.join(node.names)), ''\n"
    "    for name in ('id', 'attr', 'name', 'arg'):\n"
    "        if isinstance(getattr(node, name, None), str):\n"
    "            return clean(getattr(node, name)), ''\n"
    "    op = getattr(node, 'op', None)\n"
    "    return (type(op).__name__ if op is not None else ''), ''\n"
    "\n"
    "def children(node):\n"
    "    for field, value in ast.iter_fields(node):\n"
    "        for v in value if isinstance(value, list) else [value]:\n"
    "            if v is None and field == 'keys':\n"
    "                v = ast.Constant(value=None)\n" /* {**more} has a place among the keys */
    "            if type(v).__name__ == 'Index':\n"    /* Python 3.8 */
    "                v = v.value\n"
    "            if isinstance(v, ast.AST) and not isinstance(v, PLAIN):\n"
    "                yield v, field\n"
    "\n"
    "source = sys.stdin.buffer.read()\n"
    "try:\n"
    "    tree = ast.parse(source)\n"
    "except SyntaxError as e:\n"
    "    refuse('line %s, column %s: %s' % (e.lineno, e.offset, e.msg))\n"
    "except (RecursionError, MemoryError):\n"
    "    refuse('it is nested too deeply for Python\\'s own parser')\n"
    "except (ValueError, LookupError) as e:\n"
    "    refuse(str(e))\n"
    "rows = []\n" /* a column counts characters: where there are others than ASCII, the bytes of the line are needed */
    "if not source.isascii():\n"
    "    encoding = tokenize.detect_encoding(io.BytesIO(source).readline)[0]\n"
    "    rows = source.decode(encoding, 'replace').encode().split(b'\\n')\n"
    "lines, stack = [], [(tree, '', -1, 1, 1)]\n"
    "while stack:\n"
    "    node, field, parent, line, column = stack.pop()\n"
    "    if hasattr(node, 'lineno'):\n"
    "        line, column = node.lineno, node.col_offset + 1\n"
    "        if line <= len(rows):\n"
    "            column = len(rows[line - 1][:column - 1].decode('utf-8', 'ignore')) + 1\n"
    "    number = len(lines)\n"
    "    if number == NODES_MAX:\n"
    "        refuse('its tree has more than %d nodes' % NODES_MAX)\n"
    "    lines.append(json.dumps([type(node).__name__, field, parent, line, column, *texts(node)], separators=(',', ':')))\n"
    "    below = [(child, name, number, line, column) for child, name in children(node)]\n"
    "    stack.extend(reversed(below))\n"
    "print(json.dumps({'nodes': len(lines), 'python': python}))\n"
    "for line in lines:\n"
    "    print(line)\n";

/* What the process has written so far; grows by halves. */
typedef struct output {
    char *bytes;
    size_t nbytes, capacity;
} output;

static void become_parser(int script, int out, int err)
{
    const struct rlimit memory = {PARSER_BYTES_MAX, PARSER_BYTES_MAX}, seconds = {PARSER_SECONDS, PARSER_SECONDS};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_AS, &memory);
    setrlimit(RLIMIT_CPU, &seconds);
    dup2(script, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    execlp("python3", "python3", "-I", "-S", "-W", "ignore", "-c", program, (char *)NULL);
    _exit(127);
}

static tdm_status open_script(const char *path, int *fd_out)
{
    struct stat about;
    const int fd = open(path, O_RDONLY | O_NONBLOCK); /* stays open over exec: it may be the parser's standard input already */
    if (fd < 0)
        return tdmi_fail_errno(TDM_ERR_BAD_FILE, errno, "cannot open %s", path);
    tdm_status status = TDM_OK;
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode))
        status = tdmi_fail(TDM_ERR_BAD_FILE, "%s is no regular file: name one Python script", path);
    else if (about.st_size > (off_t)SCRIPT_BYTES_MAX)
        status = tdmi_fail(TDM_ERR_BAD_FILE, "%s has %lld bytes; a script may have %u", path, (long long)about.st_size, SCRIPT_BYTES_MAX);
    if (status != TDM_OK)
        close(fd);
    else
        *fd_out = fd;
    return status;
}

static tdm_status more_room(output *to)
{
    if (to->nbytes < to->capacity)
        return TDM_OK;
    if (to->capacity >= OUTPUT_BYTES_MAX)
        return tdmi_fail(TDM_ERR_BAD_FILE, "its tree takes more than %zu MB", OUTPUT_BYTES_MAX >> 20);
    const size_t capacity = to->capacity * 2 + 65536;
    char *grown = tdmi_realloc(to->bytes, capacity, "syntax tree");
    if (grown == NULL)
        return TDM_ERR_NO_MEMORY;
    to->bytes = grown;
    to->capacity = capacity;
    return TDM_OK;
}

/* Reads both pipes to their ends; of the complaints the last bytes count. */
static tdm_status listen_to(int out, int err, output *tree, char *complaint, size_t nbytes)
{
    const int64_t deadline_ns = tdmi_deadline_in(PARSER_SECONDS);
    struct pollfd ends[2] = {{.fd = out, .events = POLLIN}, {.fd = err, .events = POLLIN}};
    complaint[0] = '\0';
    while (ends[0].fd >= 0 || ends[1].fd >= 0) {
        const int64_t left_ns = deadline_ns - tdmi_now_ns();
        if (left_ns <= 0)
            return tdmi_fail(TDM_ERR_BAD_FILE, "python3 had not parsed it after %d s", PARSER_SECONDS);
        if (poll(ends, 2, (int)(left_ns / TDMI_NS_PER_MS) + 1) < 0 && errno != EINTR)
            return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot wait for python3");
        if (ends[0].fd >= 0 && ends[0].revents != 0) {
            tdm_status status = more_room(tree);
            if (status != TDM_OK)
                return status;
            const ssize_t n = read(out, tree->bytes + tree->nbytes, tree->capacity - tree->nbytes);
            if (n == 0 || (n < 0 && errno != EINTR))
                ends[0].fd = -1;
            tree->nbytes += n > 0 ? (size_t)n : 0;
        }
        if (ends[1].fd >= 0 && ends[1].revents != 0) {
            char part[1024];
            const ssize_t n = read(err, part, nbytes < sizeof part ? nbytes - 1 : sizeof part - 1);
            if (n == 0 || (n < 0 && errno != EINTR))
                ends[1].fd = -1;
            if (n > 0) {
                part[n] = '\0';
                strcpy(complaint, part);
            }
        }
    }
    return TDM_OK;
}

/* Its last words, or how it ended. */
static tdm_status judge(const char *path, int how, const output *tree, char *complaint)
{
    if (WIFEXITED(how) && WEXITSTATUS(how) == 127)
        return tdmi_fail(TDM_ERR_BAD_FILE, "cannot read %s: there is no python3 in PATH; the linter needs CPython 3.8 or newer as a parser", path);
    for (size_t end = strlen(complaint); end > 0 && complaint[end - 1] == '\n';)
        complaint[--end] = '\0';
    const char *last = strrchr(complaint, '\n');
    last = last != NULL ? last + 1 : complaint;
    if (WIFSIGNALED(how))
        return tdmi_fail(TDM_ERR_BAD_FILE, "cannot read %s: python3 was ended by signal %d while it parsed: the script is nested too deeply or too large",
                         path, WTERMSIG(how));
    if (WEXITSTATUS(how) != 0 || tree->nbytes == 0)
        return tdmi_fail(TDM_ERR_BAD_FILE, "cannot read %s: python3 failed with exit code %d: %.300s", path, WEXITSTATUS(how), last);
    return TDM_OK;
}

static tdm_status run_parser(const char *path, int script, output *tree)
{
    int out[2], err[2], how = 0;
    char complaint[1024];
    if (pipe2(out, O_CLOEXEC) != 0)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot start python3");
    if (pipe2(err, O_CLOEXEC) != 0) {
        close(out[0]);
        close(out[1]);
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot start python3");
    }
    const pid_t parser = fork();
    if (parser == 0)
        become_parser(script, out[1], err[1]);
    close(out[1]);
    close(err[1]);
    tdm_status status = parser < 0 ? tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot start python3")
                                   : listen_to(out[0], err[0], tree, complaint, sizeof complaint);
    close(out[0]);
    close(err[0]);
    if (parser < 0)
        return status;
    if (status != TDM_OK)
        kill(parser, SIGKILL);
    while (waitpid(parser, &how, 0) < 0 && errno == EINTR)
        ;
    return status == TDM_OK ? judge(path, how, tree, complaint) : tdmi_fail_while(status, "reading %s", path);
}

tdm_status tdmi_syntax_parse(const char *path, tdmi_syntax *out)
{
    int script = -1;
    output tree = {0};
    tdm_status status = open_script(path, &script);
    if (status != TDM_OK)
        return status;
    status = run_parser(path, script, &tree);
    close(script);
    if (status == TDM_OK) {
        status = tdmi_syntax_read(tree.bytes, tree.nbytes, out);
        if (status == TDM_ERR_BAD_FILE) {
            char why[TDMI_ERROR_TEXT_MAX];
            snprintf(why, sizeof why, "%s", tdm_error_text());
            tdmi_fail(status, "cannot read %s as Python: %s", path, why);
        }
    }
    tdmi_free(tree.bytes);
    return status;
}
