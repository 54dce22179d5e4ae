/* What every room stands on: draws, hashes, error texts, checked sizes, shapes. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/finite.h"
#include "base/memory.h"
#include "base/philox.h"
#include "base/printable.h"
#include "base/shape.h"
#include "base/status.h"

/* Sanitizers end the program where calloc cannot give what is asked for, unless told otherwise. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1";
}
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) {
    return "allocator_may_return_null=1";
}

/* Random123's published vectors for philox4x32-10 (kat_vectors). */
static void test_philox_known_answers(void **state) {
    (void)state;
    static const struct {
        gp_philox counter;
        uint64_t seed;
        gp_philox draw;
    } known[] = {
        {{{0, 0, 0, 0}}, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
        {{{UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}},
         UINT64_MAX,
         {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
        {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
         0x299f31d0a4093822,
         {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        gp_philox draw = gp_philox_draw(known[i].seed, known[i].counter);
        for (int w = 0; w < 4; w++) assert_int_equal(draw.word[w], known[i].draw.word[w]);
    }
}

static void test_uniform(void **state) {
    (void)state;
    assert_true(gp_philox_uniform(0) == 0);
    assert_true(gp_philox_uniform(0xFF) == 0);
    assert_true(gp_philox_uniform(0x100) == 0x1p-24);
    assert_true(gp_philox_uniform(0x80000000) == 0.5);
    assert_true(gp_philox_uniform(UINT32_MAX) == 1 - 0x1p-24);
    assert_true((float)gp_philox_uniform(UINT32_MAX) < 1);
}

static void test_nonfinite(void **state) {
    (void)state;
    char text[GP_NONFINITE_TEXT];
    const double inf = (double)INFINITY;
    double wide[5] = {0, DBL_MAX, -DBL_MAX, 4.9e-324, -0.0};
    float narrow[5] = {0, FLT_MAX, -FLT_MAX, 1e-45F, -0.0F};
    gp_nonfinite none = gp_nonfinite_find(GP_F64, wide, 5);
    assert_true(none.count == 0 && none.at == 0 && none.first == GP_FINITE);
    assert_int_equal(gp_nonfinite_find(GP_F32, narrow, 5).count, 0);
    assert_int_equal(gp_nonfinite_find(GP_F32, NULL, 0).count, 0);
    narrow[2] = -INFINITY;
    narrow[4] = NAN;
    gp_nonfinite found = gp_nonfinite_find(GP_F32, narrow, 5);
    assert_true(found.count == 2 && found.at == 2 && found.first == GP_NEGATIVE_INFINITE);
    assert_string_equal(gp_nonfinite_text(text, found, 5), "2 of 5 elements, the first is -inf");
    wide[0] = inf;
    found = gp_nonfinite_find(GP_F64, wide, 1);
    assert_true(found.count == 1 && found.at == 0 && found.first == GP_POSITIVE_INFINITE);
    assert_string_equal(gp_nonfinite_text(text, found, 1), "1 of 1 element, the first is inf");
    assert_int_equal(gp_finite_of(-(double)NAN), GP_NAN);
}

/* FNV-1a's published vectors, 64 bits. */
static void test_hash(void **state) {
    (void)state;
    assert_true(gp_hash_text("") == 0xcbf29ce484222325);
    assert_true(gp_hash_text("a") == 0xaf63dc4c8601ec8c);
    assert_true(gp_hash_text("foobar") == 0x85944171f73967e8);
    assert_true(gp_hash_bytes(0, "foobar", 6) == gp_hash_text("foobar"));
    uint64_t begun = gp_hash_bytes(0, "foo", 3);
    assert_true(gp_hash_bytes(begun, "bar", 3) == gp_hash_text("foobar"));
}

static void test_status_exits(void **state) {
    (void)state;
    static const struct {
        gp_status status;
        int exit;
    } all[] = {{GP_OK, 0},       {GP_USAGE, 2},   {GP_CONFIG, 2},        {GP_DATA, 1},
               {GP_IO, 1},       {GP_MEMORY, 1},  {GP_DEVICE, 1},        {GP_UNSUPPORTED, 1},
               {GP_PROGRAM, 1},  {GP_NUMERIC, 1}, {GP_CANCELLED, 1},     {GP_INJECTED, 1},
               {GP_INTERNAL, 1}, {GP_LOST, 1},    {GP_INTERRUPTED, 130}, {(gp_status)1000, 1}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_int_equal(gp_status_exit(all[i].status), all[i].exit);
    }
}

static void test_error_texts(void **state) {
    (void)state;
    gp_error err = {0};
    assert_int_equal(gp_fail(&err, GP_DATA, "%s: %d bytes", "a.idx", 3), GP_DATA);
    assert_int_equal(err.status, GP_DATA);
    assert_string_equal(err.text, "a.idx: 3 bytes");
    assert_int_equal(gp_error_context(&err, "stage %d: ", 2), GP_DATA);
    assert_string_equal(err.text, "stage 2: a.idx: 3 bytes");
    assert_int_equal(gp_fail(NULL, GP_IO, "nobody reads this"), GP_IO);
    assert_int_equal(gp_fail_at(NULL, GP_IO, (gp_place){0}, "nor this"), GP_IO);
}

static gp_status add_mistake(gp_error *err, gp_status before, gp_status status, const char *text) {
    gp_error next = {0};
    if (status != GP_OK) gp_fail(&next, status, "%s", text);
    return gp_error_join(err, before, &next);
}

static void test_joined_mistakes(void **state) {
    (void)state;
    gp_error err = {0}, other = {0};
    assert_int_equal(add_mistake(&err, GP_OK, GP_OK, ""), GP_OK);
    assert_int_equal(add_mistake(&err, GP_OK, GP_CONFIG, "a"), GP_CONFIG);
    assert_string_equal(err.text, "a");
    assert_int_equal(add_mistake(&err, GP_CONFIG, GP_OK, ""), GP_CONFIG);
    assert_int_equal(add_mistake(&err, GP_CONFIG, GP_CONFIG, "b\nc"), GP_CONFIG);
    assert_int_equal(add_mistake(&err, GP_CONFIG, GP_CONFIG, "a"), GP_CONFIG); /* said before */
    assert_string_equal(err.text, "a\nb?c");
    /* Ten lines, and the number of the others. */
    for (char c = 'd'; c < 'd' + 8; c++) add_mistake(&err, GP_CONFIG, GP_CONFIG, (const char[]){c, '\0'});
    assert_string_equal(err.text, "a\nb?c\nd\ne\nf\ng\nh\ni\nj\nk");
    add_mistake(&err, GP_CONFIG, GP_CONFIG, "l");
    assert_string_equal(err.text, "a\nb?c\nd\ne\nf\ng\nh\ni\nj\nk\nand 1 more mistake");
    gp_error_join(&other, GP_OK, &err);
    add_mistake(&other, GP_CONFIG, GP_CONFIG, "m");
    assert_string_equal(other.text, "a\nb?c\nd\ne\nf\ng\nh\ni\nj\nk\nand 2 more mistakes");
    assert_int_equal(gp_error_context(&other, "x: "), GP_CONFIG);
    /* Joining joined ones counts what both do not say. */
    gp_error third = {0};
    add_mistake(&third, GP_OK, GP_CONFIG, "z");
    gp_error_join(&third, GP_CONFIG, &err);
    assert_string_equal(third.text, "z\na\nb?c\nd\ne\nf\ng\nh\ni\nj\nand 2 more mistakes");
    /* Another failure stands alone, whichever comes first. */
    assert_int_equal(add_mistake(&err, GP_CONFIG, GP_MEMORY, "out of memory"), GP_MEMORY);
    assert_string_equal(err.text, "out of memory");
    assert_int_equal(add_mistake(&err, GP_MEMORY, GP_CONFIG, "n"), GP_MEMORY);
    assert_string_equal(err.text, "out of memory");
    assert_int_equal(add_mistake(NULL, GP_OK, GP_CONFIG, "nobody reads this"), GP_CONFIG);
}

static void test_joined_long_mistakes(void **state) {
    (void)state;
    gp_error err = {0};
    gp_status status = GP_OK;
    char text[GP_ERROR_TEXT * 2];
    for (int length = 2 * GP_ERROR_TEXT - 1; length > 0; length -= 301) {
        memset(text, 'a' + length % 26, (size_t)length);
        text[length] = '\0';
        status = add_mistake(&err, status, GP_CONFIG, text);
        assert_true(strlen(err.text) < GP_ERROR_TEXT);
    }
    assert_non_null(strstr(err.text, "…\nand "));
    assert_string_equal(err.text + strlen(err.text) - 9, " mistakes");
}

static void test_places(void **state) {
    (void)state;
    gp_error err = {0};
    assert_int_equal(gp_fail_at(&err, GP_CONFIG, (gp_place){"a.yaml", 4, 7}, "no \"%s\"", "model"), GP_CONFIG);
    assert_string_equal(err.text, "a.yaml:4:7: no \"model\"");
    assert_int_equal(gp_fail_at(&err, GP_CONFIG, (gp_place){"a.yaml", 4, 0}, "x"), GP_CONFIG);
    assert_string_equal(err.text, "a.yaml:4: x");
    assert_int_equal(gp_fail_at(&err, GP_CONFIG, (gp_place){"a.yaml", 0, 7}, "x"), GP_CONFIG);
    assert_string_equal(err.text, "a.yaml: x");
    assert_int_equal(gp_fail_at(&err, GP_CONFIG, (gp_place){NULL, 4, 7}, "x"), GP_CONFIG);
    assert_string_equal(err.text, "x");
}

/* What a message quotes begins no line and says nothing to a terminal; the status and the rest stay. */
static void test_control_characters(void **state) {
    (void)state;
    gp_error err = {0};
    assert_int_equal(gp_fail(&err, GP_DATA, "near '%s'", "a\nb\x1b[31m\x7f"), GP_DATA);
    assert_string_equal(err.text, "near 'a?b?[31m?'");
    assert_int_equal(gp_fail_at(&err, GP_DATA, (gp_place){"a\tb", 1, 2}, "key \"%s\"", "ß\r"), GP_DATA);
    assert_string_equal(err.text, "a?b:1:2: key \"ß?\"");
    assert_int_equal(gp_error_context(&err, "%s: ", "\a"), GP_DATA);
    assert_string_equal(err.text, "?: a?b:1:2: key \"ß?\"");
}

static void expect_printed(const char *text, const char *wanted) {
    char copy[64];
    snprintf(copy, sizeof copy, "%s", text);
    assert_ptr_equal(gp_make_printable(copy), copy);
    assert_string_equal(copy, wanted);
}

/* Each character that is not printed is one '?', as is each byte that is no UTF-8. */
static void test_printable(void **state) {
    (void)state;
    expect_printed("", "");
    expect_printed("aé日😀…\"\\\xE3\x80\x80\xF4\x8F\xBF\xBD", "aé日😀…\"\\\xE3\x80\x80\xF4\x8F\xBF\xBD");
    expect_printed("a\u00A0-\u200B-\u202F-\uFEFF-\U000E0041z", "a?-?-?-?-?z"); /* cannot be seen */
    expect_printed("\x01\x1B\x7F\n\t", "?????");
    expect_printed("\xC2\x80\xC2\x85\xC2\x9B\xC2\x9F", "????");
    expect_printed("\u061C\u200E\u200F\u2028\u2029\u202A\u202E\u2066\u2069", "?????????");
    expect_printed("\u061B\u061D\u2010\u2027\u2030\u2070", "\u061B\u061D\u2010\u2027\u2030\u2070");
    expect_printed("a\x9B\xFFz", "a??z");              /* C1 as bytes */
    expect_printed("\xC0\xAF|\xE0\x80\xAF", "??|???"); /* longer than they need be */
    expect_printed("\xED\xA0\x80|\xF4\x90\x80\x80|\xF8\x88\x80\x80\x80", "???|????|?????");
    expect_printed("a\xE2\x80", "a??"); /* cut off */
    expect_printed("\xE2\x80z\xC3", "??z?");
}

static void test_printed_lines(void **state) {
    (void)state;
    char *text = NULL, longest[9000];
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    gp_print(out, "%s of\n%s\n", "a\x1b", "b\n");
    gp_print(out, "%s", "c\n");
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    gp_print(out, "%s\n", longest);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(strncmp(text, "a? of?b?\nc?x", 12), 0);
    assert_int_equal(text[bytes - 1], '\n');
    assert_true(bytes > 8000 && bytes < sizeof longest);
    free(text);
}

/* The text that is cut keeps its beginning, fits, and ends with a whole "…" after whole characters. */
static void check_cut(const gp_error *err, const char *begin) {
    size_t length = strlen(err->text);
    assert_true(length < GP_ERROR_TEXT);
    assert_true(length > GP_ERROR_TEXT - 12);
    assert_memory_equal(err->text, begin, strlen(begin));
    assert_string_equal(err->text + length - strlen("…"), "…");
    const char *before = err->text + length - strlen("…");
    while (before > err->text && ((unsigned char)before[-1] & 0xC0) == 0x80) before--;
    if (before < err->text + length - strlen("…")) {
        /* The last character before the mark is of several bytes: its first byte says how many, and all are there. */
        unsigned char first = (unsigned char)before[-1];
        size_t bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
        assert_int_equal((size_t)(err->text + length - strlen("…") - (before - 1)), bytes);
    }
}

static void test_cut_texts(void **state) {
    (void)state;
    static const char *const fillers[] = {"x", "ß", "…", "𝛼"};
    for (size_t f = 0; f < 4; f++) {
        for (int shift = 0; shift < 5; shift++) {
            char text[3 * GP_ERROR_TEXT] = "begin ";
            gp_error err = {0};
            for (int i = 0; i < shift; i++) strcat(text, ".");
            while (strlen(text) + 5 < 2 * GP_ERROR_TEXT) strcat(text, fillers[f]);
            assert_int_equal(gp_fail(&err, GP_DATA, "%s", text), GP_DATA);
            check_cut(&err, "begin ");
            assert_int_equal(gp_fail_at(&err, GP_DATA, (gp_place){"path", 1, 2}, "%s", text), GP_DATA);
            check_cut(&err, "path:1:2: begin ");
            assert_int_equal(gp_error_context(&err, "worker 1: "), GP_DATA);
            check_cut(&err, "worker 1: path:1:2: begin ");
            assert_int_equal(gp_fail_at(&err, GP_DATA, (gp_place){text, 1, 2}, "lost"), GP_DATA);
            check_cut(&err, "begin ");
        }
    }
}

/* The longest that is not cut. */
static void test_full_text(void **state) {
    (void)state;
    char text[GP_ERROR_TEXT];
    gp_error err = {0};
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    assert_int_equal(gp_fail(&err, GP_DATA, "%s", text), GP_DATA);
    assert_string_equal(err.text, text);
}

static void test_checked_sizes(void **state) {
    (void)state;
    size_t size;
    int64_t number;
    assert_true(gp_size_mul(6, 7, &size) && size == 42);
    assert_false(gp_size_mul(SIZE_MAX / 2 + 1, 2, &size));
    assert_true(gp_size_add(SIZE_MAX - 1, 1, &size) && size == SIZE_MAX);
    assert_false(gp_size_add(SIZE_MAX, 1, &size));
    assert_true(gp_size_times(6, 7) == 42 && gp_size_times(SIZE_MAX / 2 + 1, 2) == SIZE_MAX);
    assert_true(gp_size_plus(6, 7) == 13 && gp_size_plus(SIZE_MAX, 1) == SIZE_MAX);
    assert_true(gp_int64_mul(-6, 7, &number) && number == -42);
    assert_false(gp_int64_mul(INT64_MIN, -1, &number));
    assert_true(gp_int64_add(INT64_MAX - 1, 1, &number) && number == INT64_MAX);
    assert_false(gp_int64_add(INT64_MAX, 1, &number));
    assert_int_equal(gp_align_up(0, 128), 0);
    assert_int_equal(gp_align_up(1, 128), 128);
    assert_int_equal(gp_align_up(128, 128), 128);
    assert_int_equal(gp_align_up(129, 128), 256);
}

static void test_arrays(void **state) {
    (void)state;
    gp_error err = {0};
    int *numbers = NULL;
    assert_int_equal(GP_NEW(&numbers, 5, &err), GP_OK);
    for (int i = 0; i < 5; i++) assert_int_equal(numbers[i], 0);
    free(numbers);
    assert_int_equal(GP_NEW(&numbers, 0, &err), GP_OK);
    assert_non_null(numbers);
    free(numbers);
    numbers = NULL;
    void *block = &block;
    assert_int_equal(gp_new_array(&block, SIZE_MAX / 2, 4, &err), GP_MEMORY);
    assert_ptr_equal(block, &block);
    char expected[64];
    snprintf(expected, sizeof expected, "out of memory: %zu × 4 bytes", SIZE_MAX / 2);
    assert_string_equal(err.text, expected);
}

static void test_growing(void **state) {
    (void)state;
    gp_error err = {0};
    int *numbers = NULL;
    size_t capacity = 0;
    for (size_t n = 1; n <= 100; n++) {
        size_t before = capacity;
        assert_int_equal(GP_GROW(&numbers, &capacity, n, &err), GP_OK);
        assert_true(capacity >= n);
        if (n <= before) assert_int_equal(capacity, before);
        for (size_t i = n - 1; i < capacity; i++) assert_int_equal(numbers[i], 0);
        numbers[n - 1] = (int)n;
    }
    for (size_t i = 0; i < 100; i++) assert_int_equal(numbers[i], i + 1);
    int *same = numbers;
    assert_int_equal(GP_GROW(&numbers, &capacity, SIZE_MAX / 2, &err), GP_MEMORY);
    assert_int_equal(GP_GROW(&numbers, &capacity, SIZE_MAX, &err), GP_MEMORY);
    assert_ptr_equal(numbers, same);
    assert_int_equal(numbers[99], 100);
    free(numbers);
}

static void test_texts(void **state) {
    (void)state;
    gp_error err = {0};
    char *text = NULL;
    assert_int_equal(gp_copy_text(&text, "abc", &err), GP_OK);
    assert_string_equal(text, "abc");
    free(text);
    assert_int_equal(gp_format_text(&text, &err, "%d-%s", 3, "x"), GP_OK);
    assert_string_equal(text, "3-x");
    free(text);
}

static void test_bytes_text(void **state) {
    (void)state;
    static const struct {
        size_t bytes;
        const char *text;
    } known[] = {
        {0, "0 B"},
        {1023, "1023 B"},
        {1024, "1.00 KiB"},
        {1536, "1.50 KiB"},
        {10 * 1024, "10.0 KiB"},
        {1048575, "1.00 MiB"},
        {(size_t)3 << 29, "1.50 GiB"},
        {(size_t)1 << 40, "1.00 TiB"},
        {SIZE_MAX, "16.0 EiB"},
    };
    char buffer[32];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_string_equal(gp_bytes_text(buffer, known[i].bytes), known[i].text);
}

static void test_dtypes(void **state) {
    (void)state;
    gp_dtype dtype = GP_U8;
    assert_int_equal(gp_dtype_size(GP_F32), 4);
    assert_int_equal(gp_dtype_size(GP_F64), 8);
    assert_int_equal(gp_dtype_size(GP_I32), 4);
    assert_int_equal(gp_dtype_size(GP_I64), 8);
    assert_int_equal(gp_dtype_size(GP_U8), 1);
    assert_string_equal(gp_dtype_name(GP_F64), "F64");
    assert_true(gp_dtype_find("I32", &dtype));
    assert_int_equal(dtype, GP_I32);
    assert_true(gp_dtype_find("BF16", &dtype));
    assert_int_equal(dtype, GP_BF16);
    assert_int_equal(gp_dtype_size(GP_BF16), 2);
    assert_int_equal(gp_dtype_size(GP_F16), 2);
    assert_false(gp_dtype_find("F8", &dtype));
    assert_int_equal(dtype, GP_BF16);
    assert_true(gp_dtype_is_real(GP_F16) && gp_dtype_is_real(GP_F64));
    assert_false(gp_dtype_is_real(GP_I32) || gp_dtype_is_real(GP_I64) || gp_dtype_is_real(GP_U8));
}

static void test_shapes(void **state) {
    (void)state;
    char text[GP_SHAPE_TEXT];
    int64_t elements = -1;
    gp_shape shape = {3, {16, 28, 3, 99}}, same = {3, {16, 28, 3, 5}}, shorter = {2, {16, 28}};
    assert_string_equal(gp_shape_text(text, shape), "[16, 28, 3]");
    assert_string_equal(gp_shape_text(text, (gp_shape){0}), "[]");
    gp_shape largest = {4, {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX}};
    assert_true(strlen(gp_shape_text(text, largest)) < GP_SHAPE_TEXT);
    assert_int_equal(text[strlen(text) - 1], ']');
    assert_true(gp_shape_equal(shape, same));
    assert_false(gp_shape_equal(shape, shorter));
    same.dim[1] = 27;
    assert_false(gp_shape_equal(shape, same));
    assert_true(gp_shape_elements(shape, &elements));
    assert_int_equal(elements, 16 * 28 * 3);
    assert_true(gp_shape_elements((gp_shape){0}, &elements));
    assert_int_equal(elements, 1);
    assert_false(gp_shape_elements(largest, &elements));
    assert_false(gp_shape_elements((gp_shape){2, {3, 0}}, &elements));
    assert_false(gp_shape_elements((gp_shape){2, {-1, -1}}, &elements));
    assert_int_equal(elements, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox_known_answers),
        cmocka_unit_test(test_uniform),
        cmocka_unit_test(test_nonfinite),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_status_exits),
        cmocka_unit_test(test_error_texts),
        cmocka_unit_test(test_joined_mistakes),
        cmocka_unit_test(test_joined_long_mistakes),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_control_characters),
        cmocka_unit_test(test_printable),
        cmocka_unit_test(test_printed_lines),
        cmocka_unit_test(test_cut_texts),
        cmocka_unit_test(test_full_text),
        cmocka_unit_test(test_checked_sizes),
        cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_growing),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_bytes_text),
        cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_shapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
