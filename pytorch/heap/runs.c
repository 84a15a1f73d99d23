/* runs.c - bins of free runs. A bin holds sizes of one power of two and sixteenth of it, so all of a higher bin fit. */
#include "runs.h"

#include <string.h>
#include <sys/mman.h>

#define LOOKS 16 /* at runs of the first bin, some of which are too short */

typedef struct bin {
    unsigned power, part;
} bin;

static bin bin_of(uint32_t pages)
{
    const unsigned power = 31 - (unsigned)__builtin_clz(pages);
    const unsigned part = power < 4 ? (pages << (4 - power)) & (RUNS_SPLIT - 1) : (pages >> (power - 4)) & (RUNS_SPLIT - 1);
    return (bin){power, part};
}

static void set_used(runs *r, uint32_t first, uint32_t pages, int kind)
{
    r->table[first] = (run){.pages = pages, .kind = (uint8_t)kind, .state = RUN_USED};
    if (pages > 1)
        r->table[first + pages - 1] = (run){.pages = pages, .kind = (uint8_t)kind, .state = RUN_USED};
}

static void insert(runs *r, uint32_t first, uint32_t pages, int kind, uint32_t dirty)
{
    const bin b = bin_of(pages);
    uint32_t *head = &r->bins[kind][b.power][b.part];
    r->table[first] =
        (run){.pages = pages, .next = *head, .prev = RUNS_NONE, .dirty = dirty, .kind = (uint8_t)kind, .state = RUN_FREE};
    if (pages > 1)
        r->table[first + pages - 1] = (run){.pages = pages, .kind = (uint8_t)kind, .state = RUN_FREE};
    if (*head != RUNS_NONE)
        r->table[*head].prev = first;
    *head = first;
    r->parts[kind][b.power] |= (uint16_t)(1u << b.part);
    r->powers[kind] |= 1u << b.power;
    r->free_pages[kind] += pages;
    r->dirty_pages[kind] += dirty;
}

static run take_out(runs *r, uint32_t first)
{
    const run old = r->table[first];
    const bin b = bin_of(old.pages);
    const int kind = old.kind;
    if (old.prev != RUNS_NONE)
        r->table[old.prev].next = old.next;
    else
        r->bins[kind][b.power][b.part] = old.next;
    if (old.next != RUNS_NONE)
        r->table[old.next].prev = old.prev;
    if (r->bins[kind][b.power][b.part] == RUNS_NONE)
        r->parts[kind][b.power] &= (uint16_t)~(1u << b.part);
    if (r->parts[kind][b.power] == 0)
        r->powers[kind] &= ~(1u << b.power);
    r->free_pages[kind] -= old.pages;
    r->dirty_pages[kind] -= old.dirty;
    return old;
}

bool runs_open(runs *r, uint32_t pages)
{
    memset(r, 0, sizeof *r);
    memset(r->bins, 0xff, sizeof r->bins);
    void *table = mmap(NULL, (size_t)pages * sizeof *r->table, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED)
        return false;
    r->table = table;
    r->pages = pages;
    insert(r, 0, pages, RUNS_PRIVATE, 0);
    return true;
}

void runs_close(runs *r)
{
    munmap(r->table, (size_t)r->pages * sizeof *r->table);
}

static uint32_t aligned(uint32_t page, uint32_t align)
{
    return (page + align - 1) / align * align;
}

static bool fits(const runs *r, uint32_t first, uint32_t pages, uint32_t align)
{
    return aligned(first, align) - first + (uint64_t)pages <= r->table[first].pages;
}

/* Of a bin above b. */
static uint32_t first_above(const runs *r, int kind, bin b)
{
    const uint32_t parts = b.part + 1 < RUNS_SPLIT ? r->parts[kind][b.power] & ~0u << (b.part + 1) : 0;
    if (parts != 0)
        return r->bins[kind][b.power][__builtin_ctz(parts)];
    const uint32_t powers = b.power + 1 < 32 ? r->powers[kind] & ~0u << (b.power + 1) : 0;
    if (powers == 0)
        return RUNS_NONE;
    const int power = __builtin_ctz(powers);
    return r->bins[kind][power][__builtin_ctz(r->parts[kind][power])];
}

static uint32_t find(const runs *r, int kind, uint32_t pages, uint32_t align)
{
    uint32_t most = pages + align - 1; /* a run of so many pages fits wherever it begins */
    for (uint32_t want = pages;; want = most) {
        const bin b = bin_of(want);
        uint32_t at = r->bins[kind][b.power][b.part];
        for (int looks = 0; at != RUNS_NONE && looks < LOOKS; looks++, at = r->table[at].next)
            if (fits(r, at, pages, align))
                return at;
        if (want == most)
            return first_above(r, kind, b);
    }
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

uint32_t runs_take(runs *r, int kind, uint32_t pages, uint32_t align)
{
    const uint32_t at = find(r, kind, pages, align);
    if (at == RUNS_NONE)
        return RUNS_NONE;
    const run old = take_out(r, at);
    const uint32_t first = aligned(at, align), before = first - at, after = old.pages - before - pages;
    uint32_t dirty = old.dirty - least(old.dirty, pages);
    if (before > 0)
        insert(r, at, before, kind, least(dirty, before));
    dirty -= least(dirty, before);
    if (after > 0)
        insert(r, first + pages, after, kind, dirty);
    set_used(r, first, pages, kind);
    return first;
}

uint32_t runs_take_whole(runs *r, int kind, uint32_t pages)
{
    const bin b = bin_of(pages);
    uint32_t at = r->bins[kind][b.power][b.part];
    for (int looks = 0; at != RUNS_NONE && looks < LOOKS; looks++, at = r->table[at].next)
        if (r->table[at].pages >= pages)
            break;
    if (at == RUNS_NONE || r->table[at].pages < pages)
        at = first_above(r, kind, b);
    if (at == RUNS_NONE || r->table[at].pages > pages + pages / 8)
        return RUNS_NONE;
    runs_take_this(r, at);
    return at;
}

void runs_take_this(runs *r, uint32_t first)
{
    const run old = take_out(r, first);
    set_used(r, first, old.pages, old.kind);
}

static bool is_free(const runs *r, uint32_t page, int kind)
{
    return r->table[page].state == RUN_FREE && r->table[page].kind == kind;
}

uint32_t runs_give(runs *r, uint32_t first, int kind, uint32_t dirty, bool merge)
{
    uint32_t pages = r->table[first].pages;
    const uint32_t behind = first + pages;
    if (merge && behind < r->pages && is_free(r, behind, kind)) {
        const run old = take_out(r, behind);
        r->table[behind].state = RUN_INSIDE;
        pages += old.pages;
        dirty += old.dirty;
    }
    if (merge && first > 0 && is_free(r, first - 1, kind)) {
        const uint32_t before = first - r->table[first - 1].pages;
        const run old = take_out(r, before);
        r->table[first - 1].state = RUN_INSIDE;
        r->table[first].state = RUN_INSIDE;
        first = before;
        pages += old.pages;
        dirty += old.dirty;
    }
    insert(r, first, pages, kind, dirty);
    return first;
}

uint32_t runs_any(const runs *r, int kind)
{
    if (r->powers[kind] == 0)
        return RUNS_NONE;
    const int power = 31 - __builtin_clz(r->powers[kind]);
    return r->bins[kind][power][31 - __builtin_clz((uint32_t)r->parts[kind][power])];
}

void runs_clean(runs *r, uint32_t first)
{
    r->dirty_pages[r->table[first].kind] -= r->table[first].dirty;
    r->table[first].dirty = 0;
}
