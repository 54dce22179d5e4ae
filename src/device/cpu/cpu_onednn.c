#include "device/cpu/cpu_onednn.h"

#include <assert.h>
#include <oneapi/dnnl/dnnl_debug.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/cpu/cpu_onednn_plan.h"

/* libgomp's; clang has no omp.h for it. */
extern void omp_set_num_threads(int threads);

gp_status gp_onednn_refused(gp_error *err, const gp_op_desc *desc, const char *what, dnnl_status_t status) {
    gp_status kind = status == dnnl_out_of_memory ? GP_MEMORY : GP_UNSUPPORTED;
    char text[3][GP_SHAPE_TEXT];
    for (int i = 0; i < 3; i++) {
        gp_shape shape = {i < (int)desc->operands ? desc->operand[i].rank : 0, {0}};
        for (int d = 0; d < shape.rank; d++) shape.dim[d] = desc->operand[i].dim[d];
        gp_shape_text(text[i], shape);
    }
    return gp_fail(err, kind, "cpu: %s of %s and %s: oneDNN could not make %s: %s", gp_op_name(desc->kind), text[0],
                   text[1], what, dnnl_status2str(status));
}

/* The process's engine, and the attributes of most primitives: scratchpads come from the workspace. */

static pthread_once_t engine_once = PTHREAD_ONCE_INIT;
static dnnl_engine_t engine;
static dnnl_primitive_attr_t attributes;
static dnnl_status_t engine_status;

static void engine_create(void) {
    engine_status = dnnl_engine_create(&engine, dnnl_cpu, 0);
    if (engine_status == dnnl_success) engine_status = dnnl_primitive_attr_create(&attributes);
    if (engine_status == dnnl_success)
        engine_status = dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
}

static gp_status engine_start(gp_error *err) {
    pthread_once(&engine_once, engine_create);
    if (engine_status == dnnl_success) return GP_OK;
    return gp_fail(err, GP_DEVICE, "cpu: oneDNN has no engine for this processor: %s", dnnl_status2str(engine_status));
}

dnnl_engine_t gp_onednn_engine(void) {
    return engine;
}

const_dnnl_primitive_attr_t gp_onednn_attributes(void) {
    return attributes;
}

gp_status gp_cpu_onednn_open(struct dnnl_stream **out, gp_error *err) {
    GP_RETURN_IF_FAILED(engine_start(err));
    dnnl_status_t status = dnnl_stream_create(out, engine, dnnl_stream_default_flags);
    if (status == dnnl_success) return GP_OK;
    return gp_fail(err, GP_DEVICE, "cpu: oneDNN could not make a stream: %s", dnnl_status2str(status));
}

void gp_cpu_onednn_close(struct dnnl_stream **stream) {
    if (*stream) dnnl_stream_destroy(*stream);
    *stream = NULL;
}

const char *gp_cpu_onednn_version(void) {
    static char text[96]; /* the same whoever writes it */
    const dnnl_version_t *version = dnnl_version();
    snprintf(text, sizeof text, "oneDNN %d.%d.%d, %s", version->major, version->minor, version->patch,
             gp_conv_choice_version());
    return text;
}

/* The registry of formats. Entries are never changed or freed: the process's plans refer to them to the end. */

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static dnnl_memory_desc_t *registry; /* format f stands at f − 1; guarded by registry_lock, as the two below */
static size_t registry_count;
static size_t registry_capacity;

/* Caller holds registry_lock. */
static gp_status registry_add(const_dnnl_memory_desc_t layout, gp_format *out, gp_error *err) {
    for (size_t i = 0; i < registry_count; i++) {
        if (dnnl_memory_desc_equal(registry[i], layout)) {
            *out = (gp_format)(i + 1);
            return GP_OK;
        }
    }
    GP_RETURN_IF_FAILED(GP_GROW(&registry, &registry_capacity, registry_count + 1, err));
    dnnl_status_t status = dnnl_memory_desc_clone(&registry[registry_count], layout);
    if (status != dnnl_success) return gp_fail(err, GP_MEMORY, "out of memory: a format of weights");
    *out = (gp_format)++registry_count;
    return GP_OK;
}

gp_status gp_onednn_format_of(const_dnnl_memory_desc_t layout, gp_format *out, gp_error *err) {
    pthread_mutex_lock(&registry_lock);
    gp_status status = registry_add(layout, out, err);
    pthread_mutex_unlock(&registry_lock);
    return status;
}

gp_status gp_onednn_layout_of(gp_format format, const_dnnl_memory_desc_t *out, gp_error *err) {
    pthread_mutex_lock(&registry_lock);
    const_dnnl_memory_desc_t layout = format >= 1 && format <= registry_count ? registry[format - 1] : NULL;
    pthread_mutex_unlock(&registry_lock);
    if (!layout) return gp_fail(err, GP_INTERNAL, "cpu: there is no format %u of weights", format);
    *out = layout;
    return GP_OK;
}

/* Plans. */

