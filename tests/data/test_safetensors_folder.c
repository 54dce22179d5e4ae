#include "data/safetensors.h"

#include "data/fixture.h"

#include <sys/stat.h>
#include <unistd.h>

static const float a[2] = {1, 2}, b[3] = {3, 4, 5};

/* A folder of two parts, "a" in the first one and "b" in the second one, with their checksums. */
static void write_parts(char sums[2][GP_CHECKSUM_DIGITS + 1]) {
    const gp_safetensors_item items[2] = {{.name = "a", .dtype = GP_F32, .rank = 1, .dim = {2}, .data = a},
                                          {.name = "b", .dtype = GP_F32, .rank = 1, .dim = {3}, .data = b}};
    const char *const metadata[] = {"kind", "first", NULL}, *const others[] = {"kind", "second", NULL};
    const char *const names[2] = {"folder/part-0.safetensors", "folder/part-1.safetensors"};
    gp_error err = {0};
    mkdir(fixture_path("folder"), 0777);
    for (int p = 0; p < 2; p++) {
        gp_safetensors *part = NULL;
        assert_int_equal(gp_safetensors_write_summed(fixture_path(names[p]), &items[p], 1, p ? others : metadata, &err),
                         GP_OK);
        assert_int_equal(gp_safetensors_open(fixture_path(names[p]), &part, &err), GP_OK);
        memcpy(sums[p], gp_safetensors_metadata(part, GP_SAFETENSORS_SUM), GP_CHECKSUM_DIGITS + 1);
        gp_safetensors_close(&part);
    }
}

static void write_index(const char *format, const char *first, const char *second) {
    char text[512];
    int length = snprintf(text, sizeof text, format, first, second);
    fixture_write(fixture_path("folder/" GP_SAFETENSORS_INDEX), text, (size_t)length);
}

static const char whole[] =
    "{\"metadata\": {\"xxh3-128\": {\"part-0.safetensors\": \"%s\", \"part-1.safetensors\": \"%s\"}},"
    " \"weight_map\": {\"a\": \"part-0.safetensors\", \"b\": \"part-1.safetensors\"}}";

static void is_read_as_one_file(void **state) {
    (void)state;
    char sums[2][GP_CHECKSUM_DIGITS + 1];
    float back[3];
    gp_error err = {0};
    gp_safetensors *file = NULL;
    write_parts(sums);
    write_index(whole, sums[0], sums[1]);
    assert_int_equal(gp_safetensors_open(fixture_path("folder"), &file, &err), GP_OK);
    assert_int_equal(gp_safetensors_count(file), 2);
    assert_int_equal(gp_safetensors_read(file, gp_safetensors_find(file, "b"), 0, sizeof b, back, &err), GP_OK);
    assert_memory_equal(back, b, sizeof b);
    assert_int_equal(gp_safetensors_read(file, gp_safetensors_find(file, "a"), 4, 4, back, &err), GP_OK);
    assert_memory_equal(back, &a[1], 4);
    assert_null(gp_safetensors_find(file, "c"));
    assert_string_equal(gp_safetensors_metadata(file, "kind"), "first");
    assert_int_equal(gp_safetensors_check_sum(file, &err), GP_OK);
    assert_true(gp_safetensors_held(file) > 0);
    gp_safetensors_close(&file);
}

/* A part of another snapshot of the same form. */
static void finds_a_part_of_another_snapshot(void **state) {
    (void)state;
    char sums[2][GP_CHECKSUM_DIGITS + 1];
    gp_error err = {0};
    gp_safetensors *file = NULL;
    write_parts(sums);
    write_index(whole, sums[0], sums[0]);
    assert_int_equal(gp_safetensors_open(fixture_path("folder"), &file, &err), GP_OK);
    assert_int_equal(gp_safetensors_check_sum(file, &err), GP_DATA);
    assert_non_null(strstr(err.text, "the checksum of part-1.safetensors is not that of the file"));
    assert_int_equal(gp_safetensors_check_any_sum(file, &err), GP_DATA);
    gp_safetensors_close(&file);
}

/* As Hugging Face's are, whose parts may come from anywhere. */
static void an_index_may_have_no_checksums(void **state) {
    (void)state;
    char sums[2][GP_CHECKSUM_DIGITS + 1];
    const gp_safetensors_item plain = {.name = "b", .dtype = GP_F32, .rank = 1, .dim = {3}, .data = b};
    gp_error err = {0};
    gp_safetensors *file = NULL;
    write_parts(sums);
    assert_int_equal(gp_safetensors_write(fixture_path("folder/part-1.safetensors"), &plain, 1, NULL, &err), GP_OK);
    write_index("{\"weight_map\": {\"a\": \"part-0.safetensors\", \"b\": \"part-1.safetensors\"}}%s%s", "", "");
    assert_int_equal(gp_safetensors_open(fixture_path("folder"), &file, &err), GP_OK);
    assert_int_equal(gp_safetensors_check_sum(file, &err), GP_DATA);
    assert_int_equal(gp_safetensors_check_any_sum(file, &err), GP_OK);
    gp_safetensors_close(&file);
    FILE *part = fopen(fixture_path("folder/part-0.safetensors"), "r+");
    assert_non_null(part);
    assert_int_equal(fseek(part, -1, SEEK_END), 0);
    fputc(1, part);
    fclose(part);
    assert_int_equal(gp_safetensors_open(fixture_path("folder"), &file, &err), GP_OK);
    assert_int_equal(gp_safetensors_check_any_sum(file, &err), GP_DATA);
    assert_non_null(strstr(err.text, "part-0.safetensors: offset"));
    gp_safetensors_close(&file);
}

