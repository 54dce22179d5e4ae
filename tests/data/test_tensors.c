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
        assert_int_equal(fixture_sample(dataset, n, input, &target, &counts, &err), GP_OK);
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
            assert_int_equal(fixture_sample(dataset, n, input, &target, &counts, &err), GP_OK);
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
    assert_int_equal(fixture_sample(dataset, 4, input, &target, &counts, &err), GP_OK);
    assert_true(input[1][2][0] == (double)x_f32[4][0][1][2]);
    gp_dataset_close(&dataset);
}

/* A file as Python would write it, of dtypes that the program does not compute with. */
static void write_raw(const char *path, const char *x_dtype, const char *x_shape, const void *x, size_t x_bytes,
                      const char *y_dtype, const char *y_shape, const void *y, size_t y_bytes) {
    unsigned char bytes[1024] = {0};
    char *header = (char *)bytes + 8;
    int used = snprintf(header, 512,
                        "{\"x\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[0,%zu]},"
                        "\"y\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}}",
                        x_dtype, x_shape, x_bytes, y_dtype, y_shape, x_bytes, x_bytes + y_bytes);
    bytes[0] = (unsigned char)used;
    bytes[1] = (unsigned char)(used >> 8);
    memcpy(header + used, x, x_bytes);
    memcpy(header + used + x_bytes, y, y_bytes);
    fixture_write(path, bytes, 8 + (size_t)used + x_bytes + y_bytes);
}

/* Halves by hand: 1, −2, 65504 (the largest), 2^-24 (the least), 1.5·2^-15 (subnormal), −0, ∞, a NaN. */
static void reads_short_floats(void **state) {
    (void)state;
    static const uint16_t halves[8] = {0x3C00, 0xC000, 0x7BFF, 0x0001, 0x0300, 0x8000, 0x7C00, 0x7E01};
    static const float of_halves[7] = {1, -2, 65504, 0x1p-24F, 0x1.8p-15F, -0.0F, INFINITY};
    static const uint16_t brains[8] = {0x3F80, 0xC000, 0x7F7F, 0x0001, 0x3FC0, 0x8000, 0x7F80, 0x7FC1};
    static const float of_brains[7] = {1, -2, 0x1.FEp127F, 0x1p-133F, 1.5F, -0.0F, INFINITY};
    static const double doubles[8] = {1, -2, 0.1, 1e-300, 1e300, -0.0, INFINITY, NAN};
    static const float of_doubles[7] = {1, -2, 0.1F, 0, INFINITY, -0.0F, INFINITY};
    static const struct {
        const char *name;
        const void *bytes;
        size_t count;
        const float *wanted;
    } cases[] = {{"F16", halves, sizeof halves, of_halves},
                 {"BF16", brains, sizeof brains, of_brains},
                 {"F64", doubles, sizeof doubles, of_doubles}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = fixture_path(cases[i].name);
        gp_source_config source = source_of(path);
        gp_sample_spec spec = {
            .input = {1, {8}}, .input_dtype = GP_F32, .target = {1, {8}}, .target_dtype = GP_F32, .classes = 0};
        gp_dataset *dataset = NULL;
        gp_error err = {0};
        float input[8], target[8];
        int64_t counts;
        write_raw(path, cases[i].name, "[1,8]", cases[i].bytes, cases[i].count, cases[i].name, "[1,8]", cases[i].bytes,
                  cases[i].count);
        assert_int_equal(gp_dataset_open(&source, &spec, &dataset, &err), GP_OK);
        assert_int_equal(fixture_sample(dataset, 0, input, target, &counts, &err), GP_OK);
        assert_memory_equal(input, cases[i].wanted, 7 * sizeof *input);
        assert_memory_equal(target, cases[i].wanted, 7 * sizeof *input);
        assert_true(isnan(input[7]) && isnan(target[7]));
        assert_int_equal(counts, 8);
        gp_dataset_close(&dataset);
    }
}

