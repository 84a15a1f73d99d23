/* explain.c - `tandem train MODEL --explain`: every setting as it would be used, and the plan of a step. */
#include "core/memory.h"
#include "exec/forecast.h"
#include "kernels/kernel.h"
#include "train/step_graph.h"

#include <stdio.h>
#include <stdlib.h>

static void print_settings(FILE *to, const tdmi_settings *s, int world_size)
{
    const tdmi_model_config *c = &s->config;
    fprintf(to, "model      %s, preset %s: ", s->model->name, s->preset);
    if (c->layers > 0)
        fprintf(to, "%d layers, ", c->layers);
    fprintf(to, "%d wide, ", c->width);
    if (c->heads > 0)
        fprintf(to, "%d heads, ", c->heads);
    fprintf(to, "context %d, vocabulary %d, dropout %g\n", c->seq, c->vocab, c->dropout);
    fprintf(to, "batch      %d windows of %d tokens a rank, %d ranks, %d micro-batch%s: %lld tokens a step\n", s->batch, c->seq,
            world_size, s->micro_batches, s->micro_batches == 1 ? "" : "es",
            (long long)s->batch * c->seq * world_size * s->micro_batches);
    if (s->epochs > 0)
        fprintf(to, "length     %d epoch%s\n", s->epochs, s->epochs == 1 ? "" : "s");
    else
        fprintf(to, "length     %lld steps\n", (long long)s->steps);
    fprintf(to, "optimizer  %s, ", tdmi_optimizer_name(s->optimizer.kind));
    if (s->optimizer.kind == TDMI_OPTIMIZER_ADAMW)
        fprintf(to, "betas %g and %g, eps %g, ", s->optimizer.beta1, s->optimizer.beta2, s->optimizer.eps);
    else
        fprintf(to, "momentum %g, ", s->optimizer.momentum);
    fprintf(to, "weight decay %g on matrices and embeddings\n", s->optimizer.weight_decay);
    fprintf(to, "lr         %g, warm-up %d steps, then %s\n", s->lr, s->warmup,
            s->schedule == TDMI_SCHEDULE_COSINE   ? "cosine to a tenth"
            : s->schedule == TDMI_SCHEDULE_LINEAR ? "linear to zero"
                                                  : "constant");
    if (s->clip > 0)
        fprintf(to, "clip       gradient norm %g: reduce, verdict of all ranks, update\n", s->clip);
    else
        fprintf(to, "clip       none: %s\n", s->shard > 0 ? "reduce and update in one pass over memory" : "reduce, update");
    fprintf(to, "precision  %s\n",
            s->precision == TDM_BF16  ? "bf16: products and gradients; parameters, norms, statistics and loss are float32"
            : s->precision == TDM_F16 ? "f16: products and gradients, the loss scaled as GradScaler does; parameters, norms and "
                                        "loss are float32"
                                      : "f32");
    fprintf(to, "shard      %d: %s\n", s->shard,
            s->shard == 0   ? "each rank keeps and updates all parameters"
            : s->shard == 1 ? "each rank updates its slices; one copy of the parameters where all ranks share a node"
                            : "each rank updates its slices; gradients go as soon as they are reduced; one copy of the "
                              "parameters where all ranks share a node");
    if (s->remat == TDMI_REMAT_AUTO)
        fprintf(to, "remat      auto: as little is computed again as fits into %.1f MiB\n", (double)s->options.memory / (1 << 20));
    else if (s->remat > 0)
        fprintf(to, "remat      of every %d. block the input is kept, its inside computed again\n", s->remat);
    else
        fprintf(to, "remat      none: activations are kept\n");
    char compress[32];
    tdmi_settings_compress_text(s, compress);
    fprintf(to, "compress   %s%s\n", compress,
            s->compress.codec == TDM_CODEC_NONE     ? ": float32 gradients"
            : s->compress.codec == TDM_CODEC_ONEBIT ? ": that many steps of AdamW first, then 1-bit Adam; 15 % of the run if not said"
                                                    : ", with error feedback");
    fprintf(to, "order      %s, seed %llu; the last %g of the tokens validate\n",
            s->options.sequential ? "sequential" : "shuffled as DistributedSampler does", (unsigned long long)s->options.seed,
            s->val_fraction);
    fprintf(to, "save       %s, the newest %d are kept, in %s\n", s->save_every > 0 ? "at intervals" : "at the end", s->keep,
            s->run_dir);
    fprintf(to, "kernels    %s\n", tdmi_kernels_table());
}

