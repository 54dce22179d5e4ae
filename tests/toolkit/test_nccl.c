/* NCCL as it is installed: it opens, makes ids, and says why it cannot go on without a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "device/cuda/toolkit/toolkit.h"

static bool is_installed(void) {
    gp_error err = {0};
    char id[GP_LINE_ID];
    if (gp_cuda_toolkit.comm_id && gp_cuda_toolkit.comm_id(id, &err) == GP_OK) return true;
    print_message("skipped: %s\n", err.text);
    return false;
}

static void ids_differ(void **state) {
    (void)state;
    gp_error err = {0};
    char a[GP_LINE_ID], b[GP_LINE_ID];
    if (!is_installed()) skip();
    assert_int_equal(gp_cuda_toolkit.comm_id(a, &err), GP_OK);
    assert_int_equal(gp_cuda_toolkit.comm_id(b, &err), GP_OK);
    assert_memory_not_equal(a, b, GP_LINE_ID);
}

/* At once, or while it is busy. */
static void without_a_gpu_it_says_so(void **state) {
    (void)state;
    gp_error err = {0};
    char id[GP_LINE_ID];
    gp_cuda_comm *comm = NULL;
    int devices = 0;
    bool busy = true;
    if (!is_installed() || (gp_cuda_toolkit.count(&devices, &err) == GP_OK && devices > 0)) skip();
    err = (gp_error){0};
    assert_int_equal(gp_cuda_toolkit.comm_id(id, &err), GP_OK);
    gp_status status = gp_cuda_toolkit.comm_create(id, 0, 2, 4, &comm, &err);
    while (status == GP_OK && busy) status = gp_cuda_toolkit.comm_busy(comm, &busy, &err);
    assert_int_equal(status, GP_DEVICE);
    if (!strstr(err.text, "nccl") && !strstr(err.text, "NCCL")) fail_msg("%s", err.text);
    print_message("%s\n", err.text);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ids_differ), cmocka_unit_test(without_a_gpu_it_says_so)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
