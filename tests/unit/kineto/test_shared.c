/* test_shared.c - PyTorch's real traces, and one damaged in 49 ways, where they are: beside the checkout in ../shared/traces, or in
 * $TDM_SHARED/traces. Skipped with a word elsewhere. */
#include "kineto/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char shared[512];

static tdmi_trace *read_trace(const char *name)
{
    char path[1024];
    tdmi_trace *trace = NULL;
    snprintf(path, sizeof path, "%s/%s", shared, name);
    if (tdmi_trace_read(path, NULL, &trace) != TDM_OK)
        fail_msg("%s", tdm_error_text());
    return trace;
}

enum { BASE_EVENTS = 915, BASE_SEEN = 1378, BASE_KERNELS = 210 };

/* What a good reader makes of each: events kept, of them kernels, and a word that must be told; NULL: nothing is told. */
static const struct {
    const char *name;
    int rank, events, kernels;
    const char *told;
} malformed[] = {
    {"00_base.json.gz", 1, BASE_EVENTS, BASE_KERNELS, NULL},
    {"01_truncated.json", 1, 644, 147, "it was cut"},
    {"02_truncated.json.gz", 1, 632, 144, "it was cut"},
    {"03_corrupt.json.gz", 1, 444, 102, "checksum is wrong"},
    {"04_bad_crc.json.gz", 1, BASE_EVENTS, BASE_KERNELS, "checksum is wrong"},
    {"05_multi_member.json.gz", 1, BASE_EVENTS, BASE_KERNELS, NULL},
    {"06_plain_named_gz.json.gz", 1, BASE_EVENTS, BASE_KERNELS, NULL},
    {"07_gz_named_json.json", 1, BASE_EVENTS, BASE_KERNELS, NULL},
    {"08_gz_trailing_garbage.json.gz", 1, BASE_EVENTS, BASE_KERNELS, NULL},
    {"10_no_closing.json", 1, BASE_EVENTS, BASE_KERNELS, "closing brackets are missing"},
    {"11_trailing_comma.json", 1, BASE_EVENTS, BASE_KERNELS, NULL},
    {"12_bom.json", 1, BASE_EVENTS, BASE_KERNELS, NULL},
    {"13_trailing_garbage.json", 1, BASE_EVENTS, BASE_KERNELS, "behind its end"},
    {"14_top_level_array.json", -1, BASE_EVENTS, BASE_KERNELS, NULL},
    {"15_events_first.json", 1, BASE_EVENTS, BASE_KERNELS, NULL},
    {"16_one_line.json", 1, BASE_EVENTS, BASE_KERNELS, NULL},
    {"17_pretty.json.gz", 1, BASE_EVENTS, BASE_KERNELS, NULL},
    {"18_distinfo_string.json.gz", 1, BASE_EVENTS, BASE_KERNELS, NULL},
    {"19_dup_distinfo.json.gz", 1, BASE_EVENTS, BASE_KERNELS, NULL},
    {"20_nan_inf.json.gz", 1, BASE_EVENTS, BASE_KERNELS, NULL},
    {"21_nan_lower.json.gz", 1, BASE_EVENTS, BASE_KERNELS, NULL},
    {"22_bandwidth_na.json.gz", 1, BASE_EVENTS, BASE_KERNELS, NULL},
    {"23_dup_keys.json.gz", 1, BASE_EVENTS, BASE_KERNELS, NULL},
    {"24_huge_ints.json.gz", 1, BASE_EVENTS, BASE_KERNELS, NULL},
    {"25_ts_strings.json.gz", 1, BASE_EVENTS, BASE_KERNELS, NULL},
    {"26_negative_dur.json.gz", 1, BASE_EVENTS, BASE_KERNELS, "6 events with a negative duration"},
    {"27_missing_fields.json.gz", 1, 866, 198, "without a duration"},
    {"28_begin_end.json.gz", 1, 483, BASE_KERNELS, "864 begin, end"},
    {"29_shuffled.json.gz", 1, BASE_EVENTS, BASE_KERNELS, NULL},
    {"30_kernels_twice.json.gz", 1, BASE_EVENTS + BASE_KERNELS, 2 * BASE_KERNELS, NULL},
    {"40_escapes.json.gz", 1, BASE_EVENTS, BASE_KERNELS, NULL},
    {"41_lone_surrogate.json.gz", 1, BASE_EVENTS, BASE_KERNELS, "put right"},
    {"42_raw_control.json.gz", 1, BASE_EVENTS, BASE_KERNELS, "put right"},
    {"43_raw_newline.json.gz", 1, BASE_EVENTS, BASE_KERNELS, "put right"},
    {"44_bad_escape.json.gz", 1, BASE_EVENTS, BASE_KERNELS, "put right"},
    {"45_unescaped_quote.json.gz", 1, BASE_EVENTS - 3, BASE_KERNELS, "3 places where the text is no JSON"},
    {"46_latin1.json.gz", 1, BASE_EVENTS, BASE_KERNELS, "put right"},
    {"47_nul_byte.json.gz", 1, BASE_EVENTS, BASE_KERNELS, "put right"},
    {"48_long_name.json.gz", 1, BASE_EVENTS, BASE_KERNELS, NULL},
    {"49_braces_in_strings.json.gz", 1, BASE_EVENTS, BASE_KERNELS, NULL},
    {"50_deep_nesting.json.gz", 1, BASE_EVENTS, BASE_KERNELS, NULL},
    {"51_unknown_types.json.gz", 1, BASE_EVENTS, BASE_KERNELS, "entries of traceEvents that are no events"},
    {"61_empty_events.json", 1, 0, 0, NULL},
    {"63_metadata_only.json.gz", 1, 0, 0, NULL},
    {"66_cpu_only.json.gz", 1, 699, 0, NULL},
    {"67_no_steps.json.gz", 1, 912, BASE_KERNELS, NULL},
};

