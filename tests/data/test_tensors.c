#include "data/dataset.h"

#include "data/fixture.h"

#include <math.h>

#include "data/safetensors.h"

enum { SAMPLES = 5, CHANNELS = 2, HEIGHT = 2, WIDTH = 3, ELEMENTS = CHANNELS * HEIGHT * WIDTH };

static float x_f32[SAMPLES][CHANNELS][HEIGHT][WIDTH];
static unsigned char x_u8[SAMPLES][CHANNELS][HEIGHT][WIDTH];
static const int64_t y_i64[SAMPLES] = {3, 0, -100, 1, 2};
static const int32_t y_i32[SAMPLES] = {3, 0, -100, 1, 2};

static const gp_safetensors_item item_f32 = {
    .name = "x", .dtype = GP_F32, .rank = 4, .dim = {SAMPLES, CHANNELS, HEIGHT, WIDTH}, .data = x_f32};
static const gp_safetensors_item item_u8 = {
    .name = "x", .dtype = GP_U8, .rank = 4, .dim = {SAMPLES, CHANNELS, HEIGHT, WIDTH}, .data = x_u8};
static const gp_safetensors_item item_i64 = {.name = "y", .dtype = GP_I64, .rank = 1, .dim = {SAMPLES}, .data = y_i64};
static const gp_safetensors_item item_i32 = {.name = "y", .dtype = GP_I32, .rank = 1, .dim = {SAMPLES}, .data = y_i32};

static void fill(void) {
    for (int i = 0; i < SAMPLES * ELEMENTS; i++) {
        (&x_f32[0][0][0][0])[i] = (float)i * 0.37F - 5;
        (&x_u8[0][0][0][0])[i] = (unsigned char)(i * 37);
    }
}

static gp_sample_spec usual_spec(void) {
    return (gp_sample_spec){.input = {3, {CHANNELS, HEIGHT, WIDTH}},
                            .input_dtype = GP_F32,
                            .target_dtype = GP_I64,
                            .classes = 4,
                            .ignore = -100};
}

static gp_source_config source_of(const char *path) {
    return (gp_source_config){.kind = GP_SOURCE_TENSORS,
                              .place = {"run.yaml", 7, 11},
                              .file = (char *)(uintptr_t)path,
                              .take_place = {"run.yaml", 8, 5}};
}

static gp_status write_and_open(const char *path, gp_safetensors_item x, gp_safetensors_item y, gp_sample_spec spec,
                                gp_dataset **out, gp_error *err) {
    const gp_safetensors_item items[] = {y, x};
    const gp_source_config source = source_of(path);
    assert_int_equal(gp_safetensors_write(path, items, 2, NULL, err), GP_OK);
    return gp_dataset_open(&source, &spec, out, err);
}

/* Files are channels first, memory is channels last. */
static void reads_f32(void **state) {
    (void)state;
    gp_dataset *dataset = NULL;
    gp_error err = {0};
    assert_int_equal(write_and_open(fixture_path("f32"), item_f32, item_i64, usual_spec(), &dataset, &err), GP_OK);
    assert_int_equal(gp_dataset_count(dataset), SAMPLES);
    for (int n = SAMPLES - 1; n >= 0; n--) {
        float input[HEIGHT][WIDTH][CHANNELS];
        int64_t target, counts;
        assert_int_equal(gp_dataset_read(dataset, n, input, &target, &counts, &err), GP_OK);
        for (int c = 0; c < CHANNELS; c++)
            for (int h = 0; h < HEIGHT; h++)
                for (int w = 0; w < WIDTH; w++) assert_true(input[h][w][c] == x_f32[n][c][h][w]);
        assert_int_equal(target, y_i64[n]);
        assert_int_equal(counts, n != 2);
    }
    gp_dataset_close(&dataset);
}

static void reads_u8_and_i32(void **state) {
    (void)state;
    gp_sample_spec spec = usual_spec();
    gp_dataset *dataset = NULL;
    gp_error err = {0};
    for (int wide = 0; wide < 2; wide++) {
        spec.input_dtype = wide ? GP_F64 : GP_F32;
        assert_int_equal(write_and_open(fixture_path("u8"), item_u8, item_i32, spec, &dataset, &err), GP_OK);
        for (int n = 0; n < SAMPLES; n++) {
            double input[ELEMENTS];
            int64_t target, counts;
            assert_int_equal(gp_dataset_read(dataset, n, input, &target, &counts, &err), GP_OK);
            for (int i = 0; i < ELEMENTS; i++) {
                int byte = x_u8[n][i % CHANNELS][i / CHANNELS / WIDTH][i / CHANNELS % WIDTH];
                assert_true(wide ? input[i] == byte / 255.0 : ((float *)input)[i] == (float)byte / 255.0F);
            }
            assert_int_equal(target, y_i32[n]);
        }
        gp_dataset_close(&dataset);
    }
}

