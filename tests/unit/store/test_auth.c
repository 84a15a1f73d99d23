/* test_auth.c - the handshake between ends that know the secret, and those that do not. */
#include "store/auth.h"

#include "core/clock.h"
#include "store/socket.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct end {
    int fd;
    const char *secret, *purpose;
    tdm_status status;
    char text[TDMI_ERROR_TEXT_MAX];
} end;

static void *accept_end(void *arg)
{
    end *e = arg;
    tdmi_auth_key key;
    tdmi_auth_key_init(&key, e->secret);
    e->status = tdmi_auth_accept(e->fd, &key, e->purpose, tdmi_deadline_in(5));
    if (e->status != TDM_OK)
        memcpy(e->text, tdm_error_text(), sizeof e->text);
    return NULL;
}

/* Runs both ends; gives the connector's status. */
static tdm_status meet(const char *secret, const char *purpose, end *acceptor)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    acceptor->fd = pair[1];
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, accept_end, acceptor), 0);
    tdmi_auth_key key;
    tdmi_auth_key_init(&key, secret);
    tdm_status status = tdmi_auth_connect(pair[0], &key, purpose, tdmi_deadline_in(5));
    pthread_join(thread, NULL);
    close(pair[0]);
    close(pair[1]);
    return status;
}

static void ends_with_one_secret_and_purpose_meet(void **state)
{
    (void)state;
    end acceptor = {.secret = "s3", .purpose = "store"};
    assert_int_equal(meet("s3", "store", &acceptor), TDM_OK);
    assert_int_equal(acceptor.status, TDM_OK);
}

static void another_secret_is_refused_on_both_sides(void **state)
{
    (void)state;
    end acceptor = {.secret = "s3", .purpose = "store"};
    assert_int_equal(meet("s4", "store", &acceptor), TDM_ERR_AUTH);
    assert_non_null(strstr(tdm_error_text(), "TANDEM_JOB_SECRET"));
    assert_int_equal(acceptor.status, TDM_ERR_AUTH);
}

static void another_purpose_is_refused_on_both_sides(void **state)
{
    (void)state;
    end acceptor = {.secret = "s3", .purpose = "store"};
    assert_int_equal(meet("s3", "link", &acceptor), TDM_ERR_AUTH);
    assert_non_null(strstr(tdm_error_text(), "\"link\""));
    assert_int_equal(acceptor.status, TDM_ERR_AUTH);
    assert_non_null(strstr(acceptor.text, "\"store\""));
}

static void a_silent_stranger_is_dropped_within_a_second(void **state)
{
    (void)state;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    tdmi_auth_key key;
    tdmi_auth_key_init(&key, "s3");
    int64_t start_ns = tdmi_now_ns();
    assert_int_equal(tdmi_auth_accept(pair[1], &key, "store", tdmi_deadline_in(30)), TDM_ERR_AUTH);
    assert_in_range(tdmi_now_ns() - start_ns, 900 * TDMI_NS_PER_MS, 2500 * TDMI_NS_PER_MS);
    close(pair[0]);
    close(pair[1]);
}

static void garbage_is_refused_at_once(void **state)
{
    (void)state;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\nAccept: text/html, */*\r\n\r\n";
    assert_int_equal(write(pair[0], request, sizeof request), sizeof request);
    tdmi_auth_key key;
    tdmi_auth_key_init(&key, "s3");
    assert_int_equal(tdmi_auth_accept(pair[1], &key, "store", tdmi_deadline_in(30)), TDM_ERR_AUTH);
    assert_non_null(strstr(tdm_error_text(), "does not speak Tandem's protocol"));
    close(pair[0]);
    close(pair[1]);
}

/* Runs the two machines against each other; `reflect`: the connector is shown its own proof. */
static tdm_status run_machines(bool reflect)
{
    tdmi_auth_key key;
    tdmi_auth_key_init(&key, "s3");
    tdmi_auth a, b;
    assert_int_equal(tdmi_auth_begin(&a, &key, "link", false), TDM_OK);
    assert_int_equal(tdmi_auth_begin(&b, &key, "link", true), TDM_OK);
    assert_int_equal(tdmi_auth_step(&b, a.out), TDM_OK);
    assert_int_equal(tdmi_auth_step(&a, b.out), TDM_OK);
    uint8_t own[33] = {1};
    memcpy(own + 1, a.out, 32);
    assert_int_equal(tdmi_auth_step(&b, a.out), TDM_OK);
    return tdmi_auth_step(&a, reflect ? own : b.out);
}

static void a_proof_sent_back_to_its_maker_proves_nothing(void **state)
{
    (void)state;
    assert_int_equal(run_machines(false), TDM_OK);
    assert_int_equal(run_machines(true), TDM_ERR_AUTH);
}

static void an_overheard_proof_cannot_be_replayed(void **state)
{
    (void)state;
    tdmi_auth_key key;
    tdmi_auth_key_init(&key, "s3");
    tdmi_auth a, b, later;
    assert_int_equal(tdmi_auth_begin(&a, &key, "link", false), TDM_OK);
    assert_int_equal(tdmi_auth_begin(&b, &key, "link", true), TDM_OK);
    assert_int_equal(tdmi_auth_begin(&later, &key, "link", true), TDM_OK);
    assert_int_equal(tdmi_auth_step(&b, a.out), TDM_OK);
    assert_int_equal(tdmi_auth_step(&later, a.out), TDM_OK); /* the overheard hello */
    assert_int_equal(tdmi_auth_step(&a, b.out), TDM_OK);
    assert_int_equal(tdmi_auth_step(&later, a.out), TDM_ERR_AUTH);
}

static void another_version_is_named_on_both_sides(void **state)
{
    (void)state;
    tdmi_auth_key key;
    tdmi_auth_key_init(&key, "s3");
    tdmi_auth b;
    assert_int_equal(tdmi_auth_begin(&b, &key, "link", true), TDM_OK);
    uint8_t hello[48] = {'T', 'N', 'D', 'M', 7};
    memcpy(hello + 8, "link", 4);
    assert_int_equal(tdmi_auth_step(&b, hello), TDM_ERR_AUTH);
    assert_non_null(strstr(tdm_error_text(), "version 7"));
    assert_int_equal(b.out_nbytes, 48); /* its own hello, with its version */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_with_one_secret_and_purpose_meet),
        cmocka_unit_test(another_secret_is_refused_on_both_sides),
        cmocka_unit_test(another_purpose_is_refused_on_both_sides),
        cmocka_unit_test(a_silent_stranger_is_dropped_within_a_second),
        cmocka_unit_test(garbage_is_refused_at_once),
        cmocka_unit_test(a_proof_sent_back_to_its_maker_proves_nothing),
        cmocka_unit_test(an_overheard_proof_cannot_be_replayed),
        cmocka_unit_test(another_version_is_named_on_both_sides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
