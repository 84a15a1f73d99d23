/* slurm.c - Slurm's short forms of lists. */
#include "group/launcher.h"

#include <stdlib.h>
#include <string.h>

/* In each bracket the first number stands for all: up to '-', ',' or ']'. The list's first entry ends at a comma outside. */
bool tdmi_slurm_first_host(const char *list, char *host, size_t nbytes)
{
    size_t used = 0;
    const char *c = list;
    while (*c != '\0' && *c != ',') {
        if (*c != '[') {
            if (*c == ']' || used + 1 >= nbytes)
                return false;
            host[used++] = *c++;
            continue;
        }
        const char *end = strchr(c, ']');
        const size_t digits = strspn(c + 1, "0123456789");
        if (end == NULL || digits == 0 || used + digits >= nbytes || strchr("-,]", c[1 + digits]) == NULL)
            return false;
        memcpy(host + used, c + 1, digits);
        used += digits;
        c = end + 1;
    }
    host[used] = '\0';
    return used > 0;
}

int tdmi_slurm_tasks_on(const char *list, int node)
{
    for (const char *c = list; *c != '\0';) {
        char *end;
        const long tasks = strtol(c, &end, 10);
        long times = 1;
        if (end == c || tasks < 1 || tasks > 1000000)
            return -1;
        if (strncmp(end, "(x", 2) == 0) {
            const char *number = end + 2;
            times = strtol(number, &end, 10);
            if (end == number || *end != ')' || times < 1)
                return -1;
            end++;
        }
        if (node < times)
            return node < 0 ? -1 : (int)tasks;
        node -= (int)times;
        if (*end != ',' && *end != '\0')
            return -1;
        c = *end == ',' ? end + 1 : end;
    }
    return -1;
}