static void reads_f32_as_f64(void **state) {
    (void)state;
    gp_sample_spec spec = usual_spec();
    gp_dataset *dataset = NULL;
    gp_error err = {0};
    double input[HEIGHT][WIDTH][CHANNELS];
    int64_t target, counts;
    spec.input_dtype = GP_F64;
    assert_int_equal(write_and_open(fixture_path("f64"), item_f32, item_i64, spec, &dataset, &err), GP_OK);
    assert_int_equal(gp_dataset_read(dataset, 4, input, &target, &counts, &err), GP_OK);
    assert_true(input[1][2][0] == (double)x_f32[4][0][1][2]);
    gp_dataset_close(&dataset);
}

/* A class for each pixel: targets have no channels, so their order stays. Many rows, so that the check at opening and
 * the conversion of I32 both go in pieces. */
static void reads_maps_of_classes(void **state) {
    (void)state;
    enum { ROWS = 40, COLUMNS = 50, MAPS = 7, PIXELS = ROWS * COLUMNS };
    static int32_t y[MAPS][PIXELS];
    static float x[MAPS];
    static int64_t target[PIXELS];
    gp_sample_spec spec = usual_spec();
    gp_safetensors_item items = {.name = "x", .dtype = GP_F32, .rank = 2, .dim = {MAPS, 1}, .data = x};
    gp_safetensors_item maps = {.name = "y", .dtype = GP_I32, .rank = 3, .dim = {MAPS, ROWS, COLUMNS}, .data = y};
    const char *path = fixture_path("maps");
    gp_dataset *dataset = NULL;
    gp_error err = {0};
    float input;
    int64_t counts;
    for (int i = 0; i < MAPS * PIXELS; i++) y[i / PIXELS][i % PIXELS] = i % 5 == 4 ? -100 : i % 5;
    spec.input = (gp_shape){1, {1}};
    spec.target = (gp_shape){2, {ROWS, COLUMNS}};
    assert_int_equal(write_and_open(path, items, maps, spec, &dataset, &err), GP_OK);
    for (int n = 0; n < MAPS; n++) {
        assert_int_equal(gp_dataset_read(dataset, n, &input, target, &counts, &err), GP_OK);
        assert_int_equal(counts, PIXELS / 5 * 4);
        for (int i = 0; i < PIXELS; i++) assert_int_equal(target[i], y[n][i]);
    }
    gp_dataset_close(&dataset);
    y[5][1999] = 4;
    fixture_expect(write_and_open(path, items, maps, spec, &dataset, &err), GP_DATA, &err, path,
                   ": sample 5: class 4 is none of the model's 4 (0 … 3)");
}

static void takes_a_range(void **state) {
    (void)state;
    const gp_safetensors_item items[] = {item_f32, item_i64};
    const char *path = fixture_path("take");
    gp_source_config source = source_of(path);
    gp_sample_spec spec = usual_spec();
    gp_dataset *dataset = NULL;
    gp_error err = {0};
    float input[HEIGHT][WIDTH][CHANNELS];
    int64_t target, counts;
    source.take = true;
    source.take_from = 3;
    source.take_to = 5;
    spec.classes = 3; /* sample 0 has class 3 and is not taken */
    assert_int_equal(gp_safetensors_write(path, items, 2, NULL, &err), GP_OK);
    assert_int_equal(gp_dataset_open(&source, &spec, &dataset, &err), GP_OK);
    assert_int_equal(gp_dataset_count(dataset), 2);
    assert_int_equal(gp_dataset_read(dataset, 1, input, &target, &counts, &err), GP_OK);
    assert_int_equal(target, 2);
    assert_true(input[0][1][1] == x_f32[4][1][0][1]);
    gp_dataset_close(&dataset);
    char message[400];
    source.take_to = 6;
    snprintf(message, sizeof message,
             "run.yaml:8:5: take [3, 6] does not lie within the 5 samples of %s: 0 ≤ from < to ≤ 5 is needed", path);
    fixture_expect(gp_dataset_open(&source, &spec, &dataset, &err), GP_CONFIG, &err, message, "");
}

