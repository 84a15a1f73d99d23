/* probe.c - messages there and bytes back, on the bare link. */
#include "group/probe.h"

#include "core/clock.h"

#include <sched.h>

static tdm_status push(tdmi_link *link, const char *data, size_t nbytes, int64_t deadline_ns)
{
    bool flushed = link->ops->flush == NULL;
    for (size_t sent = 0; sent < nbytes || !flushed;) {
        const struct iovec part = {(char *)(uintptr_t)data + sent, nbytes - sent};
        size_t moved = 0;
        tdm_status status = sent < nbytes ? link->ops->send(link, &part, 1, &moved) : link->ops->flush(link, &flushed);
        if (status != TDM_OK)
            return status;
        sent += moved;
        if (moved == 0 && !flushed && tdmi_deadline_passed(deadline_ns))
            return tdmi_fail(TDM_ERR_TIMEOUT, "measuring the link got no further");
        if (moved == 0)
            sched_yield();
    }
    return TDM_OK;
}

static tdm_status pull(tdmi_link *link, char *data, size_t nbytes, int64_t deadline_ns)
{
    for (size_t got = 0; got < nbytes;) {
        const struct iovec part = {data + got, nbytes - got};
        size_t moved = 0;
        tdm_status status = link->ops->receive(link, &part, 1, &moved);
        if (status != TDM_OK)
            return status;
        got += moved;
        if (moved == 0 && tdmi_deadline_passed(deadline_ns))
            return tdmi_fail(TDM_ERR_TIMEOUT, "measuring the link got no answer");
        if (moved == 0)
            sched_yield();
    }
    return TDM_OK;
}

/* The first byte says whether another follows. */
tdm_status tdmi_probe_ping(tdmi_link *link, char *block, size_t nbytes, int times, int64_t until_ns, int64_t deadline_ns, double *best_ns)
{
    *best_ns = 1e18;
    for (int i = 0, left = times; left > 0; i++) {
        const int64_t begin = tdmi_now_ns();
        left = begin < until_ns || i == 0 ? left - 1 : 0;
        block[0] = left > 0 ? 'm' : 'l'; /* more, last */
        tdm_status status = push(link, block, nbytes, deadline_ns);
        if (status == TDM_OK)
            status = pull(link, block, 1, deadline_ns);
        if (status != TDM_OK)
            return status;
        const double ns = (double)(tdmi_now_ns() - begin);
        *best_ns = ns < *best_ns ? ns : *best_ns;
    }
    return TDM_OK;
}

tdm_status tdmi_probe_answer(tdmi_link *link, char *block, size_t nbytes, int64_t deadline_ns)
{
    for (bool more = true; more;) {
        tdm_status status = pull(link, block, nbytes, deadline_ns);
        more = block[0] == 'm';
        if (status == TDM_OK)
            status = push(link, block, 1, deadline_ns);
        if (status != TDM_OK)
            return status;
    }
    return TDM_OK;
}
