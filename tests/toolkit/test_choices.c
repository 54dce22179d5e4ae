/* Engines that were chosen before: kept in a file, read again, and never trusted blindly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/cuda/toolkit/choices.h"
#include "device/cuda/toolkit/cudnn_device.h"
#include "device/cuda/toolkit/plan.h"

static char folder[64], path[128];

static int make_cache(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/test_choices.XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/cache/gpipe/cudnn-engines", folder);
    char cache[96];
    snprintf(cache, sizeof cache, "%s/cache", folder);
    setenv("XDG_CACHE_HOME", cache, 1);
    gp_choices_forget();
    return 0;
}

static int remove_cache(void **state) {
    (void)state;
    char inner[160];
    unlink(path);
    snprintf(inner, sizeof inner, "%s/cache/gpipe", folder);
    chmod(inner, 0700);
    rmdir(inner);
    snprintf(inner, sizeof inner, "%s/cache", folder);
    rmdir(inner);
    rmdir(folder);
    return 0;
}

static void write_text(const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void read_text(char *text, size_t size) {
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
}

static const gp_cudnn_engine plain = {.id = 7};
static const gp_cudnn_engine knobbed = {.id = 12, .knobs = 3, .knob = {{1, 0}, {27, -4}, {40, INT64_MAX}}};

static void expect_known(uint64_t key, const gp_cudnn_engine *expected) {
    gp_cudnn_engine found;
    assert_true(gp_choice_find(key, &found));
    assert_memory_equal(&found, expected, sizeof found);
}

static void expect_unknown(uint64_t key) {
    gp_cudnn_engine found;
    assert_false(gp_choice_find(key, &found));
}

static void save_two(void) {
    expect_unknown(UINT64_MAX);
    gp_choice_add(UINT64_MAX, &plain);
    gp_choice_add(5, &knobbed);
    gp_choices_save();
    gp_choices_forget();
}

static void test_round_trip(void **state) {
    (void)state;
    char first[4096], second[4096];
    save_two();
    expect_known(UINT64_MAX, &plain);
    expect_known(5, &knobbed);
    expect_unknown(6);
    read_text(first, sizeof first);
    gp_choices_forget();
    gp_choice_add(5, &plain);
    gp_choices_save();
    read_text(second, sizeof second);
    assert_string_not_equal(first, second);
    gp_choices_forget();
    expect_known(5, &plain);
}

/* Nothing new, nothing written. */
static void test_writes_what_is_new_only(void **state) {
    (void)state;
    save_two();
    unlink(path);
    expect_unknown(5);
    gp_choices_save();
    assert_int_equal(access(path, F_OK), -1);
    gp_choice_add(5, &plain);
    gp_choices_save();
    assert_int_equal(access(path, F_OK), 0);
}

/* What another process has written since stays. */
static void test_joins(void **state) {
    (void)state;
    save_two();
    expect_known(5, &knobbed);
    char theirs[4096];
    read_text(theirs, sizeof theirs);
    gp_choices_forget();
    unlink(path);
    expect_unknown(9);
    gp_choice_add(9, &plain);
    write_text(theirs);
    gp_choices_save();
    gp_choices_forget();
    expect_known(9, &plain);
    expect_known(5, &knobbed);
    expect_known(UINT64_MAX, &plain);
}

/* Every byte of the file changed, one after another: what is read is what was written, or nothing. */
static void test_damage(void **state) {
    (void)state;
    char whole[4096], damaged[4096];
    save_two();
    read_text(whole, sizeof whole);
    size_t first_line = strcspn(whole, "\n") + 1;
    for (size_t i = 0; whole[i]; i++) {
        gp_cudnn_engine found;
        strcpy(damaged, whole);
        damaged[i] = damaged[i] == '1' ? '2' : '1';
        write_text(damaged);
        gp_choices_forget();
        bool one = gp_choice_find(UINT64_MAX, &found);
        if (one) assert_memory_equal(&found, &plain, sizeof found);
        bool other = gp_choice_find(5, &found);
        if (other) assert_memory_equal(&found, &knobbed, sizeof found);
        assert_true(i < first_line ? !one && !other : !(one && other));
        gp_choices_save();
        gp_choices_forget();
        read_text(damaged, sizeof damaged);
        assert_memory_equal(damaged, "gpipe engines 1\n", 16);
        assert_int_equal(gp_choice_find(5, &found), other);
    }
}

static void test_foreign_files(void **state) {
    (void)state;
    static const char *const foreign[] = {"", "gpipe engines 2\n", "\n\n\n", "gpipe engines 1\nhello\n\n1 2 3 4\n",
                                          "gpipe engines 1\n0 5 7 99999999999999999999\n"};
    save_two();
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        char text[64];
        write_text(foreign[i]);
        gp_choices_forget();
        expect_unknown(5);
        gp_choices_save();
        read_text(text, sizeof text);
        assert_string_equal(text, "gpipe engines 1\n");
    }
}

/* A file where the folder should be, no folder at all: a run works without. */
static void test_no_place(void **state) {
    (void)state;
    char file[128];
    snprintf(file, sizeof file, "%s/file", folder);
    fclose(fopen(file, "w"));
    setenv("XDG_CACHE_HOME", file, 1);
    save_two();
    expect_unknown(5);
    unlink(file);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    save_two();
    expect_unknown(5);
}

