/* writer.c - the window of the last tokens, and the draw from the logits behind it. */
#include "train/writer.h"

#include "core/cpu.h"
#include "core/memory.h"
#include "train/step_graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct tdmi_writer {
    tdmi_model_config config;
    tdmi_graph *graph;
    tdmi_exec *exec;
    bool whole_windows; /* the model reads exactly seq tokens: shorter texts are padded in front */
    int32_t *tokens;    /* the graph's input [seq] */
    const float *logits;
    int length;         /* tokens in the window */
    struct choice {
        float logit;
        int32_t token;
    } *choice; /* [vocab] */
};

tdm_status tdmi_writer_create(const tdmi_model *model, const tdmi_model_config *config, tdmi_exec *parameters_of,
                              const atomic_int *interrupt, tdmi_writer **out)
{
    tdmi_writer *w = tdmi_calloc(1, sizeof *w, "text generation");
    if (w == NULL)
        return TDM_ERR_NO_MEMORY;
    w->config = *config;
    w->whole_windows = model->targets(config) == 1 && config->seq > 1;
    tdmi_exec_options options = {.parameters_of = parameters_of, .isa = tdmi_cpu_isa(), .interrupt = interrupt};
    tdm_status st = tdmi_window_graph(model, config, TDMI_BUILD_LOGITS, TDM_F32, parameters_of, &w->graph);
    if (st == TDM_OK)
        st = tdmi_exec_create(w->graph, &options, &w->exec);
    if (st == TDM_OK && (w->choice = tdmi_calloc((size_t)config->vocab, sizeof *w->choice, "text generation")) == NULL)
        st = TDM_ERR_NO_MEMORY;
    if (st != TDM_OK) {
        tdmi_writer_destroy(w);
        return st;
    }
    w->tokens = tdmi_exec_memory(w->exec, tdmi_graph_find(w->graph, "tokens"));
    w->logits = tdmi_exec_memory(w->exec, tdmi_graph_find(w->graph, "logits"));
    *out = w;
    return TDM_OK;
}

void tdmi_writer_destroy(tdmi_writer *w)
{
    if (w == NULL)
        return;
    tdmi_exec_destroy(w->exec);
    tdmi_graph_destroy(w->graph);
    tdmi_free(w->choice);
    tdmi_free(w);
}

tdmi_exec *tdmi_writer_exec(tdmi_writer *w)
{
    return w->exec;
}

const tdmi_graph *tdmi_writer_graph(const tdmi_writer *w)
{
    return w->graph;
}

tdm_status tdmi_writer_push(tdmi_writer *w, int32_t token)
{
    int seq = w->config.seq;
    if (token < 0 || token >= w->config.vocab)
        return tdmi_fail(TDM_ERR_INVALID, "token %d is not in the model's vocabulary of %d", token, w->config.vocab);
    if (w->length == seq) {
        memmove(w->tokens, w->tokens + 1, (size_t)(seq - 1) * sizeof *w->tokens);
        w->length--;
    }
    w->tokens[w->length++] = token;
    return TDM_OK;
}

static int by_logit(const void *a, const void *b)
{
    const struct choice *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit < y->logit ? 1 : -1;
    return (x->token > y->token) - (x->token < y->token);
}

tdm_status tdmi_writer_next(tdmi_writer *w, tdmi_rng *rng, double temperature, int top_k, int32_t *token_out)
{
    int seq = w->config.seq, vocab = w->config.vocab, given = w->length;
    if (w->whole_windows && given < seq) { /* the first token repeated in front */
        memmove(w->tokens + (seq - given), w->tokens, (size_t)given * sizeof *w->tokens);
        for (int i = 0; i < seq - given; i++)
            w->tokens[i] = w->tokens[seq - given];
        w->length = seq;
    }
    tdm_status st = tdmi_exec_forward(w->exec, NULL);
    if (st != TDM_OK)
        return st;
    const float *logits = w->logits + (w->whole_windows ? 0 : (size_t)(w->length - 1) * (size_t)vocab);
    for (int v = 0; v < vocab; v++) {
        if (!isfinite(logits[v]))
            return tdmi_fail(TDM_ERR_NOT_FINITE, "the model gives no finite value for token %d; its weights are damaged", v);
        w->choice[v] = (struct choice){logits[v], v};
    }
    qsort(w->choice, (size_t)vocab, sizeof *w->choice, by_logit);
    int kept = top_k > 0 && top_k < vocab ? top_k : vocab, chosen = 0;
    if (temperature > 0) {
        double sum = 0, reached = 0;
        float draw;
        for (int i = 0; i < kept; i++)
            sum += exp(((double)w->choice[i].logit - (double)w->choice[0].logit) / temperature);
        tdmi_rng_uniform(rng, &draw, 1, 0, 1);
        for (chosen = 0; chosen < kept - 1; chosen++) {
            reached += exp(((double)w->choice[chosen].logit - (double)w->choice[0].logit) / temperature);
            if (reached > (double)draw * sum)
                break;
        }
    }
    *token_out = w->choice[chosen].token;
    return tdmi_writer_push(w, *token_out);
}
