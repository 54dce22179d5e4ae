/* Texts in memory: the caller gets the text, or the first failure and no text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/text_stream.h"

static gp_error err;

static void hands_the_text_over(void **state) {
    (void)state;
    gp_text_stream stream;
    char *text = NULL;
    assert_int_equal(gp_text_begin(&stream, "a test", &err), GP_OK);
    fprintf(stream.file, "[%d]", 7);
    assert_int_equal(gp_text_end(&stream, GP_OK, &text, &err), GP_OK);
    assert_string_equal(text, "[7]");
    free(text);
    assert_int_equal(gp_text_begin(&stream, "a test", &err), GP_OK);
    assert_int_equal(gp_text_end(&stream, GP_OK, &text, &err), GP_OK);
    assert_string_equal(text, "");
    free(text);
}

static void keeps_the_first_failure(void **state) {
    (void)state;
    gp_text_stream stream;
    char *text = NULL;
    assert_int_equal(gp_text_begin(&stream, "a test", &err), GP_OK);
    fputs("lost", stream.file);
    assert_int_equal(gp_text_end(&stream, gp_fail(&err, GP_CONFIG, "the cause"), &text, &err), GP_CONFIG);
    assert_string_equal(err.text, "the cause");
    assert_null(text);
}

/* A full device stands for memory that is used up. */
static void tells_that_the_text_is_not_whole(void **state) {
    (void)state;
    gp_text_stream stream;
    char *text = NULL;
    assert_int_equal(gp_text_begin(&stream, "a test", &err), GP_OK);
    assert_int_equal(fclose(stream.file), 0);
    stream.file = fopen("/dev/full", "w");
    assert_non_null(stream.file);
    fputs("lost", stream.file);
    assert_int_equal(gp_text_end(&stream, GP_OK, &text, &err), GP_MEMORY);
    assert_string_equal(err.text, "out of memory: a test");
    assert_null(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hands_the_text_over),
        cmocka_unit_test(keeps_the_first_failure),
        cmocka_unit_test(tells_that_the_text_is_not_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
