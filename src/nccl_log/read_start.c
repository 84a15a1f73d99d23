/* read_start.c - what NCCL says while it starts: its version, the interfaces and adapters it found, plugins, the network it uses.
 * Formats: init.cc, bootstrap.cc, net.cc and plugin/, transport/net_socket.cc, transport/net_ib.cc (net_ib/init.cc since 2.29). */
#include "nccl_log/tables.h"

#include <stdio.h>
#include <string.h>

bool tdmi_nccl_read_version(tdmi_nccl_log *log, uint32_t process, tdmi_span text)
{
    int64_t major, minor, patch, cuda_major, cuda_minor;
    tdmi_span rest;
    if (!tdmi_match(text, "NCCL version %d.%d.%d%@", &major, &minor, &patch, &rest) || major != 2 || minor < 0 || minor > 99 || patch < 0 ||
        patch > 99)
        return false;
    const tdmi_nccl_version version = TDMI_NCCL_VERSION((int)minor, (int)patch);
    const size_t cuda = tdmi_span_find(rest, "+cuda");
    if (tdmi_match(tdmi_span_from(rest, cuda), "+cuda%d.%d", &cuda_major, &cuda_minor) && log->cuda[0] == '\0')
        log->cuda = tdmi_nccl_name(log, tdmi_span_from(rest, cuda + 5));
    if (process != TDMI_NCCL_NONE) {
        log->process[process].version = version;
        return true;
    }
    uint32_t i = 0;
    while (i < log->plain_versions && log->plain_version[i] != version)
        i++;
    if (i == log->plain_versions && i < sizeof log->plain_version / sizeof *log->plain_version)
        log->plain_version[log->plain_versions++] = version;
    return true;
}

/* "[0]eth0:10.0.0.1<0> [1]eth1:10.0.1.1<0>", or since 2.24 without the number: names, and the address of the first. */
static const char *interfaces(tdmi_nccl_log *log, tdmi_span list, const char **address)
{
    char names[512] = "";
    size_t used = 0;
    int64_t number;
    tdmi_span entry, name;
    while (tdmi_match(list, " %w%@", &entry, &list)) {
        tdmi_span at = entry;
        (void)tdmi_match(entry, "[%d]%@", &number, &at);
        if (!tdmi_match(at, "%w:%@", &name, &at) || name.nbytes > 32)
            break;
        const size_t end = tdmi_span_find(at, "<");
        if (*address != NULL && (*address)[0] == '\0' && end < at.nbytes)
            *address = tdmi_nccl_name(log, (tdmi_span){at.at, end});
        if (used + name.nbytes + 2 < sizeof names)
            used += (size_t)snprintf(names + used, sizeof names - used, "%s%.*s", used > 0 ? " " : "", (int)name.nbytes, name.at);
    }
    return tdmi_nccl_name(log, tdmi_span_of(names));
}

/* "[0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>" and "[0]={[0] mlx5_0:1/IB, [1] mlx5_1:1/IB}". */
static void adapters(tdmi_nccl_log *log, tdmi_nccl_host *host, tdmi_span list)
{
    const size_t oob = tdmi_span_find(list, "; OOB");
    const size_t relaxed = tdmi_span_find(list, "[RO]"); /* relaxed ordering */
    tdmi_span end = {list.at, relaxed < oob ? relaxed : oob};
    while (end.nbytes > 0 && end.at[end.nbytes - 1] == ' ')
        end.nbytes--;
    while (end.nbytes > 0 && *end.at == ' ')
        end = tdmi_span_from(end, 1);
    host->infiniband = TDMI_NCCL_YES;
    host->adapters = tdmi_nccl_name(log, end);
    if (oob < list.nbytes)
        (void)interfaces(log, tdmi_span_from(list, oob + strlen("; OOB")), &host->address);
}

static void set_network(tdmi_nccl_log *log, tdmi_nccl_host *host, tdmi_span name)
{
    const char *network = tdmi_nccl_name(log, name);
    if (host->network[0] != '\0' && host->network != network)
        host->network_differs = true;
    host->network = network;
}

static bool read_plugin(tdmi_nccl_log *log, tdmi_span text)
{
    tdmi_span name;
    if (!tdmi_span_starts(text, "NET/Plugin"))
        return false;
    if (tdmi_match(text, "NET/Plugin: Loaded collnet plugin %r", &name) || tdmi_match(text, "NET/Plugin: Loaded coll plugin %r", &name))
        log->collnet_plugin = tdmi_nccl_name(log, name);
    return true;
}

static bool read_network(tdmi_nccl_log *log, tdmi_nccl_host *host, tdmi_span text)
{
    tdmi_span rest;
    const char *none = NULL;
    if (tdmi_match(text, "Bootstrap : Using%r", &rest) || tdmi_match(text, "Bootstrap: Using%r", &rest)) {
        host->bootstrap = interfaces(log, rest, &host->address);
        return true;
    }
    if (tdmi_match(text, "NET/Socket : Using%r", &rest)) {
        if (!tdmi_span_has(rest, " threads and ")) /* "Using 2 threads and 1 sockets per thread" */
            host->sockets = interfaces(log, rest, host->address[0] == '\0' ? &host->address : &none);
        return true;
    }
    if (tdmi_match(text, "NET/IB : Using%r", &rest) && !tdmi_span_has(rest, "interface")) {
        adapters(log, host, rest);
        return true;
    }
    if (tdmi_span_starts(text, "NET/IB : No device found")) {
        host->infiniband = TDMI_NCCL_NO;
        return true;
    }
    if (tdmi_match(text, "Using network %r", &rest)) { /* also before plugins of 2.19: "Using non-device net plugin version 0" */
        set_network(log, host, rest);
        return true;
    }
    if (tdmi_match(text, "Assigned NET plugin %r", &rest)) {
        set_network(log, host, (tdmi_span){rest.at, tdmi_span_find(rest, " to comm")});
        return true;
    }
    return false;
}

bool tdmi_nccl_read_start(const tdmi_nccl_place *place)
{
    tdmi_nccl_log *log = place->log;
    const tdmi_span text = place->record->text;
    int64_t driver, device;
    tdmi_nccl_host *host = &log->host[place->host];
    if (tdmi_nccl_read_version(log, place->process, text))
        return true;
    if (tdmi_match(text, "cudaDriverVersion %d", &driver)) {
        host->driver = driver;
        return true;
    }
    if (tdmi_match(text, "DMA-BUF is available on GPU device %d", &device)) {
        host->dmabuf = TDMI_NCCL_YES;
        return true;
    }
    if (tdmi_span_starts(text, "NVLS multicast support is ")) {
        host->nvls = tdmi_span_has(text, "is not available") ? TDMI_NCCL_NO : TDMI_NCCL_YES;
        return true;
    }
    return read_network(log, host, text) || read_plugin(log, text);
}
