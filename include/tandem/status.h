/* status.h - one code to act on, one text to read.
 *
 * Every function that can fail returns a tdm_status. The first function that knows what is wrong writes the text
 * (who, numbers, expected and found, what to do next); tdm_error_text() gives it to the thread that got the code. */
#ifndef TANDEM_STATUS_H
#define TANDEM_STATUS_H

#include <tandem/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, number, short text). Grouped by who can act: 1-9 the caller, 10-19 the machine, 20-29 the peers, 30 us. */
#define TDM_STATUS_MAP(X)                                                                                              \
    X(OK, 0, "no error")                                                                                               \
    X(ERR_INVALID, 1, "an argument is not valid")                                                                      \
    X(ERR_UNSUPPORTED, 2, "this combination does not exist")                                                           \
    X(ERR_MISMATCH, 3, "ranks made different calls")                                                                   \
    X(ERR_BAD_FILE, 4, "an input file is missing, damaged or of another kind")                                         \
    X(ERR_EXISTS, 5, "it exists already")                                                                              \
    X(ERR_NO_MEMORY, 10, "not enough memory")                                                                          \
    X(ERR_NO_SPACE, 11, "no space left")                                                                               \
    X(ERR_SYSTEM, 12, "the operating system refused")                                                                  \
    X(ERR_ADDRESS_IN_USE, 13, "the port is taken")                                                                     \
    X(ERR_TIMEOUT, 20, "a deadline passed")                                                                            \
    X(ERR_PEER_LOST, 21, "a rank died or its link broke")                                                              \
    X(ERR_AUTH, 22, "a peer did not know the job's secret")                                                            \
    X(ERR_ABORTED, 23, "the group was aborted")                                                                        \
    X(ERR_NOT_FINITE, 24, "a value is not finite")                                                                     \
    X(ERR_INTERRUPTED, 25, "a signal asked to end")                                                                    \
    X(ERR_INTERNAL, 30, "a fault in Tandem; please report it")

typedef enum tdm_status {
#define TDM_STATUS_ENUM(name, number, text) TDM_##name = number,
    TDM_STATUS_MAP(TDM_STATUS_ENUM)
#undef TDM_STATUS_ENUM
} tdm_status;

/* tdm_status_name - "TDM_ERR_TIMEOUT"; tdm_status_text - its short text. Static storage, any thread, never NULL. */
TDM_API const char *tdm_status_name(tdm_status status);
TDM_API const char *tdm_status_text(tdm_status status);

/* tdm_error_text - the text of the last error this thread was given; "" if there was none.
 * Valid until this thread's next call into Tandem. */
TDM_API const char *tdm_error_text(void);

#ifdef __cplusplus
}
#endif
#endif
