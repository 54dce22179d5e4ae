#include "data/loader.h"

#include "data/fixture.h"

#include <pthread.h>
#include <sched.h>

#include "base/philox.h"
#include "data/safetensors.h"
#include "threads.h"

enum { SAMPLES = 23, WIDTH = 3 };

/* A data set of SAMPLES samples: sample n is [n, n + 0.25, n + 0.5], its class n, every fifth ignored. */
static const char *data_path;

static const gp_sample_spec spec = {
    .input = {1, {WIDTH}}, .input_dtype = GP_F32, .target_dtype = GP_I64, .classes = SAMPLES, .ignore = -100};

static const gp_sample_spec pictures_spec = {
    .input = {3, {3, 9, 9}}, .input_dtype = GP_F32, .target_dtype = GP_I64, .classes = 7, .ignore = -100};

/* All tests run with one thread, then with more: nothing may change. */
static int threads;

static gp_loader_options usual_options(void) {
    return (gp_loader_options){
        .batch = 5, .shuffle = true, .seed = 1, .first_epoch = 1, .epochs = 2, .depth = 2, .threads = threads};
}

static gp_dataset *open_data(const char *name) {
    float x[SAMPLES][WIDTH];
    int64_t y[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        for (int j = 0; j < WIDTH; j++) x[i][j] = (float)i + 0.25F * (float)j;
        y[i] = i % 5 == 0 ? -100 : i;
    }
    const gp_safetensors_item items[] = {
        {.name = "y", .dtype = GP_I64, .rank = 1, .dim = {SAMPLES}, .data = y},
        {.name = "x", .dtype = GP_F32, .rank = 2, .dim = {SAMPLES, WIDTH}, .data = x},
    };
    gp_dataset *dataset = NULL;
    gp_error err = {0};
    data_path = fixture_path(name);
    gp_source_config source = {.kind = GP_SOURCE_TENSORS, .file = (char *)(uintptr_t)data_path};
    assert_int_equal(gp_safetensors_write(data_path, items, 2, NULL, &err), GP_OK);
    assert_int_equal(gp_dataset_open(&source, &spec, &dataset, &err), GP_OK);
    return dataset;
}

static gp_loader *create(gp_dataset *dataset, gp_loader_options options) {
    gp_loader *loader = NULL;
    gp_error err = {0};
    gp_status status = gp_loader_create(dataset, &spec, &options, &loader, &err);
    assert_string_equal(err.text, "");
    assert_int_equal(status, GP_OK);
    return loader;
}

/* The samples of a mini-batch, read off their values, after checking all that the mini-batch says of them. */
static int64_t check_batch(const gp_batch *batch, int64_t *samples) {
    const float(*input)[WIDTH] = batch->input;
    const int64_t *target = batch->target;
    int64_t counts = 0;
    for (int64_t i = 0; i < batch->samples; i++) {
        samples[i] = (int64_t)input[i][0];
        for (int j = 0; j < WIDTH; j++) assert_true(input[i][j] == (float)samples[i] + 0.25F * (float)j);
        assert_int_equal(target[i], samples[i] % 5 == 0 ? -100 : samples[i]);
        counts += samples[i] % 5 != 0;
    }
    assert_int_equal(batch->counts, counts);
    return batch->samples;
}

enum { MOST = 4 * SAMPLES };
typedef struct sequence {
    int64_t samples[MOST], sizes[MOST], epochs[MOST], indices[MOST];
    int64_t sample_count, batch_count;
} sequence;

/* Everything that a loader gives, until its end or until `batches`. */
static sequence read_all(gp_dataset *dataset, gp_loader_options options, int64_t batches) {
    sequence all = {.sample_count = 0};
    gp_loader *loader = create(dataset, options);
    gp_error err = {0};
    while (all.batch_count < batches) {
        const gp_batch *batch = NULL;
        assert_int_equal(gp_loader_take(loader, &batch, &err), GP_OK);
        if (!batch) break;
        assert_true(all.sample_count + batch->samples <= MOST);
        all.sizes[all.batch_count] = batch->samples;
        all.epochs[all.batch_count] = batch->epoch;
        all.indices[all.batch_count++] = batch->index;
        all.sample_count += check_batch(batch, all.samples + all.sample_count);
    }
    gp_loader_destroy(&loader);
    assert_null(loader);
    return all;
}

static void assert_permutation(const int64_t *samples, int64_t count) {
    bool seen[SAMPLES] = {false};
    for (int64_t i = 0; i < count; i++) {
        assert_in_range(samples[i], 0, SAMPLES - 1);
        assert_false(seen[samples[i]]);
        seen[samples[i]] = true;
    }
}

