#include "store/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/safetensors.h"
#include "session/fixture.h"
#include "store/saver.h"

static gp_session *session;
static gp_run *run;

static void start(const char *balance) {
    gp_error err = {0};
    session = fixture_session(FIXTURE_CHANGES("pipeline.devices=[cpu, cpu, cpu]", balance));
    if (gp_run_create(session->plan, NULL, &run, &err) != GP_OK) fail_msg("%s", err.text);
}

static void end(void) {
    gp_run_destroy(&run);
    gp_session_close(&session);
}

static void must(gp_status status, const gp_error *err) {
    if (status != GP_OK) fail_msg("%s", err->text);
}

/* Section train with a file of the fixture, and perhaps names to skip (NULL-terminated, none where NULL). */
static const gp_train_config *from_but(const char *name, const char *const *skipped) {
    static gp_train_config train;
    static gp_placed_name names[4];
    static char path[512];
    snprintf(path, sizeof path, "%s", fixture_path(name));
    train = (gp_train_config){.init = path, .init_skip = names, .seed = 2};
    for (int i = 0; skipped && skipped[i]; i++)
        names[train.init_skip_count++] = (gp_placed_name){skipped[i], {"c.yaml", 7, 1 + i}};
    return &train;
}

static const gp_train_config *from(const char *name) {
    return from_but(name, NULL);
}

static gp_status save_model(const char *path, gp_error *err) {
    gp_saver *saver = NULL;
    gp_status status = gp_saver_create(session->plan, "", "", 1, &saver, err);
    if (status == GP_OK) status = gp_saver_model(saver, run, path, NULL, err);
    gp_saver_destroy(&saver);
    return status;
}

static void save_initial(uint64_t seed, const char *path) {
    gp_error err = {0};
    must(gp_weights_initialise(run, session->plan, seed, &err), &err);
    must(save_model(path, &err), &err);
}

static void expect_equal_files(const char *a, const char *b, bool equal) {
    size_t a_bytes, b_bytes;
    char *a_text = fixture_read(a, &a_bytes), *b_text = fixture_read(b, &b_bytes);
    assert_int_equal(a_bytes, b_bytes);
    assert_int_equal(memcmp(a_text, b_text, a_bytes) == 0, equal);
    free(a_text);
    free(b_text);
}

static void a_file_comes_back_as_it_was(void **state) {
    (void)state;
    gp_error err = {0};
    start("pipeline.balance=[3, 3, 2]");
    save_initial(1, fixture_path("one"));
    must(gp_weights_initialise(run, session->plan, 2, &err), &err);
    must(gp_weights_load(run, session->plan, from("one"), &err), &err);
    must(save_model(fixture_path("again"), &err), &err);
    expect_equal_files(fixture_path("one"), fixture_path("again"), true);
    end();
    start("pipeline.balance=[1, 1, 6]");
    must(gp_weights_load(run, session->plan, from("one"), &err), &err);
    must(save_model(fixture_path("cut"), &err), &err);
    expect_equal_files(fixture_path("one"), fixture_path("cut"), true);
    end();
}

static void initial_values_follow_the_seed_alone(void **state) {
    (void)state;
    start("pipeline.balance=[3, 3, 2]");
    save_initial(1, fixture_path("seed1"));
    save_initial(2, fixture_path("seed2"));
    save_initial(1, fixture_path("seed1again"));
    end();
    start("pipeline.balance=[1, 2, 5]");
    save_initial(1, fixture_path("seed1cut"));
    end();
    expect_equal_files(fixture_path("seed1"), fixture_path("seed2"), false);
    expect_equal_files(fixture_path("seed1"), fixture_path("seed1again"), true);
    expect_equal_files(fixture_path("seed1"), fixture_path("seed1cut"), true);
}

/* Names and shapes as torch.nn.Sequential's state_dict has them, in its order. */
static void the_file_has_pytorchs_names_and_shapes(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int rank;
        int64_t dim[4];
    } wanted[] = {
        {"0.weight", 4, {8, 2, 3, 3}}, {"0.bias", 1, {8}},        {"1.weight", 1, {8}},          {"1.bias", 1, {8}},
        {"1.running_mean", 1, {8}},    {"1.running_var", 1, {8}}, {"3.weight", 4, {8, 8, 3, 3}}, {"3.bias", 1, {8}},
        {"7.weight", 2, {3, 128}},     {"7.bias", 1, {3}}};
    gp_error err = {0};
    gp_safetensors *file = NULL;
    start("pipeline.balance=[3, 3, 2]");
    save_initial(1, fixture_path("named"));
    end();
    must(gp_safetensors_open(fixture_path("named"), &file, &err), &err);
    assert_int_equal(gp_safetensors_count(file), sizeof wanted / sizeof *wanted);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const gp_safetensor *tensor = gp_safetensors_at(file, i);
        assert_string_equal(tensor->name, wanted[i].name);
        assert_string_equal(tensor->dtype_name, "F32");
        assert_int_equal(tensor->rank, wanted[i].rank);
        for (int d = 0; d < tensor->rank; d++) assert_int_equal(tensor->dim[d], wanted[i].dim[d]);
    }
    float variance[8];
    must(gp_safetensors_read(file, gp_safetensors_find(file, "1.running_var"), 0, sizeof variance, variance, &err),
         &err);
    for (int i = 0; i < 8; i++) assert_true(variance[i] == 1.0F);
    gp_safetensors_close(&file);
}

