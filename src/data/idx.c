/* Samples in MNIST's format (idx), plain or gzipped. */
#include "data/source.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/memory.h"
#include "data/file.h"
#include "data/spill.h"

enum {
    ELEMENT_U8 = 0x08,
    MAX_IDX_RANK = GP_MAX_RANK, /* samples included; more means nothing to a layer */
    PREFIX_BYTES = 4,           /* zero, zero, element type, rank */
    MAX_HEADER_BYTES = PREFIX_BYTES + 4 * MAX_IDX_RANK,
    CHUNK_BYTES = 64 << 10
};

/* One idx file. Where it was gzipped, `content` holds it inflated, header and all. */
typedef struct idx_file {
    gp_data_file file;
    bool gzipped;
    size_t memory; /* gp_idx_open's */
    gp_spill content;
    unsigned char head[MAX_HEADER_BYTES];
    uint64_t inflated; /* bytes that have come; the first of them are in `head` only until the header is known */
    int rank;
    int64_t dim[MAX_IDX_RANK]; /* ≥ 1 each */
    size_t header_bytes;
    uint64_t total_bytes; /* header and elements, as the header claims */
} idx_file;

typedef struct idx_source {
    gp_source source;
    idx_file images;
    idx_file labels;
    size_t image_bytes;
} idx_source;

/* Offsets of a gzipped file's content count its inflated bytes. */
#define FAIL_CONTENT(idx, err, offset, format, ...)                                                                    \
    gp_data_fail((err), (idx)->file.path, (offset), "%s" format, (idx)->gzipped ? "(inflated) " : "", __VA_ARGS__)

static const char *element_name(unsigned code) {
    switch (code) {
    case 0x08: return "u8";
    case 0x09: return "i8";
    case 0x0B: return "i16";
    case 0x0C: return "i32";
    case 0x0D: return "f32";
    case 0x0E: return "f64";
    default: return NULL;
    }
}

