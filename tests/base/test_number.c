/* Numbers for people: no exponent where a whole number is meant. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/number.h"

static void numbers_are_short_and_plain(void **state) {
    (void)state;
    static const struct {
        double value;
        const char *text, *rounded; /* to 3 digits */
    } cases[] = {{0, "0", "0"},
                 {30, "30", "30"},
                 {-100, "-100", "-100"},
                 {86400, "86400", "86400"},
                 {999.6, "999.6", "1000"},
                 {1234.5678, "1234.5678", "1235"},
                 {1e9, "1000000000", "1000000000"},
                 {0.1, "0.1", "0.1"},
                 {1.0 / 3, "0.3333333333333333", "0.333"},
                 {0.0001, "0.0001", "0.0001"},
                 {1e-8, "1e-08", "1e-08"},
                 {99999999999999984.0, "99999999999999984", "99999999999999984"},
                 {1e17, "1e+17", "1e+17"},
                 {(double)FLT_MAX, "3.4028234663852886e+38", "3.4e+38"},
                 {-DBL_MAX, "-1.7976931348623157e+308", "-1.8e+308"},
                 {(double)INFINITY, "inf", "inf"}};
    char text[GP_NUMBER_TEXT];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(gp_number_text(text, cases[i].value), cases[i].text);
        assert_true(strtod(text, NULL) == cases[i].value);
        assert_string_equal(gp_rounded_text(text, cases[i].value, 3), cases[i].rounded);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers_are_short_and_plain)};
    return cmocka_run_group_tests_name("number", tests, NULL, NULL);
}
