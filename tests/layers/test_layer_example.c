/* The complete example of docs/adding-a-layer.md, compiled from that page: y = x + x, forward, evaluated and backward.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/ref/ref.h"
#include "layers/lowered_runner.h"

enum { ELEMENTS = 2 * 3 };

extern const gp_layer_type gp_double_type; /* of the page */

const gp_layer_type *__real_gp_layer_type_find(const char *name, bool loss);
const gp_layer_type *__wrap_gp_layer_type_find(const char *name, bool loss);

const gp_layer_type *__wrap_gp_layer_type_find(const char *name, bool loss) {
    if (!loss && strcmp(name, gp_double_type.name) == 0) return &gp_double_type;
    return __real_gp_layer_type_find(name, loss);
}

/* Runs a pass, and demands twice the values of `from` in `to`. */
static void expect_doubled(lowered_runner *runner, gp_pass pass, gp_role from, gp_role to) {
    const double values[ELEMENTS] = {1, -2, 0.5, 0, 7, -0.25};
    runner_set(runner, from, 0, values);
    runner_poison(runner);
    runner_run(runner, pass);
    double *doubled = runner_get(runner, to, 0);
    for (int i = 0; i < ELEMENTS; i++) assert_true(doubled[i] == 2 * values[i]);
    free(doubled);
}

static void test_double(void **state) {
    (void)state;
    const gp_shape input = {1, {3}};
    lowered_runner *runner = runner_create(&(runner_options){.kind = &gp_ref_kind,
                                                             .real = GP_F64,
                                                             .layer = "double",
                                                             .inputs = &input,
                                                             .input_count = 1,
                                                             .samples = 2,
                                                             .pieces = 1});
    expect_doubled(runner, GP_PASS_FORWARD, GP_ROLE_INPUT, GP_ROLE_OUTPUT);
    expect_doubled(runner, GP_PASS_EVALUATE, GP_ROLE_INPUT, GP_ROLE_OUTPUT);
    expect_doubled(runner, GP_PASS_BACKWARD, GP_ROLE_GRAD_OUTPUT, GP_ROLE_GRAD_INPUT);
    runner_destroy(&runner);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_double)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
