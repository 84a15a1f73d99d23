/* train.c - a run of one rank from its options to its summary. */
#include "train/agree.h"
#include "train/signals.h"
#include "train/step_graph.h"
#include "train/trainer.h"
#include "train/writer.h"

#include "core/clock.h"
#include "core/memory.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRACED_STEPS 3  /* kept where --trace does not say which */
#define SAMPLE_BYTES 320

tdm_status tdmi_trainer_agree(tdmi_trainer *t, tdm_status mine)
{
    return tdmi_agree(t->group, mine, &t->everywhere);
}

static tdm_status open_data(tdmi_trainer *t)
{
    const tdmi_settings *s = &t->settings;
    const char *name = s->options.tokenizer;
    tdmi_token_kind kind = TDMI_TOKENS_AUTO;
    if (s->options.data == NULL)
        return tdmi_fail(TDM_ERR_INVALID, "--data is missing: a file of text, or of uint16 tokens (.bin)");
    if (name != NULL && strcmp(name, "bytes") == 0)
        kind = TDMI_TOKENS_BYTES;
    else if (name != NULL && strcmp(name, "gpt2") == 0)
        kind = TDMI_TOKENS_U16;
    else if (name != NULL)
        return tdmi_fail(TDM_ERR_INVALID, "--tokenizer %s: there are bytes and gpt2 (a file of its tokens)", name);
    tdm_status st = tdmi_tokens_open(s->options.data, kind, (uint32_t)s->config.vocab, &t->tokens);
    if (st != TDM_OK)
        return st;
    return tdmi_tokens_split(t->tokens, s->val_fraction, (uint32_t)s->config.seq, &t->train_windows, &t->val_windows);
}

tdm_status tdmi_trainer_open_loader(tdmi_trainer *t, tdmi_sampler_position start)
{
    tdmi_loader_destroy(t->loader);
    t->loader = NULL;
    tdmi_loader_options options = {.windows = t->train_windows,
                                   .rank = t->rank,
                                   .ranks = t->size,
                                   .batch = (uint32_t)t->settings.batch,
                                   .shuffle = !t->settings.options.sequential,
                                   .seed = t->settings.options.seed,
                                   .end = TDMI_SAMPLER_DROP,
                                   .start = start};
    return tdmi_loader_create(&options, &t->loader);
}

static tdm_status make_group(tdmi_trainer *t)
{
    tdm_group_options options;
    tdm_group_options_init(&options);
    if (t->settings.options.timeout_s != TDM_UNSET)
        options.timeout_s = t->settings.options.timeout_s;
    if (getenv("RANK") == NULL && getenv("WORLD_SIZE") == NULL) { /* started by hand: alone */
        options.rank = 0;
        options.size = 1;
    }
    tdm_status st = tdm_group_create(&options, &t->group);
    if (st != TDM_OK)
        return st;
    t->rank = tdm_group_rank(t->group);
    t->size = tdm_group_size(t->group);
    return TDM_OK;
}

static tdm_status make_executor(tdmi_trainer *t)
{
    tdmi_settings *s = &t->settings;
    tdm_status st = tdmi_step_meet(s, t->group);
    if (st == TDM_OK)
        st = tdmi_step_graph(s, &t->graph);
    if (st == TDM_OK)
        st = tdmi_rng_init(&t->mask_rng, s->options.seed);
    const bool chosen = s->options.trace_from != TDM_UNSET;
    const size_t steps = chosen ? (size_t)(s->options.trace_to - s->options.trace_from) + 1 : TRACED_STEPS;
    if (st == TDM_OK)
        st = tdmi_trace_create(t->rank, steps * tdmi_exec_step_events(t->graph, t->size), &t->trace);
    if (st != TDM_OK)
        return st;
    tdmi_exec_options options = tdmi_step_executor(s, t->group, &t->scaler, &t->mask_rng);
    options.trace = t->trace;
    options.feed = tdmi_trainer_feed;
    options.feed_arg = t;
    options.interrupt = tdmi_signals_interrupt();
    st = tdmi_exec_create(t->graph, &options, &t->exec);
    if (st != TDM_OK)
        return st;
    t->in_tokens = tdmi_exec_memory(t->exec, tdmi_graph_find(t->graph, "tokens"));
    t->in_targets = tdmi_exec_memory(t->exec, tdmi_graph_find(t->graph, "targets"));
    st = tdmi_trainer_make_layouts(t);
    if (st != TDM_OK)
        return st;
    if (t->val_windows.windows == 0)
        return TDM_OK;
    return tdmi_evaluation_create(s->model, &s->config, s->precision, &t->val_windows, t->group, t->exec, tdmi_signals_interrupt(),
                                  &t->evaluation);
}