static void each_sample_once_per_epoch(void **state) {
    (void)state;
    gp_dataset *dataset = open_data("once");
    for (int depth = 1; depth < 5; depth++) {
        gp_loader_options options = usual_options();
        options.depth = depth;
        sequence all = read_all(dataset, options, MOST);
        assert_int_equal(all.sample_count, 2 * SAMPLES);
        assert_int_equal(all.batch_count, 10);
        for (int i = 0; i < 10; i++) {
            assert_int_equal(all.sizes[i], i % 5 == 4 ? 3 : 5);
            assert_int_equal(all.epochs[i], 1 + i / 5);
            assert_int_equal(all.indices[i], i % 5);
        }
        int64_t order[SAMPLES];
        for (int epoch = 0; epoch < 2; epoch++) {
            assert_permutation(all.samples + epoch * SAMPLES, SAMPLES);
            gp_loader_order(1, epoch + 1, SAMPLES, order);
            assert_memory_equal(all.samples + epoch * SAMPLES, order, sizeof order);
        }
        assert_memory_not_equal(all.samples, all.samples + SAMPLES, sizeof order);
    }
    gp_dataset_close(&dataset);
}

static void file_order_without_shuffling(void **state) {
    (void)state;
    gp_dataset *dataset = open_data("file");
    gp_loader_options options = usual_options();
    options.shuffle = false;
    sequence all = read_all(dataset, options, MOST);
    for (int64_t i = 0; i < 2 * SAMPLES; i++) assert_int_equal(all.samples[i], i % SAMPLES);
    gp_dataset_close(&dataset);
}

/* While the ring is read as far as it goes. */
static void held_mini_batches_stay(void **state) {
    (void)state;
    gp_dataset *dataset = open_data("held");
    for (int held = 1; held <= 3; held++) {
        gp_loader_options options = usual_options();
        options.shuffle = false;
        options.held = held;
        gp_loader *loader = create(dataset, options);
        const gp_batch *batch[10];
        gp_error err = {0};
        for (int i = 0; i < 10; i++) {
            while (!gp_loader_ready(loader)) usleep(100);
            assert_int_equal(gp_loader_take(loader, &batch[i], &err), GP_OK);
            usleep(2000);
            for (int k = i; k >= 0 && k > i - held; k--) {
                int64_t samples[5];
                assert_int_equal(batch[k]->index, k % 5);
                assert_int_equal(check_batch(batch[k], samples), k % 5 == 4 ? 3 : 5);
                assert_int_equal(samples[0], k % 5 * 5);
            }
        }
        assert_true(gp_loader_ready(loader)); /* to say that there is no more */
        gp_loader_destroy(&loader);
    }
    gp_dataset_close(&dataset);
}

static void drops_the_last(void **state) {
    (void)state;
    gp_dataset *dataset = open_data("drop");
    gp_loader_options options = usual_options();
    options.drop_last = true;
    sequence all = read_all(dataset, options, MOST);
    assert_int_equal(all.batch_count, 8);
    for (int i = 0; i < 8; i++) assert_int_equal(all.sizes[i], 5);
    assert_permutation(all.samples, 20);
    assert_permutation(all.samples + 20, 20);
    assert_int_equal(all.epochs[4], 2);
    options.batch = SAMPLES + 1;
    gp_loader *loader = NULL;
    gp_error err = {0};
    fixture_expect(
        gp_loader_create(dataset, &spec, &options, &loader, &err), GP_CONFIG, &err,
        "the data set has 23 samples, a mini-batch has 24, and drop_last leaves out smaller ones, so none is "
        "left: lower data.batch",
        "");
    assert_null(loader);
    options.drop_last = false;
    all = read_all(dataset, options, MOST);
    assert_int_equal(all.batch_count, 2);
    assert_int_equal(all.sizes[0], SAMPLES);
    gp_dataset_close(&dataset);
}

static void counts_batches(void **state) {
    (void)state;
    assert_int_equal(gp_loader_batches(23, 5, false), 5);
    assert_int_equal(gp_loader_batches(23, 5, true), 4);
    assert_int_equal(gp_loader_batches(25, 5, false), 5);
    assert_int_equal(gp_loader_batches(25, 5, true), 5);
    assert_int_equal(gp_loader_batches(3, 5, false), 1);
    assert_int_equal(gp_loader_batches(3, 5, true), 0);
}

