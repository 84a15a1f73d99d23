/* cmd_train.c - `tandem train`: starts its own ranks, or is one of them. */
#include "command.h"
#include "start_ranks.h"
#include "train_library.h"

#include <tandem/launch.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "tandem train"

typedef struct train_values {
    tdm_train_options train;
    tdm_launch_options launch;
    const char *betas, *trace, *order;
    double timeout_s;
    bool explain;
} train_values;

#define FIELD(name) offsetof(train_values, name)
static const cli_option options[] = {
    /* name, letter, argument, type, field, default, min, max, choices, variables, help */
    CLI_JOB_OPTIONS(train_values),

    {"data", 0, "FILE", CLI_TEXT, FIELD(train.data), NULL, 0, 0, NULL, NULL,
     "text, or uint16 tokens in a .bin file (llm.c's header or none)"},
    {"tokenizer", 0, "NAME", CLI_CHOICE, FIELD(train.tokenizer), NULL, 0, 0, "bytes|gpt2", NULL,
     "bytes of any file, or a file of gpt2's token ids; by the file's suffix if not given"},
    {"val-fraction", 0, "X", CLI_NUMBER, FIELD(train.val_fraction), NULL, 0, 0.9, NULL, NULL,
     "part of the tokens, at the end, that is held out (0.05)"},
    {"order", 0, "ORDER", CLI_CHOICE, FIELD(order), "shuffle", 0, 0, "shuffle|sequential", NULL,
     "order of the samples; shuffle as PyTorch's DistributedSampler does with the seed"},

    {"preset", 0, "NAME", CLI_TEXT, FIELD(train.preset), NULL, 0, 0, NULL, NULL,
     "a known size; --explain prints the ones there are"},
    {"layers", 0, "N", CLI_INT, FIELD(train.layers), NULL, 1, 1000, NULL, NULL, "instead of the preset's"},
    {"width", 0, "N", CLI_INT, FIELD(train.width), NULL, 1, 65536, NULL, NULL, "instead of the preset's"},
    {"heads", 0, "N", CLI_INT, FIELD(train.heads), NULL, 1, 65536, NULL, NULL, "instead of the preset's; divides the width"},
    {"seq", 0, "N", CLI_INT, FIELD(train.seq), NULL, 1, 1 << 20, NULL, NULL, "tokens in a window, instead of the preset's"},
    {"vocab", 0, "N", CLI_INT, FIELD(train.vocab), NULL, 1, 1 << 24, NULL, NULL, "instead of the preset's"},
    {"dropout", 0, "P", CLI_NUMBER, FIELD(train.dropout), NULL, 0, 0.99, NULL, NULL,
     "after the embeddings and on each residual branch, instead of the preset's"},

    {"batch", 0, "N", CLI_INT, FIELD(train.batch), NULL, 1, 1 << 20, NULL, NULL, "windows a rank and micro-batch"},
    {"accum", 0, "K", CLI_INT, FIELD(train.accum), "1", 1, 65536, NULL, NULL,
     "micro-batches a step, whose gradients add up; only the last communicates"},
    {"steps", 0, "N", CLI_INT, FIELD(train.steps), NULL, 1, 1000000000, NULL, NULL, "length of the run"},
    {"epochs", 0, "N", CLI_INT, FIELD(train.epochs), NULL, 1, 1000000, NULL, NULL, "length of the run instead of steps (1)"},
    {"optimizer", 0, "NAME", CLI_CHOICE, FIELD(train.optimizer), "adamw", 0, 0, "adamw|sgd", NULL,
     "as PyTorch defines them; the momentum of sgd is the first of --betas"},
    {"lr", 0, "X", CLI_NUMBER, FIELD(train.lr), NULL, 0, 1000, NULL, NULL, "highest learning rate"},
    {"warmup", 0, "N", CLI_INT, FIELD(train.warmup), NULL, 0, 1000000000, NULL, NULL, "steps of linear warm-up"},
    {"schedule", 0, "NAME", CLI_CHOICE, FIELD(train.schedule), "cosine", 0, 0, "cosine|linear|constant", NULL,
     "after the warm-up: cosine to a tenth, linear to zero"},
    {"weight-decay", 0, "X", CLI_NUMBER, FIELD(train.weight_decay), NULL, 0, 10, NULL, NULL,
     "decoupled, on matrices and embeddings"},
    {"clip", 0, "X", CLI_NUMBER, FIELD(train.clip), NULL, 0, 1e9, NULL, NULL, "largest norm of the gradient; 0: none"},
    {"betas", 0, "B1,B2", CLI_TEXT, FIELD(betas), NULL, 0, 0, NULL, NULL, "of adamw"},
    {"eps", 0, "X", CLI_NUMBER, FIELD(train.eps), NULL, 1e-30, 1, NULL, NULL, "of adamw"},
    {"precision", 0, "NAME", CLI_CHOICE, FIELD(train.precision), "f32", 0, 0, "f32|bf16|f16", NULL,
     "of products and gradients; sums, norms, loss and the parameters themselves are float32"},
    {"shard", 0, "STAGE", CLI_INT, FIELD(train.shard), "1", 0, 3, NULL, NULL,
     "what each rank has only its slice of: 1 optimizer, 2 and gradients, 3 and parameters; 0: nothing"},
    {"remat", 0, "none|blocks|K|auto", CLI_TEXT, FIELD(train.remat), NULL, 0, 0, NULL, NULL,
     "activations computed again in backward: inside every block, every K-th, or as few as --memory needs (none)"},
    {"memory", 0, "SIZE", CLI_SIZE, FIELD(train.memory), NULL, 1, 1e18, NULL, NULL,
     "limit of a rank's parameters, gradients, optimizer state and activations, for --remat auto"},
    {"prefetch", 0, "N", CLI_INT, FIELD(train.prefetch), NULL, 1, 64, NULL, NULL,
     "with --shard 3 on several nodes: blocks whose parameters are gathered ahead of use (1)"},
    {"offload", 0, "DIR", CLI_TEXT, FIELD(train.offload), NULL, 0, 0, NULL, NULL,
     "optimizer state in a file there, for models larger than memory"},
    {"compress", 0, "CODEC", CLI_TEXT, FIELD(train.compress), "none", 0, 0, NULL, NULL,
     "how gradients travel: none, f16, bf16, powersgd[:RANK], onebit[:WARMUP STEPS], topk[:FRACTION]; --shard 0 or 1"},
    {"bucket-mb", 0, "X|X,Y,...|auto", CLI_TEXT, FIELD(train.bucket_mb), "25", 0, 0, NULL, NULL,
     "MiB of gradients that are reduced together, for each bucket; auto: the last reduction ends first"},
    {"first-bucket-mb", 0, "X", CLI_NUMBER, FIELD(train.first_bucket_mb), NULL, 1e-6, 1048576, NULL, NULL,
     "of the bucket that is ready first, so that communication starts early (1)"},

    {"run", 0, "DIR", CLI_TEXT, FIELD(train.run_dir), NULL, 0, 0, NULL, NULL,
     "folder of the run: metrics, checkpoints, timeline (runs/MODEL)"},
    {"resume", 0, NULL, CLI_FLAG, FIELD(train.resume), NULL, 0, 0, NULL, NULL, "goes on from the newest checkpoint in that folder"},
    {"save-every", 0, "N", CLI_INT, FIELD(train.save_every), NULL, 1, 1000000000, NULL, NULL,
     "steps between checkpoints; at the end only if not given"},
    {"keep", 0, "K", CLI_INT, FIELD(train.keep), "3", 1, 1000000, NULL, NULL, "checkpoints kept, the newest"},
    {"eval-every", 0, "N", CLI_INT, FIELD(train.eval_every), NULL, 1, 1000000000, NULL, NULL,
     "steps between evaluations; ten a run if not given"},
    {"init", 0, "FILE", CLI_TEXT, FIELD(train.init), NULL, 0, 0, NULL, NULL,
     "first weights from a safetensors file with Hugging Face's names"},
    {"trace", 0, "FROM:TO", CLI_TEXT, FIELD(trace), NULL, 0, 0, NULL, NULL,
     "steps whose timeline is kept; the last three if not given"},
    {"explain", 0, NULL, CLI_FLAG, FIELD(explain), NULL, 0, 0, NULL, NULL, "prints all settings and the plan of a step, trains nothing"},
    {"timeout", 0, "SEC", CLI_NUMBER, FIELD(timeout_s), NULL, 0.001, 1e9, NULL, "TANDEM_TIMEOUT,TANDEM_RDZV_TIMEOUT",
     "time that ranks wait for each other, at the start (60 if not given) and in collectives (300)"},
    {"seed", 0, "N", CLI_U64, FIELD(train.seed), "0", 0, 18446744073709551615.0, NULL, NULL,
     "of weights, order and dropout, as torch.manual_seed"},
    {"json", 0, NULL, CLI_FLAG, FIELD(train.json), NULL, 0, 0, NULL, NULL, "metrics of each step and the summary on stdout, a line each"},
    {"quiet", 'q', NULL, CLI_FLAG, FIELD(train.quiet), NULL, 0, 0, NULL, NULL, "no progress"},
};

