/* read_choice.c - algorithm and protocol of calls (NCCL_DEBUG_SUBSYS with TUNING). Formats: enqueue.cc, scheduler/:
 *   8192 Bytes -> Algo 1 proto 0 time 12.3                                     2.5 to 2.22
 *   AllReduce: 8192 Bytes -> Algo 1 proto 0 time 12.3                          2.23
 *   AllReduce: 8192 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}         since 2.24
 *   AllReduce [Symmetric]: 8192 Bytes -> Kernel ... nchannels 8 nthreads 512   since 2.27
 *   AllGather [Copy Engine]: 8192 Bytes -> cudaMemcpy                          since 2.29 */
#include "nccl_log/tables.h"

static const char *const algorithms[] = {"TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};
static const char *const protocols[] = {"LL", "LL128", "SIMPLE"};

static tdmi_span named(tdmi_span word, const char *const *names, size_t count)
{
    int64_t number;
    return tdmi_match(word, "%d", &number) && number >= 0 && (size_t)number < count ? tdmi_span_of(names[number]) : word;
}

bool tdmi_nccl_read_choice(const tdmi_nccl_place *place)
{
    tdmi_nccl_log *log = place->log;
    const tdmi_span text = place->record->text;
    const size_t arrow = tdmi_span_find(text, " Bytes -> ");
    tdmi_nccl_choice key = {.op = "", .algorithm = "", .protocol = ""};
    tdmi_span op, algorithm, protocol, before;
    if (arrow == text.nbytes)
        return false;
    const tdmi_span behind = tdmi_span_from(text, arrow);
    if (tdmi_match(text, "%w %@", &op, &before) && !tdmi_match(text, "%d Bytes", &key.nbytes)) {
        const size_t colon = tdmi_span_find(text, ": ");
        if (!tdmi_match(tdmi_span_from(text, colon), ": %d Bytes", &key.nbytes))
            return false;
        if (op.at[op.nbytes - 1] == ':')
            op.nbytes--;
        key.op = tdmi_nccl_name(log, op);
    }
    if (tdmi_match(behind, " Bytes -> Algo %w proto %w", &algorithm, &protocol)) {
        key.algorithm = tdmi_nccl_name(log, named(algorithm, algorithms, sizeof algorithms / sizeof *algorithms));
        key.protocol = tdmi_nccl_name(log, named(protocol, protocols, sizeof protocols / sizeof *protocols));
    } else if (tdmi_span_has(text, "[Symmetric]"))
        key.algorithm = "SYMMETRIC";
    else if (tdmi_span_has(text, "[Copy Engine]"))
        key.algorithm = "COPY_ENGINE";
    else
        return false;
    tdmi_nccl_choice *choice = tdmi_nccl_choice_of(log, &key);
    if (choice != NULL)
        choice->count++;
    return true;
}