/* ---- files that do not fit: the model's file with one thing changed ---------------------------------------------- */

enum { MOST = 16 };

typedef struct copy {
    gp_safetensors_item items[MOST];
    char names[MOST][64];
    size_t count;
} copy;

static copy copy_of(const char *path) {
    gp_error err = {0};
    gp_safetensors *file = NULL;
    copy result = {.count = 0};
    must(gp_safetensors_open(path, &file, &err), &err);
    for (size_t i = 0; i < gp_safetensors_count(file); i++) {
        const gp_safetensor *tensor = gp_safetensors_at(file, i);
        size_t bytes = (size_t)(tensor->end - tensor->begin);
        void *data = malloc(2 * bytes);
        assert_non_null(data);
        must(gp_safetensors_read(file, tensor, 0, bytes, data, &err), &err);
        strcpy(result.names[i], tensor->name);
        result.items[i] = (gp_safetensors_item){.dtype = GP_F32, .rank = tensor->rank, .data = data};
        memcpy(result.items[i].dim, tensor->dim, sizeof tensor->dim);
        result.count++;
    }
    gp_safetensors_close(&file);
    return result;
}

static void write_copy(copy *from, const char *path) {
    gp_error err = {0};
    for (size_t i = 0; i < from->count; i++) from->items[i].name = from->names[i];
    must(gp_safetensors_write(path, from->items, from->count, NULL, &err), &err);
    for (size_t i = 0; i < from->count; i++) free((void *)(uintptr_t)from->items[i].data);
}

static size_t find(const copy *in, const char *name) {
    size_t i = 0;
    while (i < in->count && strcmp(in->names[i], name) != 0) i++;
    assert_true(i < in->count);
    return i;
}

static void drop(copy *from, size_t index) {
    free((void *)(uintptr_t)from->items[index].data);
    from->count--;
    for (size_t i = index; i < from->count; i++) {
        from->items[i] = from->items[i + 1];
        memcpy(from->names[i], from->names[i + 1], sizeof from->names[i]);
    }
}

static void add(copy *to, const char *name, gp_dtype dtype) {
    void *data = calloc(1, 8);
    assert_non_null(data);
    strcpy(to->names[to->count], name);
    to->items[to->count++] = (gp_safetensors_item){.dtype = dtype, .data = data};
}

static copy fresh(void) {
    start("pipeline.balance=[3, 3, 2]");
    save_initial(1, fixture_path("whole"));
    end();
    return copy_of(fixture_path("whole"));
}

/* Both the check without a run and the loading say it, and the loading changes nothing. */
static void expect_refused(copy *broken, const char *rest) {
    gp_error checked = {0}, loaded = {0}, err = {0};
    char wanted[700];
    const char *path = fixture_path("broken");
    write_copy(broken, path);
    snprintf(wanted, sizeof wanted, "%s: %s", path, rest);
    start("pipeline.balance=[3, 3, 2]");
    save_initial(2, fixture_path("before"));
    assert_int_equal(gp_weights_check(session->graph, from("broken"), &checked), GP_DATA);
    assert_string_equal(checked.text, wanted);
    assert_int_equal(gp_weights_load(run, session->plan, from("broken"), &loaded), GP_DATA);
    assert_string_equal(loaded.text, wanted);
    must(save_model(fixture_path("after"), &err), &err);
    expect_equal_files(fixture_path("before"), fixture_path("after"), true);
    end();
}

static void a_missing_tensor_is_named(void **state) {
    (void)state;
    copy c = fresh();
    drop(&c, find(&c, "3.bias"));
    expect_refused(&c, "tensor \"3.bias\" is missing");
}

static void another_shape_is_refused(void **state) {
    (void)state;
    copy c = fresh();
    c.items[find(&c, "7.weight")].dim[0] = 128;
    c.items[find(&c, "7.weight")].dim[1] = 3;
    expect_refused(&c, "tensor \"7.weight\" has shape [128, 3], but the model's is [3, 128]");
}

