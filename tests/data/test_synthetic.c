/* Generated samples: values that an independent implementation in Python made of what philox.h and source.h say. */
#include "data/dataset.h"

#include "data/fixture.h"

#include <math.h>

enum { CHANNELS = 2, HEIGHT = 3, WIDTH = 4, ELEMENTS = CHANNELS * HEIGHT * WIDTH, TARGETS = 6 };

static gp_sample_spec spec_of(gp_dtype target_dtype) {
    return (gp_sample_spec){.input = {3, {CHANNELS, HEIGHT, WIDTH}},
                            .input_dtype = GP_F32,
                            .target = {1, {TARGETS}},
                            .target_dtype = target_dtype,
                            .classes = 10,
                            .ignore = -100};
}

static gp_dataset *open_data(int64_t samples, uint64_t seed, gp_sample_spec spec) {
    gp_source_config source = {.kind = GP_SOURCE_SYNTHETIC, .samples = samples, .seed = seed};
    gp_dataset *dataset = NULL;
    gp_error err = {0};
    gp_status status = gp_dataset_open(&source, &spec, &dataset, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(status, GP_OK);
    assert_int_equal(gp_dataset_count(dataset), samples);
    return dataset;
}

static const struct {
    uint64_t seed;
    int64_t sample;
    float input[6]; /* elements 0, 1, 2, 8, 17, 23, channels first */
    int64_t classes[TARGETS];
    float numbers[5];
} golden[] = {
    {1,
     0,
     {1.27171063F, -0.490738447F, 0.868786371F, 1.3574545F, 0.214934065F, 0.725832788F},
     {0, 9, 6, 2, 2, 1},
     {0.00987297297F, 0.913102925F, 0.687906563F, 0.299807191F, 0.226697087F}},
    {7,
     3,
     {1.39209163F, 1.1254669F, -1.55549901F, 0.602701696F, 0.447779785F, 0.302163449F},
     {6, 3, 4, 1, 2, 6},
     {0.613338292F, 0.306075215F, 0.448610663F, 0.174798191F, 0.270859182F}},
    {(1ULL << 40) + 5,
     99,
     {-0.182436902F, -0.387591336F, -0.398292716F, -1.81493238F, 0.546974338F, -0.450402776F},
     {0, 0, 3, 7, 9, 9},
     {0.0965516567F, 0.0269984603F, 0.317848861F, 0.728435278F, 0.992498159F}},
};

static void golden_samples(void **state) {
    (void)state;
    static const int places[6] = {0, 1, 2, 8, 17, 23};
    gp_error err = {0};
    for (size_t g = 0; g < sizeof golden / sizeof *golden; g++) {
        float input[HEIGHT * WIDTH][CHANNELS], numbers[TARGETS];
        int64_t classes[TARGETS], counts = 0;
        gp_dataset *dataset = open_data(100, golden[g].seed, spec_of(GP_I64));
        assert_int_equal(fixture_sample(dataset, golden[g].sample, input, classes, &counts, &err), GP_OK);
        for (int i = 0; i < 6; i++) {
            double value = (double)input[places[i] % (HEIGHT * WIDTH)][places[i] / (HEIGHT * WIDTH)];
            assert_true(fabs(value - (double)golden[g].input[i]) < 1e-6);
        }
        assert_memory_equal(classes, golden[g].classes, sizeof classes);
        assert_int_equal(counts, TARGETS);
        gp_dataset_close(&dataset);
        dataset = open_data(100, golden[g].seed, spec_of(GP_F32));
        assert_int_equal(fixture_sample(dataset, golden[g].sample, input, numbers, &counts, &err), GP_OK);
        for (int i = 0; i < 5; i++) assert_true(fabs((double)(numbers[i] - golden[g].numbers[i])) < 1e-7);
        assert_int_equal(counts, TARGETS);
        gp_dataset_close(&dataset);
    }
}

/* `take`, how many samples there are and which were read before change nothing. */
static void sample_is_a_function_of_its_place(void **state) {
    (void)state;
    float first[ELEMENTS], again[ELEMENTS];
    int64_t classes[TARGETS], classes_again[TARGETS], counts;
    gp_error err = {0};
    gp_sample_spec spec = spec_of(GP_I64);
    gp_dataset *dataset = open_data(UINT32_MAX, 5, spec);
    assert_int_equal(fixture_sample(dataset, 41, first, classes, &counts, &err), GP_OK);
    assert_int_equal(fixture_sample(dataset, 40, again, classes_again, &counts, &err), GP_OK);
    assert_memory_not_equal(first, again, sizeof first);
    gp_dataset_close(&dataset);
    gp_source_config source = {
        .kind = GP_SOURCE_SYNTHETIC, .samples = 50, .seed = 5, .take = true, .take_from = 40, .take_to = 50};
    assert_int_equal(gp_dataset_open(&source, &spec, &dataset, &err), GP_OK);
    assert_int_equal(gp_dataset_count(dataset), 10);
    assert_int_equal(fixture_sample(dataset, 1, again, classes_again, &counts, &err), GP_OK);
    assert_memory_equal(first, again, sizeof first);
    assert_memory_equal(classes, classes_again, sizeof classes);
    gp_dataset_close(&dataset);
}

static int compare_numbers(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* 10⁶ draws against the distribution (Kolmogorov–Smirnov: 1.95/√n is exceeded once in a thousand seeds; this is one).
 */
static void inputs_are_normal(void **state) {
    (void)state;
    enum { COUNT = 1000000 };
    gp_sample_spec spec = spec_of(GP_I64);
    spec.input = (gp_shape){1, {COUNT}};
    gp_dataset *dataset = open_data(1, 3, spec);
    float *input = malloc(COUNT * sizeof *input);
    int64_t classes[TARGETS], counts;
    gp_error err = {0};
    double sum = 0, squares = 0, far = 0;
    assert_non_null(input);
    assert_int_equal(fixture_sample(dataset, 0, input, classes, &counts, &err), GP_OK);
    qsort(input, COUNT, sizeof *input, compare_numbers);
    for (int i = 0; i < COUNT; i++) {
        double x = (double)input[i];
        sum += x;
        squares += x * x;
        far = fmax(far, fabs(0.5 * erfc(-x / sqrt(2)) - (i + 0.5) / COUNT));
    }
    assert_true(fabs(sum / COUNT) < 0.004);
    assert_true(fabs(squares / COUNT - 1) < 0.006);
    assert_true(far < 1.95 / 1000);
    assert_true((double)input[COUNT - 1] < 4.4);
    free(input);
    gp_dataset_close(&dataset);
}

static void classes_are_uniform(void **state) {
    (void)state;
    enum { COUNT = 100000 };
    static int64_t classes[COUNT];
    gp_sample_spec spec = spec_of(GP_I64);
    spec.target = (gp_shape){1, {COUNT}};
    gp_dataset *dataset = open_data(1, 3, spec);
    float input[ELEMENTS];
    int64_t seen[10] = {0}, counts;
    gp_error err = {0};
    assert_int_equal(fixture_sample(dataset, 0, input, classes, &counts, &err), GP_OK);
    for (int i = 0; i < COUNT; i++) seen[classes[i]]++;
    for (int c = 0; c < 10; c++) assert_in_range(seen[c], 10000 - 475, 10000 + 475); /* 5 standard deviations */
    gp_dataset_close(&dataset);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_samples),
        cmocka_unit_test(sample_is_a_function_of_its_place),
        cmocka_unit_test(inputs_are_normal),
        cmocka_unit_test(classes_are_uniform),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
