#include "device/cuda/cuda_call.h"

#include <assert.h>

#include "device/op_info.h"

/* 1 + the position of the operand; 0: the op has none of that name. */
static const uint8_t places[GP_OP_KINDS][GP_NAMES] = {
#define PLACE(OP, operand)     PLACE_NAMED(OP, GP_POSITION_NAME operand)
#define PLACE_NAMED(OP, NAME)  PLACE_JOINED(OP, NAME)
#define PLACE_JOINED(OP, NAME) [GP_NAME_##NAME] = GP_##OP##_##NAME + 1,
#define GP_OP(NAME, name, attributes, rule, flags, operations, of, gradients, meaning, ...)                            \
    [GP_OP_##NAME] = {GP_EACH(PLACE, NAME, __VA_ARGS__)},
#include "device/op_table.inc"
};

const gp_tensor *gp_cuda_tensor(const gp_cuda_call *call, gp_operand_name name) {
    static const gp_tensor absent;
    const gp_op_desc *desc = &call->prepared->desc;
    int place = places[desc->kind][name];
    return place ? &desc->operand[place - 1] : &absent;
}

void *gp_cuda_at(const gp_cuda_call *call, gp_operand_name name) {
    int place = places[call->prepared->desc.kind][name];
    return place ? call->operand[place - 1] : NULL;
}

gp_rows gp_cuda_rows(const gp_cuda_call *call, gp_operand_name name) {
    const gp_tensor *tensor = gp_cuda_tensor(call, name);
    return tensor->present ? gp_rows_of(tensor) : (gp_rows){0, 0, 0};
}

gp_kernel_rows gp_cuda_view(const gp_cuda_call *call, gp_operand_name name) {
    return (gp_kernel_rows){gp_cuda_at(call, name), gp_cuda_rows(call, name).pitch};
}

gp_cuda_kernel gp_cuda_kernel_for(const gp_cuda_call *call, gp_cuda_kernel kernel) {
    enum { SPARE = 4096 }; /* threads behind the last element count too */
    const gp_op_desc *desc = &call->prepared->desc;
    for (int i = 0; i < (int)desc->operands; i++) {
        const gp_tensor *tensor = &desc->operand[i];
        if (tensor->present && gp_tensor_bytes(tensor) / gp_dtype_size(tensor->dtype) > INT32_MAX - SPARE)
            return (gp_cuda_kernel)(kernel + 1);
    }
    return kernel;
}

gp_cuda_launch gp_cuda_launch_blocks(gp_cuda_kernel kernel, int64_t blocks, uint32_t threads, const void *args,
                                     size_t args_bytes) {
    assert(blocks >= 0 && blocks <= INT32_MAX && threads > 0 && args_bytes <= GP_CUDA_MAX_ARGS);
    return (gp_cuda_launch){
        .kernel = kernel, .grid = {(uint32_t)blocks, 1, 1}, .block = threads, .args = args, .args_bytes = args_bytes};
}

gp_cuda_launch gp_cuda_launch_items(gp_cuda_kernel kernel, int64_t items, const void *args, size_t args_bytes) {
    return gp_cuda_launch_blocks(kernel, (items + GP_CUDA_BLOCK - 1) / GP_CUDA_BLOCK, GP_CUDA_BLOCK, args, args_bytes);
}

static gp_cuda_range range_of(const gp_cuda_call *call, int operand) {
    const gp_tensor *tensor = &call->prepared->desc.operand[operand];
    size_t size = gp_dtype_size(tensor->dtype);
    gp_rows rows = gp_rows_of(tensor);
    if (gp_rows_dense(rows)) {
        size_t all = (size_t)(rows.count * rows.width) * size;
        return (gp_cuda_range){call->operand[operand], all, all, 1};
    }
    return (gp_cuda_range){call->operand[operand], (size_t)rows.width * size, (size_t)rows.pitch * size,
                           (size_t)rows.count};
}

static void add_read(gp_cuda_launch *launch, gp_cuda_range range) {
    assert(launch->reads < GP_CUDA_MAX_READS);
    launch->own_read[launch->reads++] = range;
    launch->read = launch->own_read;
}

static void add_write(gp_cuda_launch *launch, gp_cuda_range range) {
    assert(launch->writes < GP_CUDA_MAX_WRITES);
    launch->own_write[launch->writes++] = range;
    launch->write = launch->own_write;
}

void gp_cuda_reads(gp_cuda_launch *launch, const gp_cuda_call *call, gp_operand_name name) {
    if (gp_cuda_at(call, name)) add_read(launch, range_of(call, places[call->prepared->desc.kind][name] - 1));
}

void gp_cuda_writes(gp_cuda_launch *launch, const gp_cuda_call *call, gp_operand_name name) {
    if (gp_cuda_at(call, name)) add_write(launch, range_of(call, places[call->prepared->desc.kind][name] - 1));
}

void gp_cuda_reads_bytes(gp_cuda_launch *launch, const void *at, size_t bytes) {
    add_read(launch, (gp_cuda_range){at, bytes, bytes, 1});
}

void gp_cuda_writes_bytes(gp_cuda_launch *launch, void *at, size_t bytes) {
    add_write(launch, (gp_cuda_range){at, bytes, bytes, 1});
}

static bool is_written(const gp_cuda_call *call, int operand) {
    return (gp_op_info_of(call->prepared->desc.kind)->operand[operand].access & GP_OPERAND_WRITTEN) != 0;
}

void gp_cuda_reads_inputs(gp_cuda_launch *launch, const gp_cuda_call *call) {
    for (int i = 0; i < (int)call->prepared->desc.operands; i++)
        if (call->operand[i] && !is_written(call, i)) add_read(launch, range_of(call, i));
}

gp_status gp_cuda_enqueue(const gp_cuda_call *call, const gp_cuda_launch *launch, gp_error *err) {
    if (launch->grid[0] == 0) return GP_OK;
    return gp_cuda->launch(launch, call->stream, err);
}

gp_status gp_cuda_enqueue_op(const gp_cuda_call *call, gp_cuda_launch *launch, gp_error *err) {
    gp_cuda_reads_inputs(launch, call);
    for (int i = 0; i < (int)call->prepared->desc.operands; i++)
        if (call->operand[i] && is_written(call, i)) add_write(launch, range_of(call, i));
    return gp_cuda_enqueue(call, launch, err);
}

bool gp_cuda_aligned(const gp_cuda_call *call, const gp_operand_name *name, int count) {
    for (int i = 0; i < count; i++)
        if ((uintptr_t)gp_cuda_at(call, name[i]) % 16) return false;
    return true;
}

bool gp_cuda_by_four(const gp_cuda_call *call, const gp_operand_name *name, int count) {
    for (int i = 0; i < count; i++) {
        gp_rows rows = gp_cuda_rows(call, name[i]);
        if (rows.width % 4 || (rows.count > 1 && rows.pitch % 4)) return false;
    }
    return gp_cuda_aligned(call, name, count);
}
