/* bucket_units.c - stage 3 over several nodes: what is gathered together, and buckets that do not mix it.
 *
 *     items   h.1.mlp ... h.1.ln_1 | h.0.mlp ... h.0.ln_1 | ln_f wpe wte        a unit: a block of the model, or all that is in none,
 *     units             0          |          1           |      2              which comes last, as embeddings do */
#include "passes/bucket.h"

#include "ddp/plan.h"

#include <string.h>

/* "h.3" of "h.3.mlp.c_fc.weight"; nothing of "wte.weight". */
size_t bucket_block_length(const char *name)
{
    for (const char *at = name; *at != '\0';) {
        const size_t n = strcspn(at, ".");
        if (n > 0 && at[n] == '.' && strspn(at, "0123456789") == n)
            return (size_t)(at - name) + n;
        at += n + (at[n] == '.');
    }
    return 0;
}

static bool same_block(const bucket_item *x, const bucket_item *y)
{
    return x->block == NULL || (x->block_length == y->block_length && memcmp(x->block, y->block, x->block_length) == 0);
}

static int reads_of(const tdmi_graph *g, tdmi_id parameter)
{
    int reads = 0;
    for (int i = 0; i < g->node_count; i++)
        for (int k = 0; k < g->node[i].in_count; k++) {
            const tdmi_id t = g->node[i].in[k];
            if (t == parameter)
                reads |= 1;
            else if (t >= 0 && g->tensor[t].role == TDMI_ROLE_COPY && g->tensor[t].parameter == parameter)
                reads |= 2;
        }
    return reads;
}

void bucket_sort_by_reads(const tdmi_graph *g, bucket_item *items, int count)
{
    for (int i = 0; i < count; i++)
        items[i].reads = i > 0 && items[i].parameter == items[i - 1].parameter ? items[i - 1].reads : reads_of(g, items[i].parameter);
    for (int i = 1; i < count; i++) { /* by insertion: what is alike keeps its order */
        const bucket_item item = items[i];
        int to = i;
        for (; to > 0 && same_block(&items[to - 1], &item) && items[to - 1].reads < item.reads; to--)
            items[to] = items[to - 1];
        items[to] = item;
    }
}

/* What a block has left for its last bucket may be little: then it goes into the one before. Returns the number of buckets. */
static int join_rest(const size_t *nbytes, int count, size_t cap, int *bucket_of, int buckets)
{
    size_t rest = 0;
    for (int i = 0; i < count; i++)
        rest += bucket_of[i] == buckets - 1 ? nbytes[i] : 0;
    if (buckets == 1 || rest >= cap / 4)
        return buckets;
    for (int i = 0; i < count; i++)
        bucket_of[i] = bucket_of[i] == buckets - 1 ? buckets - 2 : bucket_of[i];
    return buckets - 1;
}

int bucket_plan_units(const bucket_item *items, const size_t *nbytes, int count, const size_t *caps, int cap_count, int *bucket_of)
{
    int buckets = 0;
    for (int first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && same_block(&items[first], &items[end]) && items[first].reads == items[end].reads;)
            end++;
        const int skip = buckets < cap_count - 1 ? buckets : cap_count - 1;
        const int more = tdmi_plan_buckets(nbytes + first, end - first, caps + skip, cap_count - skip, bucket_of + first);
        const int joined = join_rest(nbytes + first, end - first, caps[cap_count - 1], bucket_of + first, more);
        for (int i = first; i < end; i++)
            bucket_of[i] += buckets;
        buckets += joined;
    }
    return buckets;
}

void bucket_number_units(tdmi_graph *g, const bucket_item *items, int count, const int *bucket_of)
{
    int unit = 0;
    for (int i = 0; i < count; i++) {
        if (i > 0 && !same_block(&items[i - 1], &items[i]))
            unit++;
        g->bucket[bucket_of[i]].unit = unit;
    }
    for (int b = 1; b < g->bucket_count && unit == 0; b++) /* no blocks */
        g->bucket[b].unit = g->bucket[b - 1].unit + (g->bucket[b].joined ? 0 : 1);
}
