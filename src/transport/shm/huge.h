/* huge.h - shared memory in huge pages, which one entry of the page table and of its cache maps each.
 *
 * A huge page of a file is mapped as such where addresses and offsets in the file agree modulo its size: so every process maps
 * a file with tdmi_huge_map. */
#ifndef TDMI_TRANSPORT_SHM_HUGE_H
#define TDMI_TRANSPORT_SHM_HUGE_H

#include <stddef.h>
#include <sys/types.h>

#define TDMI_HUGE_PAGE ((size_t)2 << 20)

/* A shared mapping to read and write, of address space only. MAP_FAILED and errno. */
void *tdmi_huge_map(int fd, off_t offset, size_t nbytes);
/* Memory for the whole huge pages of [at, at + nbytes), which lies in such a mapping: zero where there was none yet. 0, or what the
 * kernel refused with: then some or all of it has none, or has small pages. */
int tdmi_huge_back(char *at, size_t nbytes);
/* How much of the mapping that starts at `base` is mapped in huge pages here. Slow: for people. */
size_t tdmi_huge_bytes(const void *base);
/* The kernel's own setting for shared memory, in words. */
void tdmi_huge_setting(char *text, size_t nbytes);

#endif
