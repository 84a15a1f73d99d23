/* test_join.c - the ranks of a node meet, whoever else knocks at their doors; who does not come is named. */
#include "transport/shm/node.h"

#include "core/clock.h"
#include "core/error.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

enum { RANKS = 4, SILENT = 40 };

typedef struct rank {
    pthread_t thread;
    int number, count;
    tdmi_node *node;
    tdmi_auth_key key;
    tdmi_node_card cards[RANKS];
    double seconds;
    tdm_status status;
    char text[TDMI_ERROR_TEXT_MAX];
} rank;

static void *join(void *arg)
{
    rank *r = arg;
    r->status = tdmi_node_join(r->node, r->cards, r->count, &r->key, tdmi_deadline_in(r->seconds));
    snprintf(r->text, sizeof r->text, "%s", r->status == TDM_OK ? "" : tdm_error_text());
    return NULL;
}

/* Ranks 0 to count - 1, with doors open. */
static void create(rank *ranks, int count, double seconds)
{
    for (int r = 0; r < count; r++) {
        ranks[r] = (rank){.number = r, .count = count, .seconds = seconds};
        tdmi_auth_key_init(&ranks[r].key, "secret");
        assert_int_equal(tdmi_node_create(r, RANKS, (size_t)1 << 20, &ranks[r].node), TDM_OK);
    }
    for (int r = 0; r < count; r++)
        for (int k = 0; k < count; k++)
            tdmi_node_card_of(ranks[k].node, &ranks[r].cards[k]);
}

static void join_all(rank *ranks, int count, unsigned absent)
{
    for (int r = 0; r < count; r++)
        if ((absent >> r & 1) == 0)
            pthread_create(&ranks[r].thread, NULL, join, &ranks[r]);
    for (int r = 0; r < count; r++)
        if ((absent >> r & 1) == 0)
            pthread_join(ranks[r].thread, NULL);
}

static void destroy(rank *ranks, int count)
{
    for (int r = 0; r < count; r++)
        tdmi_node_destroy(ranks[r].node);
}

static int knock(const rank *at, const char *words)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *name = at->cards[at->number].door;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    memcpy(address.sun_path + 1, name, strlen(name));
    assert_int_equal(connect(fd, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))), 0);
    if (words != NULL)
        assert_int_equal(send(fd, words, strlen(words), MSG_NOSIGNAL), strlen(words));
    return fd;
}

static void strangers_hold_nobody_up_for_long(void **state)
{
    (void)state;
    static rank ranks[RANKS];
    int fd[SILENT];
    create(ranks, RANKS, 30);
    for (int i = 0; i < SILENT; i++)
        fd[i] = knock(&ranks[RANKS - 1], i % 4 == 0 ? "GET / HTTP/1.1\r\nHost: node\r\nAccept: everything there is\r\n\r\n" : NULL);
    const int64_t began = tdmi_now_ns();
    join_all(ranks, RANKS, 0);
    for (int r = 0; r < RANKS; r++) {
        assert_string_equal(ranks[r].text, "");
        for (int k = 0; k < RANKS; k++)
            assert_true(tdmi_node_has(ranks[r].node, k));
    }
    assert_true(tdmi_now_ns() - began < 15 * TDMI_NS_PER_S);
    for (int i = 0; i < SILENT; i++)
        close(fd[i]);
    destroy(ranks, RANKS);
}

static void who_does_not_come_is_named(void **state)
{
    (void)state;
    static rank ranks[RANKS];
    create(ranks, RANKS, 0.3);
    join_all(ranks, RANKS, 1u << 1 | 1u << 3);
    for (int r = 0; r < RANKS; r += 2) {
        assert_int_equal(ranks[r].status, TDM_ERR_TIMEOUT);
        assert_non_null(strstr(ranks[r].text, "was waiting for ranks of its node: 1, 3"));
    }
    destroy(ranks, RANKS);
}

static void another_secret_is_refused(void **state)
{
    (void)state;
    static rank ranks[2];
    create(ranks, 2, 0.5);
    tdmi_auth_key_init(&ranks[0].key, "another");
    join_all(ranks, 2, 0);
    assert_int_equal(ranks[0].status, TDM_ERR_AUTH);
    assert_non_null(strstr(ranks[0].text, "rank 0 was connecting to rank 1 of its node"));
    assert_int_equal(ranks[1].status, TDM_ERR_TIMEOUT);
    assert_non_null(strstr(ranks[1].text, "was waiting for ranks of its node: 0"));
    destroy(ranks, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_hold_nobody_up_for_long),
        cmocka_unit_test(who_does_not_come_is_named),
        cmocka_unit_test(another_secret_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