/* Resuming after any mini-batch gives what would have come. */
static void resumes_anywhere(void **state) {
    (void)state;
    gp_dataset *dataset = open_data("resume");
    gp_loader_options options = usual_options();
    options.epochs = 3;
    sequence all = read_all(dataset, options, MOST);
    assert_int_equal(all.batch_count, 15);
    int64_t done = 0;
    for (int64_t taken = 0; taken < 15; taken++) {
        gp_loader_options resumed = options;
        resumed.first_epoch = 1 + taken / 5;
        resumed.first_sample = taken % 5 * options.batch;
        resumed.epochs = 3 - taken / 5;
        sequence rest = read_all(dataset, resumed, MOST);
        assert_int_equal(rest.sample_count, all.sample_count - done);
        assert_int_equal(rest.batch_count, 15 - taken);
        assert_memory_equal(rest.samples, all.samples + done, (size_t)rest.sample_count * sizeof(int64_t));
        assert_memory_equal(rest.epochs, all.epochs + taken, (size_t)rest.batch_count * sizeof(int64_t));
        done += all.sizes[taken];
    }
    gp_dataset_close(&dataset);
}

/* Another size of mini-batch takes the samples of the same order, from any of them on. */
static void begins_within_an_epoch(void **state) {
    (void)state;
    gp_dataset *dataset = open_data("within");
    gp_loader_options options = usual_options();
    sequence all = read_all(dataset, options, MOST);
    for (int64_t first = 0; first < SAMPLES; first++) {
        for (int64_t batch = 1; batch <= SAMPLES + 1; batch += 5) {
            gp_loader_options other = options;
            other.first_sample = first;
            other.batch = batch;
            sequence rest = read_all(dataset, other, MOST);
            assert_int_equal(rest.sample_count, 2 * SAMPLES - first);
            assert_memory_equal(rest.samples, all.samples + first, (size_t)rest.sample_count * sizeof(int64_t));
            int64_t head = gp_loader_batches(SAMPLES - first, batch, false);
            assert_int_equal(rest.batch_count, head + gp_loader_batches(SAMPLES, batch, false));
            for (int64_t b = 0; b < rest.batch_count; b++) assert_int_equal(rest.epochs[b], b < head ? 1 : 2);
            other.drop_last = true;
            if (batch > SAMPLES) continue;
            rest = read_all(dataset, other, MOST);
            assert_int_equal(rest.sample_count, ((SAMPLES - first) / batch + SAMPLES / batch) * batch);
        }
    }
    gp_dataset_close(&dataset);
}

static void goes_on_without_end(void **state) {
    (void)state;
    gp_dataset *dataset = open_data("endless");
    gp_loader_options options = usual_options();
    options.epochs = 0;
    options.first_epoch = 7;
    sequence all = read_all(dataset, options, 17);
    assert_int_equal(all.batch_count, 17);
    assert_int_equal(all.epochs[0], 7);
    assert_int_equal(all.epochs[16], 10);
    gp_dataset_close(&dataset);
}

static void the_end_stays_the_end(void **state) {
    (void)state;
    gp_dataset *dataset = open_data("end");
    gp_loader_options options = usual_options();
    options.epochs = 1;
    options.batch = SAMPLES;
    gp_loader *loader = create(dataset, options);
    const gp_batch *batch = NULL;
    gp_error err = {0};
    assert_int_equal(gp_loader_take(loader, &batch, &err), GP_OK);
    assert_non_null(batch);
    for (int i = 0; i < 3; i++) {
        batch = (const gp_batch *)&err;
        assert_int_equal(gp_loader_take(loader, &batch, &err), GP_OK);
        assert_null(batch);
    }
    gp_loader_destroy(&loader);
    gp_loader_destroy(&loader);
    gp_dataset_close(&dataset);
}

/* A mini-batch stays as it is while later ones are prefetched, until the next is taken. */
static void batch_stays_until_the_next(void **state) {
    (void)state;
    gp_dataset *dataset = open_data("stays");
    gp_loader_options options = usual_options();
    options.depth = 1;
    options.epochs = 40;
    gp_loader *loader = create(dataset, options);
    gp_error err = {0};
    for (int i = 0; i < 200; i++) {
        int64_t first[5], again[5];
        const gp_batch *batch = NULL;
        assert_int_equal(gp_loader_take(loader, &batch, &err), GP_OK);
        int64_t samples = check_batch(batch, first);
        if (i % 20 == 0) usleep(1000); /* gives the thread the time to do wrong */
        assert_int_equal(check_batch(batch, again), samples);
        assert_memory_equal(first, again, (size_t)samples * sizeof *first);
    }
    gp_loader_destroy(&loader);
    gp_dataset_close(&dataset);
}

