/* The table of ops: docs/ops.md says what it says, and every op of a backward pass is named by an op of a forward pass.
 * With GP_WRITE_DOCS set, writes docs/ops.md instead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/op_info.h"

enum { DOCUMENT = 1 << 16 };

static const char *const documents = GP_TEST_SOURCE_DIR "/../docs/ops.md";

typedef struct row {
    const char *attributes, *gradients, *meaning;
} row;

static const row rows[GP_OP_KINDS] = {
#define GP_OP(NAME, name, attributes, rule, flags, operations, operand, gradients, meaning, ...)                       \
    [GP_OP_##NAME] = {#attributes, #gradients, meaning},
#include "device/op_table.inc"
};

static const char *const head =
    "# Ops\n\n"
    "This page is made from `src/device/op_table.inc`, which also explains the shapes: a digit is a size, a small "
    "letter\n"
    "a size that the operand sets, a capital the same size elsewhere, `*` any dimensions, `&` the same dimensions. "
    "The\n"
    "test `op_table` compares the two; `GP_WRITE_DOCS=1 build/tests/test_op_table` writes the page again.\n\n"
    "Operands stand as `name:shape`, what is read before `→`, what is written after it; what is updated stands on both "
    "sides.\n"
    "`?` may be absent, `=` the first output may replace it. The type is the op's, except: `~` in any format of the "
    "device,\n"
    "`@` any type, `#` U8 (I32 for large windows), `/I64`, `/F64`, and `!` the numbers of the step.\n\n"
    "| op | what it computes | operands | gradients |\n|---|---|---|---|\n";

static void add(char *text, const char *format, ...) {
    size_t length = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + length, DOCUMENT - length, format, args);
    va_end(args);
    assert_true(strlen(text) < DOCUMENT - 1);
}

static void add_lower(char *text, const char *words) {
    for (; *words; words++) add(text, "%c", tolower((unsigned char)*words));
}

static void add_operands(char *text, const gp_op_info *info, unsigned access) {
    static const char *const types[] = {
        [GP_OPERAND_REAL] = "",    [GP_OPERAND_WEIGHTS] = "~", [GP_OPERAND_ANY] = "@",    [GP_OPERAND_INDEX] = "#",
        [GP_OPERAND_I64] = "/I64", [GP_OPERAND_F64] = "/F64",  [GP_OPERAND_SCALARS] = "!"};
    for (int i = 0; i < info->operands; i++) {
        const gp_operand_info *operand = &info->operand[i];
        if (!(operand->access & access)) continue;
        const char *shape = operand->shape[0] == '?' ? "" : operand->shape;
        add(text, " `%s%s%s%s%s%s`", operand->name, *shape ? ":" : "", shape, types[operand->type],
            operand->access & GP_OPERAND_OPTIONAL ? "?" : "", operand->access & GP_OPERAND_REPLACED ? "=" : "");
    }
}

static void add_op(char *text, gp_op_kind kind) {
    const gp_op_info *info = gp_op_info_of(kind);
    add(text, "| `%s` | ", info->name);
    for (const char *at = rows[kind].meaning; *at; at++) add(text, *at == '|' ? "\\|" : "%c", *at);
    if (strcmp(rows[kind].attributes, "none") != 0) add(text, " (`gp_%s_attributes`)", rows[kind].attributes);
    add(text, " |");
    add_operands(text, info, GP_OPERAND_READ);
    add(text, " →");
    add_operands(text, info, GP_OPERAND_WRITTEN);
    add(text, " |");
    if (strcmp(rows[kind].gradients, "(NONE)") != 0) {
        for (const char *at = rows[kind].gradients + 1; *at; at += strspn(at, ", )")) {
            size_t length = strcspn(at, ",)");
            char name[64];
            snprintf(name, sizeof name, "%.*s", (int)length, at);
            add(text, " `");
            add_lower(text, name);
            add(text, "`");
            at += length;
        }
    }
    add(text, " |\n");
}

static void test_document(void **state) {
    (void)state;
    static char made[DOCUMENT], there[DOCUMENT];
    add(made, "%s", head);
    for (int kind = 0; kind < GP_OP_KINDS; kind++) add_op(made, (gp_op_kind)kind);
    bool write = getenv("GP_WRITE_DOCS") != NULL;
    FILE *file = fopen(documents, write ? "w" : "r");
    assert_non_null(file);
    if (write)
        assert_true(fputs(made, file) >= 0);
    else
        there[fread(there, 1, sizeof there - 1, file)] = 0;
    fclose(file);
    if (!write && strcmp(made, there) != 0)
        fail_msg("docs/ops.md is not what the table says: run GP_WRITE_DOCS=1 build/tests/test_op_table");
}

static bool is_a_gradient(gp_op_kind kind) {
    char name[64] = "";
    add_lower(name, gp_op_name(kind));
    for (int other = 0; other < GP_OP_KINDS; other++) {
        static char gradients[512];
        gradients[0] = 0;
        add_lower(gradients, rows[other].gradients);
        for (char *word = strtok(gradients, "(), "); word; word = strtok(NULL, "(), "))
            if (strcmp(word, name) == 0) return true;
    }
    return false;
}

static void test_every_backward_op_is_a_gradient(void **state) {
    (void)state;
    for (int kind = 0; kind < GP_OP_KINDS; kind++) {
        bool backward = strstr(gp_op_name((gp_op_kind)kind), "_backward") != NULL;
        if (backward && !is_a_gradient((gp_op_kind)kind))
            fail_msg("%s is the gradient of no op", gp_op_name((gp_op_kind)kind));
    }
}

/* As many operands as an op may have: the macros reach them all. */
#define FIRST_OF(context, a) context + a,
static void test_sixteen_entries(void **state) {
    (void)state;
    const int numbers[] = {GP_EACH(FIRST_OF, 100, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)};
    const int one[] = {GP_EACH(FIRST_OF, 200, 7)};
    assert_int_equal(sizeof numbers / sizeof numbers[0], GP_MAX_OPERANDS);
    for (int i = 0; i < GP_MAX_OPERANDS; i++) assert_int_equal(numbers[i], 100 + i);
    assert_int_equal(one[0], 207);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_document),
        cmocka_unit_test(test_every_backward_op_is_a_gradient),
        cmocka_unit_test(test_sixteen_entries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