static uint32_t big_endian(const unsigned char *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static gp_status check_prefix(const idx_file *idx, const unsigned char *bytes, gp_error *err) {
    if (bytes[0] != 0 || bytes[1] != 0) {
        return FAIL_CONTENT(idx, err, 0, "begins with the bytes %02x %02x %02x %02x; an idx file begins with 00 00",
                            bytes[0], bytes[1], bytes[2], bytes[3]);
    }
    const char *name = element_name(bytes[2]);
    if (!name) return FAIL_CONTENT(idx, err, 2, "element type 0x%02x is not one of the idx format", bytes[2]);
    if (bytes[2] != ELEMENT_U8) return FAIL_CONTENT(idx, err, 2, "elements are %s; only u8 is read", name);
    if (bytes[3] < 1 || bytes[3] > MAX_IDX_RANK)
        return FAIL_CONTENT(idx, err, 3, "has %u dimensions; 1 to %d are read", bytes[3], MAX_IDX_RANK);
    return GP_OK;
}

/* Reads what the header says from the file's first bytes, of which there are `bytes`, at most MAX_HEADER_BYTES. */
static gp_status parse_header(idx_file *idx, size_t bytes, gp_error *err) {
    const unsigned char *head = idx->head;
    if (bytes < PREFIX_BYTES) return FAIL_CONTENT(idx, err, bytes, "the file ends within its header%s", "");
    GP_RETURN_IF_FAILED(check_prefix(idx, head, err));
    idx->rank = head[3];
    idx->header_bytes = PREFIX_BYTES + 4 * (size_t)idx->rank;
    if (bytes < idx->header_bytes) return FAIL_CONTENT(idx, err, bytes, "the file ends within its header%s", "");
    uint64_t elements = 1;
    bool fits = true;
    for (int i = 0; i < idx->rank; i++) {
        size_t at = PREFIX_BYTES + 4 * (size_t)i;
        idx->dim[i] = big_endian(head + at);
        if (idx->dim[i] == 0) return FAIL_CONTENT(idx, err, at, "dimension %d is 0", i);
        fits = fits && !__builtin_mul_overflow(elements, (uint64_t)idx->dim[i], &elements);
    }
    if (!fits || elements > (uint64_t)INT64_MAX - MAX_HEADER_BYTES)
        return FAIL_CONTENT(idx, err, PREFIX_BYTES, "the %d dimensions have more elements than a file can", idx->rank);
    idx->total_bytes = idx->header_bytes + elements;
    return GP_OK;
}

static gp_status check_length(const idx_file *idx, uint64_t bytes, gp_error *err) {
    if (bytes < idx->total_bytes) {
        return FAIL_CONTENT(idx, err, bytes, "the file ends here; its header claims %" PRIu64 " bytes",
                            idx->total_bytes);
    }
    if (bytes > idx->total_bytes)
        return FAIL_CONTENT(idx, err, idx->total_bytes, "the file goes on after its last element%s", "");
    return GP_OK;
}

static gp_status open_plain(idx_file *idx, gp_error *err) {
    size_t bytes = idx->file.size < MAX_HEADER_BYTES ? (size_t)idx->file.size : MAX_HEADER_BYTES;
    GP_RETURN_IF_FAILED(gp_data_file_read(&idx->file, 0, bytes, idx->head, err));
    GP_RETURN_IF_FAILED(parse_header(idx, bytes, err));
    return check_length(idx, idx->file.size, err);
}

/* The stream, and where in the file it stands. */
typedef struct inflater {
    z_stream stream;
    unsigned char chunk[CHUNK_BYTES];
    unsigned char inflated[CHUNK_BYTES];
    uint64_t loaded; /* bytes of the file that were handed to zlib */
} inflater;

static uint64_t inflater_offset(const inflater *in) {
    return in->loaded - in->stream.avail_in;
}

static gp_status refill(const idx_file *idx, inflater *in, gp_error *err) {
    uint64_t left = idx->file.size - in->loaded;
    size_t bytes = left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;
    GP_RETURN_IF_FAILED(gp_data_file_read(&idx->file, in->loaded, bytes, in->chunk, err));
    in->stream.next_in = in->chunk;
    in->stream.avail_in = (uInt)bytes;
    in->loaded += bytes;
    return GP_OK;
}

/* How much is inflated next: never much more than the header claims, but one byte more than that, by which a file that
 * goes on is found. */
static size_t wanted_bytes(const idx_file *idx) {
    uint64_t limit = idx->total_bytes ? idx->total_bytes + 1 : MAX_HEADER_BYTES;
    uint64_t left = limit - idx->inflated;
    return left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;
}

/* The header is known, or all that there is of it. */
static gp_status begin_content(idx_file *idx, gp_error *err) {
    GP_RETURN_IF_FAILED(parse_header(idx, (size_t)idx->inflated, err));
    if (idx->inflated > idx->total_bytes) return check_length(idx, idx->inflated, err);
    GP_RETURN_IF_FAILED(gp_spill_open(&idx->content, idx->file.path, idx->total_bytes, idx->memory, err));
    return gp_spill_append(&idx->content, idx->head, (size_t)idx->inflated, err);
}

static gp_status take_inflated(idx_file *idx, const unsigned char *from, size_t bytes, gp_error *err) {
    uint64_t before = idx->inflated;
    idx->inflated += bytes;
    if (idx->total_bytes && idx->inflated > idx->total_bytes) return check_length(idx, idx->inflated, err);
    if (idx->total_bytes) return gp_spill_append(&idx->content, from, bytes, err);
    memcpy(idx->head + before, from, bytes);
    return idx->inflated == MAX_HEADER_BYTES ? begin_content(idx, err) : GP_OK;
}

/* Inflates until the output is full or the member ends; *ended says which. */
static gp_status inflate_some(idx_file *idx, inflater *in, bool *ended, gp_error *err) {
    uInt granted = (uInt)wanted_bytes(idx);
    in->stream.next_out = in->inflated;
    in->stream.avail_out = granted;
    int code = inflate(&in->stream, Z_NO_FLUSH);
    GP_RETURN_IF_FAILED(take_inflated(idx, in->inflated, granted - in->stream.avail_out, err));
    *ended = code == Z_STREAM_END;
    if (code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR) return GP_OK;
    if (code == Z_MEM_ERROR) return gp_fail(err, GP_MEMORY, "out of memory: inflating %s", idx->file.path);
    return gp_data_fail(err, idx->file.path, inflater_offset(in), "the gzip data is corrupt: %s",
                        in->stream.msg ? in->stream.msg : "it needs a preset dictionary");
}

/* False at the end of the file. */
static gp_status has_input(const idx_file *idx, inflater *in, bool *out, gp_error *err) {
    if (in->stream.avail_in == 0 && in->loaded < idx->file.size) GP_RETURN_IF_FAILED(refill(idx, in, err));
    *out = in->stream.avail_in > 0;
    return GP_OK;
}

/* What follows a member, as gzip has it: the end, another member, or zeros up to the end, with which tapes and disks
 * pad. gzip warns of anything else and leaves it out; data that are left out would be missed, so it is refused. */
static gp_status find_member(const idx_file *idx, inflater *in, bool *found, gp_error *err) {
    unsigned char magic[2] = {0x1f, 0x8b};
    bool more, padded = false;
    GP_RETURN_IF_FAILED(has_input(idx, in, &more, err));
    for (; more && *in->stream.next_in == 0; padded = true) {
        in->stream.next_in++;
        in->stream.avail_in--;
        GP_RETURN_IF_FAILED(has_input(idx, in, &more, err));
    }
    *found = more;
    if (!more) return GP_OK;
    uint64_t at = inflater_offset(in), left = idx->file.size - at;
    if (padded)
        return gp_data_fail(err, idx->file.path, at, "the file goes on after the zeros that pad its gzip data%s", "");
    GP_RETURN_IF_FAILED(
        gp_data_file_read(&idx->file, at, left < sizeof magic ? (size_t)left : sizeof magic, magic, err));
    if (magic[0] != 0x1f || magic[1] != 0x8b)
        return gp_data_fail(err, idx->file.path, at, "the gzip data ends here, but the file goes on%s", "");
    inflateReset(&in->stream);
    return GP_OK;
}

/* Every member of the file, one after another. */
static gp_status inflate_members(idx_file *idx, inflater *in, gp_error *err) {
    bool ended = false, more;
    for (;;) {
        GP_RETURN_IF_FAILED(has_input(idx, in, &more, err));
        if (ended) {
            GP_RETURN_IF_FAILED(find_member(idx, in, &more, err));
            if (!more) return GP_OK;
        }
        uint64_t before = idx->inflated;
        uInt in_before = in->stream.avail_in;
        GP_RETURN_IF_FAILED(inflate_some(idx, in, &ended, err));
        bool idle = idx->inflated == before && in->stream.avail_in == in_before;
        if (!ended && idle && in->loaded == idx->file.size && in->stream.avail_in == 0) {
            return gp_data_fail(err, idx->file.path, idx->file.size,
                                "the gzip data is cut off: the file ends within it%s", "");
        }
    }
}

static gp_status open_gzipped(idx_file *idx, gp_error *err) {
    inflater *in = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&in, 1, err));
    gp_status status = GP_OK;
    if (inflateInit2(&in->stream, 16 + MAX_WBITS) != Z_OK) {
        status = gp_fail(err, GP_MEMORY, "out of memory: inflating %s", idx->file.path);
    } else {
        status = inflate_members(idx, in, err);
        inflateEnd(&in->stream);
    }
    free(in);
    if (status != GP_OK) return status;
    /* A file shorter than the longest header had no occasion yet. */
    if (idx->total_bytes == 0) GP_RETURN_IF_FAILED(begin_content(idx, err));
    return check_length(idx, idx->inflated, err);
}

