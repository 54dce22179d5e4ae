/* A value of the data that is not finite: its sample, its place in the tensor and in the file, and what made it so. */
#include "data/dataset.h"

#include "data/fixture.h"

#include <inttypes.h>

#include "data/loader.h"

enum { SAMPLES = 4, WIDTH = 3, HEADER = 128 };

/* A safetensors file of x [4, 1, 1, 3] and y [4] in one element type, all bytes 0 but one element of sample 2. */
static const char *write_file(const char *type, size_t bytes, bool target, uint64_t bits, uint64_t *offset) {
    unsigned char file[8 + HEADER + 8 * SAMPLES * (WIDTH + 1)] = {HEADER};
    size_t x = bytes * SAMPLES * WIDTH, y = bytes * SAMPLES;
    int used = snprintf((char *)file + 8, HEADER + 1,
                        "{\"x\":{\"dtype\":\"%s\",\"shape\":[4,1,1,3],\"data_offsets\":[0,%zu]},"
                        "\"y\":{\"dtype\":\"%s\",\"shape\":[4,1],\"data_offsets\":[%zu,%zu]}}",
                        type, x, type, x, x + y);
    memset(file + 8 + used, ' ', (size_t)(HEADER - used));
    *offset = 8 + HEADER + (target ? x + 2 * bytes : bytes * (2 * WIDTH + 1));
    memcpy(file + *offset, &bits, bytes);
    const char *path = fixture_path("x.safetensors");
    fixture_write(path, file, 8 + HEADER + x + y);
    return path;
}

static gp_sample_spec numbers(void) {
    return (gp_sample_spec){
        .input = {3, {1, 1, WIDTH}}, .input_dtype = GP_F32, .target = {1, {1}}, .target_dtype = GP_F32};
}

static void expect(const gp_source_config *config, int64_t index, bool target, const char *expected) {
    gp_sample_spec spec = numbers();
    gp_error err = {0};
    gp_dataset *dataset = NULL;
    char text[GP_FLAW_TEXT];
    if (config->kind == GP_SOURCE_IDX) {
        spec.target = (gp_shape){0};
        spec.target_dtype = GP_I64;
        spec.classes = 10;
    }
    if (gp_dataset_open(config, &spec, &dataset, &err) != GP_OK) fail_msg("%s", err.text);
    for (int64_t i = 0; i < gp_dataset_count(dataset); i++) {
        gp_sample_key key = {.index = i, .epoch = 1, .seed = 1};
        assert_int_equal(gp_dataset_explain(dataset, key, target, text, &err), GP_OK);
        assert_string_equal(text, i == index ? expected : "");
        assert_int_equal(gp_dataset_explain(dataset, key, !target, text, &err), GP_OK);
        assert_string_equal(text, "");
    }
    gp_dataset_close(&dataset);
}

static gp_source_config tensors(const char *path) {
    return (gp_source_config){.kind = GP_SOURCE_TENSORS, .file = (char *)(uintptr_t)path};
}

