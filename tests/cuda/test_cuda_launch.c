/* Launches on the host: that one which breaks its promises is found out. Made of the device's own kernel `add`, with
 * wrong declarations or overlapping memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <string.h>

#include "cuda/host_launch.h"
#include "cuda/host_memory.h"
#include "cuda/host_ranges.h"
#include "size.h"

enum { WIDTH = 3, PITCH = 5, ROWS = 100, BLOCK = 64 };

/* y = a + b, rows of WIDTH in a block of memory each. */
typedef struct fixture {
    float *y, *a, *b;
    gp_kernel_map_args args;
    gp_cuda_launch launch;
    gp_error err;
} fixture;

static gp_cuda_range rows_of(const float *at) {
    return (gp_cuda_range){at, WIDTH * sizeof(float), PITCH * sizeof(float), ROWS};
}

static float *tensor_of(fixture *f, float first) {
    void *block = NULL;
    if (gp_host_memory_allocate(PITCH * ROWS * sizeof(float), &block, &f->err) != GP_OK) fail_msg("%s", f->err.text);
    float *at = block;
    for (int i = 0; i < PITCH * ROWS; i++) at[i] = first + (float)i;
    return at;
}

static void fixture_init(fixture *f) {
    *f = (fixture){0};
    f->y = tensor_of(f, 0);
    f->a = tensor_of(f, 1000);
    f->b = tensor_of(f, -20);
    f->args =
        (gp_kernel_map_args){.y = {f->y, PITCH}, .a = {f->a, PITCH}, .b = {f->b, PITCH}, .rows = ROWS, .width = WIDTH};
    f->launch = (gp_cuda_launch){.kernel = GP_KERNEL_add,
                                 .grid = {(ROWS * WIDTH + BLOCK - 1) / BLOCK, 1, 1},
                                 .block = BLOCK,
                                 .args = &f->args,
                                 .args_bytes = sizeof f->args,
                                 .own_read = {rows_of(f->a), rows_of(f->b)},
                                 .own_write = {rows_of(f->y)},
                                 .reads = 2,
                                 .writes = 1};
    f->launch.read = f->launch.own_read;
    f->launch.write = f->launch.own_write;
}

static void fixture_fini(fixture *f) {
    gp_host_memory_release(f->y);
    gp_host_memory_release(f->a);
    gp_host_memory_release(f->b);
}

static void expect(fixture *f, gp_status (*run)(const gp_cuda_launch *, gp_error *), const char *words) {
    gp_status status = run(&f->launch, &f->err);
    if (!words && status != GP_OK) fail_msg("%s", f->err.text);
    if (words && (status != GP_INTERNAL || !strstr(f->err.text, words))) fail_msg("status %d: %s", status, f->err.text);
}

static void test_right(void **state) {
    (void)state;
    fixture f;
    fixture_init(&f);
    expect(&f, gp_host_launch_ranges, NULL);
    for (int i = 0; i < ROWS * PITCH; i++) {
        assert_true(f.a[i] == 1000 + (float)i && f.b[i] == -20 + (float)i);
        assert_true(f.y[i] == (i % PITCH < WIDTH ? f.a[i] + f.b[i] : (float)i));
    }
    fixture_fini(&f);
}

static void test_undeclared(void **state) {
    (void)state;
    if (TEST_WATCHES_ADDRESSES) skip(); /* which ends the program at the first access */
    fixture f;
    fixture_init(&f);
    f.launch.reads = 1;
    expect(&f, gp_host_launch_ranges, "poison where it declares to read nothing gives other bits: write 0, byte 0");
    f.launch.reads = 2;
    f.launch.own_read[1].rows--;
    expect(&f, gp_host_launch_ranges, "poison where it declares to read nothing gives other bits: write 0, byte 1188");
    f.launch.own_read[1].rows++;
    f.launch.own_write[0].width -= sizeof(float);
    expect(&f, gp_host_launch_ranges, "kernel add writes what it does not declare: byte 8 of a block of 2000");
    for (int i = 0; i < ROWS * PITCH; i++) assert_true(f.a[i] == 1000 + (float)i && f.b[i] == -20 + (float)i);
    f.launch.own_write[0] = f.launch.own_read[0];
    f.launch.own_read[0] = rows_of(f.y);
    f.y[0] = 5; /* not what is written there already */
    expect(&f, gp_host_launch_ranges, "kernel add writes what it does not declare");
    fixture_fini(&f);
}

static void test_orders(void **state) {
    (void)state;
    fixture f;
    fixture_init(&f);
    f.args.y.at = f.a + PITCH; /* what the next row is yet to read */
    f.args.rows = ROWS - 1;
    f.launch.own_write[0] = rows_of(f.args.y.at);
    f.launch.own_write[0].rows--;
    expect(&f, gp_host_launch_orders, "kernel add: another order of threads gives other bits: write 0, byte ");
    fixture_fini(&f);
}

static void test_shapes(void **state) {
    (void)state;
    fixture f;
    fixture_init(&f);
    f.launch.args_bytes--;
    expect(&f, gp_host_launch_orders, "kernel add takes arguments of ");
    f.launch.args_bytes++;
    f.launch.grid[1] = 0;
    expect(&f, gp_host_launch_orders, "kernel add: a grid of 5 x 0 x 1 blocks");
    f.launch.grid[1] = 1;
    f.launch.block = 1025;
    expect(&f, gp_host_launch_orders, "kernel add: 1025 threads in a block");
    f.launch.block = BLOCK;
    f.launch.kernel = GP_CUDA_KERNEL_COUNT;
    expect(&f, gp_host_launch_orders, "there is no kernel ");
    f.launch.kernel = GP_KERNEL_add;
    f.launch.own_write[0].at = f.y + PITCH;
    expect(&f, gp_host_launch_orders,
           "kernel add declares to write memory that is not the device's: write 0, 1992 bytes");
    f.launch.own_write[0].at = f.y;
    f.launch.own_read[1].at = f.b - 1;
    expect(&f, gp_host_launch_orders,
           "kernel add declares to read memory that is not the device's: read 1, 1992 bytes");
    fixture_fini(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right),
        cmocka_unit_test(test_undeclared),
        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