static void test_home(void **state) {
    (void)state;
    char at[160];
    setenv("XDG_CACHE_HOME", "relative", 1);
    setenv("HOME", folder, 1);
    save_two();
    expect_known(5, &knobbed);
    snprintf(at, sizeof at, "%s/.cache/gpipe/cudnn-engines", folder);
    assert_int_equal(unlink(at), 0);
    *strrchr(at, '/') = '\0';
    assert_int_equal(rmdir(at), 0);
    *strrchr(at, '/') = '\0';
    assert_int_equal(rmdir(at), 0);
}

/* ---- what plans make of them ------------------------------------------------------------------------------------- */

static gp_op_desc weights_gradient(void) {
    gp_op_desc desc;
    gp_op_desc_init(&desc, GP_OP_CONV_BACKWARD_WEIGHTS);
    desc.threads = 1;
    desc.operand[GP_CONV_BACKWARD_WEIGHTS_X] = gp_tensor_plain(GP_F32, 4, (const int64_t[]){8, 28, 28, 64});
    desc.operand[GP_CONV_BACKWARD_WEIGHTS_DY] = gp_tensor_plain(GP_F32, 4, (const int64_t[]){8, 28, 28, 64});
    desc.operand[GP_CONV_BACKWARD_WEIGHTS_DW] = gp_tensor_plain(GP_F32, 4, (const int64_t[]){64, 64, 3, 3});
    desc.attributes.conv = (gp_conv_attributes){{3, 3}, {1, 1}, {1, 1}, {1, 1}, 1};
    return desc;
}

static gp_cudnn_engine planned(const gp_op_desc *desc) {
    gp_error err = {0};
    gp_prepared prepared = {.desc = *desc};
    if (gp_cuda_plan_create(&prepared, &err) != GP_OK) fail_msg("%s", err.text);
    gp_cudnn_engine engine = ((const gp_cuda_plan *)prepared.context)->engine;
    gp_cuda_plan_destroy(prepared.context);
    return engine;
}

static void poison(const gp_op_desc *desc, const gp_cudnn_engine *engine) {
    gp_error err = {0};
    const gp_cudnn_device *device;
    assert_int_equal(gp_cudnn_device_get(&device, &err), GP_OK);
    gp_choice_add(gp_choice_key(desc, device->name, gp_cudnn.cudnnGetVersion()), engine);
}

static void expect_same_bits(const gp_op_desc *desc, const gp_cudnn_engine *engine) {
    gp_error err = {0};
    const gp_cudnn_device *device;
    gp_cudnn_built built = {0};
    assert_int_equal(gp_cudnn_device_get(&device, &err), GP_OK);
    assert_int_equal(gp_cudnn_engine_build(desc, device->properties, engine, &built, &err), GP_OK);
    for (int i = 0; i < built.notes; i++)
        if (built.note[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)
            fail_msg("engine %lld does not give the same bits each time", (long long)engine->id);
    gp_cudnn_built_fini(&built);
}

/* Of all that a file may name: one that will do stands, though it is not the first; one whose bits change, or that
 * there is none of, does not. A gradient that adds up is computed by the engine that overwrites it. */
static void test_plans(void **state) {
    (void)state;
    gp_error err = {0};
    if (gp_cudnn_device_describe("h100", &err) != GP_OK) fail_msg("%s", err.text);
    gp_op_desc desc = weights_gradient();
    gp_cudnn_engine first = planned(&desc), other = {.id = -1};
    int refused = 0;
    for (int64_t id = 0; id < 100; id++) {
        gp_cudnn_engine asked = {.id = id};
        poison(&desc, &asked);
        gp_cudnn_engine got = planned(&desc);
        expect_same_bits(&desc, &got);
        if (memcmp(&got, &asked, sizeof got) == 0) {
            other = got;
        } else {
            assert_memory_equal(&got, &first, sizeof got);
            refused++;
        }
    }
    assert_true(other.id >= 0 && refused > 10);
    poison(&desc, &other);
    gp_op_desc adding = desc;
    adding.flags |= GP_OP_ACCUMULATE;
    gp_cudnn_engine adds = planned(&adding);
    assert_memory_equal(&adds, &other, sizeof adds);
    gp_choices_save();
    gp_choices_forget();
    gp_cudnn_engine kept = planned(&desc);
    assert_memory_equal(&kept, &other, sizeof kept);
}

/* Anything that a plan follows from makes another key. */
static void test_keys(void **state) {
    (void)state;
    gp_op_desc desc = weights_gradient(), tf32 = desc;
    tf32.flags = GP_OP_TF32;
    uint64_t key = gp_choice_key(&desc, "a", 1);
    assert_true(key == gp_choice_key(&desc, "a", 1));
    assert_true(key != gp_choice_key(&tf32, "a", 1));
    assert_true(key != gp_choice_key(&desc, "b", 1));
    assert_true(key != gp_choice_key(&desc, "a", 2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_round_trip, make_cache, remove_cache),
        cmocka_unit_test_setup_teardown(test_writes_what_is_new_only, make_cache, remove_cache),
        cmocka_unit_test_setup_teardown(test_joins, make_cache, remove_cache),
        cmocka_unit_test_setup_teardown(test_damage, make_cache, remove_cache),
        cmocka_unit_test_setup_teardown(test_foreign_files, make_cache, remove_cache),
        cmocka_unit_test_setup_teardown(test_no_place, make_cache, remove_cache),
        cmocka_unit_test_setup_teardown(test_home, make_cache, remove_cache),
        cmocka_unit_test_setup_teardown(test_plans, make_cache, remove_cache),
        cmocka_unit_test(test_keys),
    };
    gp_error err = {0};
    if (gp_cudnn_open(&err) != GP_OK) {
        fprintf(stderr, "skipped: %s\n", err.text);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
