/* The YAML tree: places, bounds, hostile files, overrides, and writing what reads back as the same. */
#include <dirent.h>
#include <fcntl.h>
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

#include "base/philox.h"
#include "config/tree.h"

static gp_error err;

static gp_yaml_document *parse(const char *text) {
    gp_yaml_document *document = NULL;
    if (gp_yaml_parse(text, strlen(text), "t.yaml", &document, &err) != GP_OK) fail_msg("%s", err.text);
    return document;
}

static void assert_refused(const char *text, size_t bytes, const char *message) {
    gp_yaml_document *document = NULL;
    assert_int_equal(gp_yaml_parse(text, bytes, "t.yaml", &document, &err), GP_CONFIG);
    assert_null(document);
    assert_string_equal(err.text, message);
}

static void assert_place(const gp_yaml *node, int line, int column) {
    assert_non_null(node);
    assert_string_equal(node->place.path, "t.yaml");
    assert_int_equal(node->place.line, line);
    assert_int_equal(node->place.column, column);
}

static void assert_text(const gp_yaml *node, const char *text, bool quoted) {
    assert_non_null(node);
    assert_int_equal(node->kind, GP_YAML_SCALAR);
    assert_string_equal(node->text, text);
    assert_int_equal(node->quoted, quoted);
}

/* Equal but for places. */
static bool trees_equal(const gp_yaml *a, const gp_yaml *b) {
    if (!a || !b) return a == b;
    if (a->kind != b->kind) return false;
    if (a->kind == GP_YAML_SCALAR) return strcmp(a->text, b->text) == 0 && a->quoted == b->quoted;
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++) {
        bool same = a->kind == GP_YAML_SEQUENCE ? trees_equal(a->items[i], b->items[i])
                                                : trees_equal(a->pairs[i].key, b->pairs[i].key) &&
                                                      trees_equal(a->pairs[i].value, b->pairs[i].value);
        if (!same) return false;
    }
    return true;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static void knows_every_place(void **state) {
    (void)state;
    gp_yaml_document *d = parse("# comment\nmodel:\n  é: [a, {b: c}]\n  layers:\n    - conv: {out: 3}\n    - relu\n");
    gp_yaml *root = gp_yaml_root(d);
    assert_place(root, 2, 1);
    assert_place(gp_yaml_key(root, "model"), 2, 1);
    assert_place(gp_yaml_get(root, "model"), 3, 3);
    assert_place(gp_yaml_find(d, "model.é"), 3, 6); /* columns count characters */
    assert_place(gp_yaml_find(d, "model.é.1.b"), 3, 14);
    assert_place(gp_yaml_find(d, "model.layers.0.conv.out"), 5, 19);
    assert_place(gp_yaml_find(d, "model.layers.1"), 6, 7);
    assert_int_equal(gp_yaml_find(d, "model.layers")->count, 2);
    assert_null(gp_yaml_find(d, "model.layers.2"));
    assert_null(gp_yaml_find(d, "model.layers.-1"));
    assert_null(gp_yaml_find(d, "model.layers.1.x"));
    assert_null(gp_yaml_find(d, "model.lay"));
    assert_null(gp_yaml_find(d, "model..layers"));
    assert_null(gp_yaml_get(gp_yaml_find(d, "model.layers"), "0"));
    assert_null(gp_yaml_key(root, "data"));
    gp_yaml_destroy(&d);
    assert_null(d);
    gp_yaml_destroy(&d);
}

static void tells_quoted_from_plain(void **state) {
    (void)state;
    gp_yaml_document *d =
        parse("a: no\nb: 'no'\nc: \"1e3\"\nd: 1e3\ne: |\n  no\nf: two\n  lines\ng:\nh: ''\ni: \"x\\ty\"\n");
    assert_text(gp_yaml_find(d, "a"), "no", false);
    assert_text(gp_yaml_find(d, "b"), "no", true);
    assert_text(gp_yaml_find(d, "c"), "1e3", true);
    assert_text(gp_yaml_find(d, "d"), "1e3", false);
    assert_text(gp_yaml_find(d, "e"), "no\n", true);
    assert_text(gp_yaml_find(d, "f"), "two lines", false);
    assert_text(gp_yaml_find(d, "g"), "", false);
    assert_text(gp_yaml_find(d, "h"), "", true);
    assert_text(gp_yaml_find(d, "i"), "x\ty", true);
    gp_yaml_destroy(&d);
}