static void fifty_conditions_of_a_trace(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        char name[256];
        bool told = malformed[i].told == NULL;
        snprintf(name, sizeof name, "malformed/%s", malformed[i].name);
        tdmi_trace *t = read_trace(name);
        for (size_t n = 0; n < t->note_count; n++)
            told |= malformed[i].told != NULL && strstr(t->note[n], malformed[i].told) != NULL;
        if (t->rank != malformed[i].rank || (int)t->event_count != malformed[i].events || (int)t->kind_count[TDMI_EVENT_KERNEL] != malformed[i].kernels ||
            !told || (malformed[i].told == NULL && t->note_count > 0))
            fail_msg("%s: rank %d, %zu events, %zu kernels; first note: %s", malformed[i].name, t->rank, t->event_count,
                     t->kind_count[TDMI_EVENT_KERNEL], t->note_count > 0 ? t->note[0] : "none");
        tdmi_trace_free(t);
    }
}

static void four_files_are_no_traces(void **state)
{
    (void)state;
    static const char *const names[] = {"60_empty.json", "62_no_events_key.json", "64_not_json.json", "65_other_json.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[1024];
        tdmi_trace *t;
        snprintf(path, sizeof path, "%s/malformed/%s", shared, names[i]);
        assert_int_equal(tdmi_trace_read(path, NULL, &t), TDM_ERR_BAD_FILE);
    }
}

/* Complete events and kernels as counted by Python's json module. */
static void real_traces_of_all_ages_have_all_their_events(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int rank, seen, kernels, steps;
        bool ns_times;
    } real[] = {
        {"cp_event_sync/event_sync_trace.json.gz", 0, 92, 4, 1, false},
        {"cpu_gloo_rank34of300/rank34.json.gz", 34, 7604, 0, 5, true},
        {"d2h_sync/addition_d2h_sync_final.json.gz", 0, 98451, 4098, 0, false},
        {"diff_control/control.json.gz", 3, 109123, 8568, 6, false},
        {"dlrm_8rank/worker7_step_12.1694128201553.pt.trace.json.gz", 7, 3250, 246, 1, false},
        {"gloo_ddp_mlp/rank1.pt.trace.json.gz", 1, 3835, 0, 10, true},
        {"h100_qwen/qwen1.5-0.5b.json.gz", -1, 18221, 1465, 1, true},
        {"large_integer/rank70.json.gz", -1, 2, 1, 0, false},
        {"malformed_real/same_priority_streams.json.gz", -1, 2137, 200, 0, false},
        {"mtia_inference/mtia_inference_rank_0.json.gz", -1, 16158, 0, 0, true},
        {"nccl_meta_a100/nccl_data.json.gz", 0, 40573, 2700, 3, true},
        {"old_runtime_kernel_cats/inference_rank_1.json.gz", 1, 54, 4, 0, false},
        {"plain_json/backward_thread.json", 0, 7, 1, 1, false},
        {"rccl_mi300_rank0of8/resnet_act_checkpoint.json.gz", 0, 56451, 2995, 3, true},
        {"resnet50_loader0/worker0.1623143089861.pt.trace.json.gz", -1, 75718, 8772, 6, false},
        {"tb_gpu_metrics/gpu_metrics_expected.json", -1, 418, 30, 1, false},
        {"v100_mem_rank1of2/df_index_resolver.json.gz", 1, 216092, 19370, 5, false},
    };
    for (size_t i = 0; i < sizeof real / sizeof *real; i++) {
        tdmi_trace *t = read_trace(real[i].name);
        if (t->rank != real[i].rank || (int)t->seen != real[i].seen || (int)t->kind_count[TDMI_EVENT_KERNEL] != real[i].kernels ||
            t->iterations_seen != real[i].steps || t->ns_times != real[i].ns_times || t->truncated)
            fail_msg("%s: rank %d, seen %llu, %zu kernels, %d steps", real[i].name, t->rank, (unsigned long long)t->seen,
                     t->kind_count[TDMI_EVENT_KERNEL], t->iterations_seen);
        tdmi_trace_free(t);
    }
}

static void a_folder_of_eight_ranks_is_a_job(void **state)
{
    (void)state;
    char path[1024];
    const char *folder = path;
    tdmi_job_traces *job;
    snprintf(path, sizeof path, "%s/dlrm_8rank", shared);
    assert_int_equal(tdmi_job_traces_read(&folder, 1, NULL, &job), TDM_OK);
    assert_int_equal(job->count, 8);
    assert_int_equal(job->world_size, 8);
    assert_int_equal(job->note_count, 0);
    tdmi_job_traces_free(job);
}

int main(void)
{
    const char *given = getenv("TDM_SHARED"), *root = getenv("SOURCE_ROOT");
    snprintf(shared, sizeof shared, "%s%s/traces/share", given != NULL ? given : root != NULL ? root : ".", given != NULL ? "" : "/../shared");
    if (access(shared, R_OK) != 0) {
        printf("skipped: there is no %s; set TDM_SHARED to the folder that has traces/share\n", shared);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fifty_conditions_of_a_trace),
        cmocka_unit_test(four_files_are_no_traces),
        cmocka_unit_test(real_traces_of_all_ages_have_all_their_events),
        cmocka_unit_test(a_folder_of_eight_ranks_is_a_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
