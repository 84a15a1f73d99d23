/* loader.c - a ring of batches between one thread that reads and one that trains.
 *
 * Threads: the reader (run) owns the sampler, the scratch and slot number `filled % slots` while filled - taken < slots; the
 * caller of tdmi_loader_next owns the slot it was lent last. `filled`, `taken`, `stop`, `status` and `text` are guarded by
 * `lock`; `changed` is signalled whenever one of them changes. The reader takes no signal. */
#include "data/loader.h"

#include "core/clock.h"
#include "core/config.h"
#include "core/memory.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    int32_t *inputs, *targets;
    uint32_t rows;
    bool last;
    uint64_t epoch;
    tdmi_sampler_position behind;
    uint64_t left_behind; /* batches left there */
} slot;

struct tdmi_loader {
    tdmi_loader_options is;
    tdmi_sampler *sampler;
    uint64_t batches;
    slot *ring;
    uint32_t slots;       /* depth + 1: one is lent out */
    int32_t *tokens;      /* memory of all slots */
    int32_t *window;      /* [seq + 1], reader only */
    uint32_t *indices;    /* [batch], reader only */
    _Atomic uint64_t reading; /* the window the reader is at; for messages only */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t filled, taken; /* guarded by lock; a slot is lent while taken counts it and the next call has not come */
    bool stop;              /* guarded by lock */
    tdm_status status;      /* guarded by lock; the reader's end */
    char text[TDMI_ERROR_TEXT_MAX];

    pthread_t thread;                /* caller only, and all below */
    bool lent, started;
    tdmi_sampler_position position;
    uint64_t left;
};

static tdm_status fill(tdmi_loader *l, slot *to)
{
    const uint32_t seq = l->is.windows.seq;
    to->epoch = tdmi_sampler_tell(l->sampler).epoch;
    tdmi_sampler_next(l->sampler, l->indices, &to->rows, &to->last);
    to->behind = tdmi_sampler_tell(l->sampler);
    to->left_behind = tdmi_sampler_left(l->sampler);
    for (uint32_t row = 0; row < to->rows; row++) {
        atomic_store_explicit(&l->reading, l->indices[row], memory_order_relaxed);
        tdm_status st = tdmi_windows_read(&l->is.windows, l->indices[row], l->window);
        if (st != TDM_OK)
            return st;
        memcpy(to->inputs + (size_t)row * seq, l->window, seq * sizeof *l->window);
        memcpy(to->targets + (size_t)row * seq, l->window + 1, seq * sizeof *l->window);
    }
    const size_t at = (size_t)to->rows * seq, rest = (size_t)(l->is.batch - to->rows) * seq * sizeof *l->window;
    memset(to->inputs + at, 0, rest);
    memset(to->targets + at, 0, rest);
    return TDM_OK;
}

