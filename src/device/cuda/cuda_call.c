#include "device/cuda/cuda_call.h"

#include <assert.h>

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

void gp_cuda_reads(gp_cuda_launch *launch, const gp_cuda_call *call, int operand) {
    if (call->operand[operand]) add_read(launch, range_of(call, operand));
}

void gp_cuda_writes(gp_cuda_launch *launch, const gp_cuda_call *call, int operand) {
    if (call->operand[operand]) add_write(launch, range_of(call, operand));
}

void gp_cuda_reads_bytes(gp_cuda_launch *launch, const void *at, size_t bytes) {
    add_read(launch, (gp_cuda_range){at, bytes, bytes, 1});
}

void gp_cuda_writes_bytes(gp_cuda_launch *launch, void *at, size_t bytes) {
    add_write(launch, (gp_cuda_range){at, bytes, bytes, 1});
}

gp_status gp_cuda_enqueue(const gp_cuda_call *call, const gp_cuda_launch *launch, gp_error *err) {
    if (launch->grid[0] == 0) return GP_OK;
    return gp_cuda->launch(launch, call->stream, err);
}

bool gp_cuda_aligned(const gp_cuda_call *call, const int *operand, int count) {
    for (int i = 0; i < count; i++)
        if (operand[i] >= 0 && (uintptr_t)call->operand[operand[i]] % 16) return false;
    return true;
}

bool gp_cuda_by_four(const gp_cuda_call *call, const int *operand, int count) {
    for (int i = 0; i < count; i++) {
        if (operand[i] < 0) continue;
        gp_rows rows = gp_cuda_rows(call, operand[i]);
        if (rows.width % 4 || (rows.count > 1 && rows.pitch % 4)) return false;
    }
    return gp_cuda_aligned(call, operand, count);
}
