/* log.h - lines for people, to stderr or one sink.  `[rank host pid] time area level text`
 * TANDEM_LOG=warn,coll=debug sets the levels. error: the job cannot go on; warn: it goes on but look; info: a few lines a
 * run; debug: per object; trace: per message. Hot paths write trace events, not lines. */
#ifndef TDMI_CORE_LOG_H
#define TDMI_CORE_LOG_H

typedef enum { TDMI_LEVEL_ERROR, TDMI_LEVEL_WARN, TDMI_LEVEL_INFO, TDMI_LEVEL_DEBUG, TDMI_LEVEL_TRACE } tdmi_level;

#define TDMI_AREA_MAP(X)                                                                                               \
    X(CORE, "core") X(STORE, "store") X(TRANSPORT, "transport") X(GROUP, "group") X(COLL, "coll") X(DDP, "ddp")        \
    X(LAUNCH, "launch") X(GRAPH, "graph") X(EXEC, "exec") X(DATA, "data") X(CHECKPOINT, "checkpoint") X(TRAIN, "train")

typedef enum {
#define TDMI_AREA_ENUM(NAME, name) TDM_LOG_##NAME,
    TDMI_AREA_MAP(TDMI_AREA_ENUM)
#undef TDMI_AREA_ENUM
    TDM_LOG_AREA_COUNT
} tdmi_area;

/* Whether a line of this area and level would be written: guard costly arguments with it. */
int tdmi_log_enabled(tdmi_area area, tdmi_level level);
void tdmi_log(tdmi_area area, tdmi_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* All lines go to `sink` instead of stderr; NULL restores stderr. Call before threads start. */
void tdmi_log_set_sink(void (*sink)(tdmi_area area, tdmi_level level, const char *line, void *arg), void *arg);

#define log_error(area, ...) tdmi_log(area, TDMI_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(area, ...) tdmi_log(area, TDMI_LEVEL_WARN, __VA_ARGS__)
#define log_info(area, ...) tdmi_log(area, TDMI_LEVEL_INFO, __VA_ARGS__)
#define log_debug(area, ...) (tdmi_log_enabled(area, TDMI_LEVEL_DEBUG) ? tdmi_log(area, TDMI_LEVEL_DEBUG, __VA_ARGS__) : (void)0)
#define log_trace(area, ...) (tdmi_log_enabled(area, TDMI_LEVEL_TRACE) ? tdmi_log(area, TDMI_LEVEL_TRACE, __VA_ARGS__) : (void)0)

#endif
