/* ahead.c - iterations as the device goes through them. One stream decides: it does what it was given in turn, while a copy on another
 * may run iterations before the computation that needs it. */
#include "job/ahead.h"

bool tdmi_iterations_on_device(const tdmi_rank *rank, tdmi_iteration *out)
{
    if (rank->compute_stream == TDMI_NONE || rank->iterations == 0)
        return false;
    const tdmi_stream *stream = &rank->stream[rank->compute_stream];
    const size_t last = rank->iterations - 1;
    for (size_t i = 0; i <= last; i++) {
        out[i] = rank->iteration[i];
        out[i].start_ns = INT64_MAX;
        out[i].end_ns = INT64_MIN;
    }
    for (uint32_t s = 0; s < stream->count; s++) {
        const uint32_t gpu = rank->gpu_by_stream[stream->first + s];
        const int64_t call_ns = tdmi_gpu_launched(rank, gpu);
        if (call_ns < rank->iteration[0].start_ns || call_ns >= rank->iteration[last].end_ns)
            continue;
        tdmi_iteration *it = &out[tdmi_iteration_at(rank, call_ns)];
        const int64_t start_ns = tdmi_gpu_start(rank, gpu), end_ns = tdmi_gpu_end(rank, gpu);
        it->start_ns = start_ns < it->start_ns ? start_ns : it->start_ns;
        it->end_ns = end_ns > it->end_ns ? end_ns : it->end_ns;
    }
    for (size_t i = 0; i < last; i++) {
        if (out[i].start_ns >= out[i + 1].start_ns || out[i + 1].start_ns == INT64_MAX)
            return false;
        out[i].end_ns = out[i + 1].start_ns;
    }
    return out[last].start_ns < out[last].end_ns;
}

bool tdmi_host_is_ahead(const tdmi_rank *rank, const tdmi_iteration *on_device)
{
    double ahead_ns = 0, length_ns = 0; /* no sum of foreign times may leave 64 bits */
    for (size_t i = 0; i < rank->iterations; i++) {
        ahead_ns += (double)(on_device[i].start_ns - rank->iteration[i].start_ns);
        length_ns += (double)(rank->iteration[i].end_ns - rank->iteration[i].start_ns);
    }
    return ahead_ns > length_ns;
}