static void finds_a_changed_byte(void **state) {
    (void)state;
    char sums[2][GP_CHECKSUM_DIGITS + 1];
    gp_error err = {0};
    gp_safetensors *file = NULL;
    write_parts(sums);
    write_index(whole, sums[0], sums[1]);
    FILE *part = fopen(fixture_path("folder/part-1.safetensors"), "r+");
    assert_non_null(part);
    assert_int_equal(fseek(part, -1, SEEK_END), 0);
    fputc(1, part);
    fclose(part);
    assert_int_equal(gp_safetensors_open(fixture_path("folder"), &file, &err), GP_OK);
    assert_int_equal(gp_safetensors_check_sum(file, &err), GP_DATA);
    assert_non_null(strstr(err.text, "part-1.safetensors: offset"));
    gp_safetensors_close(&file);
}

static void refuses_indices(void **state) {
    (void)state;
    static const struct {
        const char *index, *sentence;
    } cases[] = {
        {"", "is no JSON"},
        {"{\"weight_map\": []}", "has no weight_map"},
        {"{\"weight_map\": {}}", "names 0 files; 1 to 4096 are read"},
        {"{\"weight_map\": {\"a\": 1}}", "tensor \"a\" is in no file of the folder"},
        {"{\"weight_map\": {\"a\": \"../part-0.safetensors\"}}", "tensor \"a\" is in no file of the folder"},
        {"{\"weight_map\": {\"a\": \".\"}}", "tensor \"a\" is in no file of the folder"},
        {"{\"metadata\": {\"xxh3-128\": {\"../x\": \"\"}}, \"weight_map\": {\"a\": \"part-0.safetensors\"}}",
         "\"../x\" is no file of the folder"},
        {"{\"weight_map\": {\"a\": \"part-2.safetensors\"}}", "part-2.safetensors: cannot be opened"},
        {"{\"weight_map\": {\"a\": \"inner\"}}", "folder/inner: is not a regular file"},
        {"{\"weight_map\": {\"b\": \"part-0.safetensors\"}}",
         "\"part-0.safetensors\" has tensor \"a\", but the index does not name it"},
        {"{\"weight_map\": {\"a\": \"part-1.safetensors\", \"b\": \"part-0.safetensors\"}}",
         "but the index says that another file has it"},
        {"{\"weight_map\": {\"a\": \"part-0.safetensors\", \"c\": \"part-0.safetensors\"}}",
         "names 2 tensors, but the files have 1"},
    };
    char sums[2][GP_CHECKSUM_DIGITS + 1];
    write_parts(sums);
    mkdir(fixture_path("folder/inner"), 0777);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gp_error err = {0};
        gp_safetensors *file = NULL;
        write_index("%s%s", cases[i].index, "");
        assert_int_equal(gp_safetensors_open(fixture_path("folder"), &file, &err), GP_DATA);
        assert_null(file);
        if (!strstr(err.text, cases[i].sentence)) fail_msg("%s: %s", cases[i].index, err.text);
    }
    unlink(fixture_path("folder/" GP_SAFETENSORS_INDEX));
    gp_error err = {0};
    gp_safetensors *file = NULL;
    assert_int_equal(gp_safetensors_open(fixture_path("folder"), &file, &err), GP_DATA);
    assert_non_null(strstr(err.text, "folder: is a folder without " GP_SAFETENSORS_INDEX));
}

static int remove_all(void **state) {
    unlink(fixture_path("folder/part-0.safetensors"));
    unlink(fixture_path("folder/part-1.safetensors"));
    unlink(fixture_path("folder/" GP_SAFETENSORS_INDEX));
    rmdir(fixture_path("folder/inner"));
    rmdir(fixture_path("folder"));
    return fixture_remove(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_read_as_one_file),
        cmocka_unit_test(finds_a_part_of_another_snapshot),
        cmocka_unit_test(an_index_may_have_no_checksums),
        cmocka_unit_test(finds_a_changed_byte),
        cmocka_unit_test(refuses_indices),
    };
    return cmocka_run_group_tests(tests, fixture_make, remove_all);
}
