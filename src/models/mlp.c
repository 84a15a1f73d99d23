/* mlp.c - a language model without attention: the last seq tokens, embedded and laid side by side, predict the next one.
 *
 *     x = concatenation of embedding[tokens]                       [seq width]
 *     layers times:  x = gelu(hidden(x))                           [width]; the first layer takes all seq width numbers
 *     logits = output(x)
 *
 * Dropout follows each gelu. Only the token after the window is predicted. Names are those of the PyTorch module
 * (embedding, hidden: a ModuleList, output), which keeps its own initial values.
 * Source  Bengio et al., A Neural Probabilistic Language Model, JMLR 3, 2003 */
#include "models/mlp.h"

#include "core/memory.h"
#include "data/rng.h"
#include "models/config.h"

#include <stdio.h>

/* -------- sizes -------- */

#define AT(field) offsetof(tdmi_model_config, field)
static const tdmi_config_size sizes[] = {
    {"layers", "layers", NULL, AT(layers), 1, 1024},
    {"width", "width", NULL, AT(width), 1, 1 << 16},
    {"seq", "seq", NULL, AT(seq), 1, 1 << 12},
    {"vocab", "vocab_size", NULL, AT(vocab), 1, 1 << 24},
    {"heads", NULL, NULL, AT(heads), 0, 0},
    {"positions", NULL, NULL, AT(positions), 0, 0},
};
#define SIZES ((int)(sizeof sizes / sizeof sizes[0]))

static const tdmi_model_preset presets[] = {
    {"bytes", "1.2M parameters on bytes: 2 layers, 256 wide, windows of 16", {2, 256, 0, 16, 256, 0, 0}},
};

static int targets(const tdmi_model_config *c)
{
    (void)c;
    return 1;
}

static int64_t inputs_of(const tdmi_model_config *c, int layer)
{
    return layer == 0 ? (int64_t)c->seq * c->width : c->width;
}

/* -------- the graph -------- */

static tdmi_id linear(tdmi_graph *g, const char *label, const char *name, tdmi_id x, int64_t in, int64_t out)
{
    char parameter[64];
    snprintf(parameter, sizeof parameter, "%s.weight", name);
    const tdmi_id w = tdmi_graph_parameter(g, parameter, 2, (const int64_t[]){out, in}, true);
    snprintf(parameter, sizeof parameter, "%s.bias", name);
    return tdmi_linear(g, label, x, w, tdmi_graph_parameter(g, parameter, 1, &out, false));
}

static tdmi_id hidden(tdmi_graph *g, const tdmi_model_config *c, int layer, tdmi_id x, float dropout)
{
    char name[32], label[64];
    snprintf(name, sizeof name, "hidden.%d", layer);
    x = linear(g, name, name, x, inputs_of(c, layer), c->width);
    snprintf(label, sizeof label, "%s.gelu", name);
    x = tdmi_gelu(g, label, x);
    snprintf(label, sizeof label, "%s.dropout", name);
    return tdmi_dropout(g, label, x, dropout);
}

static tdmi_graph *build(const tdmi_model_config *c, int batch, tdmi_build_kind kind, bool training)
{
    tdmi_graph *g = tdmi_graph_create("mlp");
    if (g == NULL)
        return NULL;
    char text[160];
    if (tdmi_config_fault(c, sizes, SIZES, text, sizeof text) != NULL) {
        (void)tdmi_graph_fail(g, "mlp: %s", text);
        return g;
    }
    if (batch < 1)
        (void)tdmi_graph_fail(g, "mlp: batch is %d, expected at least 1", batch);
    const bool with_loss = kind == TDMI_BUILD_LOSS;
    const float dropout = training && with_loss ? (float)c->dropout : 0;
    const tdmi_id tokens = tdmi_graph_input(g, "tokens", TDM_I32, 2, (const int64_t[]){batch, c->seq});
    const tdmi_id wte = tdmi_graph_parameter(g, "embedding.weight", 2, (const int64_t[]){c->vocab, c->width}, true);
    tdmi_id x = tdmi_embedding(g, "embedding", tokens, wte, -1);
    x = tdmi_reshape(g, x, 2, (const int64_t[]){batch, inputs_of(c, 0)});
    for (int layer = 0; layer < c->layers && g->status == TDM_OK; layer++)
        x = hidden(g, c, layer, x, dropout);
    const tdmi_id logits = linear(g, "logits", "output", x, c->width, c->vocab);
    if (with_loss)
        (void)tdmi_cross_entropy(g, "loss", logits, tdmi_graph_input(g, "targets", TDM_I32, 1, (const int64_t[]){batch}));
    else
        tdmi_graph_output(g, logits);
    return g;
}

