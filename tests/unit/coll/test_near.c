/* test_near.c - near ranks come first, everyone comes once, and ranks stay out of each other's way. */
#include "coll/near.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { MOST = 24 };

static int distance(const tdmi_domain *domain, int a, int b)
{
    return domain[a].node != domain[b].node ? 2 : domain[a].cache != domain[b].cache ? 1 : 0;
}

static void check(const tdmi_domain *domain, int n, bool equal)
{
    int order[MOST][MOST];
    for (int rank = 0; rank < n; rank++) {
        bool seen[MOST] = {false};
        tdmi_near_first(&(tdmi_topology){.rank = rank, .n = n, .domain = domain}, order[rank]);
        assert_int_equal(order[rank][0], rank);
        for (int k = 0; k < n; k++) {
            assert_in_range(order[rank][k], 0, n - 1);
            assert_false(seen[order[rank][k]]);
            seen[order[rank][k]] = true;
            if (k > 0 && domain != NULL)
                assert_true(distance(domain, rank, order[rank][k - 1]) <= distance(domain, rank, order[rank][k]));
        }
    }
    for (int k = 0; equal && k < n; k++) {
        bool busy[MOST] = {false};
        for (int rank = 0; rank < n; rank++) {
            assert_false(busy[order[rank][k]]);
            busy[order[rank][k]] = true;
        }
    }
}

static void near_ranks_come_first_and_no_two_meet(void **state)
{
    (void)state;
    tdmi_domain domain[MOST];
    for (int n = 1; n <= MOST; n++)
        check(NULL, n, true);
    for (int nodes = 1; nodes <= 3; nodes++)
        for (int caches = 1; caches <= 2; caches++)
            for (int ranks = 1; ranks <= 4; ranks++)
                for (int spread = 0; spread < 2; spread++) { /* neighbours together, or dealt out */
                    const int n = nodes * caches * ranks;
                    for (int r = 0; r < n; r++) {
                        const int cache = spread ? r % (nodes * caches) : r / ranks;
                        domain[r] = (tdmi_domain){.node = cache / caches, .cache = cache};
                    }
                    check(domain, n, true);
                }
}

static void uneven_domains_and_ranks_that_are_not_bound_still_come_once(void **state)
{
    (void)state;
    static const tdmi_domain uneven[] = {{0, 0}, {0, 0}, {0, 0}, {1, 8}, {-1, -1}, {0, 4}, {1, -1}, {1, -1}, {0, 4}};
    for (int n = 1; n <= (int)(sizeof uneven / sizeof *uneven); n++)
        check(uneven, n, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(near_ranks_come_first_and_no_two_meet),
        cmocka_unit_test(uneven_domains_and_ranks_that_are_not_bound_still_come_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
