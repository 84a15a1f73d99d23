/* golden_init.h - initial weights as PyTorch 2.13.0+cpu draws them: number of elements, and 64-bit FNV-1a over the
 * float32 bytes. Made by golden_init.py. */
#ifndef TESTS_MODELS_GOLDEN_INIT_H
#define TESTS_MODELS_GOLDEN_INIT_H

#include "models/model.h"

typedef struct golden_weights {
    tdmi_model_config config;
    uint64_t seed;
    int count;
    struct {
        const char *name;
        size_t count;
        uint64_t hash;
    } of[64];
} golden_weights;

static const golden_weights golden_gpt2 = {
    .config = {.layers = 2, .width = 24, .heads = 3, .seq = 8, .vocab = 65, .positions = 40}, .seed = 3, .count = 28, .of = {
        {"wte.weight", 1560, 0x14dee7ba38533e3au},
        {"wpe.weight", 960, 0xb08c546888d9bf41u},
        {"h.0.ln_1.weight", 24, 0x3940639d32d0ace5u},
        {"h.0.ln_1.bias", 24, 0x0243cfa845185aa5u},
        {"h.0.attn.c_attn.weight", 1728, 0x3fe40eef850e0483u},
        {"h.0.attn.c_attn.bias", 72, 0x66e368127e9e89a5u},
        {"h.0.attn.c_proj.weight", 576, 0x81f5517b885efcd4u},
        {"h.0.attn.c_proj.bias", 24, 0x0243cfa845185aa5u},
        {"h.0.ln_2.weight", 24, 0x3940639d32d0ace5u},
        {"h.0.ln_2.bias", 24, 0x0243cfa845185aa5u},
        {"h.0.mlp.c_fc.weight", 2304, 0x1d7c7f223fe10930u},
        {"h.0.mlp.c_fc.bias", 96, 0xc86ec345c0ee8125u},
        {"h.0.mlp.c_proj.weight", 2304, 0x50fb242bba7e92e9u},
        {"h.0.mlp.c_proj.bias", 24, 0x0243cfa845185aa5u},
        {"h.1.ln_1.weight", 24, 0x3940639d32d0ace5u},
        {"h.1.ln_1.bias", 24, 0x0243cfa845185aa5u},
        {"h.1.attn.c_attn.weight", 1728, 0x374eff6d160ffe04u},
        {"h.1.attn.c_attn.bias", 72, 0x66e368127e9e89a5u},
        {"h.1.attn.c_proj.weight", 576, 0xa2e3bf5e0abea495u},
        {"h.1.attn.c_proj.bias", 24, 0x0243cfa845185aa5u},
        {"h.1.ln_2.weight", 24, 0x3940639d32d0ace5u},
        {"h.1.ln_2.bias", 24, 0x0243cfa845185aa5u},
        {"h.1.mlp.c_fc.weight", 2304, 0x37f25f14cfb62589u},
        {"h.1.mlp.c_fc.bias", 96, 0xc86ec345c0ee8125u},
        {"h.1.mlp.c_proj.weight", 2304, 0xef8b5295b5594fcdu},
        {"h.1.mlp.c_proj.bias", 24, 0x0243cfa845185aa5u},
        {"ln_f.weight", 24, 0x3940639d32d0ace5u},
        {"ln_f.bias", 24, 0x0243cfa845185aa5u},
    }};

static const golden_weights golden_gpt2_tiny = {
    .config = {.layers = 1, .width = 2, .heads = 1, .seq = 3, .vocab = 5, .positions = 3}, .seed = 0, .count = 16, .of = {
        {"wte.weight", 10, 0x2df207c231a63f7eu},
        {"wpe.weight", 6, 0x097bd04cd649bb1eu},
        {"h.0.ln_1.weight", 2, 0x0b2d58ee2f147975u},
        {"h.0.ln_1.bias", 2, 0xa8c7f832281a39c5u},
        {"h.0.attn.c_attn.weight", 12, 0xea667940ba5f0aa4u},
        {"h.0.attn.c_attn.bias", 6, 0x81d23fd7003c2305u},
        {"h.0.attn.c_proj.weight", 4, 0xe47f4bc41a401b74u},
        {"h.0.attn.c_proj.bias", 2, 0xa8c7f832281a39c5u},
        {"h.0.ln_2.weight", 2, 0x0b2d58ee2f147975u},
        {"h.0.ln_2.bias", 2, 0xa8c7f832281a39c5u},
        {"h.0.mlp.c_fc.weight", 16, 0x64c28b75afb63ae7u},
        {"h.0.mlp.c_fc.bias", 8, 0x0c8210784d8af5a5u},
        {"h.0.mlp.c_proj.weight", 16, 0x5cec7074f9a99beeu},
        {"h.0.mlp.c_proj.bias", 2, 0xa8c7f832281a39c5u},
        {"ln_f.weight", 2, 0x0b2d58ee2f147975u},
        {"ln_f.bias", 2, 0xa8c7f832281a39c5u},
    }};

static const golden_weights golden_mlp = {
    .config = {.layers = 3, .width = 12, .seq = 5, .vocab = 29}, .seed = 11, .count = 9, .of = {
        {"embedding.weight", 348, 0x531216a1b4ad8a6eu},
        {"hidden.0.weight", 720, 0x8b98fbe958ab0436u},
        {"hidden.0.bias", 12, 0x76b0a20c68d8e35cu},
        {"hidden.1.weight", 144, 0x4c5fde6ed227cc15u},
        {"hidden.1.bias", 12, 0x48c7f344804f5321u},
        {"hidden.2.weight", 144, 0xcf5d490c5ae528d0u},
        {"hidden.2.bias", 12, 0xffe3abba33cb5091u},
        {"output.weight", 348, 0x9624cf97fce92389u},
        {"output.bias", 29, 0xd5d51399650efaa6u},
    }};

#endif