static void another_rank_is_refused(void **state) {
    (void)state;
    copy c = fresh();
    c.items[find(&c, "1.weight")] =
        (gp_safetensors_item){.dtype = GP_F32, .rank = 2, .dim = {8, 1}, .data = c.items[find(&c, "1.weight")].data};
    expect_refused(&c, "tensor \"1.weight\" has shape [8, 1], but the model's is [8]");
}

static void more_dimensions_than_a_shape_holds_are_refused(void **state) {
    (void)state;
    copy c = fresh();
    gp_safetensors_item *item = &c.items[find(&c, "0.weight")];
    item->rank = 5;
    item->dim[4] = 1;
    expect_refused(&c, "tensor \"0.weight\" has shape [8, 2, 3, 3] and more, but the model's is [8, 2, 3, 3]");
}

static void another_type_is_refused(void **state) {
    (void)state;
    copy c = fresh();
    c.items[find(&c, "0.bias")].dtype = GP_F64;
    expect_refused(&c, "tensor \"0.bias\" is of type F64, but weights are F32; convert it with .float()");
}

static void a_surplus_tensor_is_refused(void **state) {
    (void)state;
    copy c = fresh();
    add(&c, "8.weight", GP_F32);
    expect_refused(&c, "tensor \"8.weight\" belongs to no layer of the model");
}

/* PyTorch's batch norm counts its batches; nothing here reads that. Only the whole name counts. */
static void num_batches_tracked_is_ignored(void **state) {
    (void)state;
    gp_error err = {0};
    copy c = fresh();
    add(&c, "1.num_batches_tracked", GP_I64);
    add(&c, "num_batches_tracked", GP_I64);
    write_copy(&c, fixture_path("counted"));
    start("pipeline.balance=[3, 3, 2]");
    must(gp_weights_check(session->graph, from("counted"), &err), &err);
    must(gp_weights_load(run, session->plan, from("counted"), &err), &err);
    must(save_model(fixture_path("uncounted"), &err), &err);
    end();
    expect_equal_files(fixture_path("whole"), fixture_path("uncounted"), true);
    c = fresh();
    add(&c, "1.not_num_batches_tracked", GP_I64);
    expect_refused(&c, "tensor \"1.not_num_batches_tracked\" belongs to no layer of the model");
}

/* Skipped layers keep what the seed gave them, wherever they lie; the others come from the file. */
static void skipped_layers_keep_their_initial_values(void **state) {
    (void)state;
    static const char *const skipped[] = {"1", "7.weight", NULL};
    static const char *const places[] = {"1.weight", "1.bias", "1.running_mean", "1.running_var", "7.weight"};
    gp_error err = {0};
    start("pipeline.balance=[3, 3, 2]");
    save_initial(1, fixture_path("one"));
    save_initial(2, fixture_path("two"));
    must(gp_weights_check(session->graph, from_but("one", skipped), &err), &err);
    must(gp_weights_load(run, session->plan, from_but("one", skipped), &err), &err);
    must(save_model(fixture_path("mixed"), &err), &err);
    end();
    copy one = copy_of(fixture_path("one")), two = copy_of(fixture_path("two"));
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        gp_safetensors_item *item = &one.items[find(&one, places[i])], *other = &two.items[find(&two, places[i])];
        const void *data = item->data;
        item->data = other->data;
        other->data = data;
    }
    write_copy(&one, fixture_path("wanted"));
    write_copy(&two, fixture_path("rest"));
    copy mixed = copy_of(fixture_path("mixed"));
    write_copy(&mixed, fixture_path("mixed"));
    expect_equal_files(fixture_path("mixed"), fixture_path("wanted"), true);
    expect_equal_files(fixture_path("one"), fixture_path("two"), false);
}

/* A file of another model's head: other shapes and types, tensors that the model lacks, and none that it has. */
static void skipped_layers_may_be_anything_in_the_file(void **state) {
    (void)state;
    static const char *const head[] = {"7", NULL}, *const more[] = {"7", "70", NULL}, *const less[] = {"7.bias", NULL};
    gp_error err = {0};
    copy c = fresh();
    c.items[find(&c, "7.weight")].dim[0] = 2;
    drop(&c, find(&c, "7.bias"));
    add(&c, "7.extra.scale", GP_I64);
    write_copy(&c, fixture_path("headless"));
    start("pipeline.balance=[3, 3, 2]");
    must(gp_weights_check(session->graph, from_but("headless", head), &err), &err);
    must(gp_weights_load(run, session->plan, from_but("headless", head), &err), &err);
    assert_int_equal(gp_weights_check(session->graph, from_but("headless", less), &err), GP_DATA);
    assert_non_null(strstr(err.text, "tensor \"7.weight\" has shape [2, 128]"));
    assert_int_equal(gp_weights_load(run, session->plan, from_but("headless", more), &err), GP_CONFIG);
    assert_string_equal(err.text, "c.yaml:7:2: train.init.skip: the model has no layer \"70\" with parameters");
    end();
}

