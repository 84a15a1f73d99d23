/* nccl_sharp.c - reductions inside switches: CollNet (InfiniBand SHARP) and NVLS (NVLink SHARP). Asked for and not there is one
 * finding each; there and not asked for is another. */
#include "doctor/nccl.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Value of a variable on any host. */
static const char *anywhere(const tdmi_nccl_log *log, const char *name)
{
    const char *value = tdmi_nccl_variable_of(log, TDMI_NCCL_NONE, name);
    for (uint32_t h = 0; h < log->hosts && value == NULL; h++)
        value = tdmi_nccl_variable_of(log, h, name);
    return value;
}

static const tdmi_nccl_message *told(const tdmi_nccl_log *log, const char *piece)
{
    for (uint32_t m = 0; m < log->messages; m++)
        if (log->message[m].kind == TDMI_NCCL_COLLNET_LOST && strstr(log->message[m].text, piece) != NULL)
            return &log->message[m];
    return NULL;
}

static bool asks_algorithm(const char *algorithms, const char *name)
{
    return algorithms != NULL && algorithms[0] != '^' && strcasestr(algorithms, name) != NULL;
}

static void find_collnet(const tdmi_nccl_log *log, const char *algorithms, tdm_doctor_report *report)
{
    const char *enable = anywhere(log, "NCCL_COLLNET_ENABLE");
    const tdmi_nccl_message *lost = told(log, "CollNet");
    bool there = false;
    char text[1024], why[700];
    for (uint32_t p = 0; p < log->processes; p++)
        there |= log->process[p].collnet;
    for (uint32_t i = 0; i < log->pairs; i++)
        there |= log->pair[i].kind == TDMI_NCCL_COLLNET;
    const bool asked = (enable != NULL && strcmp(enable, "0") != 0) || asks_algorithm(algorithms, "collnet");
    const int64_t nodes = log->largest != TDMI_NCCL_NONE && log->comm[log->largest].nodes > 0 ? log->comm[log->largest].nodes : log->hosts;
    if (asked && !there) {
        snprintf(why, sizeof why, "%s%.500s",
                 lost != NULL                     ? "NCCL says: "
                 : log->collnet_plugin[0] == '\0' ? "no plugin for it was loaded"
                                                  : "the log does not say why",
                 lost != NULL ? lost->text : "");
        snprintf(text, sizeof text, "SHARP was asked for (%s) and is not used; %s",
                 enable != NULL && strcmp(enable, "0") != 0 ? "NCCL_COLLNET_ENABLE" : "NCCL_ALGO", why);
        tdmi_nccl_add(report, "nccl_sharp_missing", TDMI_WARNING, -1,
                      json_pack("{s:s, s:s, s:I}", "why", why, "plugin", log->collnet_plugin, "nodes", (json_int_t)nodes), text,
                      "Put the plugin of nccl-rdma-sharp-plugins (libnccl-net.so; HPC-X has it) on LD_LIBRARY_PATH or name it with "
                      "NCCL_NET_PLUGIN, start the aggregation manager "
                      "(sharp_am) on the fabric, and lower NCCL_COLLNET_NODE_THRESHOLD if the job has fewer hosts",
                      "the switches are Ethernet or the fabric has no aggregation manager: then unset NCCL_COLLNET_ENABLE",
                      TDMI_NCCL_DOCS "#nccl-collnet-enable, #nccl-collnet-node-threshold; transport/coll_net.cc");
    } else if (!asked && !there && log->collnet_plugin[0] != '\0' && enable == NULL && nodes >= 4 &&
               strncasecmp(log->collnet_plugin, "SHARP", 5) == 0) {
        snprintf(text, sizeof text, "the plugin %s could reduce inside the switches between %lld hosts, and is not asked to",
                 log->collnet_plugin, (long long)nodes);
        tdmi_nccl_add(report, "nccl_sharp_unused", TDMI_WARNING, -1,
                      json_pack("{s:s, s:I}", "plugin", log->collnet_plugin, "nodes", (json_int_t)nodes), text,
                      "Try NCCL_COLLNET_ENABLE=1 and compare large allreduces with nccl-tests",
                      "other jobs need the switches' few aggregation resources, or calls are small", TDMI_NCCL_DOCS "#nccl-collnet-enable");
    }
}

static void find_nvls(const tdmi_nccl_log *log, const char *algorithms, tdm_doctor_report *report)
{
    const char *enable = anywhere(log, "NCCL_NVLS_ENABLE");
    const tdmi_nccl_message *failed = told(log, "NVLink SHARP");
    bool there = false, told_no = false;
    char text[1024];
    for (uint32_t h = 0; h < log->hosts; h++)
        told_no |= log->host[h].nvls == TDMI_NCCL_NO;
    for (uint32_t p = 0; p < log->processes; p++)
        there |= log->process[p].nvls_channels > 0;
    const bool asked = (enable != NULL && strcmp(enable, "1") == 0) || asks_algorithm(algorithms, "nvls");
    if (failed == NULL && (!asked || there || !told_no))
        return;
    snprintf(text, sizeof text, "NVLink SHARP (NVLS) %s; %.600s", asked ? "was asked for and is not used" : "could not be set up",
             failed != NULL ? failed->text : "NCCL says that multicast is not available on the devices");
    tdmi_nccl_add(report, "nccl_nvls_missing", TDMI_WARNING, -1,
                  json_pack("{s:b, s:s}", "asked", asked, "why", failed != NULL ? failed->text : "no multicast"), text,
                  "Check the fabric manager (`systemctl status nvidia-fabricmanager`, `nvidia-smi -q | grep -A3 Fabric`): NVLS needs H100 "
                  "or later behind NVSwitch, driver 530 and "
                  "CUDA 12.1 or later, and all GPUs of the partition",
                  "the host has no NVSwitch or older GPUs: then unset NCCL_NVLS_ENABLE, or set it to 0",
                  TDMI_NCCL_DOCS "#nccl-nvls-enable; transport/nvls.cc");
}

void tdmi_find_nccl_sharp(const tdmi_nccl_log *log, tdm_doctor_report *report)
{
    const char *algorithms = anywhere(log, "NCCL_ALGO");
    find_collnet(log, algorithms, report);
    find_nvls(log, algorithms, report);
}
