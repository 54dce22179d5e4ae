/* Expected times that process 0 cannot have sent: a worker that hangs would never be found. */
#include "train/opening_check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void expected_times(void **state) {
    (void)state;
    static const double wrong[] = {NAN, INFINITY, -INFINITY, -1e-9, 1e10};
    gp_error err = {0};
    assert_int_equal(gp_expected_check((double[]){0, 1e-6, 3600}, 3, &err), GP_OK);
    assert_int_equal(gp_expected_check(NULL, 0, &err), GP_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(gp_expected_check((double[]){1, 1, wrong[i]}, 3, &err), GP_INTERNAL);
    assert_string_equal(err.text, "process 0 sent expected times with impossible numbers");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(expected_times)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
