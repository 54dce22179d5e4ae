#include "session/processors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Shares of what happened since; the machine's own numbers only rise. */
static void what_is_stolen_is_a_share(void **state) {
    (void)state;
    gp_processor_times now;
    gp_processor_times_read(&now);
    if (now.worked == 0) skip(); /* it does not say */
    double all = gp_processor_times_stolen(&(gp_processor_times){1, 0});
    double since = (double)now.stolen / (double)(now.stolen + now.worked - 1);
    assert_true(all >= 0 && all - since < 0.01 && since - all < 0.01);
}

static void where_nothing_is_known_nothing_is_said(void **state) {
    (void)state;
    assert_true(gp_processor_times_stolen(&(gp_processor_times){0, 0}) == 0);
    assert_true(gp_processor_times_stolen(&(gp_processor_times){UINT64_MAX, 0}) == 0);
    assert_true(gp_processor_times_stolen(&(gp_processor_times){1, UINT64_MAX}) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_stolen_is_a_share),
                                       cmocka_unit_test(where_nothing_is_known_nothing_is_said)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
