/* bench_peers.c - the programs that `tandem bench --compare` runs beside Tandem: MPIs, whose measuring program is compiled here with
 * their own mpicc, and torch.distributed's gloo. */
#include "bench_compare.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROBE_S = 60, COMPILE_S = 120 };

bool bench_knows_peers(const char *list)
{
    while (*list != '\0') {
        const size_t length = strcspn(list, ",");
        if (!(length == 3 && strncmp(list, "mpi", 3) == 0) && !(length == 4 && strncmp(list, "gloo", 4) == 0))
            return false;
        list += length;
        list += *list == ',' ? 1 : 0;
    }
    return true;
}

/* A source of ours: beside an installed command, or in the folder it was built in. */
static bool find_source(const char *self, const char *name, char *out, size_t nbytes)
{
    static const char *const places[] = {"../share/tandem/peers", "bench"};
    char base[PATH_MAX];
    snprintf(base, sizeof base, "%.*s", (int)(strrchr(self, '/') - self), self); /* /proc/self/exe is absolute */
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(out, nbytes, "%s/%s/%s", base, places[i], name);
        if (access(out, R_OK) == 0)
            return true;
    }
    fprintf(stderr, "tandem bench: %s is neither in %s/../share/tandem/peers nor in %s/bench; install Tandem again\n", name, base, base);
    return false;
}

/* What a program prints, or NULL. Free it. */
static char *ask(bench_words *w, const char *errors)
{
    char *text = NULL;
    if (bench_capture(w, errors, PROBE_S, &text) != 0) {
        free(text);
        text = NULL;
    }
    bench_words_free(w);
    return text;
}

/* The first "4.1.4" in a text. */
static void find_version(const char *text, char *out, size_t nbytes)
{
    for (; *text != '\0'; text++) {
        const size_t length = strspn(text, "0123456789.");
        if (length > 0 && memchr(text, '.', length) != NULL && text[0] != '.') {
            snprintf(out, nbytes, "%.*s", (int)length, text);
            return;
        }
        text += length > 0 ? length - 1 : 0;
    }
}

static bool compile(bench_peer *peer, const char *mpicc, const char *source, const char *folder)
{
    bench_words w = {0};
    char *text, errors[600];
    snprintf(peer->program, sizeof peer->program, "%s/%s-%s", folder, peer->name, peer->version);
    snprintf(errors, sizeof errors, "%s/errors", folder);
    bench_say(&w, "%s", mpicc);
    bench_say(&w, "-O2");
    bench_say(&w, "%s", source);
    bench_say(&w, "-o");
    bench_say(&w, "%s", peer->program);
    const int code = bench_capture(&w, errors, COMPILE_S, &text);
    bench_words_free(&w);
    free(text);
    if (code != 0)
        fprintf(stderr, "tandem bench: %s cannot compile %s (exit code %d); try it by hand\n", mpicc, source, code);
    return code == 0;
}

static size_t find_mpis(const char *self, const char *folder, bench_peer *out)
{
    static const char *const suffixes[] = {".openmpi", ".mpich", ""};
    char source[PATH_MAX], errors[600];
    size_t count = 0;
    snprintf(errors, sizeof errors, "%s/errors", folder);
    if (!find_source(self, "collective_mpi.c", source, sizeof source))
        return 0;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        bench_peer *peer = &out[count];
        bench_words w = {0};
        char mpicc[32];
        *peer = (bench_peer){.version = "?"};
        snprintf(peer->launcher, sizeof peer->launcher, "mpirun%s", suffixes[i]);
        snprintf(mpicc, sizeof mpicc, "mpicc%s", suffixes[i]);
        bench_say(&w, "%s", peer->launcher);
        bench_say(&w, "--version");
        char *text = ask(&w, errors);
        if (text == NULL)
            continue;
        snprintf(peer->name, sizeof peer->name, "%s", strstr(text, "HYDRA") != NULL ? "mpich" : "openmpi");
        find_version(text, peer->version, sizeof peer->version);
        free(text);
        bool new = true; /* mpirun may be one of the others under its plain name */
        for (size_t k = 0; k < count; k++)
            new = new && (strcmp(out[k].name, peer->name) != 0 || strcmp(out[k].version, peer->version) != 0);
        if (new && compile(peer, mpicc, source, folder))
            count++;
    }
    if (count == 0)
        fprintf(stderr, "tandem bench: no MPI beside it: install Open MPI (openmpi-bin, libopenmpi-dev) or MPICH (mpich, libmpich-dev)\n");
    return count;
}