/* The file loses its last samples under the run: the mini-batches before the first of them are given all the same. */
static void error_comes_with_its_batch(void **state) {
    (void)state;
    gp_dataset *dataset = open_data("error");
    size_t bytes = 0;
    free(fixture_read(data_path, &bytes));
    assert_int_equal(truncate(data_path, (off_t)(bytes - 6 * WIDTH * sizeof(float) - 1)), 0); /* 16 … 22 are gone */
    for (int depth = 1; depth < 6; depth++) {
        gp_loader_options options = usual_options();
        options.shuffle = false;
        options.depth = depth;
        gp_loader *loader = create(dataset, options);
        const gp_batch *batch = NULL;
        gp_error err = {0};
        usleep(2000); /* so that a deep ring meets the error before anything is taken */
        for (int i = 0; i < 3; i++) {
            int64_t samples[5];
            assert_int_equal(gp_loader_take(loader, &batch, &err), GP_OK);
            assert_int_equal(check_batch(batch, samples), 5);
            assert_int_equal(samples[4], 5 * i + 4);
        }
        for (int i = 0; i < 2; i++) {
            const gp_batch *none = NULL;
            char message[100];
            memset(&err, 0, sizeof err);
            snprintf(message, sizeof message, ": offset %zu: the file ends here; 1 more bytes were expected",
                     bytes - 6 * WIDTH * sizeof(float) - 1);
            fixture_expect(gp_loader_take(loader, &none, &err), GP_DATA, &err, data_path, message);
            assert_null(none);
        }
        gp_loader_destroy(&loader);
    }
    gp_dataset_close(&dataset);
}

/* At every point: before the first take, with a full ring, in the middle, at the end. The data set is free at once. */
static void destroyed_early(void **state) {
    (void)state;
    gp_dataset *dataset = open_data("early");
    int before = test_threads();
    for (int taken = 0; taken <= 10; taken++) {
        for (int depth = 1; depth < 20; depth += 6) {
            gp_loader_options options = usual_options();
            options.depth = depth;
            options.epochs = taken == 10 ? 2 : 0;
            gp_loader *loader = create(dataset, options);
            const gp_batch *batch = NULL;
            gp_error err = {0};
            for (int i = 0; i < taken; i++) assert_int_equal(gp_loader_take(loader, &batch, &err), GP_OK);
            if (taken % 3 == 0) usleep(500); /* so that the ring is full where it can be */
            gp_loader_destroy(&loader);
            assert_true(test_threads_become(before));
            gp_dataset_close(&dataset);
            dataset = open_data("early");
        }
    }
    gp_dataset_close(&dataset);
}

/* Orders made by an independent implementation in Python of what loader.h says. The last one has four draws that had to
 * be repeated. */
static void golden_orders(void **state) {
    (void)state;
    static const struct {
        uint64_t seed;
        int64_t epoch;
        int64_t order[10];
    } golden[] = {
        {1, 1, {0, 9, 3, 7, 1, 8, 2, 5, 4, 6}},
        {1, 2, {7, 6, 2, 1, 8, 9, 4, 0, 5, 3}},
        {2, 1, {5, 8, 4, 7, 9, 2, 1, 6, 0, 3}},
        {(1ULL << 40) + 1, 1, {6, 0, 9, 4, 3, 2, 8, 1, 5, 7}},
    };
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) {
        int64_t order[10];
        gp_loader_order(golden[i].seed, golden[i].epoch, 10, order);
        assert_memory_equal(order, golden[i].order, sizeof order);
    }
    enum { MANY = 300000 };
    int64_t *order = calloc(MANY, sizeof *order);
    assert_non_null(order);
    gp_loader_order(7, 3, MANY, order);
    assert_true(gp_hash_bytes(0, order, MANY * sizeof *order) == 0xd6db0d2f3dd10dfdU);
    free(order);
}

/* All 24 orders of four samples are equally likely: 24,000 epochs, 5 standard deviations (31) either way. */
static void orders_are_equally_likely(void **state) {
    (void)state;
    int seen[256] = {0};
    int kinds = 0;
    for (int64_t epoch = 1; epoch <= 24000; epoch++) {
        int64_t order[4];
        gp_loader_order(99, epoch, 4, order);
        seen[order[0] | order[1] << 2 | order[2] << 4 | order[3] << 6]++;
    }
    for (int i = 0; i < 256; i++) {
        if (seen[i] == 0) continue;
        kinds++;
        assert_in_range(seen[i], 1000 - 155, 1000 + 155);
    }
    assert_int_equal(kinds, 24);
}

enum { MANY = 300, HEIGHT = 9, PIXELS = 3 * HEIGHT * HEIGHT, BATCH = 70 };

