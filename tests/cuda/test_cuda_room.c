/* What libraries take of a GPU's memory: measured when a device is opened, held against what is free and what may be
 * used before the arena is reserved, and estimated by plans. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cuda/recorder.h"
#include "cuda/training.h"
#include "device/cuda/cuda.h"
#include "device/cuda/cuda_staging.h"
#include "plan/memory.h"

#define MIB ((size_t)1 << 20)

/* What another program takes meanwhile, and whether the driver tells how much of the device is this process's. */
typedef struct others {
    size_t take;
    bool told;
} others;
static const others none = {0, false};

/* One worker's device: reserves what just fits, and says `expected` of a MiB more. */
static void check_reserve(const recorder_options *options, others by_others, size_t limit, size_t fits,
                          const char *expected) {
    const gp_device_spec spec = {&gp_cuda_kind, 0, 1, limit};
    gp_device *device;
    gp_stream *stream;
    void *block;
    gp_error err = {0};
    recorder_begin(options);
    recorder_share(by_others.take, by_others.told);
    assert_int_equal(gp_cuda_kind.open(&spec, &device, &err), GP_OK);
    assert_int_equal(gp_cuda_kind.stream_create(device, false, &stream, &err), GP_OK);
    assert_int_equal(gp_cuda_kind.reserve(device, fits + MIB, &block, &err), GP_MEMORY);
    assert_string_equal(err.text, expected);
    assert_int_equal(gp_cuda_kind.reserve(device, fits, &block, &err), GP_OK);
    gp_cuda_kind.stream_destroy(stream);
    gp_cuda_kind.unreserve(device, block);
    gp_cuda_kind.close(device);
    assert_null(recorder_end(NULL));
}

static void libraries_are_measured(void **state) {
    (void)state;
    const recorder_options small = {RECORDER_EAGER, 0, 1, -1, -1, 0, 300 * MIB, 200 * MIB};
    check_reserve(&small, none, 0, 44 * MIB,
                  "cuda:0: needs 45.0 MiB, and 56.0 MiB for code that libraries load later, but only 100.0 MiB of "
                  "300.0 MiB are free; the context, libraries (200.0 MiB for this worker), other workers and other "
                  "programs use the rest");
    const recorder_options large = {RECORDER_EAGER, 0, 1, -1, -1, 0, 0, 30 * MIB};
    check_reserve(
        &large, none, 300 * MIB, 44 * MIB,
        "cuda:0: needs 45.0 MiB, and 256.0 MiB for libraries and their code (30.0 MiB of it is already used), but may "
        "use only 300.0 MiB");
    const recorder_options more = {RECORDER_EAGER, 0, 1, -1, -1, 0, 0, 280 * MIB};
    check_reserve(
        &more, none, 300 * MIB, 20 * MIB,
        "cuda:0: needs 21.0 MiB, and 280.0 MiB for libraries and their code (280.0 MiB of it is already used), but may "
        "use only 300.0 MiB");
}

/* Another program that takes 500 MiB while the handles are made, 30 MiB, is not counted as this worker's where the
 * driver tells them apart; where it does not, its share is bounded. */
static void others_are_told_apart(void **state) {
    (void)state;
    const recorder_options options = {RECORDER_EAGER, 0, 1, -1, -1, 0, 1000 * MIB, 30 * MIB};
    check_reserve(
        &options, (others){500 * MIB, true}, 300 * MIB, 44 * MIB,
        "cuda:0: needs 45.0 MiB, and 256.0 MiB for libraries and their code (30.0 MiB of it is already used), but may "
        "use only 300.0 MiB");
    check_reserve(
        &options, (others){500 * MIB, false}, 600 * MIB, 70 * MIB,
        "cuda:0: needs 71.0 MiB, and 530.0 MiB for libraries and their code (530.0 MiB of it is already used), but may "
        "use only 600.0 MiB");
    const recorder_options vast = {RECORDER_EAGER, 0, 1, -1, -1, 0, 9000 * MIB, 30 * MIB};
    check_reserve(
        &vast, (others){8000 * MIB, false}, 1100 * MIB, 76 * MIB,
        "cuda:0: needs 77.0 MiB, and 1.00 GiB for libraries and their code (1.00 GiB of it is already used), but may "
        "use only 1.07 GiB");
}

static const char model[] = "input: {shape: [2, 50, 40]}\n"
                            "layers: [{conv: {out: 3, kernel: 3}}, relu, flatten, {linear: 40}]\n"
                            "loss: cross_entropy\n";
static const training_cut cut = {model, 2, {2, 2}};

static void plans_count_them(void **state) {
    (void)state;
    harness_options options = training_options(&cut, GP_CHECKPOINT_NEVER, false, 1);
    harness h;
    gp_error err = {0};
    int worker = -1;
    recorder_begin(&(recorder_options){RECORDER_EAGER, 0, 1, -1, -1, 0, 0, 0});
    harness_plan(&h, &options);
    for (int w = 0; w < 2; w++) h.plan->devices[w].memory = h.plan->arena[w] + 256 * MIB;
    assert_int_equal(gp_memory_check(h.plan, &worker, &err), GP_OK);
    h.plan->devices[1].memory--;
    assert_int_equal(gp_memory_check(h.plan, &worker, &err), GP_MEMORY);
    assert_int_equal(worker, 1);
    assert_non_null(strstr(err.text, ", libraries about 256.0 MiB)"));
    /* Input of six samples of 16000 bytes, of two steps; the weights of the linear layer. */
    assert_int_equal(gp_memory_pinned(h.plan, 0), 2 * gp_cuda_staging_bytes(96000) + gp_cuda_staging_bytes(216));
    assert_true(gp_memory_pinned(h.plan, 1) >= gp_cuda_staging_bytes(3 * 48 * 38 * 40 * 4));
    harness_end(&h);
    assert_null(recorder_end(NULL));
}

/* What staging really comes to: in copies of a block each, and in one of less. */
static void staging_is_foretold(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 65536, 65537, 200000, 5 * MIB, 16 * MIB, 40 * MIB};
    recorder_begin(&(recorder_options){RECORDER_EAGER, 0, 1, -1, -1, 0, 0, 0});
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        gp_cuda_staging staging = {0};
        gp_error err = {0};
        for (size_t left = sizes[i]; left > 0;) {
            size_t piece = left < gp_cuda_staging_block ? left : gp_cuda_staging_block;
            void *at;
            assert_int_equal(gp_cuda_staging_take(&staging, piece, &at, &err), GP_OK);
            left -= piece;
        }
        assert_int_equal(gp_cuda_staging_bytes(sizes[i]), staging.bytes);
        gp_cuda_staging_fini(&staging);
    }
    assert_null(recorder_end(NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(libraries_are_measured),
                                       cmocka_unit_test(others_are_told_apart), cmocka_unit_test(plans_count_them),
                                       cmocka_unit_test(staging_is_foretold)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
