#include "profile/profile_identity.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"
#include "base/text_stream.h"
#include "profile/cache.h"

/* ---- the model --------------------------------------------------------------------------------------------------- */

/* Any number of samples tells models apart; this one is refused by no layer for being too small. */
enum { HASHED_SAMPLES = 16 };

static uint64_t hash_number(uint64_t hash, int64_t number) {
    return gp_hash_bytes(hash, &number, sizeof number);
}

static uint64_t hash_op(uint64_t hash, const gp_lowered_op *op) {
    hash = hash_number(hash, op->pass);
    hash = hash_number(hash, op->flags);
    hash = gp_hash_bytes(hash, &op->desc, gp_op_desc_bytes(&op->desc));
    for (uint32_t i = 0; i < op->desc.operands; i++) {
        hash = hash_number(hash, op->ref[i].role);
        hash = hash_number(hash, op->ref[i].index);
        hash = hash_number(hash, op->ref[i].first);
    }
    return hash;
}

static gp_status hash_node(const gp_graph *graph, int n, uint64_t *hash, gp_error *err) {
    const gp_node *node = &graph->nodes[n];
    gp_lowering lowering;
    gp_lowering_init(&lowering, graph->types, HASHED_SAMPLES, (uint32_t)n);
    gp_status status = node->layer->type->lower(node->layer, &lowering, err);
    if (status != GP_OK) status = gp_node_error(node, err);
    uint64_t h = hash_number(*hash, node->unit);
    for (int i = 0; i < node->input_count; i++) h = hash_number(h, node->inputs[i]);
    for (int p = 0; p < node->param_count; p++) h = hash_number(h, graph->params[node->first_param + p].trained);
    for (size_t o = 0; o < lowering.count && status == GP_OK; o++) h = hash_op(h, &lowering.ops[o]);
    gp_lowering_fini(&lowering);
    *hash = h;
    return status;
}

gp_status gp_profile_model(const gp_graph *graph, uint64_t *out, gp_error *err) {
    uint64_t hash = hash_number(0, graph->node_count);
    for (int n = 0; n < graph->node_count; n++) GP_RETURN_IF_FAILED(hash_node(graph, n, &hash, err));
    *out = hash ? hash : 1; /* 0: not said */
    return GP_OK;
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

static gp_status describe_optimizer(const gp_identity_request *request, char **out, gp_error *err) {
    const gp_update *update = request->update;
    return gp_format_text(out, err, "%s, %d state%s%s", gp_op_name(update->op), update->states,
                          update->states == 1 ? "" : "s", request->norms ? ", norms" : "");
}

gp_status gp_profile_identify(const gp_identity_request *request, gp_profile_identity *out, gp_error *err) {
    gp_profile_identity identity = {.samples = request->samples, .together = request->together};
    char **text = identity.text, libraries[GP_LIBRARIES_TEXT];
    gp_status status = gp_copy_text(&text[GP_PROFILE_TEXT_PROGRAM], GP_VERSION, err);
    if (status == GP_OK) status = gp_cache_machine(&text[GP_PROFILE_TEXT_MACHINE], err);
    if (status == GP_OK)
        status = gp_copy_text(&text[GP_PROFILE_TEXT_LIBRARIES],
                              gp_device_libraries(request->devices, request->device_count, libraries), err);
    if (status == GP_OK) status = gp_copy_text(&text[GP_PROFILE_TEXT_PRECISION], request->tf32 ? "tf32" : "f32", err);
    if (status == GP_OK) status = describe_optimizer(request, &text[GP_PROFILE_TEXT_OPTIMIZER], err);
    if (status == GP_OK) status = gp_profile_model(request->graph, &identity.model, err);
    if (status != GP_OK)
        gp_profile_identity_fini(&identity);
    else
        *out = identity;
    return status;
}

static bool same_text(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

bool gp_profile_identity_akin(const gp_profile_identity *a, const gp_profile_identity *b) {
    for (int t = 0; t < GP_PROFILE_TEXTS; t++)
        if (!same_text(a->text[t], b->text[t])) return false;
    return a->model == b->model;
}

bool gp_profile_identity_equal(const gp_profile_identity *a, const gp_profile_identity *b) {
    return gp_profile_identity_akin(a, b) && a->samples == b->samples && a->together == b->together;
}

gp_status gp_profile_describe_difference(const gp_profile_identity *profile, const gp_profile_identity *now, char **out,
                                         gp_error *err) {
    static const char *const differs[GP_PROFILE_TEXTS] = {"on another machine", "with other libraries",
                                                          "by another version", "in another precision",
                                                          "with another optimizer"};
    gp_text_stream text;
    const char *comma = "";
    GP_RETURN_IF_FAILED(gp_text_begin(&text, "a profile", err));
    for (int t = 0; t < GP_PROFILE_TEXTS; t++) {
        if (!profile->text[t] || strcmp(profile->text[t], now->text[t]) == 0) continue;
        fprintf(text.file, "%s%s (%s)", comma, differs[t], profile->text[t]);
        comma = ", ";
    }
    if (profile->together && profile->together != now->together) {
        fprintf(text.file, "%swith %" PRId64 " of the host's devices at work, not %" PRId64, comma, profile->together,
                now->together);
        comma = ", ";
    }
    if (profile->samples != now->samples)
        fprintf(text.file, "%swith micro-batches of %" PRId64, comma, profile->samples);
    return gp_text_end(&text, GP_OK, out, err);
}
