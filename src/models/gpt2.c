/* gpt2.c - GPT-2: a decoder of pre-norm blocks, learned positions, one matrix for embedding and head.
 *
 *     x = wte[tokens] + wpe[positions]
 *     h times:  x = x + c_proj(attention(c_attn(ln_1(x))))
 *               x = x + c_proj(gelu(c_fc(ln_2(x))))
 *     logits = ln_f(x) wte^T
 *
 * Dropout follows the embedding and each branch before its sum, as GPT-2's embd_pdrop and resid_pdrop; attention weights have
 * none. Names are those of Hugging Face's GPT2LMHeadModel without "transformer.".
 * Source  Radford et al., Language Models are Unsupervised Multitask Learners, 2019 */
#include "models/gpt2.h"

#include "core/memory.h"
#include "data/rng.h"
#include "models/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EPS 1e-5f
#define INIT_STD 0.02

/* -------- sizes -------- */

#define AT(field) offsetof(tdmi_model_config, field)
static const tdmi_config_size sizes[] = {
    {"layers", "n_layer", NULL, AT(layers), 1, 1024},
    {"width", "n_embd", NULL, AT(width), 1, 1 << 16},
    {"heads", "n_head", NULL, AT(heads), 1, 1 << 16},
    {"positions", "n_positions", "n_ctx", AT(positions), 1, 1 << 20},
    {"seq", "n_ctx", "n_positions", AT(seq), 1, 1 << 20},
    {"vocab", "vocab_size", NULL, AT(vocab), 1, 1 << 24},
};
#define SIZES ((int)(sizeof sizes / sizeof sizes[0]))

static const tdmi_model_preset presets[] = {
    {"gpt2", "124M parameters: 12 layers, 768 wide, 12 heads", {12, 768, 12, 1024, 50257, 1024, 0}},
    {"gpt2-medium", "355M parameters: 24 layers, 1,024 wide, 16 heads", {24, 1024, 16, 1024, 50257, 1024, 0}},
    {"gpt2-large", "774M parameters: 36 layers, 1,280 wide, 20 heads", {36, 1280, 20, 1024, 50257, 1024, 0}},
    {"gpt2-xl", "1,558M parameters: 48 layers, 1,600 wide, 25 heads", {48, 1600, 25, 1024, 50257, 1024, 0}},
    {"bytes", "3.5M parameters on bytes: 4 layers, 256 wide, 4 heads, windows of 128", {4, 256, 4, 128, 256, 1024, 0}},
};

/* What is wrong with the sizes, in text[size], or NULL. */
static const char *fault(const tdmi_model_config *c, char *text, size_t size)
{
    if (tdmi_config_fault(c, sizes, SIZES, text, size) != NULL)
        return text;
    if (c->width % c->heads != 0)
        snprintf(text, size, "width %d is not divisible by heads %d", c->width, c->heads);
    else if (c->seq > c->positions)
        snprintf(text, size, "seq %d is longer than the %d positions", c->seq, c->positions);
    else
        return NULL;
    return text;
}

static int targets(const tdmi_model_config *c)
{
    return c->seq;
}

/* -------- the graph -------- */

typedef struct builder {
    tdmi_graph *g;
    const tdmi_model_config *c;
    float dropout;
    char prefix[32]; /* "h.3." */
} builder;

typedef struct label {
    char text[96];
} label;

static label named(const builder *b, const char *name, const char *suffix)
{
    label l;
    snprintf(l.text, sizeof l.text, "%s%s%s", b->prefix, name, suffix);
    return l;
}

static tdmi_id matrix(builder *b, const char *name, int64_t rows, int64_t columns)
{
    return tdmi_graph_parameter(b->g, named(b, name, ".weight").text, 2, (const int64_t[]){rows, columns}, true);
}

static tdmi_id vector(builder *b, const char *name, const char *suffix, int64_t count)
{
    return tdmi_graph_parameter(b->g, named(b, name, suffix).text, 1, &count, false);
}