/* Pictures that are cropped, flipped and partly erased, in batches that threads share. */
static gp_dataset *open_pictures(const char *name) {
    static float x[MANY][PIXELS];
    static int64_t y[MANY];
    static double nothing[1];
    static gp_transform_config transforms[] = {
        {.kind = GP_TRANSFORM_RANDOM_CROP, .size = {HEIGHT, HEIGHT}, .pad = {2, 2, 2, 2}, .fill = {nothing, 1}},
        {.kind = GP_TRANSFORM_RANDOM_HORIZONTAL_FLIP, .p = 0.5},
        {.kind = GP_TRANSFORM_RANDOM_ERASING,
         .p = 0.5,
         .scale = {0.02, 0.33},
         .ratio = {0.3, 3.3},
         .fill = {nothing, 1}}};
    for (int i = 0; i < MANY * PIXELS; i++) x[i / PIXELS][i % PIXELS] = (float)i;
    for (int i = 0; i < MANY; i++) y[i] = i % 7;
    const gp_safetensors_item items[] = {
        {.name = "y", .dtype = GP_I64, .rank = 1, .dim = {MANY}, .data = y},
        {.name = "x", .dtype = GP_F32, .rank = 4, .dim = {MANY, 3, HEIGHT, HEIGHT}, .data = x},
    };
    gp_dataset *dataset = NULL;
    gp_error err = {0};
    data_path = fixture_path(name);
    gp_source_config source = {.kind = GP_SOURCE_TENSORS,
                               .file = (char *)(uintptr_t)data_path,
                               .transforms = transforms,
                               .transform_count = 3};
    assert_int_equal(gp_safetensors_write(data_path, items, 2, NULL, &err), GP_OK);
    assert_int_equal(gp_dataset_open(&source, &pictures_spec, &dataset, &err), GP_OK);
    return dataset;
}

static gp_loader *create_pictures(gp_dataset *dataset, int depth) {
    gp_loader_options options = usual_options();
    gp_loader *loader = NULL;
    gp_error err = {0};
    options.batch = BATCH;
    options.depth = depth;
    assert_int_equal(gp_loader_create(dataset, &pictures_spec, &options, &loader, &err), GP_OK);
    return loader;
}

/* The bits of two epochs, as one thread once gave them and whatever is prefetched. */
static void same_bits_with_any_threads(void **state) {
    (void)state;
    static uint64_t of_one_thread;
    gp_dataset *dataset = open_pictures("pictures");
    for (int depth = 1; depth < 4; depth++) {
        gp_loader *loader = create_pictures(dataset, depth);
        gp_error err = {0};
        uint64_t hash = 0;
        for (;;) {
            const gp_batch *batch = NULL;
            assert_int_equal(gp_loader_take(loader, &batch, &err), GP_OK);
            if (!batch) break;
            hash = gp_hash_bytes(hash, batch->input, (uint64_t)batch->samples * PIXELS * sizeof(float));
            hash = gp_hash_bytes(hash, batch->target, (uint64_t)batch->samples * sizeof(int64_t));
            hash = gp_hash_bytes(hash, &batch->counts, sizeof batch->counts);
        }
        if (of_one_thread == 0) of_one_thread = hash;
        assert_true(hash == of_one_thread);
        gp_loader_destroy(&loader);
    }
    gp_dataset_close(&dataset);
}

/* Half of the samples cannot be read: the error is that of the first of them in the order of the epoch, whichever
 * thread came upon one first; the mini-batches before it come whole. */
static void error_is_the_first_in_order(void **state) {
    (void)state;
    gp_dataset *dataset = open_pictures("halved");
    size_t bytes = 0;
    int64_t order[MANY], first = 0;
    free(fixture_read(data_path, &bytes));
    size_t header = bytes - MANY * PIXELS * sizeof(float);
    gp_loader_order(1, 1, MANY, order);
    for (int kept = MANY - 2; kept > 0; kept -= 37) {
        char message[100];
        assert_int_equal(truncate(data_path, (off_t)(header + (size_t)kept * PIXELS * sizeof(float))), 0);
        for (first = 0; order[first] < kept; first++) {}
        gp_loader *loader = create_pictures(dataset, 3);
        gp_error err = {0};
        const gp_batch *batch = NULL;
        for (int64_t i = 0; i < first / BATCH; i++) {
            assert_int_equal(gp_loader_take(loader, &batch, &err), GP_OK);
            assert_int_equal(batch->index, i);
        }
        snprintf(message, sizeof message, ": offset %zu: the file ends here; %zu more bytes were expected",
                 header + (size_t)order[first] * PIXELS * sizeof(float), PIXELS * sizeof(float));
        fixture_expect(gp_loader_take(loader, &batch, &err), GP_DATA, &err, data_path, message);
        gp_loader_destroy(&loader);
    }
    gp_dataset_close(&dataset);
}

/* The second sixteen samples of a mini-batch fail at once, the first sixteen only after much has been read: that
 * failure comes later, in one round or another, and is the one that counts. */