static bool two_numbers(const char *option, const char *text, char between, double *first, double *second)
{
    char *end;
    *first = strtod(text, &end);
    bool good = end != text && *end == between;
    const char *rest = end + 1;
    if (good) {
        *second = strtod(rest, &end);
        good = end != rest && *end == '\0';
    }
    if (!good)
        fprintf(stderr, "tandem train: --%s %s: two numbers with '%c' between them are needed\n", option, text, between);
    return good;
}

static bool interpret(train_values *v)
{
    v->train.sequential = strcmp(v->order, "sequential") == 0;
    double from, to;
    if (v->betas != NULL) {
        if (!two_numbers("betas", v->betas, ',', &from, &to))
            return false;
        if (!(from >= 0 && from < 1 && to >= 0 && to < 1)) {
            fprintf(stderr, "tandem train: --betas %s: two numbers from 0 to below 1 are needed\n", v->betas);
            return false;
        }
        v->train.beta1 = from;
        v->train.beta2 = to;
    }
    if (v->trace != NULL) {
        if (!two_numbers("trace", v->trace, ':', &from, &to))
            return false;
        if (!(from >= 1 && to >= from && to <= 1e9 && to - from < 100000)) {
            fprintf(stderr, "tandem train: --trace %s: steps from 1 on, the second not before the first, at most 100000\n", v->trace);
            return false;
        }
        v->train.trace_from = (int)from;
        v->train.trace_to = (int)to;
    }
    return true;
}

