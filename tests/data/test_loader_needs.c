/* A loader that needs some samples of a mini-batch reads these and no others. Reads are counted: this program has a
 * function in place of gp_dataset_read. */
#include "data/loader.h"

#include "data/fixture.h"

#include <stdatomic.h>

#include "data/safetensors.h"
#include "threads.h"

enum { SAMPLES = 23, WIDTH = 3, BATCH = 20, EPOCHS = 2 };

static const gp_sample_spec spec = {
    .input = {1, {WIDTH}}, .input_dtype = GP_F32, .target_dtype = GP_I64, .classes = SAMPLES, .ignore = -100};

/* All tests run with one thread, then with more. */
static int threads;

/* ---- reads ------------------------------------------------------------------------------------------------------- */

static atomic_int reads[2][EPOCHS][SAMPLES]; /* of inputs and targets */

gp_status __real_gp_dataset_read(const gp_dataset *dataset, gp_sample_key key, void *scratch, void *input, void *target,
                                 int64_t *counts, gp_error *err);
gp_status __wrap_gp_dataset_read(const gp_dataset *dataset, gp_sample_key key, void *scratch, void *input, void *target,
                                 int64_t *counts, gp_error *err);
gp_status __wrap_gp_dataset_read(const gp_dataset *dataset, gp_sample_key key, void *scratch, void *input, void *target,
                                 int64_t *counts, gp_error *err) {
    if (input) atomic_fetch_add(&reads[0][key.epoch - 1][key.index], 1);
    if (target) atomic_fetch_add(&reads[1][key.epoch - 1][key.index], 1);
    return __real_gp_dataset_read(dataset, key, scratch, input, target, counts, err);
}

static void forget_reads(void) {
    for (int part = 0; part < 2; part++)
        for (int e = 0; e < EPOCHS; e++)
            for (int i = 0; i < SAMPLES; i++) atomic_store(&reads[part][e][i], 0);
}

/* ---- needs ------------------------------------------------------------------------------------------------------- */

/* Of mini-batches of 20 samples, and of the last one of an epoch, of 3. */
typedef struct need {
    gp_share input[2], target[2], last_input, last_target;
} need;

static const need some = {{{2, 3}, {9, 11}}, {{4, 2}, {7, 1}}, {1, 1}, {0, 0}};
static const need inputs_only = {{{0, 10}, {0, 0}}, {{0, 0}, {0, 0}}, {0, 2}, {0, 0}};
static const need targets_only = {{{0, 0}, {0, 0}}, {{16, 4}, {0, 0}}, {0, 0}, {2, 1}};
static const need last_only = {{{0, 0}, {0, 0}}, {{0, 0}, {0, 0}}, {1, 2}, {1, 2}};
static const need nothing = {{{0, 0}, {0, 0}}, {{0, 0}, {0, 0}}, {0, 0}, {0, 0}};

static gp_share next(const void *context, int64_t samples, bool target, int64_t from) {
    const need *its = context;
    const gp_share *ranges = target ? its->target : its->input;
    const gp_share last = target ? its->last_target : its->last_input;
    for (int i = 0; i < 2; i++) {
        gp_share range = samples == BATCH ? ranges[i] : i == 0 ? last : (gp_share){0, 0};
        gp_share rest = gp_share_common(range, (gp_share){from, samples - from});
        if (rest.count > 0) return rest;
    }
    return (gp_share){samples, 0};
}

static bool needs(const need *its, int64_t samples, bool target, int64_t at) {
    gp_share found = next(its, samples, target, at);
    return found.count > 0 && found.first == at;
}

/* ---- loaders ----------------------------------------------------------------------------------------------------- */