static tdmi_id linear(builder *b, const char *name, tdmi_id x, int64_t in, int64_t out)
{
    const tdmi_id w = matrix(b, name, out, in);
    return tdmi_linear(b->g, named(b, name, "").text, x, w, vector(b, name, ".bias", out));
}

static tdmi_id layernorm(builder *b, const char *name, tdmi_id x)
{
    const tdmi_id w = vector(b, name, ".weight", b->c->width);
    return tdmi_layernorm(b->g, named(b, name, "").text, x, w, vector(b, name, ".bias", b->c->width), EPS);
}

static tdmi_id add_branch(builder *b, const char *name, tdmi_id x, tdmi_id branch)
{
    branch = tdmi_dropout(b->g, named(b, name, ".dropout").text, branch, b->dropout);
    return tdmi_residual(b->g, named(b, name, ".residual").text, x, branch);
}

static tdmi_id block(builder *b, int layer, tdmi_id x)
{
    const int64_t width = b->c->width;
    snprintf(b->prefix, sizeof b->prefix, "h.%d.", layer);
    tdmi_id y = layernorm(b, "ln_1", x);
    y = linear(b, "attn.c_attn", y, width, 3 * width);
    y = tdmi_attention(b->g, named(b, "attn", "").text, y, b->c->heads);
    x = add_branch(b, "attn", x, linear(b, "attn.c_proj", y, width, width));
    y = layernorm(b, "ln_2", x);
    y = tdmi_gelu(b->g, named(b, "mlp.gelu", "").text, linear(b, "mlp.c_fc", y, width, 4 * width));
    x = add_branch(b, "mlp", x, linear(b, "mlp.c_proj", y, 4 * width, width));
    b->prefix[0] = '\0';
    return x;
}

static tdmi_graph *build(const tdmi_model_config *c, int batch, tdmi_build_kind kind, bool training)
{
    tdmi_graph *g = tdmi_graph_create("gpt2");
    if (g == NULL)
        return NULL;
    char text[160];
    if (fault(c, text, sizeof text) != NULL) {
        (void)tdmi_graph_fail(g, "gpt2: %s", text);
        return g;
    }
    if (batch < 1)
        (void)tdmi_graph_fail(g, "gpt2: batch is %d, expected at least 1", batch);
    const bool with_loss = kind == TDMI_BUILD_LOSS;
    const int64_t window[2] = {batch, c->seq};
    builder b = {.g = g, .c = c, .dropout = training && with_loss ? (float)c->dropout : 0};
    const tdmi_id tokens = tdmi_graph_input(g, "tokens", TDM_I32, 2, window);
    const tdmi_id wte = matrix(&b, "wte", c->vocab, c->width), wpe = matrix(&b, "wpe", c->positions, c->width);
    tdmi_id x = tdmi_dropout(g, "embedding.dropout", tdmi_embedding(g, "embedding", tokens, wte, wpe), b.dropout);
    for (int layer = 0; layer < c->layers && g->status == TDM_OK; layer++)
        x = block(&b, layer, x);
    const tdmi_id logits = tdmi_linear(g, "logits", layernorm(&b, "ln_f", x), wte, -1);
    if (with_loss)
        (void)tdmi_cross_entropy(g, "loss", logits, tdmi_graph_input(g, "targets", TDM_I32, 2, window));
    else
        tdmi_graph_output(g, logits);
    return g;
}

/* -------- initial weights: each module's own in the order of construction, then normal(0, 0.02) and zero biases -------- */

typedef struct initialiser {
    const tdmi_model_config *c;
    tdmi_rng rng;
    float *values; /* room for the largest parameter */
    tdm_status (*take)(void *arg, const char *name, const float *values, size_t count);
    void *arg;
    tdm_status status; /* first error of take */
} initialiser;

static void give(initialiser *i, const char *prefix, const char *name, size_t count)
{
    char full[96];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    if (i->status == TDM_OK)
        i->status = i->take(i->arg, full, i->values, count);
}

