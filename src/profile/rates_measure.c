#include "profile/rates_measure.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory.h"
#include "config/tree.h"
#include "profile/measure.h"
#include "profile/profile_kept.h"

/* Layers that compute and layers that move memory, none of which a device fuses with the next; tensors of 2 MiB on the
 * host, 64 MiB on a device of many lanes. */
#define NETWORK(size, rows)                                                                                            \
    "input: {shape: [32, " size ", " size "]}\n"                                                                       \
    "layers:\n"                                                                                                        \
    "  - relu\n"                                                                                                       \
    "  - batch_norm\n"                                                                                                 \
    "  - max_pool: 2\n"                                                                                                \
    "  - conv: {out: 64, kernel: 3, stride: 2, pad: 1}\n"                                                              \
    "  - relu\n"                                                                                                       \
    "  - conv: {out: 64, kernel: 3, pad: 1}\n"                                                                         \
    "  - relu\n"                                                                                                       \
    "  - max_pool: 2\n"                                                                                                \
    "  - flatten\n"                                                                                                    \
    "  - linear: " rows "\n"                                                                                           \
    "  - relu\n"                                                                                                       \
    "  - linear: 16\n"                                                                                                 \
    "loss: cross_entropy\n"
static const char network[] = NETWORK("64", "256"), brief_network[] = NETWORK("32", "64");
static const double most_copy_bytes = 1e15; /* per second: of copies that take their latency and nothing more */
enum { SAMPLES_ON_HOST = 4, SAMPLES_ELSEWHERE = 128 };

/* The network on a device, as what a profile is of. */
typedef struct bench_network {
    gp_device_spec spec;
    bool brief;
    gp_yaml_document *document; /* places in the graph point into it */
    gp_graph *graph;
    gp_update update;
    gp_profile_identity identity;
    char *path; /* NULL: there is no cache */
} bench_network;

static void network_fini(bench_network *of) {
    gp_graph_destroy(&of->graph);
    gp_yaml_destroy(&of->document);
    gp_profile_identity_fini(&of->identity);
    free(of->path);
}

static gp_status fill_network(bench_network *of, gp_error *err) {
    const char *text = of->brief ? brief_network : network;
    GP_RETURN_IF_FAILED(
        gp_yaml_parse(text, strlen(text), "the network that rates are measured on", &of->document, err));
    GP_RETURN_IF_FAILED(gp_graph_build(gp_yaml_root(of->document), &of->graph, err));
    const gp_identity_request request = {.graph = of->graph,
                                         .device_count = 1,
                                         .devices = &of->spec,
                                         .update = &of->update,
                                         .samples = of->spec.kind->on_host ? SAMPLES_ON_HOST : SAMPLES_ELSEWHERE,
                                         .together = of->spec.kind->on_host};
    GP_RETURN_IF_FAILED(gp_profile_identify(&request, &of->identity, err));
    return gp_profile_path("rates", &of->identity, &of->spec, 1, &of->path, err);
}

static gp_status network_init(bench_network *of, const gp_device_spec *spec, int threads, bool brief, gp_error *err) {
    *of = (bench_network){.brief = brief,
                          .spec = {.kind = spec->kind, .index = spec->index, .threads = threads},
                          .update = {.op = GP_OP_SGD, .states = 1, .sgd = {.momentum = 0.9}}};
    gp_status status = fill_network(of, err);
    if (status != GP_OK) network_fini(of);
    return status;
}

/* ---- from times to rates ----------------------------------------------------------------------------------------- */

/* The part of a profile's times that an op is in. */
static gp_profile_time time_of(const gp_lowered_op *op) {
    if (op->pass == GP_PASS_FORWARD) return GP_PROFILE_TIME_FORWARD;
    for (uint32_t i = 0; i < op->desc.operands; i++)
        if (gp_op_writes(op->desc.kind, (int)i) && op->ref[i].role != GP_ROLE_NONE &&
            op->ref[i].role != GP_ROLE_GRAD_PARAM)
            return GP_PROFILE_TIME_BACKWARD_INPUT;
    return GP_PROFILE_TIME_BACKWARD_WEIGHT;
}

static gp_status count_node(const bench_network *of, int node, gp_timed_work *work, gp_error *err) {
    const gp_node *its = &of->graph->nodes[node];
    gp_lowering lowering;
    gp_lowering_init(&lowering, of->graph->types, of->identity.samples, (uint32_t)node);
    gp_status status = its->layer->type->lower(its->layer, &lowering, err);
    for (size_t o = 0; o < lowering.count && status == GP_OK; o++) {
        gp_lowered_op *op = &lowering.ops[o];
        double flops, bytes;
        if ((op->pass != GP_PASS_FORWARD && op->pass != GP_PASS_BACKWARD) || gp_lowered_is_dead(of->graph, node, op))
            continue;
        op->desc.threads = (uint32_t)of->spec.threads;
        gp_device_count(of->spec.kind, &op->desc, &flops, &bytes);
        gp_timed_work *to = &work[its->unit * GP_PROFILE_TIMES + (int)time_of(op)];
        to->flops += flops;
        to->bytes += bytes;
        to->ops++;
    }
    gp_lowering_fini(&lowering);
    return status;
}