/* Sample n is [n, n + 0.25, n + 0.5], its class n; if `ignored`, every fifth target does not count. */
static gp_dataset *open_data(const char *name, bool ignored) {
    float x[SAMPLES][WIDTH];
    int64_t y[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        for (int j = 0; j < WIDTH; j++) x[i][j] = (float)i + 0.25F * (float)j;
        y[i] = ignored && i % 5 == 0 ? -100 : i;
    }
    const gp_safetensors_item items[] = {
        {.name = "x", .dtype = GP_F32, .rank = 2, .dim = {SAMPLES, WIDTH}, .data = x},
        {.name = "y", .dtype = GP_I64, .rank = 1, .dim = {SAMPLES}, .data = y},
    };
    gp_dataset *dataset = NULL;
    gp_error err = {0};
    gp_source_config source = {.kind = GP_SOURCE_TENSORS, .file = (char *)(uintptr_t)fixture_path(name)};
    assert_int_equal(gp_safetensors_write(source.file, items, 2, NULL, &err), GP_OK);
    assert_int_equal(gp_dataset_open(&source, &spec, &dataset, &err), GP_OK);
    return dataset;
}

static gp_loader_options options_of(const need *its, bool shuffle) {
    return (gp_loader_options){.batch = BATCH,
                               .shuffle = shuffle,
                               .seed = 1,
                               .first_epoch = 1,
                               .epochs = EPOCHS,
                               .depth = 2,
                               .threads = threads,
                               .needs = {next, its},
                               .recorded = 10,
                               .records = true};
}

static gp_loader *create(gp_dataset *dataset, const gp_loader_options *options) {
    gp_loader *loader = NULL;
    gp_error err = {0};
    if (gp_loader_create(dataset, &spec, options, &loader, &err) != GP_OK) fail_msg("%s", err.text);
    return loader;
}

/* What is needed is there, and the targets that count are known if all of them do. */
static void check_batch(const need *its, const gp_batch *batch, const int64_t *places, bool ignored) {
    int64_t counted = 0;
    for (int64_t i = 0; i < batch->samples; i++) {
        const float *input = (const float *)batch->input + i * WIDTH;
        for (int j = 0; j < WIDTH && needs(its, batch->samples, false, i); j++)
            assert_true(input[j] == (float)places[i] + 0.25F * (float)j);
        if (!needs(its, batch->samples, true, i)) continue;
        bool counts = !ignored || places[i] % 5 != 0;
        assert_int_equal(((const int64_t *)batch->target)[i], counts ? places[i] : -100);
        counted += counts;
    }
    assert_int_equal(batch->counted, counted);
    assert_int_equal(batch->counts, ignored ? -1 : batch->samples);
}

static void check_reads(const need *its, const int64_t *places, int64_t samples, int epoch) {
    for (int64_t i = 0; i < samples; i++)
        for (int target = 0; target < 2; target++) {
            int found = atomic_load(&reads[target][epoch - 1][places[i]]);
            if (found != needs(its, samples, target, i))
                fail_msg("%s of position %d was read %d times", target ? "target" : "input", (int)i, found);
        }
}

/* Of all spans, by mini-batch: the samples of which something was read. */
static void check_spans(gp_loader *loader, const need *its) {
    int64_t found[2 * EPOCHS] = {0};
    gp_loader_record(loader, false);
    for (int t = 0; t < gp_loader_threads(loader); t++) {
        size_t count;
        const gp_loader_span *spans = gp_loader_spans(loader, t, &count);
        for (size_t s = 0; s < count; s++) {
            assert_true(spans[s].samples > 0);
            found[spans[s].number] += spans[s].samples;
        }
    }
    for (int n = 0; n < 2 * EPOCHS; n++) {
        int64_t expected = 0, samples = n % 2 ? SAMPLES - BATCH : BATCH;
        for (int64_t i = 0; i < samples; i++) expected += needs(its, samples, false, i) || needs(its, samples, true, i);
        assert_int_equal(found[n], expected);
    }
}

