/* Pinned staging: what it gives out, and that it keeps to its limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "cuda/host_api.h"
#include "device/cuda/cuda_staging.h"

/* Copies until one has to wait; how many. */
static int fill(gp_cuda_staging *staging, size_t bytes) {
    gp_error err = {0};
    void *at = NULL;
    int count = 0;
    for (;; count++) {
        assert_int_equal(gp_cuda_staging_take(staging, bytes, &at, &err), GP_OK);
        if (!at) return count;
        memset(at, count, bytes);
        assert_true(count < 1000);
    }
}

/* Also where the first block is too small for what comes: it is passed over, and what is under way counts all the same.
 */
static void copies_wait_where_the_limit_is_reached(void **state) {
    (void)state;
    gp_cuda_staging staging = {0};
    gp_error err = {0};
    void *at = NULL;
    assert_int_equal(gp_cuda_staging_take(&staging, 1, &at, &err), GP_OK);
    assert_non_null(at);
    gp_cuda_staging_deliver(&staging);
    assert_true(staging.bytes < gp_cuda_staging_block);
    for (int i = 0; i < 3; i++) {
        int count = fill(&staging, gp_cuda_staging_block);
        assert_int_equal(count, gp_cuda_staging_most / gp_cuda_staging_block - 1);
        assert_true(staging.bytes <= gp_cuda_staging_most);
        gp_cuda_staging_deliver(&staging);
    }
    gp_cuda_staging_fini(&staging);
}

/* What is larger than the limit leaves room for still goes, alone. */
static void one_copy_always_goes(void **state) {
    (void)state;
    gp_cuda_staging staging = {0};
    gp_error err = {0};
    void *at = NULL;
    gp_cuda_staging_most = gp_cuda_staging_block / 2;
    assert_int_equal(gp_cuda_staging_take(&staging, gp_cuda_staging_block, &at, &err), GP_OK);
    assert_non_null(at);
    assert_int_equal(gp_cuda_staging_take(&staging, 1, &at, &err), GP_OK);
    assert_null(at);
    gp_cuda_staging_fini(&staging);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_wait_where_the_limit_is_reached),
        cmocka_unit_test(one_copy_always_goes),
    };
    gp_cuda = &gp_host_api;
    gp_cuda_staging_block = (size_t)64 << 10;
    gp_cuda_staging_most = (size_t)512 << 10;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