static void read_copies(const gp_profile *profile, const char *kind, gp_rates *rates) {
    const gp_profile_copy *load = gp_profile_find_copy(profile, "host", kind);
    if (!load) return;
    rates->copy_latency = load->latency;
    rates->copy_bytes = load->per_byte > 1 / most_copy_bytes ? 1 / load->per_byte : most_copy_bytes;
}

static gp_status fit(const bench_network *of, const gp_profile *profile, gp_rates *out, gp_error *err) {
    const gp_profile_device *row = &profile->devices[0];
    gp_rates rates = gp_rates_assumed(of->spec.threads);
    gp_timed_work *work = NULL;
    size_t count = (size_t)profile->layer_count * GP_PROFILE_TIMES;
    GP_RETURN_IF_FAILED(GP_NEW(&work, count, err));
    gp_status status = GP_OK;
    for (int n = 0; n < of->graph->node_count && status == GP_OK; n++) status = count_node(of, n, work, err);
    for (size_t i = 0; i < count; i++) work[i].seconds = row->layers[i / GP_PROFILE_TIMES].time[i % GP_PROFILE_TIMES];
    if (status == GP_OK) {
        gp_rates_fit(work, count, &rates);
        read_copies(profile, of->spec.kind->name, &rates);
        rates.taken = profile->taken;
        rates.brief = of->brief;
        *out = rates;
    }
    free(work);
    return status;
}

/* ---- kept rates, and new ones ------------------------------------------------------------------------------------ */

static gp_status find_own(const gp_device_spec *spec, int threads, bool brief, gp_rates *out, bool *found,
                          gp_error *err) {
    bench_network of;
    gp_profile *profile = NULL;
    GP_RETURN_IF_FAILED(network_init(&of, spec, threads, brief, err));
    gp_status status = gp_profile_find_kept(of.path, &of.identity, of.graph, &of.spec, 1, &profile, err);
    *found = status == GP_OK && profile && !gp_profile_is_spoilt(profile, (int64_t)time(NULL));
    if (*found) status = fit(&of, profile, out, err);
    gp_profile_destroy(&profile);
    network_fini(&of);
    return status;
}

gp_status gp_rates_find(const gp_device_spec *spec, gp_rates *out, bool *found, gp_error *err) {
    gp_rates one;
    int threads = spec->threads > 1 ? spec->threads : 1;
    GP_RETURN_IF_FAILED(find_own(spec, threads, false, out, found, err));
    if (*found) return GP_OK;
    if (threads > 1) GP_RETURN_IF_FAILED(find_own(spec, 1, false, &one, found, err));
    if (*found) *out = gp_rates_of_threads(&one, threads);
    return *found ? GP_OK : find_own(spec, threads, true, out, found, err);
}

static gp_status measure(bench_network *of, double seconds, uint64_t (*clock)(void), gp_profile **out, gp_error *err) {
    const gp_measure_request timed = {.graph = of->graph,
                                      .devices = &of->spec,
                                      .device_count = 1,
                                      .update = of->update,
                                      .samples = of->identity.samples,
                                      .mix = {1, 1},
                                      .seconds = seconds,
                                      .clock = clock};
    gp_measured ignored;
    GP_RETURN_IF_FAILED(gp_profile_create(&of->identity, of->graph, &of->spec, 1, out, err));
    of->identity.samples = (*out)->identity.samples;
    return gp_profile_measure(&timed, *out, &ignored, err);
}

gp_status gp_rates_measure(const gp_device_spec *spec, bool brief, double seconds, uint64_t (*clock)(void),
                           gp_rates *out, gp_error *err) {
    bench_network of;
    gp_profile *profile = NULL;
    gp_error ignored = {0};
    GP_RETURN_IF_FAILED(network_init(&of, spec, spec->threads > 1 ? spec->threads : 1, brief, err));
    gp_status status = measure(&of, seconds, clock, &profile, err);
    if (status == GP_OK) status = fit(&of, profile, out, err);
    if (status == GP_OK && of.path && gp_profile_keep(profile, of.path, &ignored) == GP_MEMORY)
        status = gp_fail(err, GP_MEMORY, "%s", ignored.text);
    gp_profile_destroy(&profile);
    network_fini(&of);
    return status == GP_OK ? GP_OK : gp_error_context(err, "measuring the rates of %s: ", spec->kind->name);
}
