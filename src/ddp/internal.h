/* internal.h - what the files of ddp/ share: the reducer's tables. */
#ifndef TDMI_DDP_INTERNAL_H
#define TDMI_DDP_INTERNAL_H

#include "ddp/reducer.h"

typedef struct reducer_parameter {
    char *name;
    size_t count;
    int bucket;
    size_t offset; /* elements from the start of its bucket */
    size_t rows;   /* of a matrix; 0: a vector */
    bool ready;    /* marked in this step */
    bool touched;  /* marked in this step, or in one without communication since the last reduction */
} reducer_parameter;

typedef struct reducer_bucket {
    tdm_reducer *reducer; /* this and its number: what the fused reduction hands back */
    int number;
    size_t offset;   /* bytes from the start of the slab */
    char *memory;
    char *reduced;   /* where this rank's slice goes: its place in `memory`, or one of its own */
    size_t padded;   /* elements of memory; a multiple of the group's size where slices are scattered */
    size_t used;     /* elements up to the end of the last parameter */
    size_t nbytes;   /* of its parameters alone */
    int parameters;
    int first, last; /* parameters that are ready first and last, as the plan expects it; -1: none */
    int pending;     /* parameters not marked yet in this step */
    tdm_work *work;  /* reduction under way, else NULL */
    int phase;       /* of the hook */
    tdm_part *part;  /* its parameters, by their places; after commit */
    tdm_compression compress; /* what the codec does with it */
    tdmi_bucket_times times;
} reducer_bucket;

struct tdm_reducer {
    tdm_group *group;
    tdm_reducer_options options;
    int rank, size;
    size_t elem_size;
    size_t cap, first_cap; /* bytes */
    reducer_parameter *parameter;
    int count, capacity;
    reducer_bucket *bucket;
    int bucket_count;
    char *slab; /* all buckets */
    char *kept; /* reduced slices with memory of their own, else NULL */
    size_t slab_nbytes; /* laid out by the caller; 0: one bucket after the other */
    bool keep;
    bool planned, committed;

    bool next_sync;       /* what set_sync asked for, taken over when a step begins */
    bool in_step, sync;
    int next;             /* bucket to start next */
    int done;             /* buckets before this one are reduced */
    int32_t *used;        /* [count], with find_unused: 1 where some rank used the parameter */
    tdm_reducer_hook hook; /* NULL: plain reductions */
    void *hook_arg;
    int hooked;            /* with a hook: buckets before this one are through their phases; this one is in them, if started */
    struct reducer_codec *codec; /* NULL: none */
    uint64_t sent;
    tdmi_reducer_epilogue epilogue;
    void *epilogue_arg;
    tdm_status failure; /* of a reduction: the group is dead, and this reducer says so from then on */
    char failure_text[TDMI_ERROR_TEXT_MAX];
};

/* bucket.c - one bucket's way through a step. After a failure all of them give it again. */
tdm_status reducer_bucket_start(tdm_reducer *reducer, int bucket);
/* Looks whether the buckets under way are done, oldest first, and notes the time. */
tdm_status reducer_buckets_test(tdm_reducer *reducer);
tdm_status reducer_bucket_wait(tdm_reducer *reducer, int bucket);
/* Keeps the first failure of a reduction and its text; returns st. */
tdm_status reducer_keep_failure(tdm_reducer *reducer, tdm_status st);
/* The same of what is said of this bucket. */
tdm_status reducer_failed(tdm_reducer *reducer, tdm_status st, const char *doing, int bucket);
/* Waits for everything under way and forgets how it went. */
void reducer_buckets_drain(tdm_reducer *reducer);

/* hook.c - buckets through the phases of the hook: as far as they go without waiting, and up to `bucket` with it (-1: none). */
tdm_status reducer_hook_advance(tdm_reducer *reducer, int bucket);
tdm_status reducer_list_parts(tdm_reducer *reducer);

/* codec.c - state of the codec for all buckets, and its hook; nothing where no bucket is compressed. */
tdm_status reducer_codec_create(tdm_reducer *reducer);
void reducer_codec_destroy(tdm_reducer *reducer);

/* agree.c - collective: TDM_ERR_MISMATCH unless all ranks have the same options, parameters and plan. */
tdm_status reducer_agree(tdm_reducer *reducer);

#endif