/* -------- initial weights: each module's own, in the order of construction -------- */

static tdm_status init_linear(tdmi_rng *rng, const char *name, float *values, size_t in, size_t out,
                              tdm_status (*take)(void *arg, const char *name, const float *values, size_t count), void *arg)
{
    char parameter[64];
    tdmi_rng_linear(rng, values, values + in * out, out, in, true);
    snprintf(parameter, sizeof parameter, "%s.weight", name);
    tdm_status st = take(arg, parameter, values, in * out);
    snprintf(parameter, sizeof parameter, "%s.bias", name);
    return st == TDM_OK ? take(arg, parameter, values + in * out, out) : st;
}

static tdm_status init(const tdmi_model_config *c, uint64_t seed, float *room, size_t room_count,
                       tdm_status (*take)(void *arg, const char *name, const float *values, size_t count), void *arg)
{
    char text[160];
    if (tdmi_config_fault(c, sizes, SIZES, text, sizeof text) != NULL)
        return tdmi_fail(TDM_ERR_INVALID, "mlp: %s", text);
    tdmi_rng rng;
    tdm_status st = tdmi_rng_init(&rng, seed);
    if (st != TDM_OK)
        return st;
    const size_t width = (size_t)c->width, vocab = (size_t)c->vocab, first = (size_t)inputs_of(c, 0);
    const size_t rows = vocab > first ? vocab : first;
    const size_t count = rows * width + rows + width;
    float *own = count <= room_count ? NULL : tdmi_malloc(count * sizeof(float), "initial weights"), *values = own != NULL ? own : room;
    if (count > room_count && own == NULL)
        return TDM_ERR_NO_MEMORY;
    tdmi_rng_embedding(&rng, values, vocab, width);
    st = take(arg, "embedding.weight", values, vocab * width);
    for (int layer = 0; layer < c->layers && st == TDM_OK; layer++) {
        char name[32];
        snprintf(name, sizeof name, "hidden.%d", layer);
        st = init_linear(&rng, name, values, (size_t)inputs_of(c, layer), width, take, arg);
    }
    if (st == TDM_OK)
        st = init_linear(&rng, "output", values, width, vocab, take, arg);
    tdmi_free(own);
    return st;
}

/* -------- files -------- */

static bool transposed(const char *parameter)
{
    (void)parameter;
    return false;
}

static char *config_json(const tdmi_model_config *c)
{
    char text[256];
    snprintf(text, sizeof text,
             "{\n  \"model_type\": \"mlp\",\n  \"vocab_size\": %d,\n  \"seq\": %d,\n  \"width\": %d,\n  \"layers\": %d,\n"
             "  \"dropout\": %.17g\n}\n", c->vocab, c->seq, c->width, c->layers, c->dropout);
    return tdmi_strdup(text, "config.json");
}

static tdm_status config_parse(const char *json, tdmi_model_config *out)
{
    return tdmi_config_read(json, &(tdmi_config_rules){"mlp", sizes, SIZES, "dropout", NULL}, out);
}

const tdmi_model tdmi_mlp = {
    .name = "mlp",
    .presets = presets,
    .preset_count = (int)(sizeof presets / sizeof presets[0]),
    .defaults = {.batch = 64, .warmup = 100, .lr = 1e-3, .weight_decay = 0.01, .clip = 1.0, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
    .build = build,
    .targets = targets,
    .init = init,
    .transposed = transposed,
    .config_json = config_json,
    .config_parse = config_parse,
};