static gp_status open_idx(const char *path, size_t memory, idx_file *idx, gp_error *err) {
    unsigned char magic[2] = {0, 0};
    GP_RETURN_IF_FAILED(gp_data_file_open(path, &idx->file, err));
    idx->memory = memory;
    if (idx->file.size >= sizeof magic) GP_RETURN_IF_FAILED(gp_data_file_read(&idx->file, 0, sizeof magic, magic, err));
    idx->gzipped = magic[0] == 0x1f && magic[1] == 0x8b;
    return idx->gzipped ? open_gzipped(idx, err) : open_plain(idx, err);
}

static void close_idx(idx_file *idx) {
    gp_spill_close(&idx->content);
    gp_data_file_close(&idx->file);
}

/* Elements [from, from+bytes), counted from the first. */
static gp_status read_elements(const idx_file *idx, uint64_t from, size_t bytes, void *to, gp_error *err) {
    if (!idx->gzipped) return gp_data_file_read(&idx->file, idx->header_bytes + from, bytes, to, err);
    return gp_spill_read(&idx->content, idx->header_bytes + from, bytes, to, err);
}

static gp_status read_image(const gp_source *source, int64_t index, void *to, gp_error *err) {
    const idx_source *self = (const idx_source *)source;
    return read_elements(&self->images, (uint64_t)index * self->image_bytes, self->image_bytes, to, err);
}

