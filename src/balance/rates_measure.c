#include "balance/rates_measure.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "balance/copies.h"
#include "balance/rounds.h"
#include "base/memory.h"
#include "config/tree.h"
#include "trace/recorder.h"

/* Layers that compute and layers that move memory; tensors of 2 MiB on the host, 64 MiB on a device of many lanes. */
static const char network[] = "input: {shape: [32, 64, 64]}\n"
                              "layers:\n"
                              "  - batch_norm\n"
                              "  - relu\n"
                              "  - max_pool: 2\n"
                              "  - conv: {out: 64, kernel: 3, stride: 2, pad: 1}\n"
                              "  - relu\n"
                              "  - conv: {out: 64, kernel: 3, pad: 1}\n"
                              "  - relu\n"
                              "  - max_pool: 2\n"
                              "  - flatten\n"
                              "  - linear: 256\n"
                              "  - relu\n"
                              "  - linear: 16\n"
                              "loss: cross_entropy\n";
static const double most_copy_bytes = 1e15; /* per second: of copies that take their latency and nothing more */
enum { SAMPLES_ON_HOST = 4, SAMPLES_ELSEWHERE = 128 };

static gp_status build(gp_yaml_document **document, gp_graph **graph, gp_error *err) {
    GP_RETURN_IF_FAILED(
        gp_yaml_parse(network, strlen(network), "the network that rates are measured on", document, err));
    return gp_graph_build(gp_yaml_root(*document), graph, err);
}

/* Whole rounds are `slowdown` times as long as the medians add up to. */
static gp_status fit(const gp_bench *bench, gp_rates *rates, gp_error *err) {
    gp_bench_medians medians;
    gp_rated_op *ops = NULL;
    GP_RETURN_IF_FAILED(gp_bench_find_medians(bench, &medians, err));
    gp_status status = GP_NEW(&ops, bench->op_count, err);
    for (size_t o = 0; o < bench->op_count && status == GP_OK; o++) {
        const gp_prepared *prepared = bench->ops[o].op->prepared;
        ops[o] = (gp_rated_op){prepared->flops, prepared->bytes, medians.slowdown * medians.op[o]};
    }
    if (status == GP_OK) gp_rates_fit(ops, bench->op_count, rates);
    free(ops);
    free(medians.op);
    return status;
}

static gp_status time_copies(gp_bench *bench, gp_rates *rates, gp_error *err) {
    gp_profile copies = {0};
    gp_status status = gp_measure_copies(bench, 1, &copies, err);
    const gp_profile_copy *load =
        status == GP_OK ? gp_profile_find_copy(&copies, "host", bench->request.spec.kind->name) : NULL;
    if (load) {
        rates->copy_latency = load->latency;
        rates->copy_bytes = load->per_byte > 1 / most_copy_bytes ? 1 / load->per_byte : most_copy_bytes;
    }
    free(copies.copies);
    return status;
}

static gp_status run_rounds(gp_bench *bench, double seconds, gp_rates *rates, gp_error *err) {
    gp_measured ignored;
    const gp_rounds_request rounds = {.benches = bench,
                                      .count = 1,
                                      .timed = 1,
                                      .from = bench->request.clock(),
                                      .seconds = seconds,
                                      .clock = bench->request.clock};
    GP_RETURN_IF_FAILED(gp_rounds_run(&rounds, &ignored, err));
    GP_RETURN_IF_FAILED(fit(bench, rates, err));
    return time_copies(bench, rates, err);
}

static gp_status measure(const gp_graph *graph, const gp_device_spec *spec, double seconds, uint64_t (*clock)(void),
                         gp_rates *rates, gp_error *err) {
    gp_bench bench;
    const gp_bench_request request = {.graph = graph,
                                      .spec = {.kind = spec->kind, .index = spec->index, .threads = spec->threads},
                                      .update = {.op = GP_OP_SGD, .states = 1, .sgd = {.momentum = 0.9}},
                                      .real = GP_F32,
                                      .samples = spec->kind->on_host ? SAMPLES_ON_HOST : SAMPLES_ELSEWHERE,
                                      .clock = clock ? clock : gp_clock};
    GP_RETURN_IF_FAILED(gp_bench_open(&request, &bench, err));
    gp_status status = run_rounds(&bench, seconds, rates, err);
    gp_bench_close(&bench);
    return status;
}

gp_status gp_rates_measure(const gp_device_spec *spec, double seconds, uint64_t (*clock)(void), gp_rates *out,
                           gp_error *err) {
    gp_yaml_document *document = NULL;
    gp_graph *graph = NULL;
    gp_rates rates = gp_rates_assumed(spec->threads);
    gp_status status = build(&document, &graph, err);
    if (status == GP_OK) status = measure(graph, spec, seconds, clock, &rates, err);
    gp_graph_destroy(&graph);
    gp_yaml_destroy(&document);
    if (status != GP_OK) return gp_error_context(err, "measuring the rates of %s: ", spec->kind->name);
    rates.taken = (int64_t)time(NULL);
    *out = rates;
    return GP_OK;
}
