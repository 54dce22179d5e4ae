#include "device/op_run.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

enum { GUARD = 256, GUARD_BYTE = 0x5a };

/* A device, and one block of it with a guard before and after each part. */
typedef struct bench {
    const gp_device_kind *kind;
    gp_op_cache *cache;
    gp_device *device;
    gp_stream *stream;
    unsigned char *block;
    size_t bytes, used;
} bench;

static gp_status open_bench(bench *b, int threads, size_t bytes, gp_error *err) {
    gp_device_spec spec = {.kind = b->kind, .index = 0, .threads = threads, .memory = 0};
    GP_RETURN_IF_FAILED(gp_op_cache_create(&b->cache, err));
    GP_RETURN_IF_FAILED(b->kind->open(&spec, &b->device, err));
    GP_RETURN_IF_FAILED(b->kind->stream_create(b->device, false, &b->stream, err));
    GP_RETURN_IF_FAILED(b->kind->reserve(b->device, bytes, (void **)&b->block, err));
    b->bytes = bytes;
    unsigned char *guard = malloc(bytes);
    if (!guard) return gp_fail(err, GP_MEMORY, "out of memory: %zu bytes", bytes);
    memset(guard, GUARD_BYTE, bytes);
    gp_status status = b->kind->copy_in(b->stream, b->block, guard, bytes, err);
    if (status == GP_OK) status = b->kind->stream_finish(b->stream, NULL, err);
    free(guard);
    return status;
}

static void close_bench(bench *b) {
    if (b->block) b->kind->unreserve(b->device, b->block);
    if (b->stream) b->kind->stream_destroy(b->stream);
    if (b->device) b->kind->close(b->device);
    gp_op_cache_destroy(&b->cache);
}

static size_t part_bytes(size_t bytes) {
    return gp_align_up(bytes, GP_ALIGNMENT) + GUARD;
}

static void *take(bench *b, size_t bytes) {
    void *part = b->block + GUARD + b->used;
    b->used += part_bytes(bytes);
    return part;
}

static gp_status guard_kept(const bench *b, const unsigned char *image, const void *part, size_t bytes,
                            const char *name, gp_error *err) {
    size_t begin = (size_t)((const unsigned char *)part - b->block);
    size_t end = begin + part_bytes(bytes);
    for (size_t i = begin - GUARD; i < end; i++) {
        if (i >= begin && i < begin + bytes) continue;
        if (image[i] != GUARD_BYTE)
            return gp_fail(err, GP_INTERNAL, "wrote outside of %s, at byte %zd of %zu", name,
                           (ssize_t)i - (ssize_t)begin, bytes);
    }
    return GP_OK;
}

/* Between the plain format and the one that the kind chose. */
static gp_status reorder(bench *b, const gp_tensor *tensor, gp_format from_format, gp_format to_format, void *from,
                         void *to, gp_error *err) {
    gp_op_desc desc;
    gp_op_desc_init(&desc, GP_OP_REORDER);
    desc.threads = 1;
    desc.operand[GP_COPY_X] = desc.operand[GP_COPY_Y] = *tensor;
    desc.operand[GP_COPY_X].format = from_format;
    desc.operand[GP_COPY_Y].format = to_format;
    const gp_prepared *prepared;
    GP_RETURN_IF_FAILED(gp_op_prepare(b->cache, b->kind, &desc, &prepared, err));
    void *workspace = NULL;
    if (prepared->workspace) GP_RETURN_IF_FAILED(b->kind->reserve(b->device, prepared->workspace, &workspace, err));
    gp_op_args args = {0};
    gp_status status = gp_device_run(b->kind, b->stream, prepared, (void *const[]){from, to}, workspace, &args, err);
    if (status == GP_OK) status = b->kind->stream_finish(b->stream, NULL, err);
    if (workspace) b->kind->unreserve(b->device, workspace);
    return status;
}

/* Operand i where the op reads it: in the plain format, and in the chosen one where that is another. */
typedef struct parts {
    void *plain[GP_MAX_OPERANDS], *own[GP_MAX_OPERANDS];
    void *workspace;
} parts;

