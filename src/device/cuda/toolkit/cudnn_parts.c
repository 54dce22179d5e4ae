#include "device/cuda/toolkit/cudnn_parts.h"

#include <stdlib.h>

#include "base/memory.h"

gp_cudnn_part gp_cudnn_part_new(gp_cudnn_parts *parts, cudnnBackendDescriptorType_t type) {
    gp_cudnn_part part = NULL;
    if (parts->status != GP_OK) return NULL;
    parts->status = GP_GROW(&parts->part, &parts->capacity, parts->count + 1, &parts->error);
    if (parts->status != GP_OK) return NULL;
    parts->status = gp_cudnn_check(gp_cudnn.cudnnBackendCreateDescriptor(type, &part), "cudnnBackendCreateDescriptor",
                                   &parts->error);
    if (parts->status != GP_OK) return NULL;
    parts->part[parts->count++] = part;
    return part;
}

void gp_cudnn_part_set(gp_cudnn_parts *parts, gp_cudnn_part part, cudnnBackendAttributeName_t name,
                       cudnnBackendAttributeType_t type, int64_t count, const void *values) {
    if (parts->status != GP_OK) return;
    parts->status = gp_cudnn_check(gp_cudnn.cudnnBackendSetAttribute(part, name, type, count, values),
                                   "cudnnBackendSetAttribute", &parts->error);
    if (parts->status != GP_OK) gp_error_context(&parts->error, "attribute %d: ", (int)name);
}

void gp_cudnn_part_set_part(gp_cudnn_parts *parts, gp_cudnn_part part, cudnnBackendAttributeName_t name,
                            gp_cudnn_part value) {
    gp_cudnn_part_set(parts, part, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, (const void *)&value);
}

void gp_cudnn_part_set_int64(gp_cudnn_parts *parts, gp_cudnn_part part, cudnnBackendAttributeName_t name,
                             int64_t value) {
    gp_cudnn_part_set(parts, part, name, CUDNN_TYPE_INT64, 1, &value);
}

void gp_cudnn_part_finish(gp_cudnn_parts *parts, gp_cudnn_part part, const char *what) {
    if (parts->status != GP_OK) return;
    parts->status = gp_cudnn_check(gp_cudnn.cudnnBackendFinalize(part), "cudnnBackendFinalize", &parts->error);
    if (parts->status != GP_OK) gp_error_context(&parts->error, "%s: ", what);
}

int64_t gp_cudnn_part_get(gp_cudnn_part part, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                          int64_t capacity, void *values) {
    int64_t count = 0;
    cudnnStatus_t code = gp_cudnn.cudnnBackendGetAttribute(part, name, type, capacity, &count, values);
    return code == CUDNN_STATUS_SUCCESS ? count : 0;
}

gp_status gp_cudnn_parts_status(const gp_cudnn_parts *parts, gp_error *err) {
    if (parts->status == GP_OK) return GP_OK;
    return gp_fail(err, parts->status, "%s", parts->error.text);
}

void gp_cudnn_parts_fini(gp_cudnn_parts *parts) {
    while (parts->count > 0) (void)gp_cudnn.cudnnBackendDestroyDescriptor(parts->part[--parts->count]);
    free(parts->part);
    *parts = (gp_cudnn_parts){0};
}