static void error_is_not_the_first_in_time(void **state) {
    (void)state;
    enum { COUNT = 32, LARGE = 1 << 14, BAD = 15, ROUNDS = 40 };
    static float x[COUNT][LARGE];
    static int64_t y[COUNT];
    const gp_safetensors_item items[] = {
        {.name = "x", .dtype = GP_F32, .rank = 2, .dim = {COUNT, LARGE}, .data = x},
        {.name = "y", .dtype = GP_I64, .rank = 1, .dim = {COUNT}, .data = y},
    };
    const gp_sample_spec large = {
        .input = {1, {LARGE}}, .input_dtype = GP_F32, .target_dtype = GP_I64, .classes = 1, .ignore = -100};
    gp_loader_options options = usual_options();
    gp_dataset *dataset = NULL;
    gp_loader *loader = NULL;
    gp_error err = {0};
    data_path = fixture_path("late");
    gp_source_config source = {.kind = GP_SOURCE_TENSORS, .file = (char *)(uintptr_t)data_path};
    assert_int_equal(gp_safetensors_write(data_path, items, 2, NULL, &err), GP_OK);
    assert_int_equal(gp_dataset_open(&source, &large, &dataset, &err), GP_OK);
    size_t bytes = 0;
    unsigned char *whole = fixture_read(data_path, &bytes);
    whole[bytes - sizeof y + BAD * sizeof *y] = 5;
    whole[bytes - sizeof y + (BAD + 1) * sizeof *y] = 6;
    fixture_write(data_path, whole, bytes);
    free(whole);
    options.batch = COUNT;
    options.shuffle = false;
    for (int round = 0; round < ROUNDS; round++) {
        const gp_batch *batch = NULL;
        assert_int_equal(gp_loader_create(dataset, &large, &options, &loader, &err), GP_OK);
        fixture_expect(gp_loader_take(loader, &batch, &err), GP_DATA, &err, data_path,
                       ": sample 15: class 5 is out of range; the model has 1 output, for the classes 0 … 0");
        gp_loader_destroy(&loader);
    }
    gp_dataset_close(&dataset);
}

/* ---- passes -------------------------------------------------------------------------------------------------------
 */

static void restart(gp_loader *loader) {
    gp_error err = {0};
    assert_int_equal(gp_loader_restart(loader, &err), GP_OK);
}

/* One pass over the file in its order, each time the same, in the same buffers. */
static void a_loader_that_rests_is_restarted(void **state) {
    (void)state;
    gp_dataset *dataset = open_data("again");
    gp_loader_options options = usual_options();
    options.shuffle = false;
    options.epochs = 1;
    options.rests = true;
    gp_loader *loader = create(dataset, options);
    gp_error err = {0};
    const void *buffers[3] = {NULL};
    assert_false(gp_loader_ready(loader));
    for (int pass = 0; pass < 20; pass++) {
        const gp_batch *batch = NULL;
        restart(loader);
        for (int i = 0; i < 5; i++) {
            int64_t samples[5];
            assert_int_equal(gp_loader_take(loader, &batch, &err), GP_OK);
            assert_int_equal(batch->epoch, 1);
            assert_int_equal(batch->index, i);
            assert_int_equal(check_batch(batch, samples), i == 4 ? 3 : 5);
            assert_int_equal(samples[0], 5 * i);
            if (i >= 3) continue;
            if (pass == 0) buffers[i] = batch->input;
            assert_ptr_equal(batch->input, buffers[i]);
        }
        assert_int_equal(gp_loader_take(loader, &batch, &err), GP_OK);
        assert_null(batch);
    }
    gp_loader_destroy(&loader);
    gp_dataset_close(&dataset);
}

/* Nothing is lost by mistake: within a pass there is no restart. A loader is destroyed at any of these moments. */
static void a_pass_is_not_cut_short(void **state) {
    (void)state;
    gp_dataset *dataset = open_data("whole");
    gp_loader_options options = usual_options();
    options.rests = true;
    for (int taken = -1; taken < 10; taken++) {
        gp_loader *loader = create(dataset, options);
        const gp_batch *batch = NULL;
        gp_error err = {0};
        if (taken >= 0) restart(loader);
        for (int i = 0; i < taken; i++) assert_int_equal(gp_loader_take(loader, &batch, &err), GP_OK);
        if (taken >= 0)
            fixture_expect(gp_loader_restart(loader, &err), GP_INTERNAL, &err,
                           "a loader is restarted within a pass over its data", "");
        gp_loader_destroy(&loader);
    }
    gp_dataset_close(&dataset);
}