static void refuses_dtypes_and_shapes(void **state) {
    (void)state;
    static const double zeros[SAMPLES * ELEMENTS];
    static const struct {
        gp_safetensors_item x, y;
        const char *message; /* after the path */
    } cases[] = {
        {{.name = "x", .dtype = GP_F64, .rank = 2, .dim = {5, 12}, .data = zeros},
         {.name = "y", .dtype = GP_I64, .rank = 1, .dim = {5}, .data = zeros},
         ": tensor \"x\" is F64; F32 and U8 (scaled to 0…1) are read"},
        {{.name = "x", .dtype = GP_I64, .rank = 2, .dim = {5, 12}, .data = zeros},
         {.name = "y", .dtype = GP_I64, .rank = 1, .dim = {5}, .data = zeros},
         ": tensor \"x\" is I64: tokens are not read yet; F32 and U8 are"},
        {{.name = "x", .dtype = GP_I32, .rank = 2, .dim = {5, 12}, .data = zeros},
         {.name = "y", .dtype = GP_I64, .rank = 1, .dim = {5}, .data = zeros},
         ": tensor \"x\" is I32: tokens are not read yet; F32 and U8 are"},
        {{.name = "x", .dtype = GP_F32, .rank = 2, .dim = {5, 12}, .data = zeros},
         {.name = "y", .dtype = GP_F32, .rank = 1, .dim = {5}, .data = zeros},
         ": tensor \"y\" is F32; classes are I32 or I64"},
        {{.name = "x", .dtype = GP_F32, .rank = 2, .dim = {4, 12}, .data = zeros},
         {.name = "y", .dtype = GP_I64, .rank = 1, .dim = {5}, .data = zeros},
         ": tensor \"x\" has 4 samples, tensor \"y\" 5"},
        {{.name = "images", .dtype = GP_F32, .rank = 2, .dim = {5, 12}, .data = zeros},
         {.name = "y", .dtype = GP_I64, .rank = 1, .dim = {5}, .data = zeros},
         ": has no tensor \"x\"; a data set has x (inputs) and y (classes)"},
        {{.name = "x", .dtype = GP_F32, .rank = 2, .dim = {5, 12}, .data = zeros},
         {.name = "labels", .dtype = GP_I64, .rank = 1, .dim = {5}, .data = zeros},
         ": has no tensor \"y\"; a data set has x (inputs) and y (classes)"},
        {{.name = "x", .dtype = GP_F32, .rank = 0, .data = zeros},
         {.name = "y", .dtype = GP_I64, .rank = 1, .dim = {5}, .data = zeros},
         ": tensor \"x\" is a single number; samples come first in its shape"},
        {{.name = "x", .dtype = GP_F32, .rank = 6, .dim = {5, 1, 1, 1, 2, 6}, .data = zeros},
         {.name = "y", .dtype = GP_I64, .rank = 1, .dim = {5}, .data = zeros},
         ": tensor \"x\" has 6 dimensions; samples and at most 4 more are read"},
        {{.name = "x", .dtype = GP_F32, .rank = 2, .dim = {0, 12}, .data = zeros},
         {.name = "y", .dtype = GP_I64, .rank = 1, .dim = {0}, .data = zeros},
         ": tensor \"x\" is empty"},
    };
    const char *path = fixture_path("refused");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gp_dataset *dataset = NULL;
        gp_error err = {0};
        gp_status status = write_and_open(path, cases[i].x, cases[i].y, usual_spec(), &dataset, &err);
        fixture_expect(status, GP_DATA, &err, path, cases[i].message);
        assert_null(dataset);
    }
}

