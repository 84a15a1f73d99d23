/* test_interface.c - what TANDEM_IFNAME means, on lists that are written here and on a network namespace's own. */
#include "transport/tcp/interface.h"

#include "core/memory.h"
#include "transport/tcp/tcp.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define UP(name, address) {name, address, true, false}

static const tdmi_interface host[] = {
    {"lo", "127.0.0.1", true, true},
    {"lo", "::1", true, true},
    UP("docker0", "172.17.0.1"),
    UP("bond0.29.1", "10.29.1.1"),
    UP("bond0.29", "10.29.0.1"),
    UP("bond0", "10.0.0.1"),
    UP("eth10", "10.1.0.1"),
    {"eth0", "10.2.0.1", false, false},
    {"ib0", "", true, false},
    UP("en1", "fe80::1%en1"),
    UP("en1", "fd00::1"),
    UP("en1", "10.3.0.1"),
    UP("en2", "fe80::2%en2"),
};
#define COUNT (sizeof host / sizeof *host)

static void check(const char *spec, bool prefers_six, const char *address)
{
    const tdmi_interface *found;
    if (tdmi_interface_choose(spec, host, COUNT, prefers_six, &found) != TDM_OK)
        fail_msg("\"%s\": %s", spec, tdm_error_text());
    if (strcmp(found->address, address) != 0)
        fail_msg("\"%s\" chose %s, not %s", spec, found->address, address);
}

static void names_are_prefixes_lists_and_exclusions(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *address;
    } cases[] = {
        {"bond0", "10.0.0.1"}, /* exactly so, before those that begin so */
        {"=bond0", "10.0.0.1"},
        {"bond0.", "10.29.1.1"},
        {"bond", "10.29.1.1"},
        {"=bond0.29", "10.29.0.1"},
        {"bond0.29", "10.29.0.1"},
        {"docker0,bond0", "172.17.0.1"},
        {"bond0,docker0", "10.0.0.1"}, /* the list's order, not the kernel's */
        {"nosuch,docker", "172.17.0.1"},
        {"=bond,docker0", "172.17.0.1"},
        {"=nosuch,bond0", "10.0.0.1"},
        {"eth", "10.1.0.1"}, /* eth0 is down */
        {"eth0,eth1", "10.1.0.1"},
        {"lo", "127.0.0.1"},
        {"^bond0.29", "172.17.0.1"},
        {"^lo,docker", "10.29.1.1"},
        {"^docker,bond0.29", "10.0.0.1"},
        {"^docker0,bond0", "10.1.0.1"},
        {"^=docker0,bond0", "10.29.1.1"},
        {"^=docker0,bond0.29.1", "10.29.0.1"},
        {"^=docker", "172.17.0.1"},
        {"^docker,bond,eth,en", "127.0.0.1"}, /* loopback last */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(cases[i].spec, false, cases[i].address);
}

/* A network namespace with the interfaces of report 7; false where this user may not make one. */
static bool make_interfaces(void)
{
    return (unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0) &&
           system("exec 2>/dev/null; ip link set lo up && ip link add bond0 index 110 type veth peer name docker0 index 113 && "
                  "ip link add bond0.29 index 111 type veth peer name bond0.29.1 index 112 && n=0 && "
                  "for i in bond0 bond0.29 bond0.29.1 docker0; do ip addr add 10.9.$n.1/24 dev $i && ip link set $i up || exit 1; "
                  "n=$((n+1)); done") == 0;
}

/* 0: as it must be, 77: no namespace, else the case that is wrong. */
static int choose_among_real_ones(void)
{
    static const struct {
        const char *spec, *address;
    } cases[] = {{"bond0", "10.9.0.1"}, {"=bond0", "10.9.0.1"}, {"^bond0.29", "10.9.0.1"}, {"docker0,bond0", "10.9.3.1"}};
    char host_name[TDMI_TCP_HOST_MAX];
    if (!make_interfaces())
        return 77;
    for (int i = 0; i < 4; i++) {
        setenv("TANDEM_IFNAME", cases[i].spec, 1);
        if (tdmi_tcp_own_address("127.0.0.1", host_name, sizeof host_name) != TDM_OK || strcmp(host_name, cases[i].address) != 0)
            return i + 1;
    }
    setenv("TANDEM_IFNAME", "nosuch", 1);
    const bool refused = tdmi_tcp_own_address("127.0.0.1", host_name, sizeof host_name) == TDM_ERR_INVALID;
    return refused && strstr(tdm_error_text(), "bond0.29.1 (10.9.2.1)") != NULL ? 0 : 5;
}

static void interfaces_of_a_real_host_are_told_apart(void **state)
{
    (void)state;
    int status = 0;
    const pid_t child = fork();
    if (child == 0)
        _exit(choose_among_real_ones());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void of_several_addresses_the_family_asked_for_is_taken(void **state)
{
    (void)state;
    check("en1", false, "10.3.0.1");
    check("en1", true, "fd00::1");
    check("lo", true, "::1");
    check("bond0", true, "10.0.0.1");
    check("en2", false, "fe80::2%en2");
}

static void no_match_lists_what_there_is(void **state)
{
    (void)state;
    static const char *const bad[] = {"nosuch", "=bond", "=eth0", "ib0", "^lo,docker,bond,eth,en", "=lo0", "=^lo"};
    const tdmi_interface *found = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(tdmi_interface_choose(bad[i], host, COUNT, false, &found), TDM_ERR_INVALID);
        assert_non_null(strstr(tdm_error_text(), bad[i]));
        assert_non_null(strstr(tdm_error_text(), "docker0 (172.17.0.1), bond0.29.1 (10.29.1.1)"));
        assert_non_null(strstr(tdm_error_text(), "eth0 (10.2.0.1, down), ib0 (no address)"));
    }
    assert_int_equal(tdmi_interface_choose("eth", host, 0, false, &found), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "there are none"));
    assert_null(found);
}

static void empty_names_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "^", "=", "^=", ",", "eth,", ",eth", "a,,b", "^lo,", "=,a"};
    const tdmi_interface *found;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(tdmi_interface_choose(bad[i], host, COUNT, false, &found), TDM_ERR_INVALID);
        assert_non_null(strstr(tdm_error_text(), "empty name"));
    }
}

static void a_long_list_of_interfaces_is_cut(void **state)
{
    (void)state;
    tdmi_interface many[200];
    const tdmi_interface *found;
    for (size_t i = 0; i < 200; i++)
        many[i] = (tdmi_interface)UP("interface000000", "10.0.0.1");
    assert_int_equal(tdmi_interface_choose("x", many, 200, false, &found), TDM_ERR_INVALID);
}

static void the_list_of_this_host_can_be_read(void **state)
{
    (void)state;
    tdmi_interface *list;
    size_t count;
    assert_int_equal(tdmi_interface_list(&list, &count), TDM_OK);
    bool has_loopback = false;
    for (size_t i = 0; i < count; i++) {
        assert_true(list[i].name[0] != '\0');
        has_loopback |= list[i].is_loopback;
    }
    assert_true(has_loopback);
    tdmi_free(list);
    assert_int_equal(tdmi_memory_held(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_prefixes_lists_and_exclusions),
        cmocka_unit_test(interfaces_of_a_real_host_are_told_apart),
        cmocka_unit_test(of_several_addresses_the_family_asked_for_is_taken),
        cmocka_unit_test(no_match_lists_what_there_is),
        cmocka_unit_test(empty_names_are_refused),
        cmocka_unit_test(a_long_list_of_interfaces_is_cut),
        cmocka_unit_test(the_list_of_this_host_can_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
