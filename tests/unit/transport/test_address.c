/* test_address.c - the address that peers are given, in a network namespace with interfaces made for it. */
#include "on_ranks.h"
#include "transport/tcp/tcp.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static bool has_namespace;

/* A bridge without ports stands for any interface: kernels without the dummy driver have it. */
static bool make_link(const char *name, const char *address, const char *six)
{
    char command[512];
    snprintf(command, sizeof command,
             "{ ip link add %s type dummy || ip link add %s type bridge; } 2>/dev/null && ip link set %s up && "
             "{ test -z '%s' || ip addr add '%s' dev %s; } && { test -z '%s' || ip addr add '%s' dev %s nodad; }",
             name, name, name, address, address, name, six, six, name);
    return system(command) == 0;
}

static bool make_namespace(void)
{
    return geteuid() == 0 && unshare(CLONE_NEWNET) == 0 && system("ip link set lo up") == 0 &&
           make_link("bond0", "10.0.0.1/24", "fd00::1/64") && make_link("bond0.29", "10.29.0.1/24", "") &&
           make_link("bond0.29.1", "10.29.1.1/24", "") && make_link("docker0", "172.17.0.1/16", "") &&
           make_link("ll0", "", "fe80::77/64");
}

static void check(const char *spec, const char *toward, const char *address)
{
    char out[TDMI_TCP_HOST_MAX];
    setenv("TANDEM_IFNAME", spec, 1);
    if (tdmi_tcp_own_address(toward, out, sizeof out) != TDM_OK)
        fail_msg("\"%s\": %s", spec, tdm_error_text());
    unsetenv("TANDEM_IFNAME");
    if (strcmp(out, address) != 0)
        fail_msg("\"%s\" chose %s, not %s", spec, out, address);
}

static void the_variable_chooses_among_the_interfaces_of_the_host(void **state)
{
    (void)state;
    char out[TDMI_TCP_HOST_MAX];
    if (!has_namespace)
        skip();
    check("bond0", "", "10.0.0.1");
    check("=bond0", "", "10.0.0.1");
    check("=bond0", "fd00::9", "fd00::1");
    check("^bond0.29", "", "10.0.0.1");
    check("^bond,lo", "", "172.17.0.1");
    check("docker0,bond0", "", "172.17.0.1");
    check("ll0", "", "fe80::77%ll0");
    setenv("TANDEM_IFNAME", "nosuch", 1);
    assert_int_equal(tdmi_tcp_own_address("", out, sizeof out), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "docker0 (172.17.0.1)"));
    assert_non_null(strstr(tdm_error_text(), "bond0.29.1 (10.29.1.1)"));
    unsetenv("TANDEM_IFNAME");
    assert_int_equal(tdmi_tcp_own_address("10.29.1.7", out, sizeof out), TDM_OK); /* without it, the way to the store */
    assert_string_equal(out, "10.29.1.1");
}

static const char *sums(tdm_group *group, void *arg)
{
    (void)arg;
    float value = 1;
    CHECK_OK(tdm_allreduce(group, &value, &value, 1, TDM_F32, TDM_SUM, NULL));
    CHECK_THAT(value == 2);
    return NULL;
}

static void groups_meet_over_both_families_and_link_local_addresses(void **state)
{
    (void)state;
    static const char *const specs[] = {"=bond0", "lo", "ll0"};
    if (!has_namespace)
        skip();
    setenv("TANDEM_JOB_SECRET", "secret", 1);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        setenv("TANDEM_IFNAME", specs[i], 1);
        ranks_run(&(ranks_spec){.n = 2, .transport = "tcp"}, sums, NULL);
    }
    unsetenv("TANDEM_IFNAME");
    unsetenv("TANDEM_JOB_SECRET");
}

static void a_link_local_address_gets_the_interface_of_the_one_that_connects(void **state)
{
    (void)state;
    char out[TDMI_TCP_HOST_MAX];
    assert_int_equal(tdmi_tcp_address_from_here("fe80::1%eth0", "fe80::2%ens5", out, sizeof out), TDM_OK);
    assert_string_equal(out, "fe80::1%ens5");
    assert_int_equal(tdmi_tcp_address_from_here("10.0.0.1", "fe80::2%ens5", out, sizeof out), TDM_OK);
    assert_string_equal(out, "10.0.0.1");
    assert_int_equal(tdmi_tcp_address_from_here("fd00::1", "10.0.0.2", out, sizeof out), TDM_OK);
    assert_string_equal(out, "fd00::1");
    assert_int_equal(tdmi_tcp_address_from_here("fe80::1%eth0", "10.0.0.2", out, sizeof out), TDM_ERR_INVALID);
    assert_non_null(strstr(tdm_error_text(), "fe80::1%eth0"));
}

int main(void)
{
    has_namespace = make_namespace();
    if (!has_namespace)
        print_message("a network namespace with interfaces needs root and the command ip: tests of real interfaces are skipped\n");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_variable_chooses_among_the_interfaces_of_the_host),
        cmocka_unit_test(groups_meet_over_both_families_and_link_local_addresses),
        cmocka_unit_test(a_link_local_address_gets_the_interface_of_the_one_that_connects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
