/* train.h - training and generating without writing a model: what `tandem train` and `tandem generate` call.
 * In libtandem_train. */
#ifndef TANDEM_TRAIN_H
#define TANDEM_TRAIN_H

#include <tandem/group.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A number not set by the user: the model's default is taken. */
#define TDM_UNSET (-1)

typedef struct tdm_train_options {
    const char *model;  /* "gpt2" or "mlp" */
    const char *preset; /* a name of the model's presets; NULL: its default */
    int layers, width, heads, seq, vocab; /* TDM_UNSET: the preset's */
    double dropout;                       /* probability; TDM_UNSET: the preset's */

    const char *data;      /* file of text or of uint16 tokens (.bin) */
    const char *tokenizer; /* "bytes", "gpt2" (a .bin file of its token ids); NULL: by the file's suffix */
    double val_fraction;   /* of the tokens, at the end; TDM_UNSET: 0.05 */
    bool sequential;       /* order of samples; else shuffled by seed and epoch */

    int batch;                    /* windows a rank and micro-batch; TDM_UNSET: the model's */
    int accum;                    /* micro-batches a step; TDM_UNSET: 1 */
    int steps, epochs;            /* at most one is set; both TDM_UNSET: one epoch */
    const char *optimizer;        /* "adamw", "sgd"; NULL: adamw */
    double lr, weight_decay, clip, beta1, beta2, eps; /* TDM_UNSET: the model's; clip 0: none; sgd: momentum is beta1 */
    int warmup;                   /* steps of linear warm-up; TDM_UNSET: the model's, at most a tenth of the run */
    const char *schedule;         /* "cosine" (to a tenth), "linear" (to zero), "constant"; NULL: cosine */
    const char *precision;        /* "f32", "bf16", "f16": of products and gradients; NULL: f32 */
    int shard;                    /* 0 to 3; TDM_UNSET: 1 */
    const char *remat;            /* activations computed again instead of kept: "none", "blocks", "K" (inside every K-th block), "auto"
                                     (as few as fit into `memory`); NULL: auto where `memory` is given, else none */
    size_t memory;                /* bytes that a rank may need for parameters, gradients, optimizer state and activations; 0: no limit */
    const char *offload;          /* a folder for a file with the optimizer's state; NULL: it is in memory */
    int prefetch;                 /* units of parameters gathered ahead of use (shard 3 over several nodes); TDM_UNSET: 1 */
    const char *compress;         /* "none", "bf16", "powersgd:4", ... as tdm_compression_parse; NULL: none */
    const char *bucket_mb;        /* MiB of a bucket: "25"; of the first, the second, ... : "1,25,25"; "auto"; NULL: 25 */
    double first_bucket_mb;       /* where bucket_mb is one number; TDM_UNSET: 1, or bucket_mb if that is less */

    const char *run_dir;    /* NULL: runs/MODEL */
    bool resume;
    int save_every, keep, eval_every; /* steps; TDM_UNSET: at the end, 3, ten times a run */
    const char *init;       /* safetensors file with initial weights */
    int trace_from, trace_to; /* steps whose timeline is kept; TDM_UNSET: the last three */

    uint64_t seed;
    double timeout_s;  /* of collectives; TDM_UNSET: TANDEM_TIMEOUT */
    bool json;         /* rank 0 prints each step's metrics and the summary on stdout */
    bool quiet;        /* no progress on stderr */
} tdm_train_options;

/* Everything unset, seed 0. */
TDM_API void tdm_train_options_init(tdm_train_options *options);

/* How a run ended. */
typedef struct tdm_train_end {
    int signal;      /* SIGINT or SIGTERM that ended it, or 0 */
    bool everywhere; /* after an error: every rank returns the same one with the same text, so one may speak for all */
} tdm_train_end;

/* tdm_train - trains as one rank of the job that the environment describes (RANK, WORLD_SIZE, ...), or alone.
 * Writes run_dir/{metrics.jsonl,summary.json,timeline.json,step-N/}; rank 0 reports progress on stderr.
 * Errors  TDM_ERR_INVALID an option | TDM_ERR_BAD_FILE data or checkpoint | TDM_ERR_EXISTS run_dir without resume |
 *         TDM_ERR_NOT_FINITE step, rank, first node | TDM_ERR_INTERRUPTED after SIGINT, or after SIGTERM (which saves first):
 *         end->signal then holds the signal | all of tdm_group_create and the collectives
 * Thread  the process's main thread; SIGINT and SIGTERM are unblocked while it runs, and have handlers once the ranks have met.
 *         A caller that has them blocked gets its error text out whatever its launcher sends in between. */
TDM_API TDM_MUST_CHECK tdm_status tdm_train(const tdm_train_options *options, tdm_train_end *end);

/* tdm_train_check - what can be known to be wrong before ranks start: options, and memory for `local_size` of `world_size` ranks.
 * Errors  TDM_ERR_INVALID names the option | TDM_ERR_NO_MEMORY needed and present bytes */
TDM_API TDM_MUST_CHECK tdm_status tdm_train_check(const tdm_train_options *options, int world_size, int local_size);

/* tdm_train_newest - the folder of the checkpoint that --resume would go on from; NULL where there is none yet. *folder_out: new
 * text, freed with tdm_text_free. Looks at names and sizes only. */
TDM_API TDM_MUST_CHECK tdm_status tdm_train_newest(const tdm_train_options *options, char **folder_out);

/* tdm_train_explain - all defaults as they would be used and the plan of a step on `world_size` ranks, `local_size` of them on each
 * node: buckets, nodes, memory.
 * *text_out: new text, freed with tdm_text_free. Needs no data and starts nothing. */
TDM_API TDM_MUST_CHECK tdm_status tdm_train_explain(const tdm_train_options *options, int world_size, int local_size,
                                                        char **text_out);
TDM_API void tdm_text_free(char *text);

typedef struct tdm_generate_options {
    const char *checkpoint; /* a folder step-N, or a run folder: its newest */
    const char *prompt;     /* bytes; for token models see docs/cli.md */
    int tokens;             /* to generate */
    double temperature;     /* 0: always the likeliest */
    int top_k;              /* 0: all */
    uint64_t seed;
} tdm_generate_options;

/* tdm_generate - continues a prompt. Each piece of text goes to `write` as it is made. */
TDM_API TDM_MUST_CHECK tdm_status tdm_generate(const tdm_generate_options *options,
                                               void (*write)(const char *text, size_t nbytes, void *arg), void *arg);

#ifdef __cplusplus
}
#endif
#endif