static void reads_classes_of_any_integer(void **state) {
    (void)state;
    static const int8_t i8[4] = {3, -1, 0, 100};
    static const int16_t i16[4] = {3, -1, 0, 100};
    static const int32_t i32[4] = {3, -1, 0, 100};
    static const int64_t i64[4] = {3, -1, 0, 100};
    static const uint8_t u8[4] = {3, 255, 0, 100};
    static const float x[4];
    static const struct {
        const char *dtype;
        const void *bytes;
        size_t count;
    } cases[] = {{"I8", i8, sizeof i8},
                 {"I16", i16, sizeof i16},
                 {"I32", i32, sizeof i32},
                 {"I64", i64, sizeof i64},
                 {"U8", u8, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *path = fixture_path(cases[i].dtype);
        gp_source_config source = source_of(path);
        int64_t ignore = strcmp(cases[i].dtype, "U8") == 0 ? 255 : -1;
        gp_sample_spec spec = {
            .input = {1, {1}}, .input_dtype = GP_F32, .target_dtype = GP_I64, .classes = 101, .ignore = ignore};
        gp_dataset *dataset = NULL;
        gp_error err = {0};
        write_raw(path, "F32", "[4,1]", x, sizeof x, cases[i].dtype, "[4]", cases[i].bytes, cases[i].count);
        assert_int_equal(gp_dataset_open(&source, &spec, &dataset, &err), GP_OK);
        for (int n = 0; n < 4; n++) {
            float input;
            int64_t target, counts;
            assert_int_equal(fixture_sample(dataset, n, &input, &target, &counts, &err), GP_OK);
            assert_int_equal(target, n == 1 ? ignore : i64[n]);
            assert_int_equal(counts, n != 1);
        }
        gp_dataset_close(&dataset);
    }
}

/* Pictures of numbers lie in memory as inputs do; anything else stays as it is. All of them count, whatever they are.
 */
static void reads_numbers_as_targets(void **state) {
    (void)state;
    static float y[SAMPLES][ELEMENTS];
    static const gp_shape shapes[] = {{3, {CHANNELS, HEIGHT, WIDTH}}, {2, {HEIGHT, 2 * WIDTH}}, {1, {ELEMENTS}}};
    for (int i = 0; i < SAMPLES * ELEMENTS; i++) y[i / ELEMENTS][i % ELEMENTS] = i == 3 ? -100 : (float)i / 7;
    for (int s = 0; s < 3; s++) {
        gp_safetensors_item item = {.name = "y", .dtype = GP_F32, .rank = shapes[s].rank + 1, .data = y};
        gp_sample_spec spec = usual_spec();
        gp_dataset *dataset = NULL;
        gp_error err = {0};
        item.dim[0] = SAMPLES;
        memcpy(item.dim + 1, shapes[s].dim, sizeof shapes[s].dim);
        spec.target = shapes[s];
        spec.target_dtype = GP_F32;
        assert_int_equal(write_and_open(fixture_path("numbers"), item_f32, item, spec, &dataset, &err), GP_OK);
        for (int n = 0; n < SAMPLES; n++) {
            float input[ELEMENTS], target[ELEMENTS];
            int64_t counts;
            assert_int_equal(fixture_sample(dataset, n, input, target, &counts, &err), GP_OK);
            assert_int_equal(counts, ELEMENTS);
            for (int i = 0; i < ELEMENTS; i++) {
                int from = s > 0 ? i : i % CHANNELS * HEIGHT * WIDTH + i / CHANNELS;
                assert_true(target[i] == y[n][from]);
            }
        }
        gp_dataset_close(&dataset);
    }
    gp_safetensors_item flat = {.name = "y", .dtype = GP_F32, .rank = 1, .dim = {SAMPLES}, .data = y};
    gp_sample_spec spec = usual_spec();
    gp_dataset *dataset = NULL;
    gp_error err = {0};
    char message[400];
    spec.target = (gp_shape){1, {1}};
    spec.target_dtype = GP_F32;
    const char *path = fixture_path("flat");
    snprintf(message, sizeof message, "run.yaml:7:11: the targets of %s are [] for each sample, but the loss wants [1]",
             path);
    fixture_expect(write_and_open(path, item_f32, flat, spec, &dataset, &err), GP_CONFIG, &err, message, "");
}

/* Where only predictions are wanted. */
static void targets_may_be_optional(void **state) {
    (void)state;
    const char *path = fixture_path("x_only");
    gp_source_config source = source_of(path);
    gp_error err = {0};
    gp_dataset *dataset = NULL;
    gp_sample_spec spec = usual_spec();
    assert_int_equal(gp_safetensors_write(path, &item_f32, 1, NULL, &err), GP_OK);
    fixture_expect(gp_dataset_open(&source, &spec, &dataset, &err), GP_DATA, &err, path,
                   ": has no tensor \"y\"; a data set has x (inputs) and y (targets)");
    spec.target_optional = true;
    for (int numbers = 0; numbers < 2; numbers++) {
        spec.target_dtype = numbers ? GP_F32 : GP_I64;
        spec.target = (gp_shape){1, {2}};
        float input[ELEMENTS];
        union {
            int64_t classes[2];
            float numbers[2];
        } target = {{7, 7}};
        int64_t counts = 7;
        assert_int_equal(gp_dataset_open(&source, &spec, &dataset, &err), GP_OK);
        assert_int_equal(fixture_sample(dataset, 2, input, &target, &counts, &err), GP_OK);
        assert_int_equal(counts, 0);
        assert_true(input[0] == x_f32[2][0][0][0]);
        if (numbers)
            assert_true(target.numbers[0] == 0 && target.numbers[1] == 0);
        else
            assert_true(target.classes[0] == -100 && target.classes[1] == -100);
        gp_dataset_close(&dataset);
    }
    spec = usual_spec();
    spec.target_optional = true;
    assert_int_equal(write_and_open(path, item_f32, item_i64, spec, &dataset, &err), GP_OK);
    float input[ELEMENTS];
    int64_t target = -100, counts = 0;
    assert_int_equal(fixture_sample(dataset, 0, input, &target, &counts, &err), GP_OK);
    assert_int_equal(counts, 1);
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
        assert_int_equal(fixture_sample(dataset, n, &input, target, &counts, &err), GP_OK);
        assert_int_equal(counts, PIXELS / 5 * 4);
        for (int i = 0; i < PIXELS; i++) assert_int_equal(target[i], y[n][i]);
    }
    gp_dataset_close(&dataset);
    y[5][1999] = 4;
    fixture_expect(write_and_open(path, items, maps, spec, &dataset, &err), GP_DATA, &err, path,
                   ": sample 5: class 4 is out of range; the model has 4 outputs, for the classes 0 … 3");
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
    assert_int_equal(fixture_sample(dataset, 1, input, &target, &counts, &err), GP_OK);
    assert_int_equal(target, 2);
    assert_true(input[0][1][1] == x_f32[4][1][0][1]);
    gp_dataset_close(&dataset);
    char message[400];
    source.take_to = 6;
    snprintf(message, sizeof message,
             "run.yaml:8:5: take: [3, 6] is not a range of the 5 samples of %s; 0 ≤ from < to ≤ 5 is the rule", path);
    fixture_expect(gp_dataset_open(&source, &spec, &dataset, &err), GP_CONFIG, &err, message, "");
}