static gp_status carry_in(bench *b, const gp_prepared *prepared, void *const host[], parts *p, gp_error *err) {
    for (int i = 0; i < (int)prepared->desc.operands; i++) {
        const gp_tensor *tensor = &prepared->desc.operand[i];
        if (!tensor->present) continue;
        size_t bytes = gp_tensor_bytes(tensor);
        p->own[i] = p->plain[i] = take(b, bytes);
        GP_RETURN_IF_FAILED(b->kind->copy_in(b->stream, p->plain[i], host[i], bytes, err));
        gp_format format = prepared->operand[i].format;
        if (format == GP_FORMAT_PLAIN) continue;
        p->own[i] = take(b, prepared->operand[i].bytes);
        GP_RETURN_IF_FAILED(reorder(b, tensor, GP_FORMAT_PLAIN, format, p->plain[i], p->own[i], err));
    }
    p->workspace = prepared->workspace ? take(b, prepared->workspace) : NULL;
    return GP_OK;
}

static gp_status carry_out(bench *b, const gp_prepared *prepared, void *const host[], const parts *p, gp_error *err) {
    gp_op_kind kind = prepared->desc.kind;
    for (int i = 0; i < (int)prepared->desc.operands; i++) {
        const gp_tensor *tensor = &prepared->desc.operand[i];
        if (!tensor->present || !gp_op_writes(kind, i)) continue;
        if (p->own[i] != p->plain[i]) {
            GP_RETURN_IF_FAILED(
                reorder(b, tensor, prepared->operand[i].format, GP_FORMAT_PLAIN, p->own[i], p->plain[i], err));
        }
        GP_RETURN_IF_FAILED(b->kind->copy_out(b->stream, host[i], p->plain[i], gp_tensor_bytes(tensor), err));
    }
    return b->kind->stream_finish(b->stream, NULL, err);
}

static gp_status check_guards(bench *b, const gp_prepared *prepared, const parts *p, gp_error *err) {
    unsigned char *image = malloc(b->bytes);
    if (!image) return gp_fail(err, GP_MEMORY, "out of memory: %zu bytes", b->bytes);
    gp_status status = b->kind->copy_out(b->stream, image, b->block, b->bytes, err);
    if (status == GP_OK) status = b->kind->stream_finish(b->stream, NULL, err);
    for (int i = 0; i < (int)prepared->desc.operands && status == GP_OK; i++) {
        const char *name = gp_op_operand_name(prepared->desc.kind, i);
        if (!p->own[i]) continue;
        status = guard_kept(b, image, p->plain[i], gp_tensor_bytes(&prepared->desc.operand[i]), name, err);
        if (status == GP_OK && p->own[i] != p->plain[i]) {
            status = guard_kept(b, image, p->own[i], prepared->operand[i].bytes, name, err);
        }
    }
    if (status == GP_OK && p->workspace) {
        status = guard_kept(b, image, p->workspace, prepared->workspace, "workspace", err);
    }
    free(image);
    return status;
}

static size_t bytes_needed(const gp_prepared *prepared) {
    size_t bytes = GUARD + part_bytes(prepared->workspace);
    for (int i = 0; i < (int)prepared->desc.operands; i++) {
        bytes += part_bytes(gp_tensor_bytes(&prepared->desc.operand[i])) + part_bytes(prepared->operand[i].bytes);
    }
    return bytes;
}

static gp_status run_prepared(bench *b, const gp_prepared *prepared, const gp_op_case *op_case, void *const host[],
                              gp_error *err) {
    parts p = {0};
    GP_RETURN_IF_FAILED(carry_in(b, prepared, host, &p, err));
    GP_RETURN_IF_FAILED(gp_device_run(b->kind, b->stream, prepared, p.own, p.workspace, &op_case->args, err));
    GP_RETURN_IF_FAILED(b->kind->stream_finish(b->stream, NULL, err));
    GP_RETURN_IF_FAILED(check_guards(b, prepared, &p, err));
    return carry_out(b, prepared, host, &p, err);
}

gp_status gp_op_case_run(const gp_device_kind *kind, const gp_op_case *op_case, void *const host[GP_MAX_OPERANDS],
                         gp_error *err) {
    gp_op_cache *cache;
    GP_RETURN_IF_FAILED(gp_op_cache_create(&cache, err));
    bench b = {.kind = kind};
    const gp_prepared *prepared;
    gp_status status = gp_op_prepare(cache, kind, &op_case->desc, &prepared, err);
    if (status == GP_OK) status = open_bench(&b, (int)op_case->desc.threads, bytes_needed(prepared), err);
    if (status == GP_OK) status = run_prepared(&b, prepared, op_case, host, err);
    close_bench(&b);
    gp_op_cache_destroy(&cache);
    return status;
}
