/* Numbers of other processes that cannot be. */
#include "process/handshake.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void where_process_0_listens(void **state) {
    (void)state;
    static const struct {
        int port, count;
        gp_status status;
    } cases[] = {
        {1, 1, GP_OK},
        {65535, GP_GUARD_ADDRESSES, GP_OK},
        {0, 0, GP_IO},
        {65536, 1, GP_INTERNAL},
        {-1, 1, GP_INTERNAL},
        {40000, GP_GUARD_ADDRESSES + 1, GP_INTERNAL},
        {40000, INT_MAX, GP_INTERNAL},
        {40000, -1, GP_INTERNAL},
        {40000, 0, GP_INTERNAL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const gp_guard_door door = {.port = cases[i].port, .count = cases[i].count};
        gp_error err = {0};
        assert_int_equal(gp_handshake_check_door(&door, &err), cases[i].status);
    }
    gp_error err = {0};
    assert_int_equal(gp_handshake_check_door(&(gp_guard_door){.port = 40000, .count = 17}, &err), GP_INTERNAL);
    assert_string_equal(err.text, "process 0 says that it listens at port 40000, at 17 addresses");
}

static void which_addresses_a_process_has(void **state) {
    (void)state;
    gp_guard_network all[3] = {{.count = 0}, {.count = GP_GUARD_ADDRESSES}, {.count = 1}};
    gp_error err = {0};
    assert_int_equal(gp_handshake_check_networks(all, 3, &err), GP_OK);
    static const int wrong[] = {-1, GP_GUARD_ADDRESSES + 1, INT_MAX, INT_MIN};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        all[2].count = wrong[i];
        assert_int_equal(gp_handshake_check_networks(all, 3, &err), GP_INTERNAL);
        assert_int_equal(gp_handshake_check_networks(all, 2, &err), GP_OK);
    }
    all[2].count = 17;
    assert_int_equal(gp_handshake_check_networks(all, 3, &err), GP_INTERNAL);
    assert_string_equal(err.text, "process 2 says that its network has 17 addresses");
}

static void who_shares_a_machine(void **state) {
    (void)state;
    static const int good[][4] = {{0, 0, 0, 0}, {0, 1, 2, 3}, {0, 1, 0, 1}, {0, 0, 2, 2}};
    static const int wrong[][4] = {{1, 1, 1, 1},       {0, 0, 1, 1},  {0, 2, 2, 2}, {-1, 0, 0, 0},
                                   {0, 0, 0, INT_MAX}, {0, 0, 0, -4}, {0, 1, 0, 2}};
    gp_error err = {0};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(gp_handshake_check_machines(good[i], 4, &err), GP_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(gp_handshake_check_machines(wrong[i], 4, &err), GP_INTERNAL);
    assert_string_equal(err.text, "process 3 says that process 2 is the first one on its machine");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_process_0_listens),
        cmocka_unit_test(which_addresses_a_process_has),
        cmocka_unit_test(who_shares_a_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
