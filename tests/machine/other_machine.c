/* A library to be loaded before a program's own (LD_PRELOAD): the program sees another machine. What a test expects
 * must hold there too.
 *
 * GP_MACHINE_WEIGHTS=16: oneDNN chooses weights in blocks of 16 channels, as it does with AVX-512. Its reference code
 * computes with them, up to 1000 times slower: convolutions of more than MOST_PRODUCTS products stay as they are.
 * GP_MACHINE_SCRATCHPAD=N: oneDNN asks for N bytes of scratchpad more (with AVX-512, products ask for 32 to 256 KiB).
 * GP_MACHINE_PROCESSORS=N: the process may run on N processors.
 * Any thread may call. */
#include <dlfcn.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <oneapi/dnnl/dnnl.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static struct {
    bool wide;
    size_t scratchpad; /* bytes */
    int processors;    /* 0: as they are */
} machine;

__attribute__((constructor)) static void begin(void) {
    const char *weights = getenv("GP_MACHINE_WEIGHTS"), *scratchpad = getenv("GP_MACHINE_SCRATCHPAD"),
               *processors = getenv("GP_MACHINE_PROCESSORS");
    machine.wide = weights && strcmp(weights, "16") == 0;
    machine.scratchpad = scratchpad ? strtoul(scratchpad, NULL, 10) : 0;
    machine.processors = processors ? atoi(processors) : 0;
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

enum { MOST_PRODUCTS = 50000 };

static bool is_free(const_dnnl_memory_desc_t layout) {
    dnnl_format_kind_t kind = dnnl_format_kind_undef;
    return dnnl_memory_desc_query(layout, dnnl_query_format_kind, (void *)&kind) == dnnl_success &&
           kind == dnnl_format_kind_any;
}

static int dims_of(const_dnnl_memory_desc_t layout, dnnl_dims_t **dim) {
    int rank = 0;
    return dnnl_memory_desc_query(layout, dnnl_query_ndims_s32, (void *)&rank) == dnnl_success &&
                   dnnl_memory_desc_query(layout, dnnl_query_dims, (void *)dim) == dnnl_success
               ? rank
               : 0;
}

/* Products of a convolution: for each element of its output, the weights of one output channel. */
static double products_of(int rank, const dnnl_dims_t weights, const_dnnl_memory_desc_t output) {
    dnnl_dims_t *dim = NULL;
    int output_rank = dims_of(output, &dim);
    double products = 1;
    for (int d = 0; d < output_rank; d++) products *= (double)(*dim)[d];
    for (int d = rank - 3; d < rank; d++) products *= (double)weights[d];
    return products;
}

/* The layout that stands for a free choice: blocks of 16 channels. `*made` is the caller's to destroy; NULL if the
 * weights stay as they are. */
static const_dnnl_memory_desc_t widen(const_dnnl_memory_desc_t weights, const_dnnl_memory_desc_t output,
                                      bool outputs_last, dnnl_memory_desc_t *made) {
    dnnl_dims_t *dim = NULL;
    int rank = 0;
    *made = NULL;
    if (!machine.wide || !is_free(weights)) return weights;
    rank = dims_of(weights, &dim);
    if (rank == 0 || products_of(rank, *dim, output) > MOST_PRODUCTS) return weights;
    dnnl_format_tag_t tag = outputs_last ? dnnl_OIhw16i16o : dnnl_OIhw16o16i;
    if (rank == 5) {
        bool depthwise = (*dim)[1] == 1 && (*dim)[2] == 1;
        tag = depthwise ? dnnl_Goihw16g : outputs_last ? dnnl_gOIhw16i16o : dnnl_gOIhw16o16i;
    }
    return dnnl_memory_desc_create_with_tag(made, rank, *dim, dnnl_f32, tag) == dnnl_success ? *made : weights;
}

dnnl_status_t dnnl_convolution_forward_primitive_desc_create(
    dnnl_primitive_desc_t *out, dnnl_engine_t engine, dnnl_prop_kind_t kind, dnnl_alg_kind_t algorithm,
    const_dnnl_memory_desc_t input, const_dnnl_memory_desc_t weights, const_dnnl_memory_desc_t bias,
    const_dnnl_memory_desc_t output, const dnnl_dims_t strides, const dnnl_dims_t dilates, const dnnl_dims_t before,
    const dnnl_dims_t after, const_dnnl_primitive_attr_t attributes) {
    dnnl_memory_desc_t made;
    const_dnnl_memory_desc_t wide = widen(weights, output, true, &made);
    dnnl_status_t status = REAL(dnnl_convolution_forward_primitive_desc_create)(
        out, engine, kind, algorithm, input, wide, bias, output, strides, dilates, before, after, attributes);
    if (made) dnnl_memory_desc_destroy(made);
    return status;
}

dnnl_status_t dnnl_convolution_backward_data_primitive_desc_create(
    dnnl_primitive_desc_t *out, dnnl_engine_t engine, dnnl_alg_kind_t algorithm, const_dnnl_memory_desc_t input,
    const_dnnl_memory_desc_t weights, const_dnnl_memory_desc_t output, const dnnl_dims_t strides,
    const dnnl_dims_t dilates, const dnnl_dims_t before, const dnnl_dims_t after, const_dnnl_primitive_desc_t hint,
    const_dnnl_primitive_attr_t attributes) {
    dnnl_memory_desc_t made;
    const_dnnl_memory_desc_t wide = widen(weights, output, false, &made);
    dnnl_status_t status = REAL(dnnl_convolution_backward_data_primitive_desc_create)(
        out, engine, algorithm, input, wide, output, strides, dilates, before, after, hint, attributes);
    if (made) dnnl_memory_desc_destroy(made);
    return status;
}

dnnl_status_t dnnl_convolution_backward_weights_primitive_desc_create(
    dnnl_primitive_desc_t *out, dnnl_engine_t engine, dnnl_alg_kind_t algorithm, const_dnnl_memory_desc_t input,
    const_dnnl_memory_desc_t weights, const_dnnl_memory_desc_t bias, const_dnnl_memory_desc_t output,
    const dnnl_dims_t strides, const dnnl_dims_t dilates, const dnnl_dims_t before, const dnnl_dims_t after,
    const_dnnl_primitive_desc_t hint, const_dnnl_primitive_attr_t attributes) {
    dnnl_memory_desc_t made;
    const_dnnl_memory_desc_t wide = widen(weights, output, true, &made);
    dnnl_status_t status = REAL(dnnl_convolution_backward_weights_primitive_desc_create)(
        out, engine, algorithm, input, wide, bias, output, strides, dilates, before, after, hint, attributes);
    if (made) dnnl_memory_desc_destroy(made);
    return status;
}

/* ---- scratchpads, which are bytes, or nothing ----------------------------------------------------------------------
 */

size_t dnnl_memory_desc_get_size(const_dnnl_memory_desc_t layout) {
    size_t bytes = REAL(dnnl_memory_desc_get_size)(layout);
    dnnl_data_type_t type = dnnl_f32;
    (void)dnnl_memory_desc_query(layout, dnnl_query_data_type, (void *)&type);
    bool scratchpad = type == dnnl_u8 || type == dnnl_data_type_undef;
    return scratchpad ? bytes + machine.scratchpad : bytes;
}

/* ---- processors -------------------------------------------------------------------------------------------------- */

int sched_getaffinity(pid_t process, size_t bytes, cpu_set_t *set) {
    int status = REAL(sched_getaffinity)(process, bytes, set);
    if (status != 0 || machine.processors == 0) return status;
    CPU_ZERO_S(bytes, set);
    for (int p = 0; p < machine.processors; p++) CPU_SET_S((size_t)p, bytes, set);
    return 0;
}

long sysconf(int name) {
    bool counted = name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF;
    return counted && machine.processors > 0 ? machine.processors : REAL(sysconf)(name);
}