/* What the configuration says of the file points at the configuration. */
static void refuses_other_specs(void **state) {
    (void)state;
    const char *path = fixture_path("specs");
    gp_dataset *dataset = NULL;
    gp_error err = {0};
    char message[400];
    gp_sample_spec spec = usual_spec();
    spec.input = (gp_shape){3, {WIDTH, HEIGHT, CHANNELS}};
    snprintf(message, sizeof message,
             "run.yaml:7:11: the samples of %s are [2, 2, 3], but the model's input is [3, 2, 2]", path);
    fixture_expect(write_and_open(path, item_f32, item_i64, spec, &dataset, &err), GP_CONFIG, &err, message, "");
    spec.input = (gp_shape){1, {ELEMENTS}};
    snprintf(message, sizeof message, "run.yaml:7:11: the samples of %s are [2, 2, 3], but the model's input is [12]",
             path);
    fixture_expect(write_and_open(path, item_f32, item_i64, spec, &dataset, &err), GP_CONFIG, &err, message, "");
    spec = usual_spec();
    spec.target = (gp_shape){2, {HEIGHT, WIDTH}};
    snprintf(message, sizeof message,
             "run.yaml:7:11: the targets of %s are [] for each sample, but the loss wants [2, 3]", path);
    fixture_expect(write_and_open(path, item_f32, item_i64, spec, &dataset, &err), GP_CONFIG, &err, message, "");
    spec = usual_spec();
    spec.input_dtype = GP_I64;
    fixture_expect(write_and_open(path, item_f32, item_i64, spec, &dataset, &err), GP_UNSUPPORTED, &err,
                   "inputs are F32 or F64, not I64", "");
    spec = usual_spec();
    spec.target_dtype = GP_F32;
    fixture_expect(write_and_open(path, item_f32, item_i64, spec, &dataset, &err), GP_UNSUPPORTED, &err,
                   "targets are classes in I64, not F32", "");
    gp_source_config none = source_of(path);
    none.kind = GP_SOURCE_NONE;
    spec = usual_spec();
    fixture_expect(gp_dataset_open(&none, &spec, &dataset, &err), GP_CONFIG, &err,
                   "run.yaml:7:11: there is no source of samples", "");
}

static void refuses_classes(void **state) {
    (void)state;
    static const int64_t values[] = {4, -1, -99, INT64_MAX, INT64_MIN};
    const char *path = fixture_path("classes");
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        int64_t y[SAMPLES] = {0, 1, 2, 0, 0};
        gp_safetensors_item item = item_i64;
        gp_dataset *dataset = NULL;
        gp_error err = {0};
        char message[200];
        y[3] = values[i];
        item.data = y;
        snprintf(message, sizeof message, ": sample 3: class %lld is none of the model's 4 (0 … 3)",
                 (long long)values[i]);
        fixture_expect(write_and_open(path, item_f32, item, usual_spec(), &dataset, &err), GP_DATA, &err, path,
                       message);
    }
}

/* A file that is changed under a run is still not trusted. */
static void checks_what_it_reads(void **state) {
    (void)state;
    const char *path = fixture_path("changed");
    gp_dataset *dataset = NULL;
    gp_error err = {0};
    float input[ELEMENTS];
    int64_t target, counts;
    assert_int_equal(write_and_open(path, item_f32, item_i64, usual_spec(), &dataset, &err), GP_OK);
    size_t bytes = 0;
    unsigned char *whole = fixture_read(path, &bytes);
    size_t y_begin = bytes - sizeof x_f32 - sizeof y_i64; /* y comes first */
    whole[y_begin + 4 * sizeof *y_i64] = 77;
    fixture_write(path, whole, bytes - 10);
    free(whole);
    assert_int_equal(gp_dataset_read(dataset, 3, input, &target, &counts, &err), GP_OK);
    assert_int_equal(gp_dataset_read(dataset, 4, input, &target, &counts, &err), GP_DATA);
    assert_non_null(strstr(err.text, ": the file ends here; 10 more bytes were expected"));
    whole = calloc(10, 1);
    FILE *file = fopen(path, "ab");
    assert_non_null(file);
    assert_int_equal(fwrite(whole, 1, 10, file), 10);
    fclose(file);
    free(whole);
    fixture_expect(gp_dataset_read(dataset, 4, input, &target, &counts, &err), GP_DATA, &err, path,
                   ": sample 4: class 77 is none of the model's 4 (0 … 3)");
    gp_dataset_close(&dataset);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_f32),
        cmocka_unit_test(reads_u8_and_i32),
        cmocka_unit_test(reads_f32_as_f64),
        cmocka_unit_test(reads_maps_of_classes),
        cmocka_unit_test(takes_a_range),
        cmocka_unit_test(refuses_dtypes_and_shapes),
        cmocka_unit_test(refuses_other_specs),
        cmocka_unit_test(refuses_classes),
        cmocka_unit_test(checks_what_it_reads),
    };
    fill();
    return cmocka_run_group_tests(tests, fixture_make, fixture_remove);
}
