/* How long each op of a training step takes on the first device, by events: time_ops config.yaml [key.path=value]…
 *
 * Plans as gpipe-train does and times the ops of one micro-batch in their places, as a profile does. Prints
 *   samples <of the micro-batch>
 *   copy <bytes that a copy within the device reads and writes in a second>
 *   <pass> <layer> <op> <tf32 or f32> <floating-point operations> <bytes> <seconds, the median>
 * with a line for each op and each pass: forward, backward (gradients of weights are overwritten), adding (they add up)
 * and step. scripts/gpu-figures.py makes a table of it. Built with GPU_ON_HOST, host memory stands in the GPU's place.
 */
#include <stdio.h>
#include <stdlib.h>

#include "profile/bench.h"
#include "session/session.h"
#include "trace/recorder.h"

#ifdef GPU_ON_HOST
#include "cuda/host_api.h"
enum { ROUNDS = 2 };
#else
enum { ROUNDS = 16 };
#endif

static bool never(void *context) {
    (void)context;
    return false;
}

/* Whole runs of a copy as large as half the arena: by events, or by the clock where there are none. */
static gp_status time_copy(const gp_bench *bench, double *rate, gp_error *err) {
    enum { COPIES = 16 };
    const gp_device_kind *kind = bench->spec.kind;
    size_t bytes = bench->arena_bytes / 2;
    double nanoseconds = 0;
    gp_event *event[2] = {NULL, NULL};
    gp_status status = GP_OK;
    for (int e = 0; e < 2 && status == GP_OK; e++) status = kind->event_create(bench->device, true, &event[e], err);
    for (int turn = 0; turn <= COPIES && status == GP_OK; turn++) {
        status = kind->pull(bench->stream, bench->arena + bytes, bench->device, bench->arena, bytes, err);
        if (turn == 0 && status == GP_OK) status = kind->event_record(event[0], bench->stream, err);
    }
    if (status == GP_OK) status = kind->event_record(event[1], bench->stream, err);
    if (status == GP_OK) status = kind->stream_finish(bench->stream, NULL, err);
    if (status == GP_OK) status = kind->event_elapsed(event[0], event[1], &nanoseconds, err);
    for (int e = 0; e < 2; e++)
        if (event[e]) kind->event_destroy(event[e]);
    if (status == GP_OK) *rate = nanoseconds > 0 ? 2e9 * COPIES * (double)bytes / nanoseconds : 0;
    return status;
}

static const char *name_pass(gp_bench_pass pass) {
    static const char *const names[] = {[GP_BENCH_KEEP] = "forward",
                                        [GP_BENCH_BACKWARD_FIRST] = "backward",
                                        [GP_BENCH_BACKWARD_REST] = "adding",
                                        [GP_BENCH_UPDATE] = "step"};
    return pass < sizeof names / sizeof *names ? names[pass] : NULL;
}

static gp_status print_ops(const gp_bench *bench, gp_error *err) {
    gp_bench_medians medians;
    GP_RETURN_IF_FAILED(gp_bench_find_medians(bench, &medians, err));
    for (size_t o = 0; o < bench->op_count; o++) {
        const gp_exec_op *op = bench->ops[o].op;
        const gp_prepared *prepared = op->prepared;
        const char *pass = name_pass(bench->ops[o].pass);
        if (!pass) continue;
        printf("%s %s %s %s %.17g %.17g %.9g\n", pass, op->node < 0 ? "-" : bench->plan->graph->nodes[op->node].name,
               gp_op_name(prepared->desc.kind), prepared->desc.flags & GP_OP_TF32 ? "tf32" : "f32", prepared->flops,
               prepared->bytes, medians.op[o]);
    }
    free(medians.op);
    return GP_OK;
}

static gp_status time_rounds(gp_bench *bench, gp_error *err) {
    double rate = 0;
    for (int round = 0; round < ROUNDS; round++) GP_RETURN_IF_FAILED(gp_bench_round(bench, never, NULL, err));
    GP_RETURN_IF_FAILED(time_copy(bench, &rate, err));
    printf("samples %lld\ncopy %.9g\n", (long long)bench->request->samples, rate);
    return print_ops(bench, err);
}

static gp_status time_session(const gp_session *session, gp_error *err) {
    const gp_plan *plan = session->plan;
    gp_bench bench;
    const gp_measure_request request = {.graph = session->graph,
                                        .update = session->update,
                                        .clip_norm = plan->clip_norm,
                                        .samples = session->config->data.batch / plan->micro_batches,
                                        .clock = gp_clock};
    GP_RETURN_IF_FAILED(gp_bench_open(&request, &plan->devices[0], &bench, err));
    gp_status status = time_rounds(&bench, err);
    gp_bench_close(&bench);
    return status;
}

int main(int argc, char **argv) {
    gp_error err = {0};
    gp_config *config = NULL;
    gp_session *session = NULL;
#ifdef GPU_ON_HOST
    gp_cuda = &gp_host_api;
    gp_host_api_set_care(GP_HOST_ONCE);
#endif
    if (argc < 2) {
        fputs("usage: time_ops config.yaml [key.path=value]...\n", stderr);
        return 2;
    }
    gp_status status = gp_config_load(GP_TO_RUN, argv[1], (const char *const *)argv + 2, argc - 2, &config, &err);
    if (status == GP_OK) status = gp_session_open(&config, NULL, &session, &err);
    if (status == GP_OK) status = time_session(session, &err);
    if (status != GP_OK) fprintf(stderr, "time_ops: %s\n", err.text);
    gp_session_close(&session);
    return status != GP_OK;
}