static void normal(initialiser *i, const char *prefix, const char *name, size_t count)
{
    tdmi_rng_normal(&i->rng, i->values, count, 0, INIT_STD);
    give(i, prefix, name, count);
}

static void constant(initialiser *i, const char *prefix, const char *name, size_t count, float value)
{
    for (size_t k = 0; k < count; k++)
        i->values[k] = value;
    give(i, prefix, name, count);
}

/* What PyTorch draws while it constructs the modules; all of it is overwritten later. */
static void skip_construction(initialiser *i)
{
    const size_t width = (size_t)i->c->width, vocab = (size_t)i->c->vocab;
    tdmi_rng_embedding(&i->rng, NULL, vocab, width);
    tdmi_rng_embedding(&i->rng, NULL, (size_t)i->c->positions, width);
    for (int layer = 0; layer < i->c->layers; layer++) {
        tdmi_rng_linear(&i->rng, NULL, NULL, 3 * width, width, true);
        tdmi_rng_linear(&i->rng, NULL, NULL, width, width, true);
        tdmi_rng_linear(&i->rng, NULL, NULL, 4 * width, width, true);
        tdmi_rng_linear(&i->rng, NULL, NULL, width, 4 * width, true);
    }
    tdmi_rng_linear(&i->rng, NULL, NULL, vocab, width, false);
}

static void init_linear(initialiser *i, const char *prefix, const char *name, size_t in, size_t out)
{
    char parameter[64];
    snprintf(parameter, sizeof parameter, "%s.weight", name);
    normal(i, prefix, parameter, in * out);
    snprintf(parameter, sizeof parameter, "%s.bias", name);
    constant(i, prefix, parameter, out, 0);
}

static void init_all(initialiser *i)
{
    const size_t width = (size_t)i->c->width, vocab = (size_t)i->c->vocab;
    skip_construction(i);
    tdmi_rng_normal(&i->rng, NULL, vocab * width, 0, INIT_STD); /* as embedding; the head, last, draws the tied matrix again */
    normal(i, "", "wpe.weight", (size_t)i->c->positions * width);
    for (int layer = 0; layer < i->c->layers; layer++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "h.%d.", layer);
        constant(i, prefix, "ln_1.weight", width, 1);
        constant(i, prefix, "ln_1.bias", width, 0);
        constant(i, prefix, "ln_2.weight", width, 1);
        constant(i, prefix, "ln_2.bias", width, 0);
        init_linear(i, prefix, "attn.c_attn", width, 3 * width);
        init_linear(i, prefix, "attn.c_proj", width, width);
        init_linear(i, prefix, "mlp.c_fc", width, 4 * width);
        init_linear(i, prefix, "mlp.c_proj", 4 * width, width);
    }
    constant(i, "", "ln_f.weight", width, 1);
    constant(i, "", "ln_f.bias", width, 0);
    normal(i, "", "wte.weight", vocab * width);
}

static size_t largest(const tdmi_model_config *c)
{
    size_t rows = 4 * (size_t)c->width;
    rows = (size_t)c->vocab > rows ? (size_t)c->vocab : rows;
    rows = (size_t)c->positions > rows ? (size_t)c->positions : rows;
    return rows * (size_t)c->width;
}

static tdm_status init(const tdmi_model_config *c, uint64_t seed, float *room, size_t room_count,
                       tdm_status (*take)(void *arg, const char *name, const float *values, size_t count), void *arg)
{
    char text[160];
    if (fault(c, text, sizeof text) != NULL)
        return tdmi_fail(TDM_ERR_INVALID, "gpt2: %s", text);
    initialiser i = {.c = c, .take = take, .arg = arg};
    tdm_status st = tdmi_rng_init(&i.rng, seed);
    if (st != TDM_OK)
        return st;
    float *own = largest(c) <= room_count ? NULL : tdmi_malloc(largest(c) * sizeof(float), "initial weights");
    i.values = own != NULL ? own : room;
    if (largest(c) > room_count && own == NULL)
        return TDM_ERR_NO_MEMORY;
    init_all(&i);
    tdmi_free(own);
    return i.status;
}