static size_t find_gloo(const char *self, const char *folder, bench_peer *out)
{
    const char *environment = getenv("VIRTUAL_ENV");
    char errors[600];
    *out = (bench_peer){.name = "gloo", .version = "?"};
    snprintf(errors, sizeof errors, "%s/errors", folder);
    if (!find_source(self, "collective_torch.py", out->program, sizeof out->program))
        return 0;
    for (int i = environment != NULL && *environment != '\0' ? 0 : 1; i < 2; i++) {
        bench_words w = {0};
        if (i == 0)
            snprintf(out->launcher, sizeof out->launcher, "%s/bin/python3", environment);
        else
            snprintf(out->launcher, sizeof out->launcher, "python3");
        bench_say(&w, "%s", out->launcher);
        bench_say(&w, "-c");
        bench_say(&w, "import torch, torch.distributed as d; assert d.is_gloo_available(); print(torch.__version__)");
        char *text = ask(&w, errors);
        if (text == NULL)
            continue;
        snprintf(out->version, sizeof out->version, "torch %.*s", (int)strcspn(text, "+\n"), text);
        free(text);
        return 1;
    }
    fprintf(stderr, "tandem bench: no gloo beside it: `pip install torch` in a virtual environment, and activate that\n");
    return 0;
}

size_t bench_find_peers(const char *list, const char *self, const char *folder, bench_peer out[BENCH_PEERS_MAX])
{
    size_t count = strstr(list, "mpi") != NULL ? find_mpis(self, folder, out) : 0;
    return count + (strstr(list, "gloo") != NULL ? find_gloo(self, folder, &out[count]) : 0);
}

/* mpirun of all local ranks, more than cores if need be, over TCP if Tandem goes over TCP. */
static void say_mpirun(const bench_peer *peer, int ranks, bool tcp, bench_words *w)
{
    static const char *const openmpi_tcp[] = {"--mca", "pml", "ob1", "--mca", "btl", "tcp,self"};
    static const char *const mpich_tcp[] = {"-genv", "MPIR_CVAR_NOLOCAL", "1", "-genv", "UCX_TLS", "tcp,self", "-genv", "FI_PROVIDER", "tcp"};
    const bool openmpi = strcmp(peer->name, "openmpi") == 0;
    bench_say(w, "%s", peer->launcher);
    if (openmpi) {
        bench_say(w, "--oversubscribe");
        if (geteuid() == 0)
            bench_say(w, "--allow-run-as-root");
        bench_say(w, "--mca"); /* there is nothing to log in to, so no ssh is no error */
        bench_say(w, "plm_rsh_agent");
        bench_say(w, "/bin/false");
    }
    for (size_t i = 0; tcp && openmpi && i < sizeof openmpi_tcp / sizeof *openmpi_tcp; i++)
        bench_say(w, "%s", openmpi_tcp[i]);
    for (size_t i = 0; tcp && !openmpi && i < sizeof mpich_tcp / sizeof *mpich_tcp; i++)
        bench_say(w, "%s", mpich_tcp[i]);
    bench_say(w, "-n");
    bench_say(w, "%d", ranks);
    bench_say(w, "%s", peer->program);
}

void bench_peer_command(const bench_peer *peer, const bench_plan *plan, int ranks, const char *self, const size_t *sizes, size_t count,
                        bench_words *out)
{
    const char *transport = getenv("TANDEM_TRANSPORT");
    *out = (bench_words){0};
    if (strcmp(peer->name, "gloo") == 0) {
        bench_say(out, "%s", self);
        bench_say(out, "run");
        bench_say(out, "-q");
        bench_say(out, "-n");
        bench_say(out, "%d", ranks);
        bench_say(out, "--");
        bench_say(out, "%s", peer->launcher);
        bench_say(out, "%s", peer->program);
    } else {
        say_mpirun(peer, ranks, transport != NULL && strcmp(transport, "tcp") == 0, out);
    }
    bench_say(out, "-d");
    bench_say(out, "%s", tdm_dtype_name(plan->dtype));
    bench_say(out, "-o");
    bench_say(out, "%s", tdm_op_name(plan->redop));
    bench_say(out, "-r");
    bench_say(out, "%d", plan->root);
    const bool baseline = plan->op == BENCH_PARAMETER_SERVER || plan->op == BENCH_DATA_PARALLEL;
    bench_say(out, "%s", baseline ? bench_ops[BENCH_ALLREDUCE].name : bench_ops[plan->op].name);
    for (size_t i = 0; i < count; i++)
        bench_say(out, "%zu", sizes[i]);
}