/* To the byte: inputs of 3 floats, targets of a class each, both aligned. */
static void what_it_takes_is_known_before(void **state) {
    (void)state;
    gp_dataset *dataset = open_data("takes");
    gp_loader_options options = usual_options();
    gp_loader_memory memory;
    gp_loader_memory_plan(dataset, &spec, &options, &memory);
    assert_int_equal(memory.slots, 3);
    assert_int_equal(memory.held, 1);
    assert_int_equal(memory.threads, threads);
    assert_int_equal(memory.batches, 3 * (128 + 128));
    assert_int_equal(memory.order, SAMPLES * sizeof(int64_t));
    assert_int_equal(memory.scratch, (size_t)threads * gp_dataset_scratch(dataset));
    assert_int_equal(memory.records, 0);
    options.recorded = 7;
    gp_loader_memory_plan(dataset, &spec, &options, &memory);
    assert_int_equal(memory.records, 7 * (size_t)threads * sizeof(gp_loader_span));
    options = (gp_loader_options){.batch = 1000, .epochs = 2, .depth = 3, .held = 2};
    gp_loader_memory_plan(dataset, &spec, &options, &memory);
    assert_int_equal(memory.slots, 2); /* no more than there are mini-batches, of no more than all samples */
    assert_int_equal(memory.batches, 2 * (384 + 256));
    assert_int_equal(memory.order, 0);
    gp_sample_spec huge = spec;
    huge.input = (gp_shape){2, {INT64_MAX / 16, 4}};
    gp_loader_memory_plan(dataset, &huge, &options, &memory);
    assert_true(memory.batches == SIZE_MAX);
    gp_dataset_close(&dataset);
}

enum { MOST_NUMBERS = 20 };

/* What all threads recorded, by mini-batch: samples that they read. A thread reads one mini-batch after the other, and
 * has one span for each. */
static void add_spans(const gp_loader *loader, int64_t samples[MOST_NUMBERS]) {
    assert_int_equal(gp_loader_threads(loader), threads);
    for (int t = 0; t < threads; t++) {
        size_t count;
        const gp_loader_span *spans = gp_loader_spans(loader, t, &count);
        for (size_t i = 0; i < count; i++) {
            assert_true(spans[i].started > 0 && spans[i].started <= spans[i].ended);
            if (i > 0) assert_true(spans[i - 1].ended <= spans[i].started && spans[i - 1].number < spans[i].number);
            assert_in_range(spans[i].number, 0, MOST_NUMBERS - 1);
            assert_int_equal(spans[i].epoch, 1 + spans[i].number / 2);
            assert_int_equal(spans[i].index, spans[i].number % 2);
            samples[spans[i].number] += spans[i].samples;
        }
    }
}

/* Mini-batches of 20 and of 3 samples: the first are read in two claims. */
static void reading_is_recorded(void **state) {
    (void)state;
    gp_dataset *dataset = open_data("recorded");
    gp_loader_options options = usual_options();
    options.batch = 20;
    options.recorded = 4;
    options.records = true;
    const gp_batch *batch = NULL;
    gp_error err = {0};
    gp_loader *loader = create(dataset, options);
    for (int i = 0; i < 4; i++) assert_int_equal(gp_loader_take(loader, &batch, &err), GP_OK);
    gp_loader_record(loader, false);
    int64_t samples[MOST_NUMBERS] = {0};
    add_spans(loader, samples);
    for (int i = 0; i < 4; i++) assert_int_equal(samples[i], i % 2 ? 3 : 20);
    gp_loader_destroy(&loader);
    gp_dataset_close(&dataset);
}

/* From when it is switched on, and no more than there is room for; the next pass over the data is not the same. */
static void recording_is_switched_and_bounded(void **state) {
    (void)state;
    gp_dataset *dataset = open_data("switched");
    gp_loader_options options = {
        .batch = SAMPLES, .first_epoch = 1, .epochs = 1, .depth = 1, .threads = threads, .rests = true, .recorded = 2};
    const gp_batch *batch = NULL;
    gp_error err = {0};
    gp_loader *loader = create(dataset, options);
    const bool on[] = {false, true, false, true, true};
    int64_t read = 0;
    for (size_t pass = 0; pass < sizeof on / sizeof *on; pass++) {
        gp_loader_record(loader, on[pass]);
        assert_int_equal(gp_loader_restart(loader, &err), GP_OK);
        assert_int_equal(gp_loader_take(loader, &batch, &err), GP_OK);
        assert_int_equal(gp_loader_take(loader, &batch, &err), GP_OK);
        assert_null(batch);
        gp_loader_record(loader, false);
        int64_t samples = 0;
        for (int t = 0; t < threads; t++) {
            size_t count;
            const gp_loader_span *spans = gp_loader_spans(loader, t, &count);
            assert_in_range(count, 0, 2);
            for (size_t i = 0; i < count; i++) samples += spans[i].samples;
        }
        if (pass == 0) assert_int_equal(samples, 0);
        if (pass == 1 || pass == 2) assert_int_equal(samples, SAMPLES);
        if (pass == 3) assert_int_equal(samples, 2 * SAMPLES);
        assert_true(samples >= read);
        read = samples;
    }
    if (threads == 1) assert_int_equal(read, 2 * SAMPLES); /* no room was left for the last pass */
    gp_loader_destroy(&loader);
    gp_dataset_close(&dataset);
}

