/* quick.c - short calls with as few instructions as they take: they are over in half a microsecond. */
#include "coll/quick.h"

#include "coll/meet.h"
#include "coll/reduce.h"
#include "core/cpu.h"
#include "core/dtype.h"

#define BUSY_POLLS 100 /* before pauses: who comes at the same time is here by then */
#define SLOTS_AHEAD 4  /* the slot that is fetched: another core has read it */
#define LINE_BYTES 64

/* The first step copies into SLOT, or there is nothing to send. */
static bool sends(const tdmi_way *way)
{
    return way->steps.step[0].kind == TDMI_STEP_COPY;
}

void tdmi_quick_send(tdmi_team *team, const tdmi_plan *plan, uint64_t number, uint64_t history, const tdmi_label *label, const void *in)
{
    tdmi_board *board = team->board[team->rank];
    tdmi_slot *slot = tdmi_team_slot(team, team->rank, number);
    const tdmi_step *copy = plan->way.steps.step;
    const unsigned shift = tdmi_dtype_shift(plan->call.dtype);
    const size_t nbytes = sends(&plan->way) ? copy->src.count << shift : 0;
    tdmi_slot_open(slot, history, plan->signature, label);
    if (nbytes > 0)
        memcpy(slot->data + (copy->dst.first << shift), (const char *)in + (copy->src.first << shift), nbytes);
    atomic_store_explicit(&slot->word, tdmi_slot_word(number, 1), memory_order_release); /* pairs with tdmi_quick_met and tdmi_meet */
    atomic_store_explicit(&board->started, number, memory_order_release);
    tdmi_ring_all(team);
    const char *next = (const char *)tdmi_team_slot(team, team->rank, number + SLOTS_AHEAD); /* fetched while the others come */
    for (size_t at = 0; at < offsetof(tdmi_slot, data) + nbytes; at += LINE_BYTES)
        tdmi_cpu_prefetch_to_write(next + at);
}

/* Where the steps behind PUBLISH begin. */
static const tdmi_step *behind(const tdmi_way *way)
{
    return way->steps.step + (sends(way) ? 2 : 1);
}

static bool is_there(const tdmi_slot *slot, uint64_t word, uint64_t history, int *polls, int *busy)
{
    while (atomic_load_explicit(&slot->word, memory_order_acquire) < word) {
        if ((*polls)-- <= 0)
            return false;
        if ((*busy)-- <= 0)
            tdmi_cpu_pause();
    }
    return atomic_load_explicit(&slot->history, memory_order_relaxed) == history;
}

bool tdmi_quick_met(const tdmi_team *team, const tdmi_plan *plan, uint64_t number, uint64_t history, int *polls)
{
    const tdmi_way *way = &plan->way;
    const tdmi_step *meet = behind(way);
    const uint64_t word = tdmi_slot_word(number, 1);
    int busy = BUSY_POLLS;
    if (meet == way->steps.step + way->steps.count || meet->kind != TDMI_STEP_MEET)
        return true;
    if (meet->from >= 0) {
        const int before = *polls;
        const bool there = is_there(tdmi_team_slot(team, meet->from, number), word, history, polls, &busy);
        if (*polls == before) /* it is ahead: what it gave next may be here by the next call */
            __builtin_prefetch(tdmi_team_slot(team, meet->from, number + 2));
        return there;
    }
    for (int r = 0; r < team->n; r++)
        if (r != team->rank && !is_there(tdmi_team_slot(team, r, number), word, history, polls, &busy))
            return false;
    return true;
}

static void reduce(const tdmi_team *team, const tdmi_plan *plan, uint64_t number, const tdmi_step *step, const void *in, void *out)
{
    const unsigned shift = tdmi_dtype_shift(plan->call.dtype);
    const void *leaf[team->n];
    for (int r = 0; r < team->n; r++)
        leaf[r] = tdmi_team_slot(team, r, number)->data + (step->src.first << shift);
    leaf[team->rank] = (const char *)in + (step->own.first << shift);
    tdmi_reduce_short(plan->call.dtype, plan->call.op, leaf, team->n, (char *)out + (step[1].dst.first << shift), step->src.count);
}

void tdmi_quick_take(const tdmi_team *team, const tdmi_plan *plan, uint64_t number, const void *in, void *out)
{
    const tdmi_way *way = &plan->way;
    const unsigned shift = tdmi_dtype_shift(plan->call.dtype);
    for (const tdmi_step *step = behind(way), *end = way->steps.step + way->steps.count; step < end; step++) {
        const void *from;
        switch (step->kind) {
        case TDMI_STEP_COPY: from = in; break;
        case TDMI_STEP_COPY_FROM: from = tdmi_team_slot(team, step->from, number)->data; break;
        case TDMI_STEP_REDUCE_FROM: reduce(team, plan, number, step, in, out); continue;
        default: continue; /* MEET is over, COPY_TO went with its REDUCE_FROM */
        }
        from = (const char *)from + (step->src.first << shift);
        char *to = (char *)out + (step->dst.first << shift);
        if (to != from)
            memcpy(to, from, step->src.count << shift);
    }
}

void tdmi_quick_hand_over(tdmi_run *run)
{
    run->way = &run->plan->way;
    run->phase = 1;
    run->met = 0;
    run->step = (size_t)(behind(run->way) - run->way->steps.step);
    run->at = 0;
    run->state = TDMI_RUN_STEPPING;
}