static tdm_status prepare(tdmi_trainer *t)
{
    tdmi_settings *s = &t->settings;
    tdmi_grad_scaler_init(&t->scaler);
    tdm_status st = open_data(t);
    if (st == TDM_OK)
        st = tdmi_trainer_open_loader(t, (tdmi_sampler_position){0});
    if (st == TDM_OK)
        st = tdmi_trainer_peek_init(s);
    if (st == TDM_OK)
        st = tdmi_settings_set_epoch(s, (int64_t)tdmi_loader_batches(t->loader));
    st = tdmi_trainer_agree(t, st);
    char *checkpoint = NULL;
    if (st == TDM_OK)
        st = tdmi_trainer_open_run(t, &checkpoint);
    if (st == TDM_OK)
        st = tdmi_trainer_agree(t, make_executor(t));
    if (st == TDM_OK)
        st = checkpoint != NULL ? tdmi_trainer_load(t, checkpoint) : tdmi_trainer_init_weights(t);
    if (st == TDM_OK)
        st = tdmi_exec_publish_parameters(t->exec);
    tdmi_free(checkpoint);
    if (st != TDM_OK)
        return st;
    t->schedule = tdmi_settings_schedule(s);
    t->first_step = t->step;
    if (t->rank == 0) {
        tdmi_progress_begin(&t->progress, s->options.quiet, t->first_step, s->steps);
        st = tdmi_metrics_open(t->run_dir, t->first_step > 0, t->first_step, (size_t)(s->steps - t->first_step),
                               s->options.json ? stdout : NULL, &t->metrics);
        tdmi_progress_line(&t->progress,
                           "%s, preset %s: %zu parameters on %d rank%s, %lld tokens a step, %llu windows to train on, %llu held out",
                           s->model->name, s->preset, tdmi_graph_parameter_count(t->graph), t->size, t->size == 1 ? "" : "s",
                           (long long)s->batch * s->micro_batches * s->config.seq * t->size, (unsigned long long)t->train_windows.windows,
                           (unsigned long long)t->val_windows.windows);
    }
    return tdmi_trainer_agree(t, st);
}

/* Every rank writes its own part; rank 0 makes one file of them where it can see them all. */
static tdm_status write_timeline(tdmi_trainer *t)
{
    char path[1100];
    snprintf(path, sizeof path, "%s/.timeline.rank%d.json", t->run_dir, t->rank);
    tdm_status st = tdmi_trainer_agree(t, tdmi_trace_write_chrome(t->trace, path));
    if (st != TDM_OK)
        return st;
    if (t->rank == 0) {
        const char **parts = tdmi_calloc((size_t)t->size, sizeof *parts, "timeline");
        char(*names)[sizeof path] = tdmi_calloc((size_t)t->size, sizeof *names, "timeline");
        int count = 0;
        for (int r = 0; parts != NULL && names != NULL && r < t->size; r++) {
            snprintf(names[count], sizeof *names, "%s/.timeline.rank%d.json", t->run_dir, r);
            if (access(names[count], R_OK) == 0) { /* ranks of other hosts may have written to their own disks */
                parts[count] = names[count];
                count++;
            }
        }
        snprintf(path, sizeof path, "%s/timeline.json", t->run_dir);
        st = parts == NULL || names == NULL ? TDM_ERR_NO_MEMORY : tdmi_trace_merge_chrome(parts, count, path);
        for (int r = 0; parts != NULL && r < count; r++)
            (void)unlink(parts[r]);
        tdmi_free(parts);
        tdmi_free(names);
    }
    return tdmi_trainer_agree(t, st);
}

/* A piece of text from the trained model, for people; only where tokens are bytes. Ranks that gather parameters all write it. */
static tdm_status print_sample(tdmi_trainer *t)
{
    if ((t->rank != 0 && tdmi_exec_gathers(t->exec) == NULL) || t->settings.options.quiet || strcmp(tdmi_tokens_format(t->tokens), "bytes") != 0)
        return TDM_OK;
    tdmi_writer *writer;
    tdmi_rng rng;
    tdm_status st = tdmi_rng_init(&rng, t->settings.options.seed);
    if (st == TDM_OK)
        st = tdmi_writer_create(t->settings.model, &t->settings.config, t->exec, tdmi_signals_interrupt(), &writer);
    if (st != TDM_OK)
        return st;
    char text[SAMPLE_BYTES + 1];
    st = tdmi_writer_push(writer, '\n');
    for (int i = 0; i < SAMPLE_BYTES && st == TDM_OK; i++) {
        int32_t token = 0;
        st = tdmi_writer_next(writer, &rng, 0.8, 40, &token);
        text[i] = (char)(token >= 32 && token < 127 ? token : token == '\n' ? '\n' : '?');
    }
    text[SAMPLE_BYTES] = '\0';
    tdmi_writer_destroy(writer);
    if (st == TDM_OK && t->rank == 0)
        fprintf(stderr, "\nsample:\n%s\n\n", text);
    return st;
}