static void refuses_dtypes_and_shapes(void **state) {
    (void)state;
    static const double zeros[SAMPLES * ELEMENTS];
    static const struct {
        gp_safetensors_item x, y;
        const char *message; /* after the path */
    } cases[] = {
        {{.name = "x", .dtype = GP_I64, .rank = 2, .dim = {5, 12}, .data = zeros},
         {.name = "y", .dtype = GP_I64, .rank = 1, .dim = {5}, .data = zeros},
         ": tensor \"x\" is I64: these are tokens, and no layer of this version takes tokens; for pictures, save "
         "x.to(torch.uint8) or x.float()"},
        {{.name = "x", .dtype = GP_I32, .rank = 2, .dim = {5, 12}, .data = zeros},
         {.name = "y", .dtype = GP_I64, .rank = 1, .dim = {5}, .data = zeros},
         ": tensor \"x\" is I32: these are tokens, and no layer of this version takes tokens; for pictures, save "
         "x.to(torch.uint8) or x.float()"},
        {{.name = "x", .dtype = GP_F32, .rank = 2, .dim = {4, 12}, .data = zeros},
         {.name = "y", .dtype = GP_I64, .rank = 1, .dim = {5}, .data = zeros},
         ": tensor \"x\" has 4 samples, tensor \"y\" 5"},
        {{.name = "images", .dtype = GP_F32, .rank = 2, .dim = {5, 12}, .data = zeros},
         {.name = "y", .dtype = GP_I64, .rank = 1, .dim = {5}, .data = zeros},
         ": has no tensor \"x\"; a data set has x (inputs) and y (targets)"},
        {{.name = "x", .dtype = GP_F32, .rank = 2, .dim = {5, 12}, .data = zeros},
         {.name = "labels", .dtype = GP_I64, .rank = 1, .dim = {5}, .data = zeros},
         ": has no tensor \"y\"; a data set has x (inputs) and y (targets)"},
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
             "run.yaml:7:11: the samples of %s are [2, 2, 3], but the model's input is [3, 2, 2]; "
             "channels come first: x.permute(0, 3, 1, 2).contiguous()",
             path);
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
    spec.target_dtype = GP_U8;
    fixture_expect(write_and_open(path, item_f32, item_i64, spec, &dataset, &err), GP_UNSUPPORTED, &err,
                   "targets are classes in I64 or numbers in F32, not U8", "");
    spec.target_dtype = GP_F32;
    snprintf(message, sizeof message,
             "run.yaml:7:11: the targets of %s are classes (integers), but the loss wants floating-point numbers",
             path);
    fixture_expect(write_and_open(path, item_f32, item_i64, spec, &dataset, &err), GP_CONFIG, &err, message, "");
    gp_safetensors_item numbers = item_i64;
    numbers.dtype = GP_F64;
    snprintf(message, sizeof message,
             "run.yaml:7:11: the targets of %s are floating-point numbers, but the loss wants classes (integers); "
             "y.long() makes them",
             path);
    fixture_expect(write_and_open(path, item_f32, numbers, usual_spec(), &dataset, &err), GP_CONFIG, &err, message, "");
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
        snprintf(message, sizeof message,
                 ": sample 3: class %lld is out of range; the model has 4 outputs, for the classes 0 … 3",
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
    assert_int_equal(fixture_sample(dataset, 3, input, &target, &counts, &err), GP_OK);
    assert_int_equal(fixture_sample(dataset, 4, input, &target, &counts, &err), GP_DATA);
    assert_non_null(strstr(err.text, ": the file ends here; 10 more bytes were expected"));
    whole = calloc(10, 1);
    FILE *file = fopen(path, "ab");
    assert_non_null(file);
    assert_int_equal(fwrite(whole, 1, 10, file), 10);
    fclose(file);
    free(whole);
    fixture_expect(fixture_sample(dataset, 4, input, &target, &counts, &err), GP_DATA, &err, path,
                   ": sample 4: class 77 is out of range; the model has 4 outputs, for the classes 0 … 3");
    gp_dataset_close(&dataset);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_f32),
        cmocka_unit_test(reads_u8_and_i32),
        cmocka_unit_test(reads_f32_as_f64),
        cmocka_unit_test(reads_short_floats),
        cmocka_unit_test(reads_classes_of_any_integer),
        cmocka_unit_test(reads_numbers_as_targets),
        cmocka_unit_test(targets_may_be_optional),
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
