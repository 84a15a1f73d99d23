/* read_topology.c - how far GPUs and adapters are from each other, and what became of GPUDirect RDMA.
 * Formats: graph/paths.cc (distances, paths), graph/topo.cc, transport/net.cc and net_ib.cc of 2.4 and 2.5, graph/search.cc. */
#include "nccl_log/tables.h"

const char *const tdmi_nccl_path_name[TDMI_NCCL_PATHS] = {"LOC", "NVL", "NVB",  "C2C", "PIX", "PXB", "P2C",
                                                          "PXN", "PHB", "NODE", "SYS", "NET", "DIS"};

/* The numbers of paths changed with every kind that was added: what each version prints for 0, 1, 2 ... */
static const struct {
    tdmi_nccl_version since;
    const char *names;
} path_numbers[] = {
    {TDMI_NCCL_VERSION(27, 5), "LOC NVL NVB C2C PIX PXB P2C PXN PHB SYS NET DIS"},
    {TDMI_NCCL_VERSION(27, 0), "LOC NVL NVB C2C PIX PXB PXN P2C PHB SYS NET DIS"},
    {TDMI_NCCL_VERSION(26, 0), "LOC NVL NVB C2C PIX PXB PXN PHB SYS NET DIS"},
    {TDMI_NCCL_VERSION(21, 0), "LOC NVL NVB PIX PXB PXN PHB SYS NET DIS"},
    {TDMI_NCCL_VERSION(12, 0), "LOC NVL NVB PIX PXB PXN PHB SYS DIS"},
    {TDMI_NCCL_VERSION(8, 0), "LOC NVL NVB PIX PXB PHB SYS"},
    {TDMI_NCCL_VERSION(6, 0), "LOC NVL PIX PXB PHB SYS NET"},
    {TDMI_NCCL_VERSION(4, 6), "PIX PXB PHB NODE SYS"},
    {1, "PIX PXB PHB SYS"},
};

static tdmi_nccl_path path_of_name(tdmi_span name)
{
    int path = 0;
    while (path < TDMI_NCCL_PATHS && !tdmi_span_is(name, tdmi_nccl_path_name[path]))
        path++;
    return (tdmi_nccl_path)path;
}

tdmi_nccl_path tdmi_nccl_path_of_number(tdmi_nccl_version version, int64_t number)
{
    size_t i = 0;
    if (version <= 0)
        return TDMI_NCCL_PATHS;
    while (version < path_numbers[i].since)
        i++;
    tdmi_span rest = tdmi_span_of(path_numbers[i].names), name;
    for (int64_t n = 0; tdmi_match(rest, " %w%@", &name, &rest); n++)
        if (n == number)
            return path_of_name(name);
    return TDMI_NCCL_PATHS;
}

/* "GPU/1000 :GPU/1000 (0/5000.0/LOC) GPU/2000 (2/24.0/PHB) CPU/0 (1/24.0/PHB) NET/0 (3/12.0/PHB)"; ids "0-1000" since 2.22. */
static bool read_paths(tdmi_nccl_host *host, tdmi_span text)
{
    tdmi_span rest, type, id, ignored;
    int64_t hops;
    tdmi_nccl_path nearest = TDMI_NCCL_PATHS;
    if (!tdmi_match(text, "GPU/%w :%@", &id, &rest) || !tdmi_span_has(rest, ")"))
        return false;
    while (tdmi_match(rest, " %w/%w (%d/%w/%w)%@", &type, &id, &hops, &ignored, &id, &rest)) {
        const tdmi_nccl_path path = path_of_name(id);
        if (path == TDMI_NCCL_PATHS)
            continue;
        if (tdmi_span_is(type, "GPU") && path != TDMI_NCCL_PATH_LOC)
            host->gpu_paths[path]++;
        else if (tdmi_span_is(type, "NET") && path < nearest)
            nearest = path;
    }
    if (nearest != TDMI_NCCL_PATHS)
        host->net_paths[nearest]++;
    return true;
}

/* "GPU Direct RDMA Disabled for GPU 1a000 / HCA 0 (distance 6 > 4)", with "NET/IB : " before it and ">=" until 2.5, and until
 * 2.29 "for GPU/0-1a000 (rank 3) - NET/0-0 (distance 6 > 4)". */
static bool read_gdr_distance(tdmi_nccl_host *host, tdmi_span text)
{
    const size_t at = tdmi_span_find(text, "GPU Direct RDMA "), where = tdmi_span_find(text, "distance ");
    int64_t distance, level;
    if (at == text.nbytes || where == text.nbytes)
        return false;
    if (tdmi_span_starts(tdmi_span_from(text, at), "GPU Direct RDMA Enabled"))
        return true;
    host->gdr_disabled++;
    host->gdr_level_excluded = tdmi_match(tdmi_span_from(text, where), "distance %d >= %d", &distance, &level);
    if (!host->gdr_level_excluded && !tdmi_match(tdmi_span_from(text, where), "distance %d > %d", &distance, &level))
        return true;
    host->gdr_distance = distance;
    host->gdr_level = level;
    return true;
}

/* "NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0' (no module)" until 2.12; "NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'". */
static bool read_gdr_adapter(tdmi_nccl_host *host, tdmi_span text)
{
    const size_t at = tdmi_span_find(text, "GPU Direct RDMA ");
    const tdmi_span rest = tdmi_span_from(text, at);
    if (at == text.nbytes || !tdmi_span_starts(text, "NET/") || tdmi_span_starts(text, "NET/Socket"))
        return false;
    if (tdmi_span_starts(rest, "GPU Direct RDMA Disabled")) {
        if (host->adapters_gdr != TDMI_NCCL_YES)
            host->adapters_gdr = TDMI_NCCL_NO;
        if (tdmi_span_has(rest, "(no module"))
            host->peermem_missing = TDMI_NCCL_YES;
    } else
        host->adapters_gdr = TDMI_NCCL_YES;
    return true;
}

bool tdmi_nccl_read_topology(const tdmi_nccl_place *place)
{
    const tdmi_span text = place->record->text;
    tdmi_nccl_host *host = &place->log->host[place->host];
    int64_t pattern;
    if (read_paths(host, text) || read_gdr_distance(host, text) || read_gdr_adapter(host, text))
        return true;
    return tdmi_match(text, "Pattern %d,", &pattern) || tdmi_span_starts(text, "=== System") || tdmi_span_starts(text, "CPU/") ||
           tdmi_span_starts(text, "+ ") || tdmi_span_starts(text, "NET/0 :");
}
