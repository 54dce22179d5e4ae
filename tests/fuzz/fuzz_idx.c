/* Pairs of idx files. The first byte says how the rest becomes two files: bit 0, the first one is made gzip by the
 * target, since no mutation finds a checksum; bit 1, so is the second. What is not made gzip may be it already. The
 * next two bytes are the length of the second file, labels, which comes first. */
#include <stdlib.h>
#include <zlib.h>

#include "fuzz/fuzz.h"
#include "fuzz/fuzz_samples.h"

static const char *gzipped_file(int file, const uint8_t *bytes, size_t size) {
    z_stream stream = {0};
    FUZZ_PROMISE(deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 1, Z_DEFAULT_STRATEGY) == Z_OK);
    size_t room = deflateBound(&stream, size);
    uint8_t *packed = malloc(room);
    FUZZ_PROMISE(packed);
    stream.next_in = (uint8_t *)bytes;
    stream.avail_in = (uInt)size;
    stream.next_out = packed;
    stream.avail_out = (uInt)room;
    FUZZ_PROMISE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
    const char *path = fuzz_file(file, packed, stream.total_out);
    deflateEnd(&stream);
    free(packed);
    return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    enum { PREFIX = 3 };
    if (size < PREFIX) return 0;
    gp_error err = {0};
    gp_source *source = NULL;
    size_t left = size - PREFIX, second = (size_t)(bytes[1] << 8 | bytes[2]);
    if (second > left) second = left;
    const uint8_t *labels = bytes + PREFIX, *images = labels + second;
    const char *images_path =
        bytes[0] & 1 ? gzipped_file(0, images, left - second) : fuzz_file(0, images, left - second);
    const char *labels_path = bytes[0] & 2 ? gzipped_file(1, labels, second) : fuzz_file(1, labels, second);
    gp_status status = gp_idx_open(images_path, labels_path, bytes[0] & 4 ? 100 : GP_IDX_MEMORY, &source, &err);
    fuzz_check(status, &err);
    if (status == GP_OK)
        fuzz_samples(source, &(gp_source_config){
                                 .kind = GP_SOURCE_IDX, .images = (char *)images_path, .labels = (char *)labels_path});
    return 0;
}