static void check_pass(const need *its, bool shuffle, bool ignored) {
    gp_dataset *dataset = open_data("d", ignored);
    const gp_loader_options options = options_of(its, shuffle);
    gp_error err = {0};
    const gp_batch *batch = NULL;
    forget_reads();
    gp_loader *loader = create(dataset, &options);
    for (int n = 0; n < 2 * EPOCHS; n++) {
        int64_t order[SAMPLES];
        gp_loader_order(1, 1 + n / 2, SAMPLES, order);
        for (int64_t i = 0; i < SAMPLES && !shuffle; i++) order[i] = i;
        assert_int_equal(gp_loader_take(loader, &batch, &err), GP_OK);
        assert_int_equal(batch->epoch, 1 + n / 2);
        assert_int_equal(batch->index, n % 2);
        assert_int_equal(batch->samples, n % 2 ? SAMPLES - BATCH : BATCH);
        check_batch(its, batch, order + n % 2 * BATCH, ignored);
        check_reads(its, order + n % 2 * BATCH, batch->samples, 1 + n / 2);
    }
    assert_int_equal(gp_loader_take(loader, &batch, &err), GP_OK);
    assert_null(batch);
    check_spans(loader, its);
    gp_loader_destroy(&loader);
    gp_dataset_close(&dataset);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void reads_what_is_needed(void **state) {
    (void)state;
    const need *all[] = {&some, &inputs_only, &targets_only, &last_only, &nothing};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int way = 0; way < 4; way++) check_pass(all[i], way % 2, way / 2);
}

/* Without a function both parts of all samples are read, and those that count are counted. */
static void reads_all_without_a_need(void **state) {
    (void)state;
    gp_dataset *dataset = open_data("all", true);
    gp_loader_options options = options_of(NULL, true);
    options.needs.next = NULL;
    gp_error err = {0};
    const gp_batch *batch = NULL;
    forget_reads();
    gp_loader *loader = create(dataset, &options);
    int64_t counts = 0;
    while (gp_loader_take(loader, &batch, &err) == GP_OK && batch) {
        assert_int_equal(batch->counts, batch->counted);
        counts += batch->counts;
    }
    assert_int_equal(counts, 2 * 18);
    for (int i = 0; i < 2 * EPOCHS * SAMPLES; i++) assert_int_equal(atomic_load(&reads[0][0][0] + i), 1);
    gp_loader_destroy(&loader);
    gp_dataset_close(&dataset);
}

/* Places of samples that are not needed stay as they were when the loader was made. */
static void the_rest_of_a_buffer_is_not_written(void **state) {
    (void)state;
    gp_dataset *dataset = open_data("rest", false);
    const gp_loader_options options = options_of(&some, false);
    gp_error err = {0};
    const gp_batch *batch = NULL;
    gp_loader *loader = create(dataset, &options);
    assert_int_equal(gp_loader_take(loader, &batch, &err), GP_OK);
    for (int64_t i = 0; i < BATCH; i++) {
        for (int j = 0; j < WIDTH && !needs(&some, BATCH, false, i); j++)
            assert_true(((const float *)batch->input)[i * WIDTH + j] == 0);
        if (!needs(&some, BATCH, true, i)) assert_int_equal(((const int64_t *)batch->target)[i], 0);
    }
    gp_loader_destroy(&loader);
    gp_dataset_close(&dataset);
}

/* Nothing is reserved for inputs if none is needed of any mini-batch, nor for targets. */
static void memory_is_for_what_is_needed(void **state) {
    (void)state;
    static const struct {
        const need *need;
        bool inputs, targets;
    } cases[] = {
        {&some, true, true}, {&inputs_only, true, false}, {&targets_only, false, true}, {&last_only, true, true}};
    gp_dataset *dataset = open_data("memory", false);
    gp_loader_memory memory;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const gp_loader_options options = options_of(cases[i].need, true);
        gp_loader_memory_plan(dataset, &spec, &options, &memory);
        size_t inputs = cases[i].inputs ? 256 : 0, targets = cases[i].targets ? 256 : 0; /* 240 and 160, aligned */
        assert_int_equal(memory.batches, 3 * (inputs + targets));
        assert_int_equal(memory.threads, threads);
        assert_int_equal(memory.order, SAMPLES * sizeof(int64_t));
        gp_loader *loader = create(dataset, &options);
        const gp_batch *batch = NULL;
        gp_error err = {0};
        assert_int_equal(gp_loader_take(loader, &batch, &err), GP_OK);
        assert_true((batch->input != NULL) == cases[i].inputs && (batch->target != NULL) == cases[i].targets);
        gp_loader_destroy(&loader);
    }
    const gp_loader_options options = options_of(&nothing, true);
    gp_loader_memory_plan(dataset, &spec, &options, &memory);
    assert_int_equal(memory.batches + memory.order + memory.scratch + memory.records, 0);
    assert_int_equal(memory.threads, 0);
    gp_dataset_close(&dataset);
}

