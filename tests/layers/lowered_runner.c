#include "layers/lowered_runner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"

enum { MAX_OF_ROLE = 8, ROLES = GP_ROLE_SCALARS + 1 };

/* One operand's memory on the device, and what it holds. */
typedef struct block {
    void *memory;
    gp_tensor tensor; /* plain */
    bool picture;     /* its samples are pictures: channels last in memory, first for the test */
} block;

struct lowered_runner {
    const gp_device_kind *kind;
    gp_device *device;
    gp_stream *stream;
    gp_op_cache *cache;
    gp_layer *layer;
    gp_lowering lowering; /* passes of a micro-batch */
    gp_lowering mini;     /* passes of the mini-batch */
    block blocks[ROLES][MAX_OF_ROLE];
    size_t stats_bytes[MAX_OF_ROLE]; /* of one piece */
    gp_step_scalars scalars;
    gp_op_args args;
    int64_t piece;
};

static void check(gp_status status, const gp_error *err) {
    if (status != GP_OK) fail_msg("%d: %s", (int)status, err->text);
}

static block *block_of(const lowered_runner *runner, gp_role role, int index) {
    assert_in_range(index, 0, MAX_OF_ROLE - 1);
    return (block *)&runner->blocks[role][index];
}

static void copy_in(lowered_runner *runner, void *to, const void *from, size_t bytes) {
    gp_error err = {0};
    check(runner->kind->copy_in(runner->stream, to, from, bytes, &err), &err);
    check(runner->kind->stream_finish(runner->stream, NULL, &err), &err);
}

static void copy_out(lowered_runner *runner, void *to, const void *from, size_t bytes) {
    gp_error err = {0};
    check(runner->kind->copy_out(runner->stream, to, from, bytes, &err), &err);
    check(runner->kind->stream_finish(runner->stream, NULL, &err), &err);
}

static void poison(lowered_runner *runner, void *to, size_t bytes) {
    void *pattern = malloc(bytes);
    assert_non_null(pattern);
    memset(pattern, 0xFF, bytes);
    copy_in(runner, to, pattern, bytes);
    free(pattern);
}

static void *reserve(lowered_runner *runner, size_t bytes) {
    gp_error err = {0};
    void *memory = NULL;
    check(runner->kind->reserve(runner->device, bytes, &memory, &err), &err);
    poison(runner, memory, bytes);
    return memory;
}

static void add_block(lowered_runner *runner, gp_role role, int index, gp_tensor tensor, int64_t copies) {
    block *at = block_of(runner, role, index);
    bool value =
        role == GP_ROLE_INPUT || role == GP_ROLE_OUTPUT || role == GP_ROLE_GRAD_INPUT || role == GP_ROLE_GRAD_OUTPUT;
    at->tensor = tensor;
    at->picture = value && tensor.rank == 4;
    at->memory = reserve(runner, gp_tensor_bytes(&tensor) * (size_t)copies);
}

static void open_device(lowered_runner *runner, const gp_device_kind *kind) {
    gp_error err = {0};
    gp_device_spec spec = {.kind = kind, .threads = 1};
    runner->kind = kind;
    check(kind->open(&spec, &runner->device, &err), &err);
    check(kind->stream_create(runner->device, false, &runner->stream, &err), &err);
    check(gp_op_cache_create(&runner->cache, &err), &err);
}

static void make_layer(lowered_runner *runner, const runner_options *options) {
    gp_error err = {0};
    gp_yaml_document *document = NULL;
    gp_choice choice;
    check(gp_yaml_parse(options->layer, strlen(options->layer), "layer", &document, &err), &err);
    check(gp_read_kind(gp_yaml_root(document), "layer", NULL, &choice, &err), &err);
    const gp_layer_type *type = gp_layer_type_find(choice.kind, options->loss);
    assert_non_null(type);
    check(gp_layer_create(type, &choice, &runner->layer, &err), &err);
    check(gp_layer_infer(runner->layer, options->inputs, options->input_count, &err), &err);
    gp_yaml_destroy(&document);
}

