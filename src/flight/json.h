/* json.h - plain values out of a JSON text. */
#ifndef TDMI_FLIGHT_JSON_H
#define TDMI_FLIGHT_JSON_H

#include "flight/value.h"

/* As tdmi_pickle_read: any bytes are safe, at most 64 levels, no more memory than values->limit. NaN and Infinity are accepted; escapes
 * in texts are resolved. TDM_ERR_BAD_FILE names the byte. */
tdm_status tdmi_flight_json_read(const uint8_t *bytes, size_t nbytes, tdmi_values *values, const tdmi_value **out);

#endif