static tdm_status finish(tdmi_trainer *t)
{
    tdm_status st = write_timeline(t);
    if (st == TDM_OK)
        st = tdmi_trainer_sample_memory(t);
    if (st != TDM_OK)
        return st;
    const bool done = t->step == t->settings.steps;
    if (t->rank != 0)
        return done ? print_sample(t) : TDM_OK;
    tdmi_summary summary = {.model = t->settings.model->name,
                            .parameters = tdmi_graph_parameter_count(t->graph),
                            .ranks = t->size,
                            .steps = t->step,
                            .peak_rss_mb = t->peak_rss / (1 << 20),
                            .train_loss = t->train_loss,
                            .val_loss = t->val_loss,
                            .seconds = (double)(tdmi_now_ns() - t->begin_ns) / 1e9};
    st = tdmi_metrics_summarise(t->metrics, &summary);
    tdmi_progress_end(&t->progress);
    if (st == TDM_OK && done)
        st = print_sample(t);
    if (st != TDM_OK || t->settings.options.quiet)
        return st;
    fprintf(stderr,
            "%lld steps in %.0f s: median step %.1f ms, %.0f tokens/s, exposed communication %.1f %%, memory of all ranks "
            "%.0f MiB\nloss %.4f",
            (long long)t->step, summary.seconds, summary.median_step_ms, summary.tokens_per_s,
            summary.exposed_comm_share * 100, summary.peak_rss_mb, t->train_loss);
    if (isfinite(t->val_loss))
        fprintf(stderr, ", validation loss %.4f nats a token", t->val_loss);
    if (t->size > 1)
        fprintf(stderr, "\nsent %.3g of %.3g MB a step and rank (an allreduce of float32 gradients)", summary.sent_mb, summary.plain_mb);
    fprintf(stderr, "\ncheckpoint  %s/step-%lld\nmetrics     %s/metrics.jsonl and summary.json\n"
                    "timeline    %s/timeline.json (open it at ui.perfetto.dev)\n",
            t->run_dir, (long long)t->saved_step, t->run_dir, t->run_dir);
    return TDM_OK;
}

static void close_trainer(tdmi_trainer *t)
{
    if (t->rank == 0)
        tdmi_progress_end(&t->progress);
    tdmi_metrics_close(t->metrics);
    tdmi_loader_destroy(t->loader);
    tdmi_evaluation_destroy(t->evaluation);
    tdmi_exec_destroy(t->exec);
    tdmi_graph_destroy(t->graph);
    tdmi_trace_destroy(t->trace);
    tdmi_layout_destroy(t->model_layout);
    tdmi_layout_destroy(t->optimizer_layout);
    tdmi_tokens_close(t->tokens);
    tdm_group_destroy(t->group);
}

/* After SIGINT every other error is its consequence: peers that were interrupted first look lost. */
static tdm_status interrupted(const tdmi_trainer *t)
{
    if (t->step == t->saved_step)
        return tdmi_fail(TDM_ERR_INTERRUPTED, "interrupted after step %lld", (long long)t->step);
    return tdmi_fail(TDM_ERR_INTERRUPTED, "interrupted after step %lld; the %lld steps since the last checkpoint are lost",
                     (long long)t->step, (long long)(t->step - t->saved_step));
}

tdm_status tdm_train(const tdm_train_options *options, tdm_train_end *end)
{
    tdmi_trainer t = {.train_loss = NAN, .val_loss = NAN, .begin_ns = tdmi_now_ns()};
    *end = (tdm_train_end){.everywhere = true};
    tdm_status st = tdmi_settings_resolve(options, &t.settings);
    if (st != TDM_OK)
        return st;
    snprintf(t.run_dir, sizeof t.run_dir, "%s", t.settings.run_dir);
    tdmi_signals_begin();
    st = make_group(&t);
    if (st == TDM_OK) {
        tdmi_signals_install();
        st = prepare(&t);
    }
    if (st == TDM_OK) {
        st = tdmi_trainer_loop(&t);
        if (st == TDM_OK || t.stopped_by != 0) {
            char text[TDMI_ERROR_TEXT_MAX];
            snprintf(text, sizeof text, "%s", tdm_error_text());
            tdm_status last = finish(&t);
            if (last == TDM_OK && st != TDM_OK)
                tdmi_error_set_text(text);
            st = last == TDM_OK ? st : last;
        }
    }
    if (tdmi_signals_received() == SIGINT) {
        st = interrupted(&t);
        t.stopped_by = SIGINT;
    }
    if (st != TDM_OK && t.group != NULL) {
        char text[TDMI_ERROR_TEXT_MAX];
        snprintf(text, sizeof text, "%s", tdm_error_text());
        if (!t.everywhere) /* peers need not wait for a rank that ends; what all know, each must be left to hear to its end */
            tdm_group_abort(t.group, text);
        close_trainer(&t);
        if (t.made_run_dir)
            (void)rmdir(t.run_dir); /* goes only if nothing was written into it */
        tdmi_error_set_text(text);
    } else {
        close_trainer(&t);
    }
    tdmi_signals_restore();
    *end = (tdm_train_end){.signal = t.stopped_by, .everywhere = st != TDM_OK && t.everywhere};
    return st;
}