static void names_every_float_type(void **state) {
    (void)state;
    static const struct {
        const char *type;
        size_t bytes;
        uint64_t bits;
        const char *text;
    } cases[] = {
        {"F32", 4, 0x7FC00000, "nan"},
        {"F32", 4, 0xFF800000, "-inf"},
        {"F64", 8, 0x7FF0000000000000, "inf"},
        {"F64", 8, 0x7E37E43C8800759C, NULL}, /* 1e300 */
        {"F16", 2, 0x7C00, "inf"},
        {"F16", 2, 0x7E00, "nan"},
        {"BF16", 2, 0xFF80, "-inf"},
        {"BF16", 2, 0x7FC0, "nan"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int target = 0; target < 2; target++) {
            uint64_t offset = 0;
            char expected[GP_FLAW_TEXT];
            const char *path = write_file(cases[i].type, cases[i].bytes, target, cases[i].bits, &offset);
            const gp_source_config config = tensors(path);
            snprintf(expected, sizeof expected, "sample 2 of %s: %s is %s, at byte %" PRIu64 "%s", path,
                     target ? "y[2, 0]" : "x[2, 0, 0, 1]", cases[i].text ? cases[i].text : "1e+300", offset,
                     cases[i].text ? ""
                     : target      ? ", and F32 cannot hold a target so large"
                                   : ", and F32 cannot hold an input so large");
            expect(&config, 2, target, expected);
        }
}

/* Samples are those of the file, whatever `take` leaves. */
static void counts_as_the_file_does(void **state) {
    (void)state;
    uint64_t offset = 0;
    char expected[GP_FLAW_TEXT];
    const char *path = write_file("F32", 4, false, 0x7FC00000, &offset);
    gp_source_config config = tensors(path);
    config.take = true;
    config.take_from = 1;
    config.take_to = 4;
    snprintf(expected, sizeof expected, "sample 2 of %s: x[2, 0, 0, 1] is nan, at byte %" PRIu64, path, offset);
    expect(&config, 1, false, expected);
}

static void names_the_transform(void **state) {
    (void)state;
    uint64_t offset = 0;
    char expected[GP_FLAW_TEXT];
    double zero = 0, tiny = 1e-38;
    gp_transform_config steps[] = {
        {.kind = GP_TRANSFORM_PAD, .fill = {&zero, 1}},
        {.kind = GP_TRANSFORM_NORMALIZE, .mean = {&zero, 1}, .std = {&tiny, 1}},
    };
    const char *path = write_file("F32", 4, false, 0x42C80000, &offset); /* 100 */
    gp_source_config config = tensors(path);
    config.transforms = steps;
    config.transform_count = 2;
    snprintf(expected, sizeof expected, "sample 2 of %s is finite, but the transform normalize makes it infinite",
             path);
    expect(&config, 2, false, expected);
    path = write_file("F32", 4, false, 0x7FC00000, &offset); /* the file comes first */
    snprintf(expected, sizeof expected, "sample 2 of %s: x[2, 0, 0, 1] is nan, at byte %" PRIu64, path, offset);
    expect(&config, 2, false, expected);
}

static void names_the_byte_of_idx(void **state) {
    (void)state;
    unsigned char images[16 + SAMPLES * WIDTH] = {0, 0, 8, 3, [7] = SAMPLES, [11] = 1, [15] = WIDTH};
    static const unsigned char labels[8 + SAMPLES] = {0, 0, 8, 1, [7] = SAMPLES};
    char expected[GP_FLAW_TEXT];
    images[16 + 1 * WIDTH + 2] = 255;
    const char *paths[2] = {fixture_path("images"), fixture_path("images.gz")};
    fixture_write(paths[0], images, sizeof images);
    gzFile zipped = gzopen(paths[1], "wb");
    assert_int_equal(gzwrite(zipped, images, sizeof images), (int)sizeof images);
    assert_int_equal(gzclose(zipped), Z_OK);
    fixture_write(fixture_path("labels"), labels, sizeof labels);
    for (int i = 0; i < 2; i++) {
        gp_source_config config = {.kind = GP_SOURCE_IDX,
                                   .images = (char *)(uintptr_t)paths[i],
                                   .labels = (char *)(uintptr_t)fixture_path("labels"),
                                   .normalise = true,
                                   .std = 1e-39};
        snprintf(expected, sizeof expected,
                 "sample 1 of %s: images[1, 0, 0, 2] is 255, at byte 21%s, and mean and std make it infinite", paths[i],
                 i ? " (inflated)" : "");
        expect(&config, 1, false, expected);
    }
}

/* A loader finds the sample of a shuffled mini-batch, in any epoch, and if it begins within one. */
static void a_loader_finds_the_sample(void **state) {
    (void)state;
    uint64_t offset = 0;
    char expected[GP_FLAW_TEXT], text[GP_FLAW_TEXT];
    const char *path = write_file("F32", 4, false, 0x7FC00000, &offset);
    const gp_source_config config = tensors(path);
    const gp_sample_spec spec = numbers();
    gp_error err = {0};
    gp_dataset *dataset = NULL;
    gp_loader *loader = NULL;
    assert_int_equal(gp_dataset_open(&config, &spec, &dataset, &err), GP_OK);
    snprintf(expected, sizeof expected, "sample 2 of %s: x[2, 0, 0, 1] is nan, at byte %" PRIu64, path, offset);
    for (int i = 0; i < 4; i++) {
        const int64_t taken = i / 2; /* in the file's order this is not the sample with the value */
        const gp_loader_options options = {
            .batch = 2, .shuffle = i % 2, .seed = 7, .first_epoch = 1, .first_sample = taken, .epochs = 3, .depth = 2};
        assert_int_equal(gp_loader_create(dataset, &spec, &options, &loader, &err), GP_OK);
        int found = 0;
        for (int b = 0; b < 6; b++) {
            const gp_batch *batch = NULL;
            bool bad = false;
            assert_int_equal(gp_loader_take(loader, &batch, &err), GP_OK);
            for (int64_t k = 0; k < batch->samples * WIDTH; k++) bad = bad || ((const float *)batch->input)[k] != 0;
            assert_int_equal(gp_loader_explain(loader, batch, false, text, &err), GP_OK);
            assert_string_equal(text, bad ? expected : "");
            assert_int_equal(gp_loader_explain(loader, batch, true, text, &err), GP_OK);
            assert_string_equal(text, "");
            found += bad;
        }
        assert_true(found == 3 || (options.shuffle && taken > 0 && found == 2));
        gp_loader_destroy(&loader);
    }
    gp_dataset_close(&dataset);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_every_float_type),    cmocka_unit_test(counts_as_the_file_does),
        cmocka_unit_test(names_the_transform),       cmocka_unit_test(names_the_byte_of_idx),
        cmocka_unit_test(a_loader_finds_the_sample),
    };
    return cmocka_run_group_tests(tests, fixture_make, fixture_remove);
}