static void lower(lowered_runner *runner, const runner_options *options) {
    gp_error err = {0};
    const gp_layer_type *type = runner->layer->type;
    gp_lowering_init(&runner->lowering, gp_types_of(options->real), options->samples, 5);
    check(type->lower(runner->layer, &runner->lowering, &err), &err);
    gp_lowering_init(&runner->mini, gp_types_of(options->real), options->samples, 5);
    runner->mini.pieces = options->pieces;
    runner->mini.last = options->last ? options->last : options->samples;
    if (type->lower_mini_batch) check(type->lower_mini_batch(runner->layer, &runner->mini, &err), &err);
    if (type->lower_mini_batch) assert_int_equal(runner->mini.stats.count, runner->lowering.stats.count);
}

static void add_values(lowered_runner *runner) {
    const gp_layer *layer = runner->layer;
    gp_dtype real = runner->lowering.types.storage;
    int64_t samples = runner->lowering.samples;
    for (int i = 0; i < layer->input_count; i++) {
        add_block(runner, GP_ROLE_INPUT, i, gp_tensor_samples(real, samples, layer->inputs[i]), 1);
        add_block(runner, GP_ROLE_GRAD_INPUT, i, gp_tensor_samples(real, samples, layer->inputs[i]), 1);
    }
    if (layer->type->loss) {
        gp_dtype target = layer->type->target_is_class ? GP_I64 : real;
        add_block(runner, GP_ROLE_INPUT, 1, gp_tensor_samples(target, samples, layer->output), 1);
        return;
    }
    add_block(runner, GP_ROLE_OUTPUT, 0, gp_tensor_samples(real, samples, layer->output), 1);
    add_block(runner, GP_ROLE_GRAD_OUTPUT, 0, gp_tensor_samples(real, samples, layer->output), 1);
}

static void add_own(lowered_runner *runner) {
    const gp_lowering *lowering = &runner->lowering;
    gp_param_spec specs[GP_LAYER_MAX_PARAMS];
    int count = runner->layer->type->params ? runner->layer->type->params(runner->layer, specs) : 0;
    for (int i = 0; i < count; i++) {
        add_block(runner, GP_ROLE_PARAM, i, gp_tensor_param(lowering->types.compute, specs[i].shape), 1);
        if (!specs[i].buffer)
            add_block(runner, GP_ROLE_GRAD_PARAM, i, gp_tensor_param(lowering->types.compute, specs[i].shape), 1);
    }
    for (size_t i = 0; i < lowering->sides.count; i++)
        add_block(runner, GP_ROLE_SIDE, (int)i, lowering->sides.items[i], 1);
    for (size_t i = 0; i < lowering->temps.count; i++)
        add_block(runner, GP_ROLE_TEMP, (int)i, lowering->temps.items[i], 1);
    for (size_t i = 0; i < lowering->stats.count; i++) {
        add_block(runner, GP_ROLE_STATS, (int)i, lowering->stats.items[i], runner->mini.pieces);
        runner->stats_bytes[i] = gp_tensor_bytes(&lowering->stats.items[i]);
    }
    add_block(runner, GP_ROLE_SCALARS, 0, gp_tensor_scalars(), 1);
}

lowered_runner *runner_create(const runner_options *options) {
    lowered_runner *runner = calloc(1, sizeof *runner);
    assert_non_null(runner);
    open_device(runner, options->kind);
    make_layer(runner, options);
    lower(runner, options);
    add_values(runner);
    add_own(runner);
    runner->scalars = (gp_step_scalars){.seed = 11, .step = 1, .divisor = 1, .finite = 1};
    return runner;
}

void runner_destroy(lowered_runner **out) {
    lowered_runner *runner = *out;
    for (int role = 0; role < ROLES; role++)
        for (int i = 0; i < MAX_OF_ROLE; i++)
            if (runner->blocks[role][i].memory) runner->kind->unreserve(runner->device, runner->blocks[role][i].memory);
    gp_lowering_fini(&runner->lowering);
    gp_lowering_fini(&runner->mini);
    gp_layer_destroy(&runner->layer);
    gp_op_cache_destroy(&runner->cache);
    runner->kind->stream_destroy(runner->stream);
    runner->kind->close(runner->device);
    free(runner);
    *out = NULL;
}

