#include "base/json_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static void expect(const char *text, const char *wanted) {
    char *found = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&found, &bytes);
    assert_non_null(out);
    gp_json_text(out, text);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(found, wanted);
    free(found);
}

static void what_needs_no_escape_stays(void **state) {
    (void)state;
    expect("", "\"\"");
    expect("F s1 m3", "\"F s1 m3\"");
    expect("/runs/été/模型.yaml\x7f", "\"/runs/été/模型.yaml\x7f\"");
    expect("\xF0\x9F\x98\x80", "\"\xF0\x9F\x98\x80\""); /* four bytes */
}

static void quotes_backslashes_and_control_characters_are_escaped(void **state) {
    (void)state;
    expect("a \"b\" \\c", "\"a \\\"b\\\" \\\\c\"");
    expect("\n\t\x01\x1f", "\"\\u000a\\u0009\\u0001\\u001f\"");
}

/* A byte that begins no character, one that goes on with none, one that ends too early, and a form that is too long. */
static void bytes_that_are_no_utf_8_are_replaced(void **state) {
    (void)state;
    expect("\xff", "\"\\ufffd\"");
    expect("a\x80z", "\"a\\ufffdz\"");
    expect("\xC3", "\"\\ufffd\"");
    expect("\xC3\xA9\xC3z", "\"\xC3\xA9\\ufffdz\"");
    expect("\xC0\xAF", "\"\\ufffd\\ufffd\"");
    expect("\xED\xA0\x80", "\"\\ufffd\\ufffd\\ufffd\""); /* a surrogate */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_needs_no_escape_stays),
        cmocka_unit_test(quotes_backslashes_and_control_characters_are_escaped),
        cmocka_unit_test(bytes_that_are_no_utf_8_are_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
