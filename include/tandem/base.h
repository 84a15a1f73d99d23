/* base.h - what every public header needs: visibility, the must-check mark, the version. */
#ifndef TANDEM_BASE_H
#define TANDEM_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TDM_API __attribute__((visibility("default")))
#define TDM_MUST_CHECK __attribute__((warn_unused_result))
#else
#define TDM_API
#define TDM_MUST_CHECK
#endif

#define TDM_VERSION_MAJOR 0
#define TDM_VERSION_MINOR 1
#define TDM_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

/* tdm_version - "0.1.0", static storage. Any thread. */
TDM_API const char *tdm_version(void);

#ifdef __cplusplus
}
#endif
#endif
