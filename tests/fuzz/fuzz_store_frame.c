/* fuzz_store_frame.c - any bytes, to the store's server from a member, to a client from a server, and to both handshakes. */
#include "store/auth.h"
#include "store/service.h"
#include "store/wire.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void feed_server(const uint8_t *data, size_t size)
{
    tdmi_service service = {0};
    tdmi_member member = {0}, other = {0};
    static const uint8_t wait_for_k[] = {TDMI_STORE_GET, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 'k'};
    if (tdmi_service_feed(&service, &other, wait_for_k, sizeof wait_for_k) != TDM_OK)
        abort();
    size_t half = size / 2; /* frames also arrive in pieces */
    if (tdmi_service_feed(&service, &member, data, half) == TDM_OK)
        (void)!tdmi_service_feed(&service, &member, data + half, size - half);
    while (tdmi_service_next_ready(&service) != NULL)
        ;
    tdmi_service_leave(&service, &member);
    tdmi_service_leave(&service, &other);
    tdmi_service_free(&service);
}

static void parse_answers(const uint8_t *data, size_t size)
{
    tdmi_store_frame frame;
    for (int64_t taken; size > 0 && (taken = tdmi_store_frame_parse(data, size, false, &frame)) > 0;) {
        if ((size_t)taken > size || frame.value + frame.value_nbytes > data + size)
            abort();
        data += taken;
        size -= (size_t)taken;
    }
}

static void shake_hands(const uint8_t *data, size_t size, bool is_acceptor)
{
    tdmi_auth_key key;
    tdmi_auth_key_init(&key, "secret");
    tdmi_auth auth;
    if (tdmi_auth_begin(&auth, &key, "store", is_acceptor) != TDM_OK)
        abort();
    while (auth.want > 0 && auth.want <= size) {
        size_t want = auth.want;
        if (tdmi_auth_step(&auth, data) != TDM_OK)
            return;
        data += want;
        size -= want;
    }
    if (auth.want == 0)
        abort(); /* nobody guesses a proof */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    feed_server(data, size);
    parse_answers(data, size);
    shake_hands(data, size, true);
    shake_hands(data, size, false);
    return 0;
}