static void *run(void *arg)
{
    tdmi_loader *l = arg;
    pthread_mutex_lock(&l->lock);
    while (!l->stop && l->status == TDM_OK) {
        if (l->filled - l->taken == l->slots) {
            pthread_cond_wait(&l->changed, &l->lock); /* until the caller takes one or ends us */
            continue;
        }
        slot *to = &l->ring[l->filled % l->slots];
        pthread_mutex_unlock(&l->lock);
        tdm_status st = fill(l, to);
        pthread_mutex_lock(&l->lock);
        if (st == TDM_OK) {
            l->filled++;
        } else {
            l->status = st;
            snprintf(l->text, sizeof l->text, "%s", tdm_error_text());
        }
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

tdm_status tdmi_loader_next(tdmi_loader *l, tdmi_batch *out)
{
    const int64_t begin = tdmi_now_ns(), deadline = tdmi_deadline_in(l->is.timeout_s);
    const struct timespec until = {deadline / TDMI_NS_PER_S, deadline % TDMI_NS_PER_S};
    tdm_status st = TDM_OK;
    pthread_mutex_lock(&l->lock);
    if (l->lent) {
        l->taken++;
        l->lent = false;
        pthread_cond_broadcast(&l->changed);
    }
    while (l->filled == l->taken && st == TDM_OK) {
        if (l->status != TDM_OK) {
            st = l->status;
            tdmi_error_set_text(l->text);
        } else if (pthread_cond_timedwait(&l->changed, &l->lock, &until) != 0 && tdmi_deadline_passed(deadline) &&
                   l->filled == l->taken) {
            st = tdmi_fail(TDM_ERR_TIMEOUT, "rank %d has waited %.1f s for a batch; the loader is at window %llu of %s: is the "
                           "disk or its server alive?", l->is.rank, l->is.timeout_s,
                           (unsigned long long)atomic_load_explicit(&l->reading, memory_order_relaxed),
                           tdmi_tokens_path(l->is.windows.tokens));
        }
    }
    const slot *from = &l->ring[l->taken % l->slots];
    pthread_mutex_unlock(&l->lock);
    if (st != TDM_OK)
        return st;
    l->lent = true;
    l->position = from->behind;
    l->left = from->left_behind;
    *out = (tdmi_batch){from->inputs, from->targets, from->rows, from->last, from->epoch, tdmi_now_ns() - begin};
    return TDM_OK;
}

static tdm_status make_sampler(tdmi_loader *l)
{
    const tdmi_loader_options *o = &l->is;
    const uint64_t samples = o->limit != 0 && o->limit < o->windows.windows ? o->limit : o->windows.windows;
    const tdmi_sampler_options how = {samples, o->rank, o->ranks, o->batch, o->shuffle, o->seed, o->end};
    tdm_status st = tdmi_sampler_create(&how, &l->sampler);
    if (st == TDM_ERR_BAD_FILE)
        st = tdmi_fail(TDM_ERR_BAD_FILE, "%s: its %llu tokens for %s make %llu windows of %u tokens; %s",
                       tdmi_tokens_path(o->windows.tokens), (unsigned long long)o->windows.count,
                       o->end == TDMI_SAMPLER_EXACT ? "validation" : "training", (unsigned long long)o->windows.windows,
                       o->windows.seq, tdm_error_text());
    if (st == TDM_OK)
        st = tdmi_sampler_seek(l->sampler, o->start);
    if (st == TDM_OK) {
        l->batches = tdmi_sampler_batches(l->sampler);
        l->position = tdmi_sampler_tell(l->sampler);
        l->left = tdmi_sampler_left(l->sampler);
    }
    return st;
}

static tdm_status take_memory(tdmi_loader *l)
{
    const size_t batch = l->is.batch, seq = l->is.windows.seq, half = batch * seq;
    l->slots = l->is.depth + 1;
    l->ring = tdmi_calloc(l->slots, sizeof *l->ring, "loader ring");
    l->tokens = tdmi_calloc(half, 2 * (size_t)l->slots * sizeof *l->tokens, "loader batches");
    l->window = tdmi_calloc(seq + 1, sizeof *l->window, "loader window");
    l->indices = tdmi_calloc(batch, sizeof *l->indices, "loader indices");
    if (l->ring == NULL || l->tokens == NULL || l->window == NULL || l->indices == NULL)
        return TDM_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < l->slots; i++) {
        l->ring[i].inputs = l->tokens + 2 * i * half;
        l->ring[i].targets = l->ring[i].inputs + half;
    }
    return TDM_OK;
}

static tdm_status start(tdmi_loader *l)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = pthread_create(&l->thread, NULL, run, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err != 0)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, err, "cannot start the loader's thread");
    l->started = true;
    return TDM_OK;
}

tdm_status tdmi_loader_create(const tdmi_loader_options *options, tdmi_loader **out)
{
    double timeout_s = options->timeout_s;
    if (timeout_s <= 0) {
        tdm_status st = tdmi_config_number(TDMI_CONFIG_TIMEOUT, 0, 1e9, &timeout_s);
        if (st != TDM_OK)
            return st;
    }
    tdmi_loader *l = tdmi_calloc(1, sizeof *l, "loader");
    if (l == NULL)
        return TDM_ERR_NO_MEMORY;
    l->is = *options;
    l->is.timeout_s = timeout_s;
    if (l->is.depth == 0)
        l->is.depth = 3;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&l->changed, &clock);
    pthread_condattr_destroy(&clock);
    pthread_mutex_init(&l->lock, NULL);
    tdm_status st = make_sampler(l);
    if (st == TDM_OK)
        st = take_memory(l);
    if (st == TDM_OK)
        st = start(l);
    if (st != TDM_OK) {
        tdmi_loader_destroy(l);
        return st;
    }
    *out = l;
    return TDM_OK;
}

tdmi_sampler_position tdmi_loader_position(const tdmi_loader *l)
{
    return l->position;
}

uint64_t tdmi_loader_batches(const tdmi_loader *l)
{
    return l->batches;
}

uint64_t tdmi_loader_left(const tdmi_loader *l)
{
    return l->left;
}

void tdmi_loader_destroy(tdmi_loader *l)
{
    if (l == NULL)
        return;
    if (l->started) {
        pthread_mutex_lock(&l->lock);
        l->stop = true;
        pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->lock);
        pthread_join(l->thread, NULL);
    }
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    tdmi_sampler_destroy(l->sampler);
    tdmi_free(l->ring);
    tdmi_free(l->tokens);
    tdmi_free(l->window);
    tdmi_free(l->indices);
    tdmi_free(l);
}
