/* loop.c - step after step: batch, graph, metrics; evaluation and checkpoints at their intervals.
 *
 * Threads: the main thread runs this; the loader has one that reads ahead; over tcp the group has one. */
#include "train/signals.h"
#include "train/trainer.h"

#include "core/clock.h"

#include <math.h>
#include <signal.h>
#include <string.h>

tdm_status tdmi_trainer_feed(void *arg, int micro_batch)
{
    (void)micro_batch; /* the loader's next one */
    tdmi_trainer *t = arg;
    tdmi_batch next, *batch = &next;
    tdm_status st = tdmi_loader_next(t->loader, batch);
    if (st != TDM_OK)
        return st;
    size_t seq = (size_t)t->settings.config.seq, rows = (size_t)t->settings.batch;
    size_t targets = (size_t)t->settings.model->targets(&t->settings.config);
    memcpy(t->in_tokens, batch->inputs, rows * seq * sizeof *t->in_tokens);
    for (size_t r = 0; r < rows; r++)
        memcpy(t->in_targets + r * targets, batch->targets + (r + 1) * seq - targets, targets * sizeof *t->in_targets);
    return TDM_OK;
}

tdm_status tdmi_trainer_sample_memory(tdmi_trainer *t)
{
    double sum = (double)tdmi_own_pss();
    if (t->size > 1) {
        tdm_status st = tdm_allreduce(t->group, &sum, &sum, 1, TDM_F64, TDM_SUM, NULL);
        if (st != TDM_OK)
            return st;
    }
    if (sum > t->peak_rss)
        t->peak_rss = sum;
    return TDM_OK;
}

static bool is_traced(const tdmi_trainer *t, int64_t step)
{
    const tdm_train_options *o = &t->settings.options;
    return o->trace_from == TDM_UNSET || (step >= o->trace_from && step <= o->trace_to);
}

static tdm_status one_step(tdmi_trainer *t, tdmi_step_metrics *m, bool *stop)
{
    int64_t begin = tdmi_now_ns(), step = t->step + 1;
    const uint64_t left = tdmi_loader_left(t->loader); /* the last step of an epoch may have fewer micro-batches */
    const int micro_batches = left < (uint64_t)t->settings.micro_batches ? (int)left : t->settings.micro_batches;
    /* A stream of its own for each step and rank: a run that goes on from a checkpoint draws what it would have drawn. */
    tdmi_rng_seed(&t->mask_rng, tdmi_rng_stream_seed(t->settings.options.seed, (uint32_t)(step * t->size + t->rank)));
    double lr = tdmi_schedule_lr(&t->schedule, step);
    tdmi_step_result r;
    const double scale = t->settings.precision == TDM_F16 ? (double)t->scaler.scale : 0; /* this step's */
    const bool traced = is_traced(t, step);
    tdm_status st = tdmi_exec_step(t->exec, step, micro_batches, lr, tdmi_signals_received() == SIGTERM, traced, &r);
    if (st != TDM_OK) {
        if (st == TDM_ERR_NOT_FINITE && r.decided) /* on all ranks: those whose own loss is fine do not know more */
            st = tdmi_trainer_agree(t, isfinite(r.own_loss) && !isfinite(r.loss) ? TDM_OK : st);
        return st;
    }
    int64_t end = tdmi_now_ns();
    t->step = step;
    t->train_loss = r.loss;
    *stop = r.stop;
    int64_t samples = (int64_t)t->settings.batch * t->size * micro_batches, tokens = samples * t->settings.config.seq;
    t->samples += samples;
    *m = (tdmi_step_metrics){.step = step,
                             .loss = r.loss,
                             .lr = lr,
                             .grad_norm = r.grad_norm,
                             .samples = t->samples,
                             .tokens = t->samples * t->settings.config.seq,
                             .step_ms = (double)(end - begin) / 1e6,
                             .data_ms = (double)r.data_ns / 1e6,
                             .forward_ms = (double)r.forward_ns / 1e6,
                             .backward_ms = (double)r.backward_ns / 1e6,
                             .comm_ms = (double)r.comm_ns / 1e6,
                             .comm_exposed_ms = (double)r.comm_exposed_ns / 1e6,
                             .optimizer_ms = (double)r.optimizer_ns / 1e6,
                             .tokens_per_s = (double)tokens / ((double)(end - begin) / 1e9),
                             .scale = scale,
                             .skipped = t->scaler.skipped,
                             .sent_mb = (double)r.sent_nbytes / 1e6,
                             .plain_mb = (double)r.plain_nbytes / 1e6,
                             .val_loss = NAN};
    return TDM_OK;
}

static tdm_status evaluate(tdmi_trainer *t, tdmi_step_metrics *m)
{
    tdm_status st = tdmi_evaluation_run(t->evaluation, &t->val_loss);
    if (st == TDM_OK)
        st = tdmi_trainer_sample_memory(t);
    if (st == TDM_OK && t->rank == 0)
        tdmi_progress_line(&t->progress, "step %lld: validation loss %.4f (%llu windows)", (long long)t->step, t->val_loss,
                           (unsigned long long)tdmi_evaluation_windows(t->evaluation));
    m->val_loss = t->val_loss;
    return st;
}

static tdm_status report(tdmi_trainer *t, const tdmi_step_metrics *m)
{
    tdm_status st = tdmi_metrics_add(t->metrics, m);
    if (st != TDM_OK)
        tdm_group_abort(t->group, tdm_error_text());
    tdmi_progress_step(&t->progress, m->step, m->loss, m->tokens_per_s * m->step_ms / 1e3, m->step_ms, m->comm_exposed_ms);
    return st;
}

tdm_status tdmi_trainer_loop(tdmi_trainer *t)
{
    const tdmi_settings *s = &t->settings;
    while (t->step < s->steps) {
        tdmi_step_metrics m;
        bool stop = false;
        tdm_status st = one_step(t, &m, &stop);
        bool last = t->step == s->steps;
        if (st == TDM_OK && t->step == t->first_step + 1)
            st = tdmi_trainer_sample_memory(t);
        const bool evaluates = t->evaluation != NULL && !stop && (last || t->step % s->eval_every == 0);
        const bool saves = last || stop || (s->save_every > 0 && t->step % s->save_every == 0);
        if (st == TDM_OK && (evaluates || saves))
            st = tdmi_exec_settle(t->exec);
        if (st == TDM_OK && evaluates)
            st = evaluate(t, &m);
        if (st == TDM_OK && t->rank == 0)
            st = report(t, &m);
        if (st == TDM_OK && saves)
            st = tdmi_trainer_save(t);
        if (st != TDM_OK)
            return st;
        if (stop) {
            t->stopped_by = SIGTERM;
            return tdmi_fail(TDM_ERR_INTERRUPTED, "stopped by SIGTERM after step %lld, which is saved", (long long)t->step);
        }
    }
    return TDM_OK;
}
