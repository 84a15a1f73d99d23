/* nccl_wrong_interface.c - bootstrap or sockets on an interface that does not reach other hosts: loopback, bridges of containers
 * and virtual machines. */
#include "doctor/nccl.h"

#include <stdio.h>
#include <string.h>

/* Beginnings of names of interfaces that stay inside a host. */
static const char *const inside[] = {"docker", "virbr", "veth",  "cni",    "flannel", "cali",  "tunl",
                                     "vnet",   "lxcbr", "lxdbr", "podman", "kube-",   "vmnet", "vboxnet"};

static bool stays_inside(const char *name, size_t nbytes)
{
    if (nbytes == 2 && memcmp(name, "lo", 2) == 0)
        return true;
    if (nbytes == 15 && memcmp(name, "br-", 3) == 0 && strspn(name + 3, "0123456789abcdef") >= 12) /* a docker network */
        return true;
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
        if (nbytes > strlen(inside[i]) && strncmp(name, inside[i], strlen(inside[i])) == 0)
            return true;
    return false;
}

/* The first of a list that stays inside, copied; false: none. */
static bool find_inside(const char *list, char out[33])
{
    for (const char *at = list; *at != '\0';) {
        const size_t nbytes = strcspn(at, " ");
        if (stays_inside(at, nbytes) && nbytes < 33) {
            memcpy(out, at, nbytes);
            out[nbytes] = '\0';
            return true;
        }
        at += nbytes + (at[nbytes] == ' ');
    }
    return false;
}

static bool uses_sockets(const tdmi_nccl_log *log, const tdmi_nccl_ways *ways, uint32_t h)
{
    return ways[h].sockets > 0 || strcmp(log->host[h].network, "Socket") == 0;
}

/* Sockets of all interfaces carry data where the network is Socket; elsewhere only the bootstrap's matters. */
static bool host_has(const tdmi_nccl_log *log, uint32_t h, bool sockets, char name[33], const char **use)
{
    if (find_inside(log->host[h].bootstrap, name)) {
        *use = "bootstrap";
        return true;
    }
    if (sockets && find_inside(log->host[h].sockets, name)) {
        *use = "NET/Socket";
        return true;
    }
    return false;
}

void tdmi_find_nccl_wrong_interface(const tdmi_nccl_log *log, tdm_doctor_report *report)
{
    int64_t nodes = log->largest != TDMI_NCCL_NONE ? log->comm[log->largest].nodes : 0;
    const bool unheard = log->largest != TDMI_NCCL_NONE && log->comm[log->largest].members < log->comm[log->largest].ranks;
    tdmi_nccl_marks marks;
    if (log->hosts > nodes)
        nodes = log->hosts;
    if (nodes <= 1 && !unheard) /* on one host every interface will do */
        return;
    if (!tdmi_nccl_marks_make(log, report, &marks))
        return;
    for (uint32_t h = 0; h < log->hosts; h++) {
        char name[33], other_name[33], hosts[256], text[512];
        const char *use, *other_use;
        if (marks.done[h] || !host_has(log, h, uses_sockets(log, marks.ways, h), name, &use))
            continue;
        memset(marks.same, 0, log->hosts * sizeof *marks.same);
        for (uint32_t o = h; o < log->hosts; o++)
            if (host_has(log, o, uses_sockets(log, marks.ways, o), other_name, &other_use) && strcmp(name, other_name) == 0)
                marks.same[o] = marks.done[o] = true;
        tdmi_nccl_hosts_text(log, marks.same, hosts, sizeof hosts);
        snprintf(text, sizeof text, "%s: NCCL uses the interface %s (%s), which does not leave the host", hosts, name, use);
        tdmi_nccl_add(report, "nccl_wrong_interface", TDMI_ERROR, -1,
                      json_pack("{s:o, s:s, s:s}", "hosts", tdmi_nccl_hosts_json(log, marks.same), "interface", name, "use", use), text,
                      "Set NCCL_SOCKET_IFNAME to the interface that the hosts reach each other by (`ip -br addr`): "
                      "NCCL_SOCKET_IFNAME==eth0, or exclude: "
                      "NCCL_SOCKET_IFNAME=^lo,docker,virbr",
                      "all ranks are on one host", TDMI_NCCL_DOCS "#nccl-socket-ifname");
    }
    tdmi_nccl_marks_free(&marks);
}
