/* Transforms against torchvision's (tests/golden/make_transforms.py), and what their random numbers depend on. */
#include "data/dataset.h"

#include "data/fixture.h"

#include <math.h>
#include <unistd.h>

#include "data/safetensors.h"
#include "settings/config.h"

enum { SAMPLES = 4, CHANNELS = 3, HEIGHT = 9, WIDTH = 12, MOST = 16 * 17 * CHANNELS };
static const uint64_t golden_seed = (1ULL << 33) + 7;
static const int64_t golden_epoch = 3;
#define GOLDEN GP_TEST_SOURCE_DIR "/golden/transforms.safetensors"

/* As make_transforms.py has them, and what is left of a picture. */
static const struct {
    const char *transform;
    int64_t height, width;
} cases[] = {
    {"[center_crop: 4]", 4, 4},
    {"[center_crop: [4, 5]]", 4, 5},
    {"[center_crop: {size: [5, 7]}]", 5, 7},
    {"[center_crop: [6, 9]]", 6, 9},
    {"[center_crop: [12, 7]]", 12, 7},
    {"[center_crop: [14, 15]]", 14, 15},
    {"[center_crop: [3, 17]]", 3, 17},
    {"[center_crop: [9, 12]]", 9, 12},
    {"[pad: 2]", 13, 16},
    {"[pad: {pad: [1, 2], fill: 0.5}]", 13, 14},
    {"[pad: {pad: [1, 0, 3, 4], fill: [0.25, 0.5, 0.75]}]", 13, 16},
    {"[normalize: {mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}]", 9, 12},
    {"[normalize: {mean: 0.5, std: [0.3]}]", 9, 12},
    {"[random_horizontal_flip: 1]", 9, 12},
    {"[random_vertical_flip: {p: 1}]", 9, 12},
    {"[random_horizontal_flip: 0]", 9, 12},
    {"[random_horizontal_flip]", 9, 12},
    {"[random_vertical_flip: 0.4]", 9, 12},
    {"[random_crop: 5]", 5, 5},
    {"[random_crop: [9, 5]]", 9, 5},
    {"[random_crop: {size: [4, 12]}]", 4, 12},
    {"[random_crop: {size: [9, 12], pad: 4}]", 9, 12},
    {"[random_crop: {size: [7, 14], pad: [3, 1], fill: -1}]", 7, 14},
    {"[random_crop: {size: 11, pad: [0, 1, 2, 3], fill: [1, 2, 3]}]", 11, 11},
    {"[random_erasing: 1]", 9, 12},
    {"[random_erasing: {p: 0.5, scale: [0.1, 0.9], ratio: [0.2, 5], value: [1, 2, 3]}]", 9, 12},
    {"[random_erasing: {p: 1, scale: [0, 0.001], value: 7}]", 9, 12},
    {"[random_erasing: {p: 1, scale: [0.95, 1], ratio: [1, 1], value: 7}]", 9, 12},
    {"[random_crop: {size: 8, pad: 2}, random_horizontal_flip, random_vertical_flip, normalize: {mean: [0.5, 0.4, "
     "0.3], std: [0.2, 0.3, 0.4]}, random_erasing: {value: -1}, pad: 1, center_crop: [7, 9], random_horizontal_flip]",
     7, 9},
};
enum { CASES = sizeof cases / sizeof *cases };

