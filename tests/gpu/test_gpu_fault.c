/* What goes wrong on a GPU itself, each in a process of its own, since no other one could use the GPU afterwards: a
 * kernel that reads where no memory is ends the run with a sentence, and a run whose GPU hangs is ended. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_call.h"
#include "device/cuda/cuda_device.h"
#include "gpu/gpu.h"
#include "pipeline/harness.h"
#include "pipeline/networks.h"
#include "pipeline/run_internal.h"
#include "session/fixture.h"
#include "train/trainer.h"

static const char *self;

/* ---- in a process of its own ------------------------------------------------------------------------------------- */

/* Relu of what lies at 64. */
static gp_status read_nowhere(gp_stream *stream, gp_error *err) {
    float *nowhere = (float *)(uintptr_t)64;
    const gp_kernel_map_args args = {.y = {nowhere, 1}, .a = {nowhere, 1}, .rows = 1, .width = 1};
    const gp_cuda_launch launch = gp_cuda_launch_items(GP_KERNEL_relu_forward, 1, &args, sizeof args);
    return gp_cuda->launch(&launch, stream->handle, err);
}

static gp_status spoil(void *context, const gp_site *site, gp_error *err) {
    const harness *h = context;
    if (site->worker != 1 || site->step != 2 || site->instr->op != GP_INSTR_BACKWARD) return GP_OK;
    return read_nowhere(h->run->workers[1].queue[GP_QUEUE_COMPUTE], err);
}

/* Prints how it ended. */
static int run_fault(void) {
    static const int64_t layers[] = {6, 11};
    const harness_options options = {.model = network_skips,
                                     .layers = layers,
                                     .stages = 2,
                                     .kind = &gp_cuda_kind,
                                     .devices = 1,
                                     .micro_batches = 3,
                                     .batch = 12};
    harness h;
    gp_error err = {0};
    gp_step_result result;
    const gp_hooks hooks = {.context = &h, .before = spoil};
    gp_status status = GP_OK;
    harness_plan(&h, &options);
    harness_start(&h, &hooks);
    for (uint32_t step = 1; step <= 10 && status == GP_OK; step++)
        status = harness_step(&h, options.batch, true, step, &result, &err);
    harness_end(&h);
    printf("status %d: %s\n", (int)status, err.text);
    return 0;
}

/* Gives the GPU more and more to do, and does not return: for the watch, as a call that waits for a kernel for ever. */
static gp_status hang(void *context, const gp_site *site, gp_error *err) {
    enum { BYTES = 1 << 24 };
    gp_cuda_stream *stream;
    void *from, *to;
    (void)context;
    if (site->step != 3) return GP_OK;
    printf("step 3\n"); /* the first step had its time to load kernels */
    fflush(stdout);
    GP_RETURN_IF_FAILED(gp_cuda->stream_create(false, &stream, err));
    GP_RETURN_IF_FAILED(gp_cuda->allocate(BYTES, &from, err));
    GP_RETURN_IF_FAILED(gp_cuda->allocate(BYTES, &to, err));
    for (;;) GP_RETURN_IF_FAILED(gp_cuda->copy(to, from, BYTES, GP_CUDA_WITHIN, stream, err));
}

/* Prints its temporary folder, which nobody in this process can remove. */
static int run_hang(void) {
    gp_error err = {0};
    const gp_hooks hooks = {.before = hang};
    void *unused = NULL;
    if (fixture_make(&unused) != 0) return 99;
    printf("%s\n", fixture_path(""));
    fflush(stdout);
    gp_session *session = fixture_session(
        FIXTURE_CHANGES("pipeline.devices=[cuda:0, cuda:0]", "pipeline.timeout=5", "train={steps: 50}"));
    const gp_train_options options = {.folder = fixture_new_folder(), .verbosity = GP_QUIET, .hooks = &hooks};
    printf("status %d\n", (int)gp_train(session, &options, &err));
    return 98; /* it cannot get here */
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

/* What it said, and how it ended; -1: by a signal. */
static int run(const char *which, char said[2048]) {
    char command[600];
    size_t used = 0;
    snprintf(command, sizeof command, "exec timeout -k 1 50 '%s' %s 2>&1", self, which);
    FILE *from = popen(command, "r");
    assert_non_null(from);
    for (size_t got; (got = fread(said + used, 1, 2047 - used, from)) > 0;) used += got;
    said[used] = '\0';
    int status = pclose(from);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_fault(void **state) {
    (void)state;
    char said[2048];
    if (!gpu_is_real()) skip(); /* it would be a fault of the host */
    int status = run("fault", said);
    print_message("%s", said);
    if (status != 0 || !strstr(said, "cuda:0 failed")) fail_msg("status %d: %s", status, said);
}

static void test_hang(void **state) {
    static const char sentence[] = "step 3\ngpipe-train: no worker has gone on for ";
    (void)state;
    char said[2048], remove[2100];
    int status = run("hang", said);
    char *rest = strchr(said, '\n');
    assert_non_null(rest);
    *rest++ = '\0';
    snprintf(remove, sizeof remove, "rm -r '%s'", said);
    assert_int_equal(system(remove), 0);
    print_message("%s", rest);
    if (status != 1 || !strstr(rest, sentence)) fail_msg("status %d: %s", status, rest);
}

/* test_gpu_fault [fault|hang]: one of the two, in this process. */
int main(int argc, char **argv) {
    if (!gpu_is_there()) return GPU_SKIPPED;
    if (argc > 1 && strcmp(argv[1], "fault") == 0) return run_fault();
    if (argc > 1) return run_hang();
    self = argv[0];
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fault), cmocka_unit_test(test_hang)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
