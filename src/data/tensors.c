#include "data/source.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/file.h"
#include "data/safetensors.h"

typedef struct tensors_source {
    gp_source source;
    gp_safetensors *file;
    char *path;
    const gp_safetensor *x, *y;
    size_t sample_bytes;  /* of x */
    int64_t target_count; /* of y, per sample */
} tensors_source;

static gp_status read_input(gp_source *source, int64_t index, void *to, gp_error *err) {
    tensors_source *self = (tensors_source *)source;
    return gp_safetensors_read(self->file, self->x, (uint64_t)index * self->sample_bytes, self->sample_bytes, to, err);
}

static gp_status read_i32(tensors_source *self, int64_t first, int64_t count, int64_t *to, gp_error *err) {
    int32_t chunk[256];
    const int64_t most = sizeof chunk / sizeof *chunk;
    for (int64_t done = 0; done < count;) {
        int64_t now = count - done < most ? count - done : most;
        GP_RETURN_IF_FAILED(gp_safetensors_read(self->file, self->y, (uint64_t)(first + done) * sizeof *chunk,
                                                (size_t)now * sizeof *chunk, chunk, err));
        for (int64_t i = 0; i < now; i++) to[done + i] = chunk[i];
        done += now;
    }
    return GP_OK;
}

static gp_status read_targets(gp_source *source, int64_t first, int64_t samples, int64_t *to, gp_error *err) {
    tensors_source *self = (tensors_source *)source;
    int64_t from = first * self->target_count;
    int64_t count = samples * self->target_count;
    if (self->y->dtype == GP_I32) return read_i32(self, from, count, to, err);
    return gp_safetensors_read(self->file, self->y, (uint64_t)from * sizeof *to, (size_t)count * sizeof *to, to, err);
}

static void close_source(gp_source *source) {
    tensors_source *self = (tensors_source *)source;
    gp_safetensors_close(&self->file);
    free(self->path);
    free(self);
}

static const gp_source_class tensors_class = {read_input, read_targets, close_source};

static gp_status find_tensor(const tensors_source *self, const char *name, const gp_safetensor **out, gp_error *err) {
    const gp_safetensor *tensor = gp_safetensors_find(self->file, name);
    if (!tensor) {
        return gp_fail(err, GP_DATA, "%s: has no tensor \"%s\"; a data set has x (inputs) and y (classes)", self->path,
                       name);
    }
    if (tensor->rank < 1)
        return gp_fail(err, GP_DATA, "%s: tensor \"%s\" is a single number; samples come first in its shape",
                       self->path, name);
    if (tensor->rank > 1 + GP_MAX_RANK) {
        return gp_fail(err, GP_DATA, "%s: tensor \"%s\" has %d dimensions; samples and at most %d more are read",
                       self->path, name, tensor->rank, GP_MAX_RANK);
    }
    for (int i = 0; i < tensor->rank; i++)
        if (tensor->dim[i] < 1) return gp_fail(err, GP_DATA, "%s: tensor \"%s\" is empty", self->path, name);
    *out = tensor;
    return GP_OK;
}

static gp_status check_dtypes(const tensors_source *self, gp_error *err) {
    const gp_safetensor *x = self->x;
    const gp_safetensor *y = self->y;
    if (x->known && (x->dtype == GP_I32 || x->dtype == GP_I64)) {
        return gp_fail(err, GP_DATA, "%s: tensor \"x\" is %s: tokens are not read yet; F32 and U8 are", self->path,
                       x->dtype_name);
    }
    if (!x->known || (x->dtype != GP_F32 && x->dtype != GP_U8)) {
        return gp_fail(err, GP_DATA, "%s: tensor \"x\" is %s; F32 and U8 (scaled to 0…1) are read", self->path,
                       x->dtype_name);
    }
    if (!y->known || (y->dtype != GP_I32 && y->dtype != GP_I64))
        return gp_fail(err, GP_DATA, "%s: tensor \"y\" is %s; classes are I32 or I64", self->path, y->dtype_name);
    if (x->dim[0] != y->dim[0]) {
        return gp_fail(err, GP_DATA, "%s: tensor \"x\" has %" PRId64 " samples, tensor \"y\" %" PRId64, self->path,
                       x->dim[0], y->dim[0]);
    }
    return GP_OK;
}

static gp_shape sample_shape(const gp_safetensor *tensor) {
    gp_shape shape = {.rank = tensor->rank - 1};
    memcpy(shape.dim, tensor->dim + 1, (size_t)shape.rank * sizeof *shape.dim);
    return shape;
}

/* The products cannot overflow: the reader found shape and file in agreement. */
static void describe(tensors_source *self) {
    self->source.class = &tensors_class;
    self->source.input_path = self->path;
    self->source.target_path = self->path;
    self->source.samples = self->x->dim[0];
    self->source.dtype = self->x->dtype;
    self->source.input = sample_shape(self->x);
    self->source.target = sample_shape(self->y);
    self->source.fixed_shape = true;
    self->sample_bytes = (size_t)((self->x->end - self->x->begin) / (uint64_t)self->x->dim[0]);
    self->target_count = (int64_t)((self->y->end - self->y->begin) / gp_dtype_size(self->y->dtype)) / self->y->dim[0];
}

gp_status gp_tensors_open(const char *path, gp_source **out, gp_error *err) {
    tensors_source *self = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&self, 1, err));
    gp_status status = gp_copy_text(&self->path, path, err);
    if (status == GP_OK) status = gp_safetensors_open(path, &self->file, err);
    if (status == GP_OK) status = find_tensor(self, "x", &self->x, err);
    if (status == GP_OK) status = find_tensor(self, "y", &self->y, err);
    if (status == GP_OK) status = check_dtypes(self, err);
    if (status != GP_OK) {
        close_source(&self->source);
        return status;
    }
    describe(self);
    *out = &self->source;
    return GP_OK;
}
