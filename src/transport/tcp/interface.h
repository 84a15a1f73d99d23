/* interface.h - which network interface TANDEM_IFNAME means. The syntax is that of NCCL_SOCKET_IFNAME:
 *
 *     eth         the first whose name begins so; one of exactly that name goes first
 *     =eth0       exactly this one
 *     eth0,ib     a list: the first entry that fits decides
 *     ^lo,docker  the first whose name begins with none of these
 *     ^=eth0      the first that is none of these exactly
 *
 * One `=` in front is for the whole list. "First" is the kernel's order, the loopback interface last. */
#ifndef TDMI_TRANSPORT_TCP_INTERFACE_H
#define TDMI_TRANSPORT_TCP_INTERFACE_H

#include "core/error.h"

#define TDMI_INTERFACE_NAME 16 /* IF_NAMESIZE */
#define TDMI_TCP_HOST_MAX 64   /* an IPv6 address, '%' and the name of its interface */

/* One address of an interface. An interface with several stands in a list several times, one without any once. */
typedef struct tdmi_interface {
    char name[TDMI_INTERFACE_NAME];
    char address[TDMI_TCP_HOST_MAX]; /* numeric; "": it has none. A link-local one ends in %name */
    bool is_up, is_loopback;
} tdmi_interface;

/* Reads the list of this host's interfaces, in the kernel's order; the caller frees it with tdmi_free. */
tdm_status tdmi_interface_list(tdmi_interface **out, size_t *count_out);
/* The entry that `spec` means among those that are up and have an address; out of several addresses of one interface IPv4
 * (or IPv6, if prefers_six) before the other family, link-local last. TDM_ERR_INVALID names what there is. Pure. */
tdm_status tdmi_interface_choose(const char *spec, const tdmi_interface *list, size_t count, bool prefers_six,
                                 const tdmi_interface **out);

#endif