const gp_layer *runner_layer(const lowered_runner *runner) {
    return runner->layer;
}

const gp_lowering *runner_lowering(const lowered_runner *runner) {
    return &runner->lowering;
}

gp_step_scalars *runner_scalars(lowered_runner *runner) {
    return &runner->scalars;
}

void runner_set_first_sample(lowered_runner *runner, int64_t first_sample) {
    runner->args.first_sample = first_sample;
}

void runner_set_piece(lowered_runner *runner, int64_t piece) {
    assert_in_range(piece, 0, runner->mini.pieces - 1);
    runner->piece = piece;
}

/* Place in memory of element i of PyTorch's order. */
static int64_t place_of(const block *at, int64_t i) {
    if (!at->picture) return i;
    const int64_t *dim = at->tensor.dim;
    int64_t w = i % dim[2], h = i / dim[2] % dim[1], c = i / (dim[2] * dim[1]) % dim[3];
    int64_t n = i / (dim[2] * dim[1] * dim[3]);
    return ((n * dim[1] + h) * dim[2] + w) * dim[3] + c;
}

static char *address_of(const lowered_runner *runner, gp_role role, int index) {
    char *memory = block_of(runner, role, index)->memory;
    assert_non_null(memory);
    return role == GP_ROLE_STATS ? memory + (size_t)runner->piece * runner->stats_bytes[index] : memory;
}

int64_t runner_count(const lowered_runner *runner, gp_role role, int index) {
    return gp_tensor_elements(&block_of(runner, role, index)->tensor);
}

void runner_set(lowered_runner *runner, gp_role role, int index, const double *values) {
    const block *at = block_of(runner, role, index);
    size_t bytes = gp_tensor_bytes(&at->tensor);
    void *host = malloc(bytes);
    assert_non_null(host);
    for (int64_t i = 0; i < gp_tensor_elements(&at->tensor); i++) {
        int64_t place = place_of(at, i);
        if (at->tensor.dtype == GP_F64)
            ((double *)host)[place] = values[i];
        else if (at->tensor.dtype == GP_F32)
            ((float *)host)[place] = (float)values[i];
        else
            ((int64_t *)host)[place] = (int64_t)values[i];
    }
    copy_in(runner, address_of(runner, role, index), host, bytes);
    free(host);
}

double *runner_get(lowered_runner *runner, gp_role role, int index) {
    const block *at = block_of(runner, role, index);
    size_t bytes = gp_tensor_bytes(&at->tensor);
    int64_t count = gp_tensor_elements(&at->tensor);
    void *host = malloc(bytes);
    double *values = malloc((size_t)count * sizeof *values);
    assert_non_null(host);
    assert_non_null(values);
    copy_out(runner, host, address_of(runner, role, index), bytes);
    for (int64_t i = 0; i < count; i++) {
        int64_t place = place_of(at, i);
        values[i] = at->tensor.dtype == GP_F64 ? ((double *)host)[place] : (double)((float *)host)[place];
    }
    free(host);
    return values;
}

static void run_prepared(lowered_runner *runner, const gp_prepared *prepared, void *const operands[]) {
    gp_error err = {0};
    void *workspace = prepared->workspace ? reserve(runner, prepared->workspace) : NULL;
    check(gp_device_run(runner->kind, runner->stream, prepared, operands, workspace, &runner->args, &err), &err);
    check(runner->kind->stream_finish(runner->stream, NULL, &err), &err);
    if (workspace) runner->kind->unreserve(runner->device, workspace);
}

