/* codec.c - names, defaults and sizes of the codecs, and the way to the loops of this CPU. */
#include "compress/codec.h"

#include "compress/codec_kernels.h"
#include "core/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANK_DEFAULT 4
#define RANK_MAX 256
#define FRACTION_DEFAULT 0.01
#define WARMUP_MAX 1000000000

static const char *const names[] = {
    [TDM_CODEC_NONE] = "none",         [TDM_CODEC_F16] = "f16",       [TDM_CODEC_BF16] = "bf16",
    [TDM_CODEC_POWERSGD] = "powersgd", [TDM_CODEC_ONEBIT] = "onebit", [TDM_CODEC_TOPK] = "topk",
};
enum { CODECS = sizeof names / sizeof *names };

const char *tdm_codec_name(tdm_codec codec)
{
    return (unsigned)codec < CODECS ? names[codec] : "unknown";
}

const tdmi_codec_kernels *tdmi_codec_kernels_here(void)
{
    switch (tdmi_cpu_isa()) {
#if defined(__x86_64__)
    case TDMI_ISA_AVX512: return &tdmi_codec_kernels_avx512;
    case TDMI_ISA_AVX2: return &tdmi_codec_kernels_avx2;
#endif
    default: return &tdmi_codec_kernels_plain;
    }
}

/* ---- as text ---- */

static tdm_status bad_number(const char *text, const char *name, const char *takes)
{
    return tdmi_fail(TDM_ERR_INVALID, "compression \"%s\": %s takes %s", text, name, takes);
}

static tdm_status parse_number(const char *text, const char *number, tdm_compression *out)
{
    char *end;
    const double x = strtod(number, &end);
    const bool good = end != number && *end == '\0', whole = good && x >= 1 && x <= WARMUP_MAX && x == (double)(int)x;
    switch (out->codec) {
    case TDM_CODEC_POWERSGD:
        if (!whole || x > RANK_MAX)
            return bad_number(text, "powersgd", "a rank from 1 to 256, such as powersgd:4");
        out->rank = (int)x;
        return TDM_OK;
    case TDM_CODEC_ONEBIT:
        if (!whole)
            return bad_number(text, "onebit", "steps of plain AdamW first, at least 1, such as onebit:100");
        out->warmup = (int)x;
        return TDM_OK;
    case TDM_CODEC_TOPK:
        if (!good || !(x > 0 && x <= 1))
            return bad_number(text, "topk", "a part of the elements, above 0 and up to 1, such as topk:0.01");
        out->fraction = x;
        return TDM_OK;
    default:
        return bad_number(text, tdm_codec_name(out->codec), "no number");
    }
}

tdm_status tdm_compression_parse(const char *text, tdm_compression *out)
{
    const size_t length = strcspn(text, ":");
    for (int codec = 0; codec < CODECS; codec++) {
        if (strlen(names[codec]) != length || strncmp(names[codec], text, length) != 0)
            continue;
        *out = (tdm_compression){.codec = (tdm_codec)codec};
        return text[length] == ':' ? parse_number(text, text + length + 1, out) : TDM_OK;
    }
    return tdmi_fail(TDM_ERR_INVALID, "there is no compression \"%s\"; known are none, f16, bf16, powersgd[:RANK], onebit[:WARMUP] "
                                      "and topk[:FRACTION]", text);
}

/* ---- sizes ---- */

int tdmi_powersgd_rank(const tdm_compression *c)
{
    return c->rank == 0 ? RANK_DEFAULT : c->rank;
}

double tdmi_powersgd_min_saving(const tdm_compression *c)
{
    return c->min_saving == 0 ? 2 : c->min_saving;
}

int tdmi_powersgd_columns(const tdm_compression *c, const tdm_part *part)
{
    if (part->rows < 2 || part->count == 0)
        return 0;
    const size_t rows = part->rows, columns = part->count / part->rows, least = rows < columns ? rows : columns;
    const size_t rank = (size_t)tdmi_powersgd_rank(c), k = rank < least ? rank : least;
    return (double)(rows + columns) * (double)k * tdmi_powersgd_min_saving(c) < (double)part->count ? (int)k : 0;
}

size_t tdmi_topk_kept(const tdm_compression *c, size_t count)
{
    const size_t k = (size_t)((c->fraction == 0 ? FRACTION_DEFAULT : c->fraction) * (double)count);
    return k == 0 && count > 0 ? 1 : k;
}

size_t tdmi_parts_end(const tdm_part *part, int parts)
{
    size_t end = 0;
    for (int i = 0; i < parts; i++)
        end = part[i].first + part[i].count > end ? part[i].first + part[i].count : end;
    return end;
}

static size_t powersgd_elements(const tdm_compression *c, const tdm_part *part, int parts)
{
    size_t sum = 0;
    for (int i = 0; i < parts; i++) {
        const size_t k = (size_t)tdmi_powersgd_columns(c, &part[i]);
        sum += k == 0 ? part[i].count : k * (part[i].rows + part[i].count / part[i].rows);
    }
    return sum;
}

static size_t onebit_bytes(const tdm_part *part, int parts)
{
    size_t sum = 0;
    for (int i = 0; i < parts; i++)
        sum += (part[i].count + 7) / 8 + (part[i].count + TDMI_ONEBIT_BLOCK - 1) / TDMI_ONEBIT_BLOCK * sizeof(float);
    return sum;
}

size_t tdm_compression_sends(const tdm_compression *c, const tdm_part *part, int parts, int ranks)
{
    const size_t n = (size_t)ranks, end = tdmi_parts_end(part, parts);
    if (n < 2)
        return 0;
    switch (c->codec) {
    case TDM_CODEC_F16:
    case TDM_CODEC_BF16:
        return 2 * (n - 1) * end * sizeof(uint16_t) / n;
    case TDM_CODEC_POWERSGD:
        return 2 * (n - 1) * powersgd_elements(c, part, parts) * sizeof(float) / n;
    case TDM_CODEC_ONEBIT:
        return 2 * (n - 1) * onebit_bytes(part, parts) / n;
    case TDM_CODEC_TOPK:
        return (n - 1) * tdmi_topk_kept(c, end) * (sizeof(uint32_t) + sizeof(float));
    default:
        return 2 * (n - 1) * end * sizeof(float) / n;
    }
}