static gp_status read_labels(const gp_source *source, int64_t first, int64_t samples, void *to, gp_error *err) {
    const idx_source *self = (const idx_source *)source;
    int64_t *labels = to;
    unsigned char bytes[512];
    for (int64_t done = 0; done < samples;) {
        size_t now = samples - done < (int64_t)sizeof bytes ? (size_t)(samples - done) : sizeof bytes;
        GP_RETURN_IF_FAILED(read_elements(&self->labels, (uint64_t)(first + done), now, bytes, err));
        for (size_t i = 0; i < now; i++) labels[done + (int64_t)i] = bytes[i];
        done += (int64_t)now;
    }
    return GP_OK;
}

static void close_source(gp_source *source) {
    idx_source *self = (idx_source *)source;
    close_idx(&self->images);
    close_idx(&self->labels);
    free(self);
}

static gp_status locate(const gp_source *source, bool target, int64_t index, int64_t element, gp_element_place *out,
                        gp_error *err) {
    const idx_source *self = (const idx_source *)source;
    const idx_file *idx = target ? &self->labels : &self->images;
    uint64_t from = (uint64_t)index * (target ? 1 : self->image_bytes) + (uint64_t)element;
    unsigned char byte = 0;
    GP_RETURN_IF_FAILED(read_elements(idx, from, 1, &byte, err));
    *out = (gp_element_place){
        .path = idx->file.path, .offset = idx->header_bytes + from, .inflated = idx->gzipped, .value = byte};
    return GP_OK;
}

static const gp_source_class idx_class = {read_image, read_labels, locate, close_source};

static gp_status check_pair(const idx_file *images, const idx_file *labels, gp_error *err) {
    if (images->rank < 2)
        return FAIL_CONTENT(images, err, 3, "images need 2 dimensions or more, these have %d", images->rank);
    if (labels->rank != 1) return FAIL_CONTENT(labels, err, 3, "labels need 1 dimension, these have %d", labels->rank);
    if (images->dim[0] != labels->dim[0]) {
        return FAIL_CONTENT(labels, err, PREFIX_BYTES, "%" PRId64 " labels for the %" PRId64 " images of %s",
                            labels->dim[0], images->dim[0], images->file.path);
    }
    return GP_OK;
}

static void describe(idx_source *self) {
    const idx_file *images = &self->images;
    self->source.class = &idx_class;
    self->source.input_path = images->file.path;
    self->source.target_path = self->labels.file.path;
    self->source.samples = images->dim[0];
    self->source.dtype = GP_U8;
    self->source.has_target = true;
    self->source.target_dtype = GP_I64;
    self->source.held = gp_spill_held(&images->content) + gp_spill_held(&self->labels.content);
    self->image_bytes = 1;
    if (images->rank == 3) self->source.input.dim[self->source.input.rank++] = 1;
    for (int i = 1; i < images->rank; i++) {
        self->source.input.dim[self->source.input.rank++] = images->dim[i];
        self->image_bytes *= (size_t)images->dim[i];
    }
}

gp_status gp_idx_open(const char *images, const char *labels, size_t memory, gp_source **out, gp_error *err) {
    idx_source *self = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&self, 1, err));
    self->images.file.fd = self->images.content.fd = -1;
    self->labels.file.fd = self->labels.content.fd = -1;
    gp_status status = open_idx(images, memory, &self->images, err);
    if (status == GP_OK) status = open_idx(labels, memory, &self->labels, err);
    if (status == GP_OK) status = check_pair(&self->images, &self->labels, err);
    if (status != GP_OK) {
        close_source(&self->source);
        return status;
    }
    describe(self);
    *out = &self->source;
    return GP_OK;
}