static void step_fini(gp_onednn_step *step) {
    if (step->primitive) dnnl_primitive_destroy(step->primitive);
    if (step->scratchpad) dnnl_memory_desc_destroy(step->scratchpad);
}

void gp_cpu_onednn_release(gp_prepared *prepared) {
    gp_onednn_plan *plan = prepared->context;
    if (!plan) return;
    for (int i = 0; i < plan->arguments; i++) {
        gp_onednn_argument *argument = &plan->argument[i];
        step_fini(&argument->move);
        if (argument->given) dnnl_memory_desc_destroy(argument->given);
        if (argument->wanted) dnnl_memory_desc_destroy(argument->wanted);
    }
    step_fini(&plan->main);
    if (plan->products) plan->destroy_products(&plan->products);
    free(plan);
    prepared->context = NULL;
}

gp_status gp_onednn_plan_start(gp_prepared *prepared, gp_onednn_plan **out, gp_error *err) {
    GP_RETURN_IF_FAILED(engine_start(err));
    for (int i = 0; i < (int)prepared->desc.operands; i++) {
        const gp_tensor *tensor = &prepared->desc.operand[i];
        if (tensor->present && tensor->dtype != GP_F32) {
            return gp_fail(err, GP_UNSUPPORTED, "cpu: %s computes in F32 only, not in %s",
                           gp_op_name(prepared->desc.kind), gp_dtype_name(tensor->dtype));
        }
        prepared->operand[i].bytes = gp_tensor_bytes(tensor);
    }
    /* oneDNN bakes the number of threads in when it creates a primitive. */
    omp_set_num_threads((int)prepared->desc.threads);
    gp_onednn_plan *plan;
    GP_RETURN_IF_FAILED(GP_NEW(&plan, 1, err));
    prepared->context = plan;
    *out = plan;
    return GP_OK;
}

gp_status gp_onednn_plan_make(gp_prepared *prepared, gp_onednn_planner *fill_in, gp_error *err) {
    gp_onednn_plan *plan = NULL;
    GP_RETURN_IF_FAILED(gp_onednn_plan_start(prepared, &plan, err));
    gp_status status = fill_in(prepared, plan, err);
    if (status != GP_OK) gp_cpu_onednn_release(prepared);
    return status;
}

void gp_onednn_plan_add(gp_onednn_plan *plan, int slot, int operand, bool written, dnnl_memory_desc_t given,
                        dnnl_memory_desc_t wanted) {
    assert(plan->arguments < GP_ONEDNN_ARGUMENTS);
    plan->argument[plan->arguments++] = (gp_onednn_argument){slot, operand, written, given, wanted, {NULL, NULL}, 0};
}

/* Makes the primitive of `desc`, and room for its scratchpad. */
static dnnl_status_t step_init(gp_onednn_step *step, const_dnnl_primitive_desc_t desc, size_t *scratchpad) {
    const_dnnl_memory_desc_t needs = dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    size_t bytes = dnnl_memory_desc_get_size(needs);
    if (bytes > *scratchpad) *scratchpad = bytes;
    dnnl_status_t status = dnnl_memory_desc_clone(&step->scratchpad, needs);
    if (status != dnnl_success) return status;
    return dnnl_primitive_create(&step->primitive, desc);
}

static dnnl_status_t make_move(gp_onednn_argument *argument, size_t *scratchpad) {
    const_dnnl_memory_desc_t from = argument->written ? argument->wanted : argument->given;
    const_dnnl_memory_desc_t to = argument->written ? argument->given : argument->wanted;
    dnnl_primitive_desc_t desc;
    dnnl_status_t status = dnnl_reorder_primitive_desc_create(&desc, from, engine, to, engine, attributes);
    if (status != dnnl_success) return status;
    status = step_init(&argument->move, desc, scratchpad);
    dnnl_primitive_desc_destroy(desc);
    return status;
}

gp_status gp_onednn_plan_finish(gp_prepared *prepared, const_dnnl_primitive_desc_t desc, gp_error *err) {
    gp_onednn_plan *plan = prepared->context;
    size_t scratchpad = 0;
    dnnl_status_t status = desc ? step_init(&plan->main, desc, &scratchpad) : dnnl_success;
    if (status != dnnl_success) return gp_onednn_refused(err, &prepared->desc, "the primitive", status);
    for (int i = 0; i < plan->arguments; i++) {
        gp_onednn_argument *argument = &plan->argument[i];
        if (dnnl_memory_desc_equal(argument->given, argument->wanted)) continue;
        status = make_move(argument, &scratchpad);
        if (status != dnnl_success) return gp_onednn_refused(err, &prepared->desc, "a reorder of an operand", status);
    }
    gp_op_book(prepared, scratchpad); /* one for all steps, which run one after another */
    for (int i = 0; i < plan->arguments; i++) {
        gp_onednn_argument *argument = &plan->argument[i];
        if (argument->move.primitive)
            argument->stage = gp_op_book(prepared, dnnl_memory_desc_get_size(argument->wanted));
    }
    return GP_OK;
}