/* A configuration whose training data are the golden pictures, so transformed. */
static gp_config *load(const char *transform, const char *take) {
    char text[2048];
    gp_config *config = NULL;
    gp_error err = {0};
    const char *path = fixture_path("t.yaml");
    int used = snprintf(text, sizeof text,
                        "model: {}\n"
                        "data: {train: {tensors: \"" GOLDEN "\", %s transform: %s}, batch: 1}\n"
                        "optimizer: {sgd: 1}\n"
                        "train: {steps: 1}\n",
                        take, transform);
    fixture_write(path, text, (size_t)used);
    gp_status status = gp_config_load(GP_TO_RUN, path, NULL, 0, &config, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(status, GP_OK);
    return config;
}

static gp_sample_spec spec_of(int64_t height, int64_t width, gp_dtype dtype) {
    return (gp_sample_spec){.input = {3, {CHANNELS, height, width}},
                            .input_dtype = dtype,
                            .target_dtype = GP_I64,
                            .classes = 1,
                            .ignore = -100};
}

static gp_dataset *open_data(const gp_config *config, gp_sample_spec spec) {
    gp_dataset *dataset = NULL;
    gp_error err = {0};
    gp_status status = gp_dataset_open(&config->data.train, &spec, &dataset, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(status, GP_OK);
    return dataset;
}

static void read_sample(const gp_dataset *dataset, gp_sample_key key, void *input) {
    int64_t target, counts;
    gp_error err = {0};
    void *scratch = malloc(gp_dataset_scratch(dataset));
    assert_non_null(scratch);
    assert_int_equal(gp_dataset_read(dataset, key, scratch, input, &target, &counts, &err), GP_OK);
    free(scratch);
}

/* The values in torchvision's order [C,h,w] against ours [h,w,C]: to the bit. */
static void compare(int number, int sample, const float *ours, const float *theirs) {
    int64_t height = cases[number].height, width = cases[number].width;
    for (int64_t c = 0; c < CHANNELS; c++)
        for (int64_t y = 0; y < height; y++)
            for (int64_t x = 0; x < width; x++) {
                float one = ours[(y * width + x) * CHANNELS + c], other = theirs[(c * height + y) * width + x];
                if (one != other)
                    fail_msg("%s: sample %d, channel %d, row %d, column %d: %.9g, but torchvision's is %.9g",
                             cases[number].transform, sample, (int)c, (int)y, (int)x, (double)one, (double)other);
            }
}

static void golden_pictures(void **state) {
    (void)state;
    gp_safetensors *file = NULL;
    gp_error err = {0};
    assert_int_equal(gp_safetensors_open(GOLDEN, &file, &err), GP_OK);
    assert_int_equal(gp_safetensors_count(file), CASES + 2);
    for (int i = 0; i < CASES; i++) {
        char name[16];
        gp_config *config = load(cases[i].transform, "");
        gp_dataset *dataset = open_data(config, spec_of(cases[i].height, cases[i].width, GP_F32));
        snprintf(name, sizeof name, "case%02d", i);
        const gp_safetensor *tensor = gp_safetensors_find(file, name);
        size_t bytes = (size_t)(cases[i].height * cases[i].width * CHANNELS) * sizeof(float);
        assert_non_null(tensor);
        assert_int_equal(tensor->end - tensor->begin, SAMPLES * bytes);
        for (int n = 0; n < SAMPLES; n++) {
            float ours[MOST], theirs[MOST];
            gp_sample_key key = {.index = n, .epoch = golden_epoch, .seed = golden_seed};
            read_sample(dataset, key, ours);
            assert_int_equal(gp_safetensors_read(file, tensor, (uint64_t)n * bytes, bytes, theirs, &err), GP_OK);
            compare(i, n, ours, theirs);
        }
        gp_dataset_close(&dataset);
        gp_config_destroy(&config);
    }
    gp_safetensors_close(&file);
}

static const char much[] = "[random_crop: {size: [9, 12], pad: 3}, random_horizontal_flip, random_erasing: 0.8]";

static gp_sample_key key_of(int64_t index, int64_t epoch, uint64_t seed) {
    return (gp_sample_key){.index = index, .epoch = epoch, .seed = seed};
}

/* The place in the file decides, not what `take` leaves; every epoch and seed draws anew; F64 is F32 made wide. */
static void draws_depend_on_seed_epoch_and_place(void **state) {
    (void)state;
    static float one[MOST], other[MOST];
    static double wide[MOST];
    enum { BYTES = CHANNELS * HEIGHT * WIDTH * sizeof(float) };
    gp_config *all = load(much, ""), *some = load(much, "take: [2, 4],");
    gp_dataset *whole = open_data(all, spec_of(HEIGHT, WIDTH, GP_F32));
    gp_dataset *part = open_data(some, spec_of(HEIGHT, WIDTH, GP_F32));
    gp_dataset *f64 = open_data(all, spec_of(HEIGHT, WIDTH, GP_F64));
    read_sample(whole, key_of(3, 5, 7), one);
    read_sample(part, key_of(1, 5, 7), other);
    assert_memory_equal(one, other, BYTES);
    read_sample(whole, key_of(3, 6, 7), other);
    assert_memory_not_equal(one, other, BYTES);
    read_sample(whole, key_of(3, 5, 8), other);
    assert_memory_not_equal(one, other, BYTES);
    read_sample(f64, key_of(3, 5, 7), wide);
    for (int i = 0; i < CHANNELS * HEIGHT * WIDTH; i++) assert_true(wide[i] == (double)one[i]);
    gp_dataset_close(&whole);
    gp_dataset_close(&part);
    gp_dataset_close(&f64);
    gp_config_destroy(&all);
    gp_config_destroy(&some);
}

/* Each entry of the list has numbers of its own: two flips in a row are not one that undoes the other. */
static void entries_draw_apart(void **state) {
    (void)state;
    gp_config *twice = load("[random_horizontal_flip, random_horizontal_flip]", "");
    gp_config *none = load("[]", "");
    gp_dataset *flipped = open_data(twice, spec_of(HEIGHT, WIDTH, GP_F32));
    gp_dataset *plain = open_data(none, spec_of(HEIGHT, WIDTH, GP_F32));
    float one[MOST], other[MOST];
    int same = 0;
    for (int epoch = 1; epoch <= 400; epoch++) {
        read_sample(flipped, key_of(0, epoch, 1), one);
        read_sample(plain, key_of(0, epoch, 1), other);
        same += memcmp(one, other, CHANNELS * HEIGHT * WIDTH * sizeof(float)) == 0;
    }
    assert_in_range(same, 150, 250); /* 5 standard deviations */
    gp_dataset_close(&flipped);
    gp_dataset_close(&plain);
    gp_config_destroy(&twice);
    gp_config_destroy(&none);
}

/* Every place that a crop may begin at is met, and none is met much more often. */
static void crops_are_uniform(void **state) {
    (void)state;
    enum { DRAWS = 9000, PLACES = 9 };
    gp_config *config = load("[random_crop: [7, 10]]", ""), *none = load("[]", "");
    gp_dataset *cropped = open_data(config, spec_of(7, 10, GP_F32));
    gp_dataset *plain = open_data(none, spec_of(HEIGHT, WIDTH, GP_F32));
    float crop[MOST], whole[MOST];
    int seen[PLACES] = {0};
    read_sample(plain, key_of(0, 1, 1), whole);
    for (int epoch = 1; epoch <= DRAWS; epoch++) {
        read_sample(cropped, key_of(0, epoch, 1), crop);
        for (int place = 0; place < PLACES; place++) {
            const float *at = whole + (place / 3 * WIDTH + place % 3) * CHANNELS;
            if (memcmp(at, crop, 10 * CHANNELS * sizeof *at) == 0) seen[place]++;
        }
    }
    for (int place = 0; place < PLACES; place++) assert_in_range(seen[place], 1000 - 150, 1000 + 150);
    gp_dataset_close(&cropped);
    gp_dataset_close(&plain);
    gp_config_destroy(&config);
    gp_config_destroy(&none);
}

/* Pictures whose first channel numbers their pixels, and targets made of the same numbers. */
enum { PIXELS = 5 * 7, MAPS = 3, KINDS = 6, WIDEST = 16 * 16 };

typedef struct pictured {
    float x[MAPS][2][PIXELS];
    int64_t classes[MAPS][PIXELS];
} pictured;

static pictured draw_maps(void) {
    pictured out;
    for (int n = 0; n < MAPS; n++)
        for (int p = 0; p < PIXELS; p++) {
            out.x[n][0][p] = (float)(n * PIXELS + p + 1);
            out.x[n][1][p] = -out.x[n][0][p];
            out.classes[n][p] = (n * PIXELS + p + 1) % KINDS;
        }
    return out;
}

/* A dataset of these pictures and a target of one kind, so transformed. NULL: `err` says why not. */
static gp_dataset *open_maps(const char *transform, gp_dtype dtype, gp_shape target, const void *y, gp_sample_spec spec,
                             gp_error *err) {
    static pictured maps;
    gp_dataset *dataset = NULL;
    const char *path = fixture_path("maps");
    gp_safetensors_item items[] = {{.name = "x", .dtype = GP_F32, .rank = 4, .dim = {MAPS, 2, 5, 7}, .data = maps.x},
                                   {.name = "y", .dtype = dtype, .rank = 1 + target.rank, .dim = {MAPS}, .data = y}};
    maps = draw_maps();
    for (int d = 0; d < target.rank; d++) items[1].dim[1 + d] = target.dim[d];
    assert_int_equal(gp_safetensors_write(path, items, 2, NULL, err), GP_OK);
    gp_config *config = load(transform, "");
    gp_source_config source = config->data.train;
    source.file = (char *)(uintptr_t)path;
    if (gp_dataset_open(&source, &spec, &dataset, err) != GP_OK) assert_null(dataset);
    gp_config_destroy(&config);
    return dataset;
}

static const struct {
    const char *transform; /* pads with −9, erases with −8 */
    int64_t height, width;
    bool pads;
} moving[] = {
    {"[random_horizontal_flip: 1]", 5, 7, false},
    {"[random_vertical_flip, random_horizontal_flip]", 5, 7, false},
    {"[random_crop: [3, 4]]", 3, 4, false},
    {"[random_crop: {size: [5, 7], pad: 2, fill: -9}]", 5, 7, true},
    {"[random_crop: {size: [6, 3], pad: [0, 1, 2, 3], fill: -9}, random_erasing: {value: -8}]", 6, 3, true},
    {"[center_crop: [4, 5]]", 4, 5, false},
    {"[pad: {pad: [1, 2, 3, 0], fill: -9}, random_vertical_flip, random_crop: 6, random_horizontal_flip]", 6, 6, true},
    {"[normalize: {mean: 0, std: 1}, random_erasing: {p: 1, value: -8}]", 5, 7, false},
};
enum { MOVING = sizeof moving / sizeof *moving };

/* Classes follow the pixels that they were given for, from whichever of the two is read; padded ones are ignored. */
static void classes_move_with_their_pictures(void **state) {
    (void)state;
    enum { IGNORE = -7 };
    pictured maps = draw_maps();
    for (int i = 0; i < MOVING; i++) {
        int64_t elements = moving[i].height * moving[i].width;
        gp_error err = {0};
        gp_sample_spec spec = {.input = {3, {2, moving[i].height, moving[i].width}},
                               .input_dtype = GP_F32,
                               .target = {2, {moving[i].height, moving[i].width}},
                               .target_dtype = GP_I64,
                               .classes = KINDS,
                               .ignore = IGNORE};
        gp_dataset *dataset = open_maps(moving[i].transform, GP_I64, (gp_shape){2, {5, 7}}, maps.classes, spec, &err);
        assert_string_equal(err.text, "");
        assert_int_equal(gp_dataset_counts(dataset), moving[i].pads ? -1 : elements);
        char *scratch = malloc(gp_dataset_scratch(dataset));
        for (int round = 0; round < 20 * MAPS; round++) {
            gp_sample_key key = key_of(round % MAPS, 1 + round / MAPS, 11);
            float x[WIDEST * 2];
            int64_t y[WIDEST], alone[WIDEST], counts, counted = 0;
            assert_int_equal(gp_dataset_read(dataset, key, scratch, x, y, &counts, &err), GP_OK);
            for (int64_t p = 0; p < elements; p++) {
                int64_t number = (int64_t)x[2 * p];
                counted += y[p] != IGNORE;
                if (number != -8 && y[p] != (number == -9 ? IGNORE : number % KINDS))
                    fail_msg("%s: epoch %d, pixel %d has the number %d and the class %d", moving[i].transform,
                             (int)key.epoch, (int)p, (int)number, (int)y[p]);
            }
            assert_int_equal(counts, counted);
            assert_int_equal(gp_dataset_read(dataset, key, scratch, NULL, alone, &counts, &err), GP_OK);
            assert_memory_equal(alone, y, (size_t)elements * sizeof *y);
            assert_int_equal(counts, counted);
        }
        free(scratch);
        gp_dataset_close(&dataset);
    }
}

/* Numbers, with channels or without, are those of the picture wherever this is moved. */
static void numbers_move_with_their_pictures(void **state) {
    (void)state;
    pictured maps = draw_maps();
    float plane[MAPS][PIXELS];
    for (int n = 0; n < MAPS; n++) memcpy(plane[n], maps.x[n][0], sizeof plane[n]);
    for (int i = 0; i < 2 * MOVING; i++) {
        int its = i / 2, channels = 1 + i % 2;
        gp_shape drawn = {2, {5, 7}}, left = {2, {moving[its].height, moving[its].width}};
        gp_error err = {0};
        if (moving[its].pads) continue;
        if (channels == 2) {
            drawn = (gp_shape){3, {2, 5, 7}};
            left = (gp_shape){3, {2, left.dim[0], left.dim[1]}};
        }
        int64_t elements = moving[its].height * moving[its].width;
        gp_sample_spec spec = {.input = {3, {2, moving[its].height, moving[its].width}},
                               .input_dtype = GP_F32,
                               .target = left,
                               .target_dtype = GP_F32};
        gp_dataset *dataset =
            open_maps(moving[its].transform, GP_F32, drawn, channels == 2 ? (const void *)maps.x : plane, spec, &err);
        assert_string_equal(err.text, "");
        assert_int_equal(gp_dataset_counts(dataset), elements * channels);
        char *scratch = malloc(gp_dataset_scratch(dataset));
        for (int round = 0; round < 20 * MAPS; round++) {
            float x[WIDEST * 2], y[WIDEST * 2];
            int64_t counts;
            gp_sample_key key = key_of(round % MAPS, 1 + round / MAPS, 11);
            assert_int_equal(gp_dataset_read(dataset, key, scratch, x, y, &counts, &err), GP_OK);
            assert_int_equal(counts, elements * channels);
            for (int64_t p = 0; p < elements; p++)
                for (int c = 0; c < channels; c++)
                    assert_true(x[2 * p + c] == -8 || x[2 * p + c] == y[p * channels + c]);
        }
        free(scratch);
        gp_dataset_close(&dataset);
    }
}

/* Targets that belong to no pixel stay; those that do and cannot move are refused. */
static void targets_of_other_shapes(void **state) {
    (void)state;
    static const char flip[] = "[normalize: {mean: 0, std: 1}, random_vertical_flip: 0.1]";
    static const float numbers[MAPS * 70];
    static const int64_t classes[MAPS * 70];
    static const struct {
        const char *transform;
        gp_dtype dtype;
        gp_shape target;
        const char *message; /* with the column in the list, and %s for the file. NULL: they are taken */
    } cases_of[] = {
        {flip, GP_I64, {0}, NULL},
        {flip, GP_I64, {2, {1, 1}}, NULL},
        {flip, GP_F32, {1, {10}}, NULL},
        {flip, GP_F32, {3, {10, 1, 1}}, NULL},
        {flip, GP_F32, {1, {1}}, NULL},
        {"[normalize: {mean: 0, std: 1}, random_erasing, random_vertical_flip: 0, pad: 0]", GP_I64, {2, {3, 4}}, NULL},
        {flip,
         GP_I64,
         {2, {3, 4}},
         "32: random_vertical_flip: it moves the pictures of %s, which are [2, 5, 7], but targets [3, 4] cannot move "
         "with them: give targets of 5x7, or leave out random_vertical_flip"},
        {"[center_crop: [5, 7], random_crop: {size: [5, 7], pad: 1}]",
         GP_F32,
         {3, {1, 3, 4}},
         "23: random_crop: it moves the pictures of %s, which are [2, 5, 7], but targets [1, 3, 4] cannot move with "
         "them: give targets of 5x7, or leave out random_crop"},
        {flip,
         GP_F32,
         {1, {35}},
         "32: random_vertical_flip: it moves the pictures of %s, which are [2, 5, 7], but targets [35] cannot move "
         "with them: give targets of 5x7, or leave out random_vertical_flip"},
        {flip,
         GP_F32,
         {1, {70}},
         "32: random_vertical_flip: it moves the pictures of %s, which are [2, 5, 7], but targets [70] cannot move "
         "with them: give targets of 5x7, or leave out random_vertical_flip"},
        {"[random_horizontal_flip, random_crop: {size: [5, 7], pad: 1}]",
         GP_F32,
         {3, {2, 5, 7}},
         "26: random_crop: it pads the pictures of %s, and the targets [2, 5, 7], which are numbers, move with them: "
         "no number says that a padded pixel does not count; take a transform that does not pad"},
        {"[pad: 1, center_crop: [5, 7]]",
         GP_F32,
         {2, {5, 7}},
         "2: pad: it pads the pictures of %s, and the targets [5, 7], which are numbers, move with them: no number "
         "says that a padded pixel does not count; take a transform that does not pad"},
    };
    for (size_t i = 0; i < sizeof cases_of / sizeof *cases_of; i++) {
        gp_error err = {0};
        gp_sample_spec spec = {.input = {3, {2, 5, 7}},
                               .input_dtype = GP_F32,
                               .target = cases_of[i].target,
                               .target_dtype = cases_of[i].dtype,
                               .classes = 1};
        gp_dataset *dataset = open_maps(cases_of[i].transform, cases_of[i].dtype, cases_of[i].target,
                                        cases_of[i].dtype == GP_I64 ? (const void *)classes : numbers, spec, &err);
        if (cases_of[i].message) {
            char message[512];
            char *at = message + sprintf(message, "%s:2:", fixture_path("t.yaml"));
            at += sprintf(at, "%d",
                          (int)strlen("data: {train: {tensors: \"" GOLDEN "\",  transform: ") +
                              atoi(cases_of[i].message));
            const char *rest = strchr(cases_of[i].message, ':'), *file = strstr(rest, "%s");
            sprintf(at, "%.*s%s%s", (int)(file - rest), rest, fixture_path("maps"), file + 2);
            assert_string_equal(err.text, message);
        } else {
            assert_string_equal(err.text, "");
        }
        gp_dataset_close(&dataset);
    }
}

/* What cannot be is found when the data are opened, and says where in the configuration. */
static void refuses_what_does_not_fit(void **state) {
    (void)state;
    static const struct {
        const char *transform, *message;
    } wrong[] = {
        {"[random_crop: [10, 12]]", "random_crop: a crop of 10x12 is larger than the picture of 9x12"},
        {"[random_crop: {size: 14, pad: 2}]",
         "random_crop: a crop of 14x14 is larger than the padded picture of 13x16"},
        {"[pad: {pad: 1, fill: [1, 2]}]",
         "pad: fill has 2 values for pictures of 3 channels: one for each, or one for all"},
        {"[normalize: {mean: [1, 2, 3, 4], std: 1}]",
         "normalize: mean has 4 values for pictures of 3 channels: one for each, or one for all"},
        {"[normalize: {mean: 0, std: [1, 2]}]",
         "normalize: std has 2 values for pictures of 3 channels: one for each, or one for all"},
        {"[random_erasing: {value: [1, 2]}]",
         "random_erasing: value has 2 values for pictures of 3 channels: one for each, or one for all"},
    };
    int column = (int)strlen("data: {train: {tensors: \"" GOLDEN "\",  transform: [") + 1;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        gp_config *config = load(wrong[i].transform, "");
        gp_sample_spec spec = spec_of(HEIGHT, WIDTH, GP_F32);
        gp_dataset *dataset = NULL;
        gp_error err = {0};
        char message[512];
        snprintf(message, sizeof message, ":2:%d: %s", column, wrong[i].message);
        fixture_expect(gp_dataset_open(&config->data.train, &spec, &dataset, &err), GP_CONFIG, &err, config->path,
                       message);
        gp_config_destroy(&config);
    }
}

static void refuses_other_shapes(void **state) {
    (void)state;
    gp_config *config = load("[random_crop: 8]", "");
    gp_sample_spec spec = spec_of(HEIGHT, WIDTH, GP_F32);
    gp_dataset *dataset = NULL;
    gp_error err = {0};
    assert_int_equal(gp_dataset_open(&config->data.train, &spec, &dataset, &err), GP_CONFIG);
    assert_non_null(strstr(err.text, "transforms.safetensors are [3, 8, 8] after the transforms, but the model's input "
                                     "is [3, 9, 12]"));
    gp_config_destroy(&config);
    /* Pictures with the channels last. */
    static const float last[8 * 9 * 3];
    static const int64_t one;
    const gp_safetensors_item pictures[] = {
        {.name = "x", .dtype = GP_F32, .rank = 4, .dim = {1, 8, 9, 3}, .data = last},
        {.name = "y", .dtype = GP_I64, .rank = 1, .dim = {1}, .data = &one}};
    const char *wrong[][2] = {
        {"[random_crop: {size: [8, 9], pad: 2}]",
         "random_crop: a crop of 8x9 is larger than the padded picture of 13x7; samples [8, 9, 3] look as if channels "
         "came last; they come first: x.permute(0, 3, 1, 2).contiguous()"},
        {"[normalize: {mean: [0, 0, 0], std: 1}]",
         "normalize: mean has 3 values for pictures of 8 channels: one for each, or one for all; samples [8, 9, 3] "
         "look as if channels came last; they come first: x.permute(0, 3, 1, 2).contiguous()"},
        {"[random_horizontal_flip]",
         "are [8, 9, 3] after the transforms, but the model's input is [3, 8, 9]; channels come first: x.permute(0, 3, "
         "1, 2).contiguous()"},
    };
    const char *path = fixture_path("last");
    assert_int_equal(gp_safetensors_write(path, pictures, 2, NULL, &err), GP_OK);
    spec.input = (gp_shape){3, {3, 8, 9}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        config = load(wrong[i][0], "");
        gp_source_config source = config->data.train;
        source.file = (char *)(uintptr_t)path;
        assert_int_equal(gp_dataset_open(&source, &spec, &dataset, &err), GP_CONFIG);
        if (!strstr(err.text, wrong[i][1])) fail_msg("%s", err.text);
        gp_config_destroy(&config);
    }
    /* Rows have no height and width. */
    static const float x[2][5];
    static const int64_t y[2];
    const gp_safetensors_item items[] = {{.name = "x", .dtype = GP_F32, .rank = 2, .dim = {2, 5}, .data = x},
                                         {.name = "y", .dtype = GP_I64, .rank = 1, .dim = {2}, .data = y}};
    path = fixture_path("rows");
    assert_int_equal(gp_safetensors_write(path, items, 2, NULL, &err), GP_OK);
    config = load("[random_horizontal_flip]", "");
    gp_source_config source = config->data.train;
    char message[512];
    source.file = (char *)(uintptr_t)path;
    spec.input = (gp_shape){1, {5}};
    snprintf(message, sizeof message, "transform: takes pictures [C, height, width], but the samples of %s are [5]",
             path);
    assert_int_equal(gp_dataset_open(&source, &spec, &dataset, &err), GP_CONFIG);
    assert_non_null(strstr(err.text, message));
    gp_config_destroy(&config);
}

/* MNIST's pictures are transformed as pictures, whatever the model then takes them for. */
static void transforms_idx_before_it_is_a_vector(void **state) {
    (void)state;
    static const unsigned char images[] = {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 51, 102, 153, 204, 255};
    static const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 1, 0};
    const char *paths[2] = {fixture_path("i"), fixture_path("l")};
    gp_config *config = load("[random_horizontal_flip: 1, normalize: {mean: 1, std: 2}]", "");
    gp_source_config source = {.kind = GP_SOURCE_IDX,
                               .images = (char *)(uintptr_t)paths[0],
                               .labels = (char *)(uintptr_t)paths[1],
                               .transforms = config->data.train.transforms,
                               .transform_count = config->data.train.transform_count};
    gp_sample_spec spec = spec_of(1, 1, GP_F32);
    gp_dataset *dataset = NULL;
    gp_error err = {0};
    float input[6];
    static const float bytes[6] = {102, 51, 0, 255, 204, 153};
    spec.input = (gp_shape){1, {6}};
    fixture_write(paths[0], images, sizeof images);
    fixture_write(paths[1], labels, sizeof labels);
    assert_int_equal(gp_dataset_open(&source, &spec, &dataset, &err), GP_OK);
    read_sample(dataset, key_of(0, 1, 1), input);
    for (int i = 0; i < 6; i++) assert_true(input[i] == (bytes[i] / 255 - 1) / 2);
    gp_dataset_close(&dataset);
    gp_config_destroy(&config);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_pictures),
        cmocka_unit_test(draws_depend_on_seed_epoch_and_place),
        cmocka_unit_test(entries_draw_apart),
        cmocka_unit_test(crops_are_uniform),
        cmocka_unit_test(classes_move_with_their_pictures),
        cmocka_unit_test(numbers_move_with_their_pictures),
        cmocka_unit_test(targets_of_other_shapes),
        cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test(refuses_other_shapes),
        cmocka_unit_test(transforms_idx_before_it_is_a_vector),
    };
    return cmocka_run_group_tests(tests, fixture_make, fixture_remove);
}