/* A loader that reads nothing has no thread, is always ready, and can be restarted like any other. */
static void a_loader_without_a_need_only_counts(void **state) {
    (void)state;
    gp_dataset *dataset = open_data("none", false);
    gp_loader_options options = options_of(&nothing, true);
    options.epochs = 1;
    options.rests = true;
    gp_error err = {0};
    int before = test_threads();
    gp_loader *loader = create(dataset, &options);
    assert_true(test_threads() <= before);
    assert_int_equal(gp_loader_threads(loader), 0);
    for (int pass = 0; pass < 3; pass++) {
        const gp_batch *batch = NULL;
        assert_int_equal(gp_loader_restart(loader, &err), GP_OK);
        for (int n = 0; n < 2; n++) {
            assert_true(gp_loader_ready(loader));
            assert_int_equal(gp_loader_take(loader, &batch, &err), GP_OK);
            assert_int_equal(batch->index, n);
            assert_null(batch->input);
            assert_null(batch->target);
        }
        assert_int_equal(gp_loader_take(loader, &batch, &err), GP_OK);
        assert_null(batch);
    }
    gp_loader_destroy(&loader);
    gp_dataset_close(&dataset);
}

/* A class that does not exist came into the file after it was opened. Who does not need it does not meet it. */
static void an_error_is_met_where_the_sample_is_needed(void **state) {
    (void)state;
    enum { BAD = 5 };
    gp_dataset *dataset = open_data("bad", false);
    const char *path = fixture_path("bad");
    size_t bytes = 0;
    unsigned char *whole = fixture_read(path, &bytes);
    const int64_t wrong = 99;
    memcpy(whole + bytes - (SAMPLES - BAD) * sizeof wrong, &wrong, sizeof wrong);
    fixture_write(path, whole, bytes);
    free(whole);
    const need *all[] = {&targets_only, &inputs_only, &some};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const gp_loader_options options = options_of(all[i], false);
        gp_error err = {0};
        const gp_batch *batch = NULL;
        gp_loader *loader = create(dataset, &options);
        gp_status status = gp_loader_take(loader, &batch, &err);
        if (all[i] == &some)
            fixture_expect(status, GP_DATA, &err, path,
                           ": sample 5: class 99 is out of range; the model has 23 outputs, for the classes 0 … 22");
        else
            assert_int_equal(status, GP_OK);
        gp_loader_destroy(&loader);
    }
    gp_dataset_close(&dataset);
}

static int one_thread(void **state) {
    threads = 1;
    return fixture_make(state);
}

static int three_threads(void **state) {
    threads = 3;
    return fixture_make(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_is_needed),
        cmocka_unit_test(reads_all_without_a_need),
        cmocka_unit_test(the_rest_of_a_buffer_is_not_written),
        cmocka_unit_test(memory_is_for_what_is_needed),
        cmocka_unit_test(a_loader_without_a_need_only_counts),
        cmocka_unit_test(an_error_is_met_where_the_sample_is_needed),
    };
    int failed = cmocka_run_group_tests(tests, one_thread, fixture_remove);
    return failed + cmocka_run_group_tests(tests, three_threads, fixture_remove);
}
