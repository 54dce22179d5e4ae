#include "device/cuda/toolkit/cudnn_engine.h"

#include <stdlib.h>

#include "base/memory.h"
#include "device/cuda/toolkit/cudnn_graph.h"

#define BIT(note) (1U << CUDNN_NUMERICAL_NOTE_##note)

/* Whether results are the same each time and as exact as the precision asks for. f32 takes Winograd's tiles of 4x4,
 * whose errors are no larger than those of direct sums. It refuses larger tiles and FFT, whose errors are
 * (docs/gpu.md). TF32 refuses them too: transformed factors that tensor cores round have no bound that anything here
 * relies on. */
static bool notes_will_do(const gp_op_desc *desc, const cudnnBackendNumericalNote_t *note, int count) {
    const unsigned never = BIT(NONDETERMINISTIC) | BIT(DOWN_CONVERT_INPUTS) | BIT(REDUCED_PRECISION_REDUCTION) |
                           BIT(FFT) | BIT(WINOGRAD_TILE_6x6) | BIT(WINOGRAD_TILE_13x13);
    unsigned all = 0;
    for (int i = 0; i < count; i++)
        if ((unsigned)note[i] < CUDNN_NUMERICAL_NOTE_TYPE_COUNT) all |= 1U << note[i];
    if (all & never) return false;
    if (all & BIT(TENSOR_CORE) && !(desc->flags & GP_OP_TF32)) return false;
    if (all & BIT(WINOGRAD)) return (all & BIT(WINOGRAD_TILE_4x4)) && !(all & BIT(TENSOR_CORE));
    return true;
}

static bool engine_will_do(const gp_op_desc *desc, gp_cudnn_part engine, gp_cudnn_built *built) {
    cudnnBackendBehaviorNote_t behaviour[GP_CUDNN_MAX_NOTES];
    int64_t behaviours = gp_cudnn_part_get(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                                           GP_CUDNN_MAX_NOTES, behaviour);
    /* Kernels compiled at run time need a driver while planning, and take seconds. */
    for (int64_t i = 0; i < behaviours; i++)
        if (behaviour[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) return false;
    built->notes = (int)gp_cudnn_part_get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                          GP_CUDNN_MAX_NOTES, built->note);
    if (built->notes > GP_CUDNN_MAX_NOTES) return false;
    return notes_will_do(desc, built->note, built->notes);
}

/* ---- building ---------------------------------------------------------------------------------------------------- */