/* -------- files -------- */

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Hugging Face keeps these four as Conv1D. */
static bool transposed(const char *parameter)
{
    return ends_with(parameter, ".attn.c_attn.weight") || ends_with(parameter, ".attn.c_proj.weight") ||
           ends_with(parameter, ".mlp.c_fc.weight") || ends_with(parameter, ".mlp.c_proj.weight");
}

static char *config_json(const tdmi_model_config *c)
{
    char text[1024];
    snprintf(text, sizeof text,
             "{\n  \"architectures\": [\"GPT2LMHeadModel\"],\n  \"model_type\": \"gpt2\",\n  \"vocab_size\": %d,\n"
             "  \"n_positions\": %d,\n  \"n_ctx\": %d,\n  \"n_embd\": %d,\n  \"n_layer\": %d,\n  \"n_head\": %d,\n"
             "  \"n_inner\": null,\n  \"activation_function\": \"gelu_new\",\n  \"layer_norm_epsilon\": 1e-05,\n"
             "  \"initializer_range\": 0.02,\n  \"embd_pdrop\": %.17g,\n  \"resid_pdrop\": %.17g,\n  \"attn_pdrop\": 0.0,\n"
             "  \"tie_word_embeddings\": true,\n  \"torch_dtype\": \"float32\"\n}\n",
             c->vocab, c->positions, c->seq, c->width, c->layers, c->heads, c->dropout, c->dropout);
    return tdmi_strdup(text, "config.json");
}

/* Also refuses members of the family whose formulas differ from ours. */
static tdm_status check(const tdmi_config_json *json, const tdmi_model_config *c)
{
    const char *activation = tdmi_config_string(json, "activation_function", "gelu_new");
    if (strcmp(activation, "gelu_new") != 0 && strcmp(activation, "gelu_pytorch_tanh") != 0)
        return tdmi_fail(TDM_ERR_BAD_FILE, "activation_function of config.json is \"%.64s\"; only gelu_new exists here", activation);
    if (!(fabs(tdmi_config_real(json, "layer_norm_epsilon", 1e-5) - 1e-5) < 1e-9))
        return tdmi_fail(TDM_ERR_BAD_FILE, "layer_norm_epsilon of config.json is %g; only 1e-05 exists here",
                         tdmi_config_real(json, "layer_norm_epsilon", 1e-5));
    if (tdmi_config_real(json, "n_inner", 4.0 * c->width) != 4.0 * c->width)
        return tdmi_fail(TDM_ERR_BAD_FILE, "n_inner of config.json is %g; only 4 x n_embd = %d exists here",
                         tdmi_config_real(json, "n_inner", 0), 4 * c->width);
    if (!tdmi_config_bool(json, "tie_word_embeddings", true) || !tdmi_config_bool(json, "scale_attn_weights", true) ||
        tdmi_config_bool(json, "scale_attn_by_inverse_layer_idx", false))
        return tdmi_fail(TDM_ERR_BAD_FILE, "config.json asks for untied embeddings or another scale of attention, which do not "
                         "exist here");
    char text[160];
    return fault(c, text, sizeof text) == NULL ? TDM_OK : tdmi_fail(TDM_ERR_BAD_FILE, "config.json: %s", text);
}

static tdm_status config_parse(const char *json, tdmi_model_config *out)
{
    return tdmi_config_read(json, &(tdmi_config_rules){"gpt2", sizes, SIZES, "resid_pdrop", check}, out);
}

const tdmi_model tdmi_gpt2 = {
    .name = "gpt2",
    .presets = presets,
    .preset_count = (int)(sizeof presets / sizeof presets[0]),
    .defaults = {.batch = 4, .warmup = 100, .lr = 3e-4, .weight_decay = 0.1, .clip = 1.0, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8},
    .build = build,
    .targets = targets,
    .init = init,
    .transposed = transposed,
    .config_json = config_json,
    .config_parse = config_parse,
};
