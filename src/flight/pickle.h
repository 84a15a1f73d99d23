/* pickle.h - plain values out of a pickle, protocols 0 to 5. Nothing of it is ever executed: what would make an object or call
 * something is refused. */
#ifndef TDMI_FLIGHT_PICKLE_H
#define TDMI_FLIGHT_PICKLE_H

#include "flight/value.h"

/* Texts borrow from `bytes`. TDM_ERR_BAD_FILE names the opcode and its offset. Any bytes are safe: no recursion, and no more memory
 * than values->limit and a stack and a memo of 2^20 places each. */
tdm_status tdmi_pickle_read(const uint8_t *bytes, size_t nbytes, tdmi_values *values, const tdmi_value **out);

#endif