static int explain(const cli_train_library *library, const train_values *v)
{
    char *text;
    const char *world = getenv("WORLD_SIZE");
    int ranks = v->launch.ranks > 0 ? v->launch.ranks : world != NULL ? atoi(world) : tdm_launch_default_ranks();
    tdm_status st = library->explain(&v->train, ranks * v->launch.nodes, ranks, &text);
    if (st != TDM_OK)
        return cli_fail("train", st);
    fputs(text, stdout);
    library->text_free(text);
    return CLI_DONE;
}

/* Whether a run that ended so may have left a checkpoint that matters now. */
static bool leaves_something(int exit_code)
{
    return exit_code != CLI_DONE && exit_code != CLI_USAGE && exit_code != CLI_BAD_FILE;
}

/* One line is enough: what is the same on all ranks, or seen by all, is said by the first of a node. */
static bool speaks(tdm_status status, const tdm_train_end *end)
{
    const char *local_rank = getenv("LOCAL_RANK");
    bool first = local_rank == NULL || strcmp(local_rank, "0") == 0;
    if (end->everywhere || status == TDM_ERR_INTERRUPTED)
        return first;
    if (status == TDM_ERR_ABORTED)
        return false; /* the rank that gave up says why */
    if (status == TDM_ERR_PEER_LOST && getenv("TANDEM_LAUNCHER") != NULL)
        return first; /* the launcher names the dead, also where the first rank is among them */
    return true;
}

/* "Go on with": where, and how. */
static void hint(const cli_train_library *library, const train_values *v, bool say_none)
{
    char *folder;
    if (library->newest(&v->train, &folder) != TDM_OK)
        return;
    if (folder != NULL)
        fprintf(stderr, "tandem train: %s is the newest checkpoint; the same command with --resume goes on from it\n", folder);
    else if (say_none)
        fprintf(stderr, "tandem train: no checkpoint was written yet\n");
    library->text_free(folder);
}

