/* record.c - a rank's record, as bytes. */
#include "group/record.h"

#include "core/config.h"
#include "transport/bytes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAGIC 0x52444e54u /* "TNDR" */
#define VERSION 2u

tdm_status tdmi_host_id(char out[TDMI_HOST_ID_MAX])
{
    char boot[64] = "", net[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file != NULL) {
        if (fgets(boot, sizeof boot, file) != NULL)
            boot[strcspn(boot, "\n")] = '\0';
        fclose(file);
    }
    ssize_t length = readlink("/proc/self/ns/net", net, sizeof net - 1);
    if (boot[0] == '\0' || length < 0)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot tell hosts apart: /proc/sys/kernel/random/boot_id and /proc/self/ns/net "
                               "are needed");
    const char *node = tdmi_config_text(TDMI_CONFIG_NODE_ID);
    if (strlen(node) > 64)
        return tdmi_fail(TDM_ERR_INVALID, "TANDEM_NODE_ID is longer than 64 bytes");
    snprintf(out, TDMI_HOST_ID_MAX, "%s %s %u %s", boot, net, (unsigned)geteuid(), node);
    return TDM_OK;
}

/* magic 4, version 4, size 4, world rank 4, pid 4, arena 8, board 8, rings 8, then three texts: length 4, bytes */
size_t tdmi_record_write(const tdmi_record *record, uint8_t out[TDMI_RECORD_BYTES_MAX])
{
    const uint32_t head[] = {MAGIC, VERSION, (uint32_t)record->size, (uint32_t)record->world_rank, (uint32_t)record->pid};
    const uint64_t numbers[] = {record->arena_number, record->board_offset, record->ring_offset};
    const char *texts[] = {record->host_id, record->host_name, record->door};
    size_t at = 0;
    for (size_t i = 0; i < sizeof head / sizeof *head; i++, at += 4)
        tdmi_put_u32(out + at, head[i]);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++, at += 8)
        tdmi_put_u64(out + at, numbers[i]);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const size_t length = strlen(texts[i]);
        tdmi_put_u32(out + at, (uint32_t)length);
        memcpy(out + at + 4, texts[i], length);
        at += 4 + length;
    }
    return at;
}

static bool read_text(const uint8_t *bytes, size_t nbytes, size_t *at, char *out, size_t out_nbytes)
{
    if (nbytes - *at < 4)
        return false;
    const size_t length = tdmi_get_u32(bytes + *at);
    *at += 4;
    if (length >= out_nbytes || length > nbytes - *at)
        return false;
    memcpy(out, bytes + *at, length);
    out[length] = '\0';
    *at += length;
    return true;
}

tdm_status tdmi_record_read(const uint8_t *bytes, size_t nbytes, int rank, tdmi_record *out)
{
    *out = (tdmi_record){0};
    size_t at = 44;
    if (nbytes < at || tdmi_get_u32(bytes) != MAGIC)
        return tdmi_fail(TDM_ERR_MISMATCH, "what rank %d left in the store is no record of Tandem; is the store shared with another "
                         "program?", rank);
    const uint32_t version = tdmi_get_u32(bytes + 4);
    if (version != VERSION)
        return tdmi_fail(TDM_ERR_MISMATCH, "rank %d runs another version of Tandem (its record has version %u, ours %u)", rank,
                         version, VERSION);
    out->size = (int)tdmi_get_u32(bytes + 8);
    out->world_rank = (int)tdmi_get_u32(bytes + 12);
    out->pid = (int)tdmi_get_u32(bytes + 16);
    out->arena_number = tdmi_get_u64(bytes + 20);
    out->board_offset = tdmi_get_u64(bytes + 28);
    out->ring_offset = tdmi_get_u64(bytes + 36);
    if (!read_text(bytes, nbytes, &at, out->host_id, sizeof out->host_id) ||
        !read_text(bytes, nbytes, &at, out->host_name, sizeof out->host_name) ||
        !read_text(bytes, nbytes, &at, out->door, sizeof out->door) || at != nbytes)
        return tdmi_fail(TDM_ERR_MISMATCH, "the record of rank %d is damaged", rank);
    return TDM_OK;
}