static gp_cudnn_part engine_part(gp_cudnn_parts *parts, gp_cudnn_part graph, gp_cudnn_part device, int64_t id) {
    gp_cudnn_part part = gp_cudnn_part_new(parts, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    gp_cudnn_part_set_part(parts, part, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
    gp_cudnn_part_set_int64(parts, part, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, id);
    gp_cudnn_part_set_part(parts, part, CUDNN_ATTR_ENGINE_DEVICEPROP, device);
    gp_cudnn_part_finish(parts, part, "engine");
    return part;
}

static gp_cudnn_part config_part(gp_cudnn_parts *parts, gp_cudnn_part engine, const gp_cudnn_engine *chosen) {
    gp_cudnn_part knob[GP_CUDNN_MAX_KNOBS] = {NULL};
    for (int i = 0; i < chosen->knobs; i++) {
        cudnnBackendKnobType_t type = (cudnnBackendKnobType_t)chosen->knob[i].type;
        knob[i] = gp_cudnn_part_new(parts, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        gp_cudnn_part_set(parts, knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
        gp_cudnn_part_set_int64(parts, knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, chosen->knob[i].value);
        gp_cudnn_part_finish(parts, knob[i], "knob");
    }
    gp_cudnn_part part = gp_cudnn_part_new(parts, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    gp_cudnn_part_set_part(parts, part, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    if (chosen->knobs > 0)
        gp_cudnn_part_set(parts, part, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, chosen->knobs,
                          (const void *)knob);
    gp_cudnn_part_finish(parts, part, "engine's configuration");
    return part;
}

static gp_status refuse(const gp_op_desc *desc, const gp_cudnn_engine *engine, const gp_cudnn_built *built,
                        gp_error *err) {
    if (built->parts.status == GP_MEMORY) return gp_cudnn_parts_status(&built->parts, err);
    return gp_fail(err, GP_UNSUPPORTED, "cuda: cuDNN's engine %lld cannot compute this %s: %s", (long long)engine->id,
                   gp_op_name(desc->kind),
                   built->parts.status == GP_OK ? "it is not deterministic or not exact enough"
                                                : built->parts.error.text);
}

gp_status gp_cudnn_engine_build(const gp_op_desc *desc, gp_cudnn_part device, const gp_cudnn_engine *engine,
                                gp_cudnn_built *out, gp_error *err) {
    gp_cudnn_built built = {0};
    gp_cudnn_parts *parts = &built.parts;
    gp_cudnn_part graph = gp_cudnn_graph_make(parts, desc);
    gp_cudnn_part its = engine_part(parts, graph, device, engine->id);
    bool fits = parts->status == GP_OK && engine_will_do(desc, its, &built);
    gp_cudnn_part config = fits ? config_part(parts, its, engine) : NULL;
    if (fits) built.plan = gp_cudnn_part_new(parts, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    if (fits) {
        gp_cudnn_part_set_part(parts, built.plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
        gp_cudnn_part_set_part(parts, built.plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device);
        gp_cudnn_part_finish(parts, built.plan, "plan");
    }
    int64_t workspace = -1;
    if (fits && parts->status == GP_OK)
        gp_cudnn_part_get(built.plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &workspace);
    if (workspace < 0) {
        gp_status status = refuse(desc, engine, &built, err);
        gp_cudnn_built_fini(&built);
        return status;
    }
    built.workspace = (size_t)workspace;
    *out = built;
    return GP_OK;
}

void gp_cudnn_built_fini(gp_cudnn_built *built) {
    gp_cudnn_parts_fini(&built->parts);
    *built = (gp_cudnn_built){0};
}

/* ---- choosing ---------------------------------------------------------------------------------------------------- */

/* What cuDNN proposed, as numbers; false where it does not say. */
static bool read_knobs(gp_cudnn_parts *parts, gp_cudnn_part config, gp_cudnn_engine *out) {
    gp_cudnn_part knob[GP_CUDNN_MAX_KNOBS];
    for (int i = 0; i < GP_CUDNN_MAX_KNOBS; i++)
        knob[i] = gp_cudnn_part_new(parts, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    if (parts->status != GP_OK) return false;
    int64_t count = gp_cudnn_part_get(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                      GP_CUDNN_MAX_KNOBS, (void *)knob);
    if (count > GP_CUDNN_MAX_KNOBS) return false;
    out->knobs = (int)count;
    for (int i = 0; i < out->knobs; i++) {
        cudnnBackendKnobType_t type;
        int64_t value;
        if (!gp_cudnn_part_get(knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type) ||
            !gp_cudnn_part_get(knob[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &value))
            return false;
        out->knob[i] = (struct gp_cudnn_knob){type, value};
    }
    return true;
}

static bool read_engine(const gp_op_desc *desc, gp_cudnn_part config, gp_cudnn_engine *out) {
    gp_cudnn_parts parts = {0};
    *out = (gp_cudnn_engine){0};
    gp_cudnn_built notes = {0};
    gp_cudnn_part engine = gp_cudnn_part_new(&parts, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    bool known =
        parts.status == GP_OK &&
        gp_cudnn_part_get(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, (void *)&engine) &&
        gp_cudnn_part_get(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &out->id) &&
        engine_will_do(desc, engine, &notes) && read_knobs(&parts, config, out);
    gp_cudnn_parts_fini(&parts);
    return known;
}

/* The first of `count` configurations that will do; false where none does. */
static bool first_of(const gp_op_desc *desc, gp_cudnn_part device, const gp_cudnn_part *config, int64_t count,
                     gp_cudnn_engine *out) {
    for (int64_t i = 0; i < count; i++) {
        gp_error refused;
        gp_cudnn_built built = {0};
        if (!read_engine(desc, config[i], out)) continue;
        if (gp_cudnn_engine_build(desc, device, out, &built, &refused) != GP_OK) continue;
        gp_cudnn_built_fini(&built);
        return true;
    }
    return false;
}

static bool ask(gp_cudnn_parts *parts, gp_cudnn_part graph, const gp_op_desc *desc, gp_cudnn_part device,
                cudnnBackendHeurMode_t mode, gp_cudnn_engine *out) {
    enum { MOST = 128 };
    gp_cudnn_part config[MOST];
    gp_cudnn_part heuristics = gp_cudnn_part_new(parts, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    gp_cudnn_part_set_part(parts, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    gp_cudnn_part_set(parts, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    gp_cudnn_part_set_part(parts, heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device);
    gp_cudnn_part_finish(parts, heuristics, "heuristics");
    for (int i = 0; i < MOST; i++) config[i] = gp_cudnn_part_new(parts, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (parts->status != GP_OK) return false;
    /* It returns fewer than it counts where some of its own proposals do not do. */
    int64_t count = gp_cudnn_part_get(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST,
                                      (void *)config);
    return first_of(desc, device, config, count < MOST ? count : MOST, out);
}

gp_status gp_cudnn_engine_choose(const gp_op_desc *desc, gp_cudnn_part device, gp_cudnn_engine *out, gp_error *err) {
    static const cudnnBackendHeurMode_t modes[] = {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
    gp_error said = {0};
    for (size_t m = 0; m < sizeof modes / sizeof modes[0]; m++) {
        gp_cudnn_parts parts = {0};
        gp_cudnn_part graph = gp_cudnn_graph_make(&parts, desc);
        bool found = ask(&parts, graph, desc, device, modes[m], out);
        gp_status status = gp_cudnn_parts_status(&parts, &said);
        gp_cudnn_parts_fini(&parts);
        if (found) return GP_OK;
        if (status == GP_MEMORY) return gp_fail(err, status, "%s", said.text);
    }
    return gp_fail(err, GP_UNSUPPORTED, "cuda: cuDNN has no deterministic engine for this %s%s%s",
                   gp_op_name(desc->kind), said.text[0] ? ": " : "", said.text);
}