static int as_rank(const cli_train_library *library, const train_values *v)
{
    tdm_train_end end;
    sigset_t both; /* let in while the run goes on; behind it, a launcher's signal must not cut off the message */
    sigemptyset(&both);
    sigaddset(&both, SIGINT);
    sigaddset(&both, SIGTERM);
    sigprocmask(SIG_BLOCK, &both, NULL);
    tdm_status st = library->train(&v->train, &end);
    if (st == TDM_OK)
        return CLI_DONE;
    int exit_code = cli_exit_code(st);
    if (speaks(st, &end)) {
        const char *rank = getenv("RANK"), *launcher = getenv("TANDEM_LAUNCHER");
        (void)cli_fail("train", st);
        if ((rank == NULL || strcmp(rank, "0") == 0) && (launcher == NULL || strcmp(launcher, NAME) != 0) && leaves_something(exit_code))
            hint(library, v, st == TDM_ERR_INTERRUPTED);
    }
    return end.signal != 0 ? CLI_SIGNAL + end.signal : exit_code;
}

static int as_launcher(const cli_train_library *library, train_values *v, int argc, char **argv)
{
    int local = v->launch.ranks > 0 ? v->launch.ranks : tdm_launch_default_ranks();
    tdm_status st = library->check(&v->train, local * v->launch.nodes, local);
    if (st != TDM_OK)
        return cli_fail("train", st);
    const char **ranks_argv = calloc((size_t)argc + 2, sizeof *ranks_argv);
    if (ranks_argv == NULL) {
        fprintf(stderr, "tandem train: no memory\n");
        return CLI_NO_SPACE;
    }
    ranks_argv[0] = "/proc/self/exe";
    for (int i = 0; i < argc; i++)
        ranks_argv[i + 1] = argv[i];
    v->launch.name = NAME;
    v->launch.argv = ranks_argv;
    v->launch.inherit_rank0 = true;
    v->launch.quiet = v->train.quiet || v->train.json;
    v->launch.ranks_explain = true;
    v->launch.interrupt_grace_s = 0.8;
    v->launch.terminate_grace_s = 60; /* the step is finished and saved */
    int exit_code;
    st = tdm_launch(&v->launch, &exit_code);
    free(ranks_argv);
    if (st != TDM_OK)
        return cli_fail("train", st);
    if (v->launch.node_rank == 0 && leaves_something(exit_code))
        hint(library, v, exit_code == CLI_SIGNAL + SIGINT);
    return exit_code;
}

static int run(int argc, char **argv)
{
    cli_train_library library;
    train_values values = {0};
    int exit_code, given = argc;
    char **copy = cli_keep_arguments(argc, argv);
    if (copy == NULL || !cli_train_library_load(&library)) {
        free(copy);
        return CLI_FAILED;
    }
    library.options_init(&values.train);
    tdm_launch_options_init(&values.launch);
    if (!cli_parse(&cli_train, &argc, argv, &values, &exit_code)) {
        free(copy);
        return exit_code;
    }
    values.train.model = argc > 1 ? argv[1] : NULL;
    exit_code = CLI_USAGE;
    if (argc != 2)
        fprintf(stderr, "tandem train: %s; usage: tandem train MODEL [OPTIONS], MODEL is gpt2 or mlp\n",
                argc < 2 ? "no model" : "one model is enough");
    else if (interpret(&values)) {
        bool is_rank = getenv("RANK") != NULL && getenv("WORLD_SIZE") != NULL;
        exit_code = values.explain ? explain(&library, &values)
                    : is_rank      ? as_rank(&library, &values)
                                   : as_launcher(&library, &values, given, copy);
    }
    free(copy);
    return exit_code;
}

const cli_command cli_train = {
    .name = "train",
    .arguments = "MODEL",
    .summary = "trains gpt2 or mlp on text or tokens over several ranks",
    .details = "Starts one rank a core and trains, or is one rank of a job that `tandem run`, torchrun, mpirun or srun started.\n"
               "Writes DIR/metrics.jsonl, DIR/summary.json, DIR/timeline.json and the checkpoints DIR/step-N/. SIGINT ends within a\n"
               "second; SIGTERM finishes the step and saves; --resume goes on with the same losses, bit for bit.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
