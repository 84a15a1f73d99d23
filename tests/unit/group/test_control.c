/* test_control.c - a peer that knows the secret but sends what is no frame: every rank ends with an error that says so. */
#include "on_ranks.h"

#include "group/group.h"
#include "transport/bytes.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

typedef struct bad {
    bool on_data; /* else on control */
    uint8_t type;
    uint32_t nbytes;
    const char *text; /* must stand in the error of all ranks */
} bad;

static bool send_bad(tdm_group *group, const bad *b)
{
    uint8_t head[TDMI_FRAME_HEAD] = {b->type};
    tdmi_put_u32(head + 4, b->nbytes);
    tdmi_put_u64(head + 8, 1);
    if (!b->on_data)
        return send(group->control[0].fd, head, sizeof head, MSG_NOSIGNAL) == (ssize_t)sizeof head;
    tdmi_link *link = group->team.channel[0]->link;
    const struct iovec part = {head, sizeof head};
    size_t moved;
    return link->ops->send(link, &part, 1, &moved) == TDM_OK && moved == sizeof head;
}

static const char *meets_a_broken_peer(tdm_group *group, void *arg)
{
    const bad *b = arg;
    float data[100] = {0};
    if (tdm_group_rank(group) == 1)
        CHECK(send_bad(group, b), "the bad bytes did not leave");
    tdm_status status = TDM_OK;
    for (int i = 0; i < 1000 && status == TDM_OK; i++)
        status = tdm_allreduce(group, data, data, 100, TDM_F32, TDM_SUM, NULL);
    CHECK(status == TDM_ERR_PEER_LOST && strstr(tdm_error_text(), b->text) != NULL, "%s: %s", tdm_status_name(status), tdm_error_text());
    CHECK(strstr(tdm_error_text(), "rank 1") != NULL, "who sent them is not named: %s", tdm_error_text());
    return NULL;
}

static void bytes_that_are_no_frame_end_the_group_on_all_ranks(void **state)
{
    (void)state;
    static const bad cases[] = {
        {false, 99, 0, "type 99, 0 bytes"},
        {false, 0, 0, "type 0, 0 bytes"},
        {false, TDMI_FRAME_FAILURE, 0xffffffffu, "type 4, 4294967295 bytes"},
        {false, TDMI_FRAME_ARRIVED, 1, "type 3, 1 bytes"},
        {false, TDMI_FRAME_DATA, 100, "type 1, 100 bytes"}, /* a good frame in the wrong place */
        {true, 99, 7, "type 99, 7 bytes"},
        {true, TDMI_FRAME_DATA, 0x7fffffffu, "type 1, 2147483647 bytes"},
        {true, TDMI_FRAME_DATA, 0, "type 1, 0 bytes"},
        {true, TDMI_FRAME_SIGNATURE, 5, "type 2, 5 bytes"},
        {true, TDMI_FRAME_GOODBYE, 0, "type 5, 0 bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bad b = cases[i];
        ranks_run(&(ranks_spec){.n = 3, .transport = "tcp", .timeout_s = 20}, meets_a_broken_peer, &b);
    }
}

static int user_timeout_ms(int fd)
{
    unsigned ms = 1;
    socklen_t length = sizeof ms;
    return getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, &length) == 0 ? (int)ms : -1;
}

/* TCP_USER_TIMEOUT also ends a connection whose other end leaves bytes unread for that long. */
static const char *gives_late_ranks_time(tdm_group *group, void *arg)
{
    (void)arg;
    const int peer = 1 - tdm_group_rank(group);
    const tdmi_link *data = group->team.channel[peer]->link, *messages = group->messages.link[peer];
    CHECK_THAT(user_timeout_ms(data->ops->fd(data, 0)) == 0);
    CHECK_THAT(user_timeout_ms(messages->ops->fd(messages, 0)) == 0);
    CHECK_THAT(user_timeout_ms(group->control[peer].fd) > 0);
    return NULL;
}

static void a_rank_may_leave_data_unread_while_it_computes(void **state)
{
    (void)state;
    ranks_run(&(ranks_spec){.n = 2, .transport = "tcp"}, gives_late_ranks_time, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_that_are_no_frame_end_the_group_on_all_ranks),
        cmocka_unit_test(a_rank_may_leave_data_unread_while_it_computes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
