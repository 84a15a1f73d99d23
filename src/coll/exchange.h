/* exchange.h - the steps that go over links, and comparing calls there. */
#ifndef TDMI_COLL_EXCHANGE_H
#define TDMI_COLL_EXCHANGE_H

#include "coll/run.h"

/* Puts this call's signature in front of what goes to each link peer. */
void tdmi_exchange_begin(tdmi_run *run);
/* Moves what can be moved of an EXCHANGE or EXCHANGE_REDUCE now. *over: it is done. *moved becomes true if bytes did. */
tdm_status tdmi_exchange_step(tdmi_run *run, const tdmi_step *step, bool *over, bool *moved);
/* At the end: all signatures are out, and those of all link peers came and agree. */
tdm_status tdmi_exchange_settle(tdmi_run *run, bool *over);
/* Compares with the link peers whose signature came so far. */
tdm_status tdmi_exchange_compare(const tdmi_run *run);

#endif
