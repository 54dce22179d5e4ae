/* oneDNN in this process: its engine, its streams, its refusals, and the registry of formats. */
#include "device/cpu/cpu_onednn.h"

#include <oneapi/dnnl/dnnl_debug.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/cpu/cpu_onednn_plan.h"

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
    /* The configuration says how a run computes, not ONEDNN_DEFAULT_FPMATH_MODE. */
    engine_status = dnnl_set_default_fpmath_mode(dnnl_fpmath_mode_strict);
    if (engine_status == dnnl_success) engine_status = dnnl_engine_create(&engine, dnnl_cpu, 0);
    if (engine_status == dnnl_success) engine_status = dnnl_primitive_attr_create(&attributes);
    if (engine_status == dnnl_success)
        engine_status = dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
}

gp_status gp_onednn_start(gp_error *err) {
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
    GP_RETURN_IF_FAILED(gp_onednn_start(err));
    dnnl_status_t status = dnnl_stream_create(out, engine, dnnl_stream_default_flags);
    if (status == dnnl_success) return GP_OK;
    return gp_fail(err, GP_DEVICE, "cpu: oneDNN could not make a stream: %s", dnnl_status2str(status));
}

void gp_cpu_onednn_close(struct dnnl_stream **stream) {
    if (*stream) dnnl_stream_destroy(*stream);
    *stream = NULL;
}

/* Sets contain those before them, but avx2_vnni and avx2_vnni_2 are not in those of AVX-512. */
static const char *isa_name(void) {
    static const struct {
        dnnl_cpu_isa_t isa;
        const char *name;
    } sets[] = {{dnnl_cpu_isa_avx512_core_amx_fp16, "AMX-FP16"},
                {dnnl_cpu_isa_avx512_core_amx, "AMX"},
                {dnnl_cpu_isa_avx512_core_fp16, "AVX-512 FP16"},
                {dnnl_cpu_isa_avx512_core_bf16, "AVX-512 BF16"},
                {dnnl_cpu_isa_avx512_core_vnni, "AVX-512 VNNI"},
                {dnnl_cpu_isa_avx512_core, "AVX-512"},
                {dnnl_cpu_isa_avx2_vnni_2, "AVX2 VNNI 2"},
                {dnnl_cpu_isa_avx2_vnni, "AVX2 VNNI"},
                {dnnl_cpu_isa_avx2, "AVX2"},
                {dnnl_cpu_isa_avx, "AVX"},
                {dnnl_cpu_isa_sse41, "SSE4.1"}};
    dnnl_cpu_isa_t now = dnnl_get_effective_cpu_isa();
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if ((now & sets[i].isa) == sets[i].isa) return sets[i].name;
    return "no SSE4.1";
}

static char version_text[96];
static pthread_once_t version_once = PTHREAD_ONCE_INIT;

static void write_version(void) {
    const dnnl_version_t *version = dnnl_version();
    snprintf(version_text, sizeof version_text, "oneDNN %d.%d.%d with %s, convolutions %d", version->major,
             version->minor, version->patch, isa_name(), GP_CONV_TABLE_VERSION);
}

const char *gp_cpu_onednn_version(void) {
    pthread_once(&version_once, write_version);
    return version_text;
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