static void a_name_that_skips_nothing_is_refused(void **state) {
    (void)state;
    static const char *const nothing[] = {"3", "2", NULL}; /* 2 is a relu */
    static const char *const part[] = {"7.weigh", NULL};
    gp_error err = {0};
    start("pipeline.balance=[3, 3, 2]");
    assert_int_equal(gp_weights_check(session->graph, from_but("none", nothing), &err), GP_CONFIG);
    assert_string_equal(err.text, "c.yaml:7:2: train.init.skip: the model has no layer \"2\" with parameters");
    assert_int_equal(gp_weights_check(session->graph, from_but("none", part), &err), GP_CONFIG);
    end();
}

static void write_bytes(const char *path, const char *bytes, size_t count) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

/* What a run has saved has a checksum: no bit of it may be another one. */
static void a_wrong_bit_is_refused(void **state) {
    (void)state;
    enum { STRIDE = 61 };
    size_t bytes = 0;
    gp_error err = {0};
    start("pipeline.balance=[3, 3, 2]");
    save_initial(1, fixture_path("whole"));
    char *text = fixture_read(fixture_path("whole"), &bytes);
    assert_memory_equal(text + 8, GP_SAFETENSORS_SUMMED, sizeof GP_SAFETENSORS_SUMMED - 1);
    must(gp_weights_check(session->graph, from("whole"), &err), &err);
    for (size_t bit = 0; bit < 8 * bytes; bit += STRIDE) {
        text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
        write_bytes(fixture_path("flipped"), text, bytes);
        if (gp_weights_check(session->graph, from("flipped"), &err) != GP_DATA) fail_msg("bit %zu is taken", bit);
        text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
    }
    text[bytes - 1] = (char)(text[bytes - 1] ^ 1);
    write_bytes(fixture_path("flipped"), text, bytes);
    assert_int_equal(gp_weights_check(session->graph, from("flipped"), &err), GP_DATA);
    assert_memory_equal(err.text, fixture_path("flipped"), strlen(fixture_path("flipped")));
    assert_non_null(strstr(err.text, ": offset 37: the checksum is wrong: it says "));
    assert_non_null(strstr(err.text, "; the weights are damaged, or are of several files: take another copy"));
    free(text);
    end();
}

static void a_negative_variance_is_refused(void **state) {
    (void)state;
    gp_error err = {0};
    char wanted[700];
    copy c = fresh();
    float *variance = (float *)(uintptr_t)c.items[find(&c, "1.running_var")].data;
    variance[5] = -0.25F;
    write_copy(&c, fixture_path("negative"));
    start("pipeline.balance=[3, 3, 2]");
    assert_int_equal(gp_weights_load(run, session->plan, from("negative"), &err), GP_DATA);
    snprintf(wanted, sizeof wanted,
             "%s: tensor \"1.running_var\" has -0.25 as element 5: a variance is not negative; the file is damaged, or "
             "is not of a batch norm",
             fixture_path("negative"));
    assert_string_equal(err.text, wanted);
    end();
}

static void a_missing_file_is_named(void **state) {
    (void)state;
    gp_error err = {0};
    char wanted[700];
    start("pipeline.balance=[3, 3, 2]");
    assert_int_equal(gp_weights_check(session->graph, from("none"), &err), GP_DATA);
    snprintf(wanted, sizeof wanted, "%s: cannot be opened: No such file or directory", fixture_path("none"));
    assert_string_equal(err.text, wanted);
    assert_int_equal(save_model(fixture_path("none/model.safetensors"), &err), GP_IO);
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_comes_back_as_it_was),
        cmocka_unit_test(initial_values_follow_the_seed_alone),
        cmocka_unit_test(the_file_has_pytorchs_names_and_shapes),
        cmocka_unit_test(a_missing_tensor_is_named),
        cmocka_unit_test(another_shape_is_refused),
        cmocka_unit_test(another_rank_is_refused),
        cmocka_unit_test(more_dimensions_than_a_shape_holds_are_refused),
        cmocka_unit_test(another_type_is_refused),
        cmocka_unit_test(a_surplus_tensor_is_refused),
        cmocka_unit_test(num_batches_tracked_is_ignored),
        cmocka_unit_test(skipped_layers_keep_their_initial_values),
        cmocka_unit_test(skipped_layers_may_be_anything_in_the_file),
        cmocka_unit_test(a_name_that_skips_nothing_is_refused),
        cmocka_unit_test(a_wrong_bit_is_refused),
        cmocka_unit_test(a_negative_variance_is_refused),
        cmocka_unit_test(a_missing_file_is_named),
    };
    return cmocka_run_group_tests_name("weights", tests, fixture_make, fixture_remove);
}