/* A thread with a policy that makes a loader, takes its first mini-batch, and counts the process's threads by policy.
 */
typedef struct chooser {
    gp_dataset *dataset;
    int policy;
    struct sched_param param;
    gp_status status;
    gp_error err;
    bool refused; /* the system does not allow this policy */
    int batch, same;
} chooser;

static void count_policies(chooser *me) {
    DIR *folder = opendir("/proc/self/task");
    if (!folder) return;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        int policy = sched_getscheduler(atoi(entry->d_name));
        me->batch += policy == SCHED_BATCH;
        me->same += policy == me->policy;
    }
    closedir(folder);
}

static void *load_with_policy(void *argument) {
    chooser *me = argument;
    gp_loader *loader = NULL;
    const gp_batch *batch;
    gp_loader_options options = usual_options();
    options.threads = 1;
    me->refused = sched_setscheduler(0, me->policy, &me->param) != 0;
    if (me->refused) return NULL;
    me->status = gp_loader_create(me->dataset, &spec, &options, &loader, &me->err);
    if (me->status == GP_OK) me->status = gp_loader_take(loader, &batch, &me->err);
    if (me->status == GP_OK) count_policies(me);
    gp_loader_destroy(&loader);
    return NULL;
}

static chooser choose(gp_dataset *dataset, int policy, int priority) {
    chooser one = {.dataset = dataset, .policy = policy, .param = {.sched_priority = priority}};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, load_with_policy, &one), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(one.status, GP_OK);
    return one;
}

/* Of the usual policy the loader makes "batch"; any other is the user's choice. */
static void a_policy_of_the_user_stays(void **state) {
    (void)state;
    static const struct { int policy, priority; } kept[] = {{SCHED_IDLE, 0}, {SCHED_FIFO, 1}, {SCHED_RR, 1}};
    if (sched_getscheduler(0) != SCHED_OTHER) skip();
    gp_dataset *dataset = open_data("policy");
    chooser usual = choose(dataset, SCHED_OTHER, 0);
    assert_int_equal(usual.batch, 1);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        chooser its = choose(dataset, kept[i].policy, kept[i].priority);
        if (its.refused) continue;
        assert_int_equal(its.batch, 0);
        assert_int_equal(its.same, 2);
    }
    gp_dataset_close(&dataset);
}

static int run_with(int count, const struct CMUnitTest *tests, size_t number) {
    char name[40];
    snprintf(name, sizeof name, "%d threads", count);
    threads = count;
    return _cmocka_run_group_tests(name, tests, number, fixture_make, fixture_remove);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sample_once_per_epoch),
        cmocka_unit_test(file_order_without_shuffling),
        cmocka_unit_test(held_mini_batches_stay),
        cmocka_unit_test(drops_the_last),
        cmocka_unit_test(counts_batches),
        cmocka_unit_test(resumes_anywhere),
        cmocka_unit_test(begins_within_an_epoch),
        cmocka_unit_test(goes_on_without_end),
        cmocka_unit_test(the_end_stays_the_end),
        cmocka_unit_test(batch_stays_until_the_next),
        cmocka_unit_test(error_comes_with_its_batch),
        cmocka_unit_test(same_bits_with_any_threads),
        cmocka_unit_test(error_is_the_first_in_order),
        cmocka_unit_test(error_is_not_the_first_in_time),
        cmocka_unit_test(destroyed_early),
        cmocka_unit_test(golden_orders),
        cmocka_unit_test(orders_are_equally_likely),
        cmocka_unit_test(a_loader_that_rests_is_restarted),
        cmocka_unit_test(a_pass_is_not_cut_short),
        cmocka_unit_test(what_it_takes_is_known_before),
        cmocka_unit_test(reading_is_recorded),
        cmocka_unit_test(recording_is_switched_and_bounded),
        cmocka_unit_test(a_policy_of_the_user_stays),
    };
    int failed = 0;
    for (int count = 1; count <= 3; count++) failed += run_with(count, tests, sizeof tests / sizeof *tests);
    return failed;
}
