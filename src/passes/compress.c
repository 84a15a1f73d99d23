/* compress.c - how each bucket travels. The bytes are made small by the reducer (ddp/hook_*.c); this says which bucket is worth it.
 *
 * Cost    error feedback: one number an element and rank; passes over the gradients (docs/compress.md). Updates wait for the verdict
 * Saves   bytes on the wire: all ranks get whole buckets, so between nodes no parameters travel either
 * Needs   whole gradients in float32: stages 0 and 1 */
#include "core/memory.h"
#include "passes/passes.h"

#define WORTH 0.9 /* of what a bucket sends plainly: what is not smaller than that is not worth the passes */

static tdm_status refuse(const tdmi_pipeline_options *options, const char *why)
{
    return tdmi_fail(TDM_ERR_UNSUPPORTED, "compression %s %s", tdm_codec_name(options->compress.codec), why);
}

static tdm_status check(const tdmi_graph *g, const tdmi_pipeline_options *options)
{
    if (g->bucket_count == 0)
        return tdmi_fail(TDM_ERR_INVALID, "graph %s has no buckets: run bucket before compress", g->name);
    if (options->shard > 1)
        return refuse(options, "needs whole gradients, which sharding stages 2 and 3 do not keep; use stage 0 or 1");
    for (tdmi_id t = 0; t < g->tensor_count; t++)
        if (g->tensor[t].role == TDMI_ROLE_GRADIENT && g->tensor[t].shape.dtype != TDM_F32)
            return refuse(options, "takes gradients in float32 and makes them small itself; those of reduced precision travel in "
                                   "halves already");
    if (options->compress.codec == TDM_CODEC_ONEBIT && options->uncounted)
        return refuse(options, "sends momentum before all ranks know how many targets count");
    return TDM_OK;
}

tdm_status tdmi_pass_compress(tdmi_graph *g, const tdmi_pipeline_options *options)
{
    if (options->compress.codec == TDM_CODEC_NONE)
        return TDM_OK;
    tdm_status st = check(g, options);
    if (st != TDM_OK)
        return st;
    const size_t room = (size_t)TDMI_PIECES_MAX(g);
    tdmi_piece *pieces = tdmi_malloc(room * sizeof *pieces, "compress pass");
    tdm_part *parts = tdmi_malloc(room * sizeof *parts, "compress pass");
    if (pieces == NULL || parts == NULL)
        st = TDM_ERR_NO_MEMORY;
    for (int b = 0; b < g->bucket_count && st == TDM_OK; b++) {
        const int count = tdmi_graph_pieces(g, b, pieces);
        size_t elements = 0;
        for (int i = 0; i < count; i++) {
            parts[i] = (tdm_part){pieces[i].first, pieces[i].count, pieces[i].rows};
            elements += pieces[i].count;
        }
        const tdm_compression none = {.codec = TDM_CODEC_NONE};
        /* For two ranks an allreduce sends as much as it has. */
        const bool worth = (double)tdm_compression_sends(&options->compress, parts, count, 2) < WORTH * (double)(elements * sizeof(float));
        g->bucket[b].compress = worth ? options->compress : none;
        g->compressed = g->compressed || worth;
        g->bucket[b].sends = tdm_compression_sends(&g->bucket[b].compress, parts, count, options->world_size);
    }
    tdmi_free(parts);
    tdmi_free(pieces);
    return st;
}
