/* fuzz_ifname.c - any text as TANDEM_IFNAME: refused with a text, or an interface that can be used. */
#include "transport/tcp/interface.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const tdmi_interface list[] = {{"lo", "127.0.0.1", true, true},
                                          {"eth0", "fe80::1%eth0", true, false},
                                          {"eth0", "10.0.0.1", true, false},
                                          {"eth1", "10.1.0.1", false, false},
                                          {"ib0", "", true, false}};
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    for (int six = 0; six < 2; six++) {
        const tdmi_interface *found = NULL;
        const tdm_status st = tdmi_interface_choose(text, list, sizeof list / sizeof *list, six == 1, &found);
        if (st == TDM_OK ? !found->is_up || found->address[0] == '\0' : *tdm_error_text() == '\0')
            abort();
    }
    free(text);
    return 0;
}