static void print_row(FILE *to, const char *what, size_t nbytes, bool once, int local_size, const char *more)
{
    const double mib = (double)nbytes / (1 << 20);
    if (nbytes == 0)
        return;
    if (once)
        fprintf(to, "  %-18s %9s %9.1f  %s\n", what, "", mib, more);
    else
        fprintf(to, "  %-18s %9.1f %9.1f  %s\n", what, mib, mib * local_size, more);
}

static void print_memory(FILE *to, const tdmi_memory_forecast *f, int local_size)
{
    fprintf(to, "\nmemory, MiB                a rank    a node  (%d rank%s)\n", local_size, local_size == 1 ? "" : "s");
    print_row(to, "parameters", f->parameters, f->one_copy, local_size, f->gathered > 0 ? "this node's part" : f->one_copy ? "one copy" : "");
    print_row(to, "16-bit copies", f->copies, f->one_copy, local_size, "");
    print_row(to, "gathered", f->gathered, f->one_copy, local_size, "units in flight");
    print_row(to, "gradients", f->gradients, false, local_size, "");
    print_row(to, "reduced slices", f->kept, false, local_size, "until the verdict");
    print_row(to, "optimizer state", f->state, false, local_size, "");
    print_row(to, "codecs", f->codecs, false, local_size, "errors and factors of what travels smaller");
    print_row(to, "travelling", f->travelling, false, local_size, "a compressed bucket");
    print_row(to, "activations", f->activations, false, local_size, "");
    print_row(to, "workspace", f->workspace, false, local_size, "of kernels");
    print_row(to, "staging", f->staging, false, local_size, "of what comes from other nodes");
    fprintf(to, "  %-18s %9.1f %9.1f  %s\n", "in all", (double)tdmi_forecast_of_process(f) / (1 << 20),
            (double)tdmi_forecast_of_node(f, local_size) / (1 << 20), "and about 20 a rank for the program itself");
    fputc('\n', to);
}

/* As a list that --bucket-mb takes. */
static void print_buckets(FILE *to, const tdmi_settings *s, const tdmi_graph *g)
{
    const tdmi_step_forecast f = tdmi_cost_forecast(g, &s->cost);
    const size_t size = tdm_dtype_size(g->gradient_type);
    size_t nbytes = 0;
    fprintf(to, "buckets of gradients, MiB:");
    for (int b = 0; b < g->bucket_count; b++) {
        nbytes += g->bucket[b].used * size;
        fprintf(to, "%s%.6g", b == 0 ? " " : ",", (double)(g->bucket[b].used * size) / (1 << 20));
    }
    fprintf(to, "\n  %zu bytes in %d%s\n", nbytes, g->bucket_count, s->bucket_auto ? ", the plan whose last reduction ends first" : "");
    fprintf(to, "  thought to take, on one node: forward and backward %.1f ms, the last reduction ends %.1f ms later\n\n",
            f.computed_s * 1e3, (f.reduced_s > f.computed_s ? f.reduced_s - f.computed_s : 0) * 1e3);
}

tdm_status tdm_train_explain(const tdm_train_options *options, int world_size, int local_size, char **text_out)
{
    tdmi_settings s;
    tdmi_graph *g = NULL, *forward = NULL;
    tdm_status st = tdmi_settings_resolve(options, &s);
    if (st != TDM_OK)
        return st;
    tdmi_step_place(&s, world_size, local_size, s.shard == 3 ? world_size / local_size : 1);
    st = tdmi_step_graph(&s, &g);
    if (st != TDM_OK)
        return st;
    const tdmi_exec_options executor = tdmi_step_executor(&s, NULL, NULL, NULL);
    tdmi_memory_forecast memory;
    st = tdmi_exec_forecast(g, &executor, world_size, local_size, &memory);
    if (st != TDM_OK) {
        tdmi_graph_destroy(g);
        return st;
    }
    tdmi_pipeline_options pipeline = tdmi_step_pipeline(&s);
    forward = s.model->build(&s.config, s.batch, TDMI_BUILD_LOSS, true);
    char *text = NULL, *plan = forward == NULL ? NULL : tdmi_pipeline_explain(forward, &pipeline);
    size_t nbytes;
    FILE *to = plan == NULL ? NULL : open_memstream(&text, &nbytes);
    if (to == NULL) {
        st = tdmi_fail(TDM_ERR_NO_MEMORY, "no memory for the explanation");
    } else {
        print_settings(to, &s, world_size);
        print_memory(to, &memory, local_size);
        print_buckets(to, &s, g);
        fputs(plan, to);
        fclose(to);
        *text_out = text;
    }
    tdmi_free(plan);
    tdmi_graph_destroy(forward);
    tdmi_graph_destroy(g);
    return st;
}

void tdm_text_free(char *text)
{
    free(text);
}
