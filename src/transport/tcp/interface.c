/* interface.c - names are matched on a plain list, so that tests need no interfaces. */
#include "transport/tcp/interface.h"

#include "core/memory.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

_Static_assert(TDMI_INTERFACE_NAME == IF_NAMESIZE, "the size of an interface's name is the kernel's");

/* ---- what there is ---- */

static void write_entry(const struct ifaddrs *item, tdmi_interface *out)
{
    const int family = item->ifa_addr != NULL ? item->ifa_addr->sa_family : AF_UNSPEC;
    *out = (tdmi_interface){.is_up = (item->ifa_flags & IFF_UP) != 0, .is_loopback = (item->ifa_flags & IFF_LOOPBACK) != 0};
    snprintf(out->name, sizeof out->name, "%s", item->ifa_name);
    if (family != AF_INET && family != AF_INET6)
        return;
    const socklen_t length = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    if (getnameinfo(item->ifa_addr, length, out->address, sizeof out->address, NULL, 0, NI_NUMERICHOST) != 0)
        out->address[0] = '\0';
}

static bool is_named(const tdmi_interface *list, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].name, name) == 0)
            return true;
    return false;
}

tdm_status tdmi_interface_list(tdmi_interface **out, size_t *count_out)
{
    struct ifaddrs *items;
    size_t capacity = 0, count = 0;
    if (getifaddrs(&items) != 0)
        return tdmi_fail_errno(TDM_ERR_SYSTEM, errno, "cannot list network interfaces");
    for (const struct ifaddrs *item = items; item != NULL; item = item->ifa_next)
        capacity++;
    tdmi_interface *list = tdmi_calloc(capacity + 1, sizeof *list, "network interfaces");
    /* first those with an address, then the names that are left */
    for (int round = 0; round < 2 && list != NULL; round++)
        for (const struct ifaddrs *item = items; item != NULL && count < capacity; item = item->ifa_next) {
            write_entry(item, &list[count]);
            if (round == 0 ? list[count].address[0] != '\0' : !is_named(list, count, item->ifa_name))
                count++;
        }
    freeifaddrs(items);
    if (list == NULL)
        return TDM_ERR_NO_MEMORY;
    *out = list;
    *count_out = count;
    return TDM_OK;
}

/* ---- which one ---- */

static bool is_usable(const tdmi_interface *item)
{
    return item->is_up && item->address[0] != '\0';
}

static bool fits(const char *name, const char *part, size_t length, bool exact)
{
    return strncmp(name, part, length) == 0 && (!exact || name[length] == '\0');
}

/* Of a list of names: whether one fits. */
static bool any_fits(const char *name, const char *names, bool exact)
{
    for (const char *at = names;; at++) {
        const size_t length = strcspn(at, ",");
        if (fits(name, at, length, exact))
            return true;
        at += length;
        if (*at == '\0')
            return false;
    }
}

static const tdmi_interface *first_included(const char *names, bool exact, const tdmi_interface *list, size_t count)
{
    for (const char *at = names;; at++) {
        const size_t length = strcspn(at, ",");
        for (int prefix = 0; prefix <= (exact ? 0 : 1); prefix++)
            for (size_t i = 0; i < count; i++)
                if (is_usable(&list[i]) && fits(list[i].name, at, length, prefix == 0))
                    return &list[i];
        at += length;
        if (*at == '\0')
            return NULL;
    }
}

static const tdmi_interface *first_left(const char *names, bool exact, const tdmi_interface *list, size_t count)
{
    for (int loopback = 0; loopback < 2; loopback++)
        for (size_t i = 0; i < count; i++)
            if (is_usable(&list[i]) && list[i].is_loopback == (loopback == 1) && !any_fits(list[i].name, names, exact))
                return &list[i];
    return NULL;
}

/* 0 is best. */
static int rank_of(const tdmi_interface *item, bool prefers_six)
{
    const bool six = strchr(item->address, ':') != NULL;
    return strchr(item->address, '%') != NULL ? 2 : six == prefers_six ? 0 : 1;
}

static const tdmi_interface *best_address(const tdmi_interface *of, const tdmi_interface *list, size_t count, bool prefers_six)
{
    const tdmi_interface *best = of;
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].name, of->name) == 0 && is_usable(&list[i]) && rank_of(&list[i], prefers_six) < rank_of(best, prefers_six))
            best = &list[i];
    return best;
}

static bool has_empty_name(const char *names)
{
    return names[0] == '\0' || names[0] == ',' || strstr(names, ",,") != NULL || names[strlen(names) - 1] == ',';
}

/* "lo (127.0.0.1), eth0 (10.0.0.7), eth1 (down)" */
static void write_list(const tdmi_interface *list, size_t count, char *text, size_t nbytes)
{
    size_t used = 0;
    snprintf(text, nbytes, "none");
    for (size_t i = 0; i < count && used < nbytes; i++) {
        const char *address = list[i].address[0] != '\0' ? list[i].address : "no address";
        used += (size_t)snprintf(text + used, nbytes - used, "%s%s (%s%s)", used > 0 ? ", " : "", list[i].name, address,
                                 list[i].is_up ? "" : ", down");
    }
}

tdm_status tdmi_interface_choose(const char *spec, const tdmi_interface *list, size_t count, bool prefers_six,
                                 const tdmi_interface **out)
{
    const bool excludes = spec[0] == '^', exact = spec[excludes] == '=';
    const char *names = spec + excludes + exact;
    char there[700];
    if (has_empty_name(names))
        return tdmi_fail(TDM_ERR_INVALID, "TANDEM_IFNAME is \"%s\", which holds an empty name; write eth (begins so), =eth0 (exactly), "
                         "eth0,ib0 (in this order), ^lo,docker (none that begins so) or ^=eth0 (not exactly this)", spec);
    const tdmi_interface *found =
        excludes ? first_left(names, exact, list, count) : first_included(names, exact, list, count);
    if (found == NULL) {
        write_list(list, count, there, sizeof there);
        return tdmi_fail(TDM_ERR_INVALID, "TANDEM_IFNAME is \"%s\", which fits no interface of this host that is up and has an "
                         "address; there are %s", spec, there);
    }
    *out = best_address(found, list, count, prefers_six);
    return TDM_OK;
}