static void reorder(lowered_runner *runner, gp_tensor from, void *source, gp_tensor to, void *target) {
    gp_error err = {0};
    const gp_prepared *prepared = NULL;
    gp_op_desc desc;
    gp_op_desc_init(&desc, GP_OP_REORDER);
    desc.threads = 1;
    desc.operand[GP_COPY_X] = from;
    desc.operand[GP_COPY_Y] = to;
    check(gp_op_prepare(runner->cache, runner->kind, &desc, &prepared, &err), &err);
    run_prepared(runner, prepared, (void *const[]){source, target});
}

static void *operand_address(lowered_runner *runner, const gp_ref *ref, const gp_tensor *tensor) {
    gp_role role = ref->role == GP_ROLE_STATS_ALL ? GP_ROLE_STATS : ref->role;
    char *memory = block_of(runner, role, ref->index)->memory;
    assert_non_null(memory);
    if (ref->role == GP_ROLE_STATS) memory = address_of(runner, role, ref->index);
    return memory + (size_t)ref->first * gp_dtype_size(tensor->dtype);
}

static void run_op(lowered_runner *runner, const gp_lowered_op *op) {
    gp_error err = {0};
    const gp_prepared *prepared = NULL;
    gp_op_desc desc = op->desc;
    void *plain[GP_MAX_OPERANDS] = {0}, *operands[GP_MAX_OPERANDS] = {0};
    desc.threads = 1;
    check(gp_op_prepare(runner->cache, runner->kind, &desc, &prepared, &err), &err);
    for (uint32_t i = 0; i < desc.operands; i++) {
        if (op->ref[i].role == GP_ROLE_NONE) continue;
        plain[i] = operands[i] = operand_address(runner, &op->ref[i], &desc.operand[i]);
        if (prepared->operand[i].format == GP_FORMAT_PLAIN) continue;
        gp_tensor from = desc.operand[i], to = desc.operand[i];
        from.format = GP_FORMAT_PLAIN;
        to.format = prepared->operand[i].format;
        operands[i] = reserve(runner, prepared->operand[i].bytes);
        if (gp_op_reads(desc.kind, (int)i)) reorder(runner, from, plain[i], to, operands[i]);
    }
    run_prepared(runner, prepared, operands);
    for (uint32_t i = 0; i < desc.operands; i++) {
        if (operands[i] == plain[i]) continue;
        gp_tensor from = desc.operand[i], to = desc.operand[i];
        from.format = prepared->operand[i].format;
        to.format = GP_FORMAT_PLAIN;
        if (gp_op_writes(desc.kind, (int)i)) reorder(runner, from, operands[i], to, plain[i]);
        runner->kind->unreserve(runner->device, operands[i]);
    }
}

static void run_pass(lowered_runner *runner, gp_pass pass, unsigned without) {
    const gp_lowering *lowering = pass == GP_PASS_TOTAL || pass == GP_PASS_COMMIT ? &runner->mini : &runner->lowering;
    void *scalars = block_of(runner, GP_ROLE_SCALARS, 0)->memory;
    copy_in(runner, scalars, &runner->scalars, sizeof runner->scalars);
    for (size_t i = 0; i < lowering->count; i++)
        if (lowering->ops[i].pass == pass && !(lowering->ops[i].flags & without)) run_op(runner, &lowering->ops[i]);
    copy_out(runner, &runner->scalars, scalars, sizeof runner->scalars);
}

void runner_run(lowered_runner *runner, gp_pass pass) {
    run_pass(runner, pass, 0);
}

void runner_recompute(lowered_runner *runner) {
    run_pass(runner, GP_PASS_FORWARD, GP_LOWERED_ONCE);
}

void runner_poison(lowered_runner *runner) {
    static const gp_role written[] = {GP_ROLE_OUTPUT, GP_ROLE_GRAD_INPUT, GP_ROLE_GRAD_PARAM, GP_ROLE_SIDE,
                                      GP_ROLE_TEMP};
    for (size_t r = 0; r < sizeof written / sizeof *written; r++)
        for (int i = 0; i < MAX_OF_ROLE; i++) {
            const block *at = block_of(runner, written[r], i);
            if (at->memory) poison(runner, at->memory, gp_tensor_bytes(&at->tensor));
        }
}