static void reads_what_windows_writes(void **state) {
    (void)state;
    gp_yaml_document *d = parse("\xEF\xBB\xBFmodel:\r\n  a: 1\r\n  b: 2\r\n");
    assert_place(gp_yaml_key(gp_yaml_root(d), "model"), 1, 1);
    assert_place(gp_yaml_find(d, "model.b"), 3, 6);
    assert_text(gp_yaml_find(d, "model.b"), "2", false);
    gp_yaml_destroy(&d);
    assert_refused("a: \"\r\n\xFF", 7, "t.yaml:2:1: byte 0xFF is not valid UTF-8");
    assert_refused("a: \"\r\xFF", 6, "t.yaml:2:1: byte 0xFF is not valid UTF-8");
}

static void has_no_root_where_empty(void **state) {
    (void)state;
    static const char *const empties[] = {"", "\n\n", "# only a comment", "---\n", "--- # nothing\n...\n"};
    for (size_t i = 0; i < sizeof empties / sizeof *empties; i++) {
        gp_yaml_document *d = parse(empties[i]);
        assert_null(gp_yaml_root(d));
        assert_null(gp_yaml_find(d, "a"));
        gp_yaml_destroy(&d);
    }
}

static void copies_what_an_alias_names(void **state) {
    (void)state;
    gp_yaml_document *d = parse("a: &x {lr: 1, list: [p, q]}\nb: *x\nc: [*x, *x]\n");
    assert_true(trees_equal(gp_yaml_find(d, "a"), gp_yaml_find(d, "b")));
    assert_place(gp_yaml_find(d, "b.lr"), 1, 12);
    assert_int_equal(gp_yaml_override(d, "b.lr=2", &err), GP_OK);
    assert_int_equal(gp_yaml_override(d, "c.1.list.0=r", &err), GP_OK);
    assert_text(gp_yaml_find(d, "a.lr"), "1", false);
    assert_text(gp_yaml_find(d, "b.lr"), "2", false);
    assert_text(gp_yaml_find(d, "c.0.lr"), "1", false);
    assert_text(gp_yaml_find(d, "c.0.list.0"), "p", false);
    assert_text(gp_yaml_find(d, "c.1.list.0"), "r", false);
    gp_yaml_destroy(&d);
    d = parse("- &x 1\n- &x 2\n- *x\n"); /* the latest counts */
    assert_text(gp_yaml_find(d, "2"), "2", false);
    gp_yaml_destroy(&d);
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static void assert_compared(const char *a, const char *b, bool same) {
    char before[64], now[64];
    snprintf(before, sizeof before, "x: %s\n", a);
    snprintf(now, sizeof now, "x: %s\n", b);
    gp_yaml_document *first = parse(before), *second = parse(now);
    bool differ = gp_yaml_differ("", gp_yaml_root(first), gp_yaml_root(second));
    if (differ == same) fail_msg("%s and %s are %s", a, b, same ? "the same" : "not the same");
    gp_yaml_destroy(&first);
    gp_yaml_destroy(&second);
}

static gp_status note_path(void *context, const gp_yaml_difference *difference, gp_error *error) {
    (void)error;
    strcat(context, difference->path);
    return GP_OK;
}

/* Later rules beat earlier ones; the options of one rule, and every other mapping, have no order. */
static void only_rules_have_an_order(void **state) {
    (void)state;
    static const struct {
        const char *before, *now, *path;
    } cases[] = {
        {"model: {rules: {a: {x: 1}, b: {y: 2}}}\n", "model: {rules: {b: {y: 2}, a: {x: 1}}}\n", "model.rules"},
        {"model: {rules: {a: {x: 1}, b: {y: 2}}}\n", "model: {rules: {a: {x: 1}, b: {y: 2}}}\n", NULL},
        {"model: {rules: {a: {x: 1, y: 2}}}\n", "model: {rules: {a: {y: 2, x: 1}}}\n", NULL},
        {"model: {rules: {a: {x: 1}}}\n", "model: {rules: {a: {x: 2}}}\n", "model.rules"},
        {"model: {rules: {a: {x: 1}}}\n", "model: {rules: {a: {x: 1}, b: {}}}\n", "model.rules"},
        {"model: {a: 1, b: 2}\n", "model: {b: 2, a: 1}\n", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[64] = "";
        gp_yaml_document *first = parse(cases[i].before), *second = parse(cases[i].now);
        assert_int_equal(gp_yaml_each_difference("", gp_yaml_root(first), gp_yaml_root(second), note_path, path, &err),
                         GP_OK);
        assert_string_equal(path, cases[i].path ? cases[i].path : "");
        gp_yaml_destroy(&first);
        gp_yaml_destroy(&second);
    }
}

static void numbers_are_compared_by_value(void **state) {
    (void)state;
    assert_compared("0.10", "0.1", true);
    assert_compared("1e3", "1000", true);
    assert_compared("+007", "7", true);
    assert_compared("-0", "0", true);
    assert_compared("0.1", "0.2", false);
    assert_compared("\"1\"", "1", false);
    assert_compared("-7", "7", false);
    assert_compared("1", "\"1.0\"", false);
    assert_compared("\"1.0\"", "1", false);
    assert_compared("-0", "+0", true);
    assert_compared("1.5", "1.5x", false);
    assert_compared("1.5x", "1.5", false);
    assert_compared("1.5", "x", false);
    assert_compared("x", "1.5", false);
    assert_compared("x", "y", false);
    assert_compared("9007199254740992", "9007199254740993", false); /* one double */
    assert_compared("18446744073709551614", "18446744073709551615", false);
}

/* ---- bounds ------------------------------------------------------------------------------------------------------ */

static char *repeat(const char *before, const char *unit, size_t times, const char *after, size_t *bytes) {
    size_t length = strlen(unit);
    *bytes = strlen(before) + times * length + strlen(after);
    char *text = malloc(*bytes + 1), *at = text;
    assert_non_null(text);
    at = stpcpy(at, before);
    for (size_t i = 0; i < times; i++, at += length) memcpy(at, unit, length);
    strcpy(at, after);
    return text;
}

static void accepts_repeated(const char *before, const char *unit, size_t times, const char *after) {
    size_t bytes;
    gp_yaml_document *d = NULL;
    char *text = repeat(before, unit, times, after, &bytes);
    if (gp_yaml_parse(text, bytes, "t.yaml", &d, &err) != GP_OK) fail_msg("%zu × %s: %s", times, unit, err.text);
    gp_yaml_destroy(&d);
    free(text);
}

static void refuses_repeated(const char *before, const char *unit, size_t times, const char *after, const char *says) {
    size_t bytes;
    gp_yaml_document *d = NULL;
    char *text = repeat(before, unit, times, after, &bytes);
    assert_int_equal(gp_yaml_parse(text, bytes, "t.yaml", &d, &err), GP_CONFIG);
    assert_null(d);
    if (!strstr(err.text, says)) fail_msg("%s does not say \"%s\"", err.text, says);
    free(text);
}

/* Each bound from both sides. */
static void holds_its_bounds(void **state) {
    (void)state;
    char brackets[GP_YAML_MAX_DEPTH + 1];
    memset(brackets, ']', GP_YAML_MAX_DEPTH);
    brackets[GP_YAML_MAX_DEPTH] = '\0';
    accepts_repeated("", "[", GP_YAML_MAX_DEPTH, brackets);
    refuses_repeated("", "[", GP_YAML_MAX_DEPTH + 1, brackets, "nested deeper than 64 levels");
    accepts_repeated("a: '", "x", GP_YAML_MAX_SCALAR, "'");
    refuses_repeated("a: '", "x", GP_YAML_MAX_SCALAR + 1, "'", "is too long; it may have 65536");
    accepts_repeated("[", "x,", GP_YAML_MAX_NODES - 1, "]");
    refuses_repeated("[", "x,", GP_YAML_MAX_NODES, "]", "more than 131072 nodes");
    accepts_repeated("# ", " ", GP_YAML_MAX_BYTES - 2, "");
    refuses_repeated("# ", " ", GP_YAML_MAX_BYTES - 1, "", "too large; there may be 16777216");
    accepts_repeated("", "k", 200, ": 1");
    refuses_repeated("", "k", 201, ": 1", "a key of 201 bytes");
    accepts_repeated("", "- &a x\n", 1024, "");
    refuses_repeated("", "- &a x\n", 1025, "", "more than 1024 anchors");
}

/* An alias counts as what it names: 8 aliases of 16,384 nodes are one too many with the list around them. */
static void counts_nodes_behind_aliases(void **state) {
    (void)state;
    size_t bytes;
    char *target = repeat("- &a [", "x,", 16382, "]\n", &bytes); /* 16,383 nodes, and the list around all */
    char *before = repeat("", "", 0, target, &bytes);
    accepts_repeated(before, "- *a\n", 7, "");
    refuses_repeated(before, "- *a\n", 9, "", "more than 131072 nodes");
    free(before);
    free(target);
}

/* Ten million equal keys or laughs would take minutes in a naive reader; the test's time limit stands for the promise.
 */
static void refuses_hostile_texts(void **state) {
    (void)state;
    enum { MANY = GP_YAML_MAX_BYTES / 8 };
    refuses_repeated("", "[", MANY, "", "nested deeper");
    refuses_repeated("", "{a: ", MANY, "", "nested deeper");
    refuses_repeated("", "- ", MANY, "", "nested deeper");
    refuses_repeated("", "? ", MANY, "", "nested deeper");
    refuses_repeated("", "a ", MANY, "", "is too long");
    refuses_repeated("", "%TAG !a! b\n", 1000000, "", "%TAG is not supported");
    refuses_repeated("", "a: 1\n", 60000, "", "key \"a\" occurs twice; the first is in line 1");
    refuses_repeated("- &a key\n- {", "*a : 1,", 40000, "}", "key \"key\" occurs twice");
    refuses_repeated("a: &a [x,x,x,x]\nb: [", "*a,", MANY, "]", "more than 131072 nodes");
    refuses_repeated("", "---\n", MANY, "", "a second document");
}

/* Each stands behind two lines and a character of three bytes. */
static void refuses_what_is_no_text(void **state) {
    (void)state;
    static const struct {
        const char *bytes, *message;
    } cases[] = {
        {"\xC3(", "byte 0xC3 is not valid UTF-8"},                /* no continuation */
        {"\x80", "byte 0x80 is not valid UTF-8"},                 /* nothing to continue */
        {"\xC0\xAF", "byte 0xC0 is not valid UTF-8"},             /* longer than need be */
        {"\xE0\x80\xAF", "byte 0xE0 is not valid UTF-8"},         /* longer than need be */
        {"\xED\xA0\x80", "byte 0xED is not valid UTF-8"},         /* half a pair */
        {"\xED\xBF\xBF", "byte 0xED is not valid UTF-8"},         /* the other half */
        {"\xF4\x90\x80\x80", "byte 0xF4 is not valid UTF-8"},     /* beyond the last */
        {"\xF8\x88\x80\x80\x80", "byte 0xF8 is not valid UTF-8"}, /* five bytes */
        {"\xE2\x82", "byte 0xE2 is not valid UTF-8"},             /* cut off */
        {"\x7F", "character U+007F is not allowed in YAML"},
        {"\xC2\x84", "character U+0084 is not allowed in YAML"},
        {"\xC2\x9F", "character U+009F is not allowed in YAML"},
        {"\xEF\xBB\xBF", "character U+FEFF is not allowed in YAML"},
        {"\xEF\xBF\xBE", "character U+FFFE is not allowed in YAML"},
        {"\xEF\xBF\xBF", "character U+FFFF is not allowed in YAML"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64], message[128];
        snprintf(text, sizeof text, "a: 1\r\nb: 2\nc: €%s", cases[i].bytes);
        snprintf(message, sizeof message, "t.yaml:3:5: %s", cases[i].message);
        assert_refused(text, strlen(text), message);
    }
}

/* The last and the first of what is refused beside them. */
static void reads_every_character_beside_those(void **state) {
    (void)state;
    static const char *const good[] = {"\xC2\xA0",     "\xED\x9F\xBF",     "\xEE\x80\x80",     "\xEF\xBB\xBE",
                                       "\xEF\xBF\xBD", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF", "~"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char text[32], wanted[32];
        snprintf(text, sizeof text, "a: x%sy\n", good[i]);
        snprintf(wanted, sizeof wanted, "x%sy", good[i]);
        gp_yaml_document *d = parse(text);
        assert_text(gp_yaml_get(gp_yaml_root(d), "a"), wanted, false);
        gp_yaml_destroy(&d);
    }
}

static void finds_a_duplicate_among_many(void **state) {
    (void)state;
    enum { KEYS = 50000 };
    size_t size = KEYS * 12, used = 0;
    char *text = malloc(size + 64);
    assert_non_null(text);
    for (int i = 0; i < KEYS; i++) used += (size_t)sprintf(text + used, "k%d: 1\n", i);
    gp_yaml_document *d = parse(text);
    gp_yaml_destroy(&d);
    used += (size_t)sprintf(text + used, "k40000: 1\nk3: 1\nk40000: 1\n");
    assert_refused(text, used, "t.yaml:50001:1: key \"k40000\" occurs twice; the first is in line 40001");
    free(text);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static char folder[] = "/tmp/gp-test-tree-XXXXXX";

static const char *in_folder(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void assert_load_refused(const char *path, const char *message) {
    char expected[400];
    gp_yaml_document *document = NULL;
    snprintf(expected, sizeof expected, "%s: %s", path, message);
    assert_int_equal(gp_yaml_load(path, &document, &err), GP_CONFIG);
    assert_null(document);
    assert_string_equal(err.text, expected);
}

static void loads_regular_files_only(void **state) {
    (void)state;
    assert_load_refused(in_folder("absent.yaml"), "cannot be opened: No such file or directory");
    assert_load_refused(folder, "is a directory, not a file");
    assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
    assert_load_refused(in_folder("fifo"), "is not a regular file"); /* and does not wait for a writer */
    assert_load_refused("/dev/zero", "is not a regular file");
    int file = open(in_folder("large"), O_CREAT | O_WRONLY, 0600);
    assert_true(file >= 0);
    assert_int_equal(ftruncate(file, GP_YAML_MAX_BYTES + 1), 0);
    close(file);
    assert_load_refused(in_folder("large"),
                        "the file has 16777217 bytes, but a configuration may have at most 16777216");
    unlink(in_folder("large"));
    unlink(in_folder("fifo"));
}

/* Sections and their keys have paths of their own; what is deeper has that of its key. */
static void places_by_keys(void **state) {
    static const char *const paths[][2] = {{"data", "data"},
                                           {"data.train", "data.train"},
                                           {"data.train.tensors", "data.train"},
                                           {"model.layers.0.conv", "model.layers"},
                                           {"list", "list"},
                                           {"list.1", "list"},
                                           {"number", "number"}};
    (void)state;
    gp_yaml_document *d = parse("data: {train: {tensors: f}}\nmodel:\n  layers: [conv: 3]\nlist: [1, 2]\nnumber: 3\n");
    assert_int_equal(gp_yaml_place_by_keys(d, &err), GP_OK);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        const gp_yaml *node = gp_yaml_find(d, paths[i][0]);
        assert_string_equal(node->place.path, paths[i][1]);
        assert_int_equal(node->place.line, 0);
    }
    assert_string_equal(gp_yaml_key(gp_yaml_find(d, "data"), "train")->place.path, "data.train");
    assert_null(gp_yaml_root(d)->place.path);
    assert_int_equal(gp_fail_at(&err, GP_CONFIG, gp_yaml_find(d, "data.train.tensors")->place, "f: is missing"),
                     GP_CONFIG);
    assert_string_equal(err.text, "data.train: f: is missing");
    gp_yaml_destroy(&d);
}

/* ---- overrides --------------------------------------------------------------------------------------------------- */

static void overrides_anything(void **state) {
    (void)state;
    gp_yaml_document *d = parse("train: {epochs: 2}\ndevices: [cpu]\nempty:\n");
    assert_int_equal(gp_yaml_override(d, "train.epochs=5", &err), GP_OK);
    assert_int_equal(gp_yaml_override(d, "optimizer.sgd.lr=1e-3", &err), GP_OK);
    assert_int_equal(gp_yaml_override(d, "devices.1={cpu: {threads: 2}}", &err), GP_OK);
    assert_int_equal(gp_yaml_override(d, "devices.0=cuda:0", &err), GP_OK);
    assert_int_equal(gp_yaml_override(d, "devices.2.cpu.threads=3", &err), GP_OK);
    assert_int_equal(gp_yaml_override(d, "empty.a.b=\"x = y\"", &err), GP_OK);
    assert_int_equal(gp_yaml_override(d, "none=", &err), GP_OK);
    assert_text(gp_yaml_find(d, "train.epochs"), "5", false);
    assert_text(gp_yaml_find(d, "optimizer.sgd.lr"), "1e-3", false);
    assert_text(gp_yaml_find(d, "devices.0"), "cuda:0", false);
    assert_text(gp_yaml_find(d, "devices.1.cpu.threads"), "2", false);
    assert_text(gp_yaml_find(d, "devices.2.cpu.threads"), "3", false);
    assert_text(gp_yaml_find(d, "empty.a.b"), "x = y", true);
    assert_text(gp_yaml_find(d, "none"), "", false);
    assert_int_equal(gp_yaml_root(d)->count, 5);
    assert_string_equal(gp_yaml_find(d, "train.epochs")->place.path, "--set train.epochs=5");
    assert_int_equal(gp_yaml_find(d, "train.epochs")->place.line, 0);
    assert_string_equal(gp_yaml_key(gp_yaml_find(d, "train"), "epochs")->place.path, "--set train.epochs=5");
    assert_place(gp_yaml_key(gp_yaml_root(d), "train"), 1, 1);
    gp_yaml_destroy(&d);
}

static void leaves_the_tree_where_an_override_fails(void **state) {
    (void)state;
    static const char text[] = "a: 1\nb: [x, y]\n";
    static const char *const wrong[][2] = {
        {"a", "--set a: needs the form key.path=value"},
        {"a.c.d=1", "--set a.c.d=1: a is the value \"1\", which has no keys"},
        {"b.3=z", "--set b.3=z: b has 2 entries: index 3 does not exist, and 2 would append"},
        {"b.x=z", "--set b.x=z: b is a list: \"x\" is not an index"},
        {"c.=1", "--set c.=1: the key path \"c.\" has an empty part"},
        {"c={", "--set c={: not valid YAML: did not find expected node content while parsing a flow node"},
        {"c.d=run #7",
         "--set c.d=run #7: in YAML a comment begins at \"#7\"; write a value that has it in quotes: --set "
         "'c.d=\"…\"'"},
        {"c=Tom 's set #2", "--set c=Tom 's set #2: in YAML a comment begins at \"#2\"; write a value that has it in "
                            "quotes: --set 'c=\"…\"'"},
        {"c={x: 'y', #z}",
         "--set c={x: 'y', #z}: in YAML a comment begins at \"#z}\"; write a value that has it in quotes: "
         "--set 'c=\"…\"'"},
        {"c=\xFF", "--set c=?: byte 0xFF is not valid UTF-8"},
        {"\xFF=1", "--set ?=1: byte 0xFF is not valid UTF-8"},
    };
    gp_yaml_document *d = parse(text), *same = parse(text);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(gp_yaml_override(d, wrong[i][0], &err), GP_USAGE);
        assert_int_equal(err.status, GP_USAGE);
        assert_string_equal(err.text, wrong[i][1]);
        assert_true(trees_equal(gp_yaml_root(d), gp_yaml_root(same)));
    }
    assert_int_equal(gp_yaml_put(d, "a.c", "1", &err), GP_CONFIG);
    assert_string_equal(err.text, "t.yaml: a is the value \"1\", which has no keys");
    gp_yaml_destroy(&d);
    gp_yaml_destroy(&same);
}

static void overrides_an_empty_document(void **state) {
    (void)state;
    gp_yaml_document *d = parse("");
    assert_int_equal(gp_yaml_override(d, "a.b=1", &err), GP_OK);
    assert_text(gp_yaml_find(d, "a.b"), "1", false);
    assert_int_equal(gp_yaml_override(d, "a.b={x: 'run #7', y: \"it's #8\"}", &err), GP_OK);
    assert_text(gp_yaml_find(d, "a.b.x"), "run #7", true);
    assert_text(gp_yaml_find(d, "a.b.y"), "it's #8", true);
    assert_int_equal(gp_yaml_override(d, "a.b=['it''s #7', \"\\\" #8\"]", &err), GP_OK);
    assert_text(gp_yaml_find(d, "a.b.0"), "it's #7", true);
    assert_text(gp_yaml_find(d, "a.b.1"), "\" #8", true);
    assert_int_equal(gp_yaml_override(d, "a.b=[\n\"x #7\"]", &err), GP_OK);
    assert_text(gp_yaml_find(d, "a.b.0"), "x #7", true);
    assert_int_equal(gp_yaml_override(d, "a.b=x#9", &err), GP_OK);
    assert_text(gp_yaml_find(d, "a.b"), "x#9", false);
    gp_yaml_destroy(&d);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static char *read_whole(const char *path) {
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t got = fread(text, 1, (1 << 20) - 1, file);
    text[got] = '\0';
    fclose(file);
    return text;
}

/* Written, read and written again: equal trees and equal bytes. */
static void assert_round_trip(gp_yaml_document *d) {
    gp_yaml_document *again = NULL;
    char *first, *second;
    if (gp_yaml_write(d, "one\ntwo", in_folder("out.yaml"), &err) != GP_OK) fail_msg("%s", err.text);
    first = read_whole(in_folder("out.yaml"));
    assert_memory_equal(first, "# one two\n", 10);
    if (gp_yaml_load(in_folder("out.yaml"), &again, &err) != GP_OK) fail_msg("%s\n%s", err.text, first);
    if (!trees_equal(gp_yaml_root(d), gp_yaml_root(again))) fail_msg("not the same tree:\n%s", first);
    assert_int_equal(gp_yaml_write(again, "one two", in_folder("out.yaml"), &err), GP_OK);
    second = read_whole(in_folder("out.yaml"));
    assert_string_equal(first, second);
    free(first);
    free(second);
    gp_yaml_destroy(&again);
    unlink(in_folder("out.yaml"));
}

static void writes_what_reads_back(void **state) {
    (void)state;
    static const char *const texts[] = {
        "",
        "a",
        "'a'",
        "---x",
        "--- ---",
        "--- --- a",
        "--- ...",
        "{---: 1, ...: 2}",
        "[]",
        "{}",
        "[[], {}, [[]], [{a: {}}]]",
        "- - - a\n    - b\n  -\n    - c\n- d: 1\n  e:\n    - f\n    -\n- {g: , h: [1, [2, {i: 3}]]}\n",
        "a: no\nb: 'no'\nc: \"1e3\"\nd: 1e3\ne: ''\nf:\ng: 'true'\nh: ~\n",
        "a: \"\\\"quotes\\\" 'and' \\\\ back\"\nb: '  leading'\nc: 'trailing  '\nd: \"a\\nb\\n\\nc\\t\\e\\x7F\\r\"\n",
        "a: \"# no comment\"\nb: 'x: y'\nc: '- x'\nd: '? x'\ne: '*x'\nf: '&x'\ng: '!x'\nh: '%x'\ni: '@x'\nj: '`x'\n",
        "a: x#y\nb: x:y\nc: -x\nd: ?x\ne: :x\nf: a, b] }\ng: a\tb\nh: cuda:0\ni: \\n\nj: it's\nk: 1 # comment\n",
        "a: é日本😀\nb: \"é日本😀\"\nc: \"\\N\\_\\L\\P\\uFEFF\\uFFFE\\u0080\"\nd: x\xC2\x85  y\ne: x\xE2\x80\xA8  y\n",
        "a: \"\xC2\xA1 — ™ \xEF\xBB\xBE \xEF\xBD\xA1 \xEF\xBF\xBD \\N\\uFFFF \xF0\x90\x80\x80\"\nb: [\"-\", '', -]\n",
        "a: |\n  block\n  text\n\nb: >-\n  folded\n  text\nc: |+\n  kept\n\n\nd: plain over\n  two lines\n\n  and\n",
        "'quoted key': 1\n\"new\\nline\": 2\nplain key: 3\n\"<<\": 4\n'---': 5\n? complex\n: 6\n'é': 7\n8: 8\n",
        "[a, \"b, c\", 'd]', e f, 1e-3, -1, --x, -]",
        "model: {layers: [conv: {out: 3, kernel: [3, 3]}, relu, {add: [a, -1]}]}\n",
        "a\u202Eb: \u200Fx\nb: [y\u2066z, \"\\u202E\\u061C\", \u061C]\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        gp_yaml_document *d = parse(texts[i]);
        assert_round_trip(d);
        gp_yaml_destroy(&d);
    }
}

/* The text goes to terminals, too (--expand): line by line nothing in it acts on them. */
static void writes_what_terminals_may_have(void **state) {
    (void)state;
    char *written = NULL;
    gp_yaml_document *d = parse("a\u202E: \u200Fx\nb: \"\\e\\x7F\\x9B\\u2066\\u2029é日\"\n");
    assert_int_equal(gp_yaml_text(d, "", &written, &err), GP_OK);
    assert_string_equal(written, "# \n\"a\\u202E\": \"\\u200Fx\"\nb: \"\\x1B\\x7F\\x9B\\u2066\\u2029é日\"\n");
    free(written);
    gp_yaml_destroy(&d);
}

/* Whatever libyaml takes, from characters that mean something to it. */
static void writes_what_chance_made(void **state) {
    (void)state;
    static const char *const parts[] = {"-",  "?",  ":",  ",",    "[",  "]",  "{",   "}",   "#",       "&a ", "*a",
                                        "!",  "|",  ">",  "'",    "\"", "\\", "%",   "@",   "`",       " ",   " ",
                                        "  ", "\n", "\n", "\n  ", "\t", ".",  "~",   "=",   "<",       "a",   "b",
                                        "1",  "é",  "- ", ": ",   ", ", " #", "---", "...", "\xC2\x85"};
    enum { TEXTS = 1000, PARTS = sizeof parts / sizeof *parts, LONGEST = 16 };
    int valid = 0;
    for (uint32_t i = 0; i < TEXTS; i++) {
        char text[LONGEST * 4 + 1] = "";
        gp_yaml_document *d = NULL;
        uint32_t length = gp_philox_draw(7, (gp_philox){{i, 0, 0, 0}}).word[0] % LONGEST + 1;
        for (uint32_t k = 1; k <= length; k++)
            strcat(text, parts[gp_philox_draw(7, (gp_philox){{i, k, 0, 0}}).word[0] % PARTS]);
        if (gp_yaml_parse(text, strlen(text), "t.yaml", &d, &err) != GP_OK) continue;
        assert_round_trip(d);
        valid++;
        gp_yaml_destroy(&d);
    }
    assert_true(valid > TEXTS / 20);
}

static void writes_what_overrides_made(void **state) {
    (void)state;
    gp_yaml_document *d = parse("a: {b: 1}\n");
    assert_int_equal(gp_yaml_override(d, "a.*.bias={x: [1, '2']}", &err), GP_OK);
    assert_int_equal(gp_yaml_override(d, "a.# - key: \"\n=v", &err), GP_OK);
    assert_int_equal(gp_yaml_override(d, "<<=v", &err), GP_OK);
    assert_int_equal(gp_yaml_override(d, "3=", &err), GP_OK);
    assert_int_equal(gp_yaml_put(d, "list", "[a, {b: c}]", &err), GP_OK);
    assert_round_trip(d);
    gp_yaml_destroy(&d);
}

/* A key at its longest with nothing but characters to be escaped stays within YAML's limit for keys. */
static void writes_the_worst_key(void **state) {
    (void)state;
    size_t bytes;
    char *text = repeat("\"", "\\x01", 200, "\": 1", &bytes);
    gp_yaml_document *d = parse(text);
    assert_round_trip(d);
    gp_yaml_destroy(&d);
    free(text);
}

static void writes_for_people(void **state) {
    (void)state;
    gp_yaml_document *d =
        parse("model: {layers: [relu, {conv: {out: 3, kernel: [3, 3]}}], e: {}}\ntrain: {init: \"a b\"}");
    assert_int_equal(gp_yaml_write(d, "c", in_folder("p.yaml"), &err), GP_OK);
    char *text = read_whole(in_folder("p.yaml"));
    assert_string_equal(text, "# c\n"
                              "model:\n"
                              "  layers:\n"
                              "    - relu\n"
                              "    - conv:\n"
                              "        out: 3\n"
                              "        kernel: [3, 3]\n"
                              "  e: {}\n"
                              "train:\n"
                              "  init: \"a b\"\n");
    free(text);
    gp_yaml_destroy(&d);
    unlink(in_folder("p.yaml"));
}

static int count_files(void) {
    DIR *entries = opendir(in_folder("."));
    int count = 0;
    assert_non_null(entries);
    while (readdir(entries)) count++;
    closedir(entries);
    return count;
}

static void says_where_it_cannot_write(void **state) {
    (void)state;
    gp_yaml_document *d = parse("a: 1\n");
    int before = count_files();
    assert_int_equal(gp_yaml_write(d, "c", in_folder("nowhere/all.yaml"), &err), GP_IO);
    assert_non_null(strstr(err.text, "/nowhere/all.yaml.tmp-"));
    assert_non_null(strstr(err.text, ": cannot be created: No such file or directory"));
    assert_int_equal(mkdir(in_folder("dir"), 0700), 0);
    assert_int_equal(gp_yaml_write(d, "c", in_folder("dir"), &err), GP_IO);
    assert_int_equal(rmdir(in_folder("dir")), 0);
    assert_int_equal(count_files(), before); /* nothing is left behind */
    gp_yaml_destroy(&d);
}

static int remove_folder(void **state) {
    (void)state;
    return rmdir(folder);
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_every_place),
        cmocka_unit_test(tells_quoted_from_plain),
        cmocka_unit_test(reads_what_windows_writes),
        cmocka_unit_test(has_no_root_where_empty),
        cmocka_unit_test(only_rules_have_an_order),
        cmocka_unit_test(numbers_are_compared_by_value),
        cmocka_unit_test(copies_what_an_alias_names),
        cmocka_unit_test(holds_its_bounds),
        cmocka_unit_test(counts_nodes_behind_aliases),
        cmocka_unit_test(refuses_hostile_texts),
        cmocka_unit_test(refuses_what_is_no_text),
        cmocka_unit_test(reads_every_character_beside_those),
        cmocka_unit_test(finds_a_duplicate_among_many),
        cmocka_unit_test(loads_regular_files_only),
        cmocka_unit_test(overrides_anything),
        cmocka_unit_test(leaves_the_tree_where_an_override_fails),
        cmocka_unit_test(overrides_an_empty_document),
        cmocka_unit_test(writes_what_reads_back),
        cmocka_unit_test(writes_what_terminals_may_have),
        cmocka_unit_test(writes_what_chance_made),
        cmocka_unit_test(writes_what_overrides_made),
        cmocka_unit_test(writes_the_worst_key),
        cmocka_unit_test(writes_for_people),
        cmocka_unit_test(says_where_it_cannot_write),
        cmocka_unit_test(places_by_keys),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
