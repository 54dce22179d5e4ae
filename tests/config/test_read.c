/* Typed reading: what is taken, what is refused, at which place and in which words. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/read.h"

static gp_error err;
static gp_yaml_document *document;

/* The value of key `v`, at t.yaml:1:5 in a flow mapping. */
static const gp_yaml *value(const char *text) {
    char yaml[400];
    gp_yaml_destroy(&document);
    snprintf(yaml, sizeof yaml, "{v: %s}", text);
    if (gp_yaml_parse(yaml, strlen(yaml), "t.yaml", &document, &err) != GP_OK) fail_msg("%s", err.text);
    return gp_yaml_find(document, "v");
}

static int forget_document(void **state) {
    (void)state;
    gp_yaml_destroy(&document);
    return 0;
}

static void assert_message(gp_status status, const char *message) {
    char expected[400];
    snprintf(expected, sizeof expected, "t.yaml:1:5: %s", message);
    assert_int_equal(status, GP_CONFIG);
    assert_string_equal(err.text, expected);
}

static void reads_integers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {{"0", 0},
                {"64", 64},
                {"-7", -7},
                {"+7", 7},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN}};
    static const char *const bad[] = {"1.0", "1e3", "0x10", "1_000", "ten", "+", "1 2", "~", "null"};
    int64_t out = 5;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(gp_read_integer(value(good[i].text), "n", INT64_MIN, INT64_MAX, &out, &err), GP_OK);
        assert_true(out == good[i].value);
    }
    out = 5;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(gp_read_integer(value(bad[i]), "n", INT64_MIN, INT64_MAX, &out, &err), GP_CONFIG);
    }
    assert_message(gp_read_integer(value("~"), "n", 1, 9, &out, &err),
                   "n: \"~\" is not an integer; write a value, or leave the key out");
    assert_message(gp_read_integer(value("1e3"), "n", 1, 9, &out, &err), "n: \"1e3\" is not an integer; write 1000");
    assert_message(gp_read_integer(value("1_000"), "n", 1, 9, &out, &err),
                   "n: \"1_000\" is not an integer; write 1000");
    assert_message(gp_read_integer(value("0.5"), "n", 1, 9, &out, &err), "n: \"0.5\" is not an integer");
    assert_message(gp_read_integer(value("1e99"), "n", 1, 9, &out, &err), "n: \"1e99\" is not an integer");
    assert_message(gp_read_integer(value("many"), "n", 1, 9, &out, &err), "n: \"many\" is not an integer");
    assert_message(gp_read_integer(value("-017"), "n", -99, 99, &out, &err),
                   "n: -017 begins with 0, so that some programs read it as an octal number; write -17");
    assert_message(gp_read_integer(value("00"), "n", -99, 99, &out, &err),
                   "n: 00 begins with 0, so that some programs read it as an octal number; write 0");
    assert_message(gp_read_integer(value("0"), "n", 1, 9, &out, &err), "n: 0 is too small; it must be at least 1");
    assert_message(gp_read_integer(value("10"), "n", 1, 9, &out, &err), "n: 10 is too large; it may be at most 9");
    assert_message(gp_read_integer(value("9223372036854775808"), "n", 1, INT64_MAX, &out, &err),
                   "n: 9223372036854775808 is too large; it may be at most 9223372036854775807");
    assert_message(gp_read_integer(value("-9223372036854775809"), "n", INT64_MIN, 1, &out, &err),
                   "n: -9223372036854775809 is too small; it must be at least -9223372036854775808");
    assert_message(gp_read_integer(value("'1'"), "n", 1, 9, &out, &err),
                   "n: needs an integer, and \"1\" in quotes is a text");
    assert_message(gp_read_integer(value("[1]"), "n", 1, 9, &out, &err), "n: needs an integer, not a list");
    assert_message(gp_read_integer(value("{a: 1}"), "n", 1, 9, &out, &err), "n: needs an integer, not a mapping");
    assert_int_equal(gp_read_integer(value("1"), "n", 1, 9, &out, &err), GP_OK);
    assert_int_equal(gp_read_integer(value("9"), "n", 1, 9, &out, &err), GP_OK);
    assert_true(out == 9);
}

static void reads_numbers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double value;
    } good[] = {{"0", 0},  {"1e-3", 1e-3}, {"1E+3", 1000}, {"-2.5", -2.5},     {".5", 0.5},   {"5.", 5},
                {"+1", 1}, {"0.1", 0.1},   {"-0", -0.0},   {"3.4e38", 3.4e38}, {"1e-5", 1e-5}};
    static const char *const bad[] = {"inf",  "-inf", ".inf", "nan", ".nan",  "0x1p3",  "1e",     "e5",    "1.2.3",
                                      "1e5x", ".",    "1 e5", "--1", "1e400", "-1e400", "1e-400", "3.5e38"};
    double out = 5;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(gp_read_number(value(good[i].text), "x", -INFINITY, INFINITY, 0, &out, &err), GP_OK);
        assert_true(out == good[i].value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(gp_read_number(value(bad[i]), "x", -INFINITY, INFINITY, 0, &out, &err), GP_CONFIG);
    assert_message(gp_read_number(value("007"), "x", 0, 9, 0, &out, &err),
                   "x: 007 begins with 0, so that some programs read it as an octal number; write 7");
    assert_message(gp_read_number(value("0"), "x", 0, 1, 1, &out, &err), "x: 0 is too small; it must be more than 0");
    assert_message(gp_read_number(value("-0.1"), "x", 0, 1, 0, &out, &err),
                   "x: -0.1 is too small; it must be at least 0");
    assert_message(gp_read_number(value("1"), "x", 0, 1, 2, &out, &err), "x: 1 is too large; it must be less than 1");
    assert_message(gp_read_number(value("1.5"), "x", 0, 1, 0, &out, &err), "x: 1.5 is too large; it must be at most 1");
    assert_message(gp_read_number(value("1e400"), "x", 0, INFINITY, 0, &out, &err),
                   "x: 1e400 is too large for a number");
    assert_int_equal(gp_read_number(value("0"), "x", 0, 1, 2, &out, &err), GP_OK);
    assert_int_equal(gp_read_number(value("1"), "x", 0, 1, 1, &out, &err), GP_OK);
}

static void reads_booleans(void **state) {
    (void)state;
    static const char *const bad[] = {"no", "yes", "on", "off", "True", "FALSE", "1", "0", "'true'", "y"};
    bool out = false;
    assert_int_equal(gp_read_boolean(value("true"), "b", &out, &err), GP_OK);
    assert_true(out);
    assert_int_equal(gp_read_boolean(value("false"), "b", &out, &err), GP_OK);
    assert_false(out);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(gp_read_boolean(value(bad[i]), "b", &out, &err), GP_CONFIG);
    assert_message(gp_read_boolean(value("True"), "b", &out, &err), "b: \"True\" is not true or false; write true");
    assert_message(gp_read_boolean(value("None"), "b", &out, &err),
                   "b: \"None\" is not true or false; write a value, or leave the key out");
    assert_message(gp_read_boolean(value("perhaps"), "b", &out, &err), "b: \"perhaps\" is not true or false");
    assert_message(gp_read_boolean(value("no"), "b", &out, &err), "b: \"no\" is not true or false; write false");
}

static void reads_texts(void **state) {
    (void)state;
    const char *out = NULL;
    assert_int_equal(gp_read_text(value("a b"), "t", &out, &err), GP_OK);
    assert_string_equal(out, "a b");
    assert_int_equal(gp_read_text(value("'1e3'"), "t", &out, &err), GP_OK);
    assert_string_equal(out, "1e3");
    assert_message(gp_read_text(value("''"), "t", &out, &err), "t: needs a text, not \"\"");
    assert_message(gp_read_text(value("[a]"), "t", &out, &err), "t: needs a text, not a list");
}

static void reads_sizes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t value;
    } good[] = {{"4096", 4096},
                {"512 MiB", (size_t)512 << 20},
                {"4GiB", (size_t)4 << 30},
                {"1.5 GiB", (size_t)3 << 29},
                {"0.25KiB", 256},
                {"2 TiB", (size_t)2 << 40},
                {"0", 0},
                {"4611686018427387904", (size_t)1 << 62},
                {"1  KiB", 1024},
                {"'1.5GiB'", 3 << 29}};
    static const char *const bad[] = {"4GB", "4 gib",  "4G",     "1.5",     "GiB", "-1",
                                      "1e3", ".5 GiB", "1. GiB", "4 GiB x", "'4'"};
    size_t out = 5;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(gp_read_bytes(value(good[i].text), "m", &out, &err), GP_OK);
        assert_true(out == good[i].value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(gp_read_bytes(value(bad[i]), "m", &out, &err), GP_CONFIG);
    assert_message(gp_read_bytes(value("4GB"), "m", &out, &err),
                   "m: \"4GB\" is not a size: bytes, or a number with KiB, MiB, GiB or TiB; write 4GiB");
    assert_message(gp_read_bytes(value("4611686018427387905"), "m", &out, &err),
                   "m: 4611686018427387905 is too large for a size");
    assert_message(gp_read_bytes(value("99999999999999999999"), "m", &out, &err),
                   "m: 99999999999999999999 is too large for a size");
    assert_message(gp_read_bytes(value("16777216 TiB"), "m", &out, &err), "m: 16777216 TiB is too large for a size");
}

static void reads_times(void **state) {
    (void)state;
    static const char *const bad[] = {"5epochs", "epochs", "5 steps", "-1", "1.5 epochs", "5 epochss", "'5'", "1e3"};
    gp_time out = {0};
    assert_int_equal(gp_read_time(value("500"), "t", 0, &out, &err), GP_OK);
    assert_true(out.count == 500 && !out.epochs);
    assert_int_equal(gp_read_time(value("5 epochs"), "t", 0, &out, &err), GP_OK);
    assert_true(out.count == 5 && out.epochs);
    assert_int_equal(gp_read_time(value("1 epoch"), "t", 1, &out, &err), GP_OK);
    assert_true(out.count == 1 && out.epochs);
    assert_int_equal(gp_read_time(value("'7 epochs'"), "t", 1, &out, &err), GP_OK);
    assert_true(out.count == 7 && out.epochs);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(gp_read_time(value(bad[i]), "t", 0, &out, &err), GP_CONFIG);
    assert_message(gp_read_time(value("soon"), "t", 0, &out, &err),
                   "t: \"soon\" is not a number of steps (500) or of epochs (5 epochs)");
    assert_message(gp_read_time(value("0 epochs"), "t", 1, &out, &err),
                   "t: 0 epochs is too short; it must be at least 1");
}

static void reads_how_often(void **state) {
    (void)state;
    static const char *const bad[] = {"5minutes",   "minutes",     "5 hours",           "-1 minutes",
                                      "+1 minute",  "0x1 minutes", "nan minutes",       "1.5",
                                      "1.5 epochs", "5 minutess",  "'5 minutes'",       "0",
                                      "'never'",    "Never",       "about 5",           "about 5 epochs",
                                      "about",      "about never", "\"about 1 minute\""};
    gp_every out = {0};
    assert_int_equal(gp_read_every(value("500"), "t", &out, &err), GP_OK);
    assert_true(out.time.count == 500 && !out.time.epochs && out.minutes == 0);
    assert_int_equal(gp_read_every(value("1 epoch"), "t", &out, &err), GP_OK);
    assert_true(out.time.count == 1 && out.time.epochs && out.minutes == 0);
    assert_int_equal(gp_read_every(value("90 minutes"), "t", &out, &err), GP_OK);
    assert_true(out.time.count == 0 && out.minutes == 90);
    assert_int_equal(gp_read_every(value("1 minute"), "t", &out, &err), GP_OK);
    assert_true(out.minutes == 1);
    assert_int_equal(gp_read_every(value("0.5  minutes"), "t", &out, &err), GP_OK);
    assert_true(out.minutes == 0.5 && !out.about);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(gp_read_every(value(bad[i]), "t", &out, &err), GP_CONFIG);
    assert_true(out.minutes == 0.5);
    assert_message(gp_read_every(value("00000000000000000000000000000000000000001 minute"), "t", &out, &err),
                   "t: \"00000000000000000000000000000000000000001 minute\" is not a number of steps (500), of epochs "
                   "(5 epochs) or of minutes (10 minutes, about 10 minutes), or never");
    assert_message(gp_read_every(value("1e-999 minutes"), "t", &out, &err), "t: 1e-999 minutes is too short");
    assert_int_equal(gp_read_every(value("never"), "t", &out, &err), GP_OK);
    assert_true(out.time.count == 0 && out.minutes == 0 && !out.about);
    assert_int_equal(gp_read_every(value("about 5 minutes"), "t", &out, &err), GP_OK);
    assert_true(out.time.count == 0 && out.minutes == 5 && out.about);
}

static void reads_choices(void **state) {
    (void)state;
    static const char *const modes[] = {"never", "except_last", "always", NULL};
    int out = 7;
    assert_int_equal(gp_read_choice(value("always"), "c", modes, &out, &err), GP_OK);
    assert_int_equal(out, 2);
    assert_message(gp_read_choice(value("ExceptLast"), "c", modes, &out, &err),
                   "c: \"ExceptLast\" is none of never, except_last, always; did you mean except_last?");
    assert_message(gp_read_choice(value("[]"), "c", modes, &out, &err),
                   "c: needs one of never, except_last, always, not a list");
}

static void reads_lists(void **state) {
    (void)state;
    int64_t pair[2] = {0}, list[4] = {0};
    size_t count = 0;
    assert_int_equal(gp_read_pair(value("3"), "k", 1, 9, pair, &err), GP_OK);
    assert_true(pair[0] == 3 && pair[1] == 3);
    assert_int_equal(gp_read_pair(value("[3, 5]"), "k", 1, 9, pair, &err), GP_OK);
    assert_true(pair[0] == 3 && pair[1] == 5);
    assert_message(gp_read_pair(value("[3]"), "k", 1, 9, pair, &err),
                   "k: needs an integer, or two in a list: [height, width]");
    assert_int_equal(gp_read_pair(value("[3, 0]"), "k", 1, 9, pair, &err), GP_CONFIG);
    assert_string_equal(err.text, "t.yaml:1:9: k: 0 is too small; it must be at least 1");
    assert_true(pair[0] == 3 && pair[1] == 5);
    assert_int_equal(gp_read_integers(value("[1, 2, 3]"), "l", 1, 9, 4, list, &count, &err), GP_OK);
    assert_true(count == 3 && list[0] == 1 && list[2] == 3);
    assert_message(gp_read_integers(value("[]"), "l", 1, 9, 4, list, &count, &err), "l: the list is empty");
    assert_message(gp_read_integers(value("[1,2,3,4,5]"), "l", 1, 9, 4, list, &count, &err),
                   "l: the list has 5 entries; it may have at most 4");
    assert_message(gp_read_integers(value("4"), "l", 1, 9, 4, list, &count, &err),
                   "l: needs a list of integers, not \"4\"");
}

static void checks_keys(void **state) {
    (void)state;
    static const char *const known[] = {"out", "kernel", "stride", "pad", "bias", NULL};
    static const char *const later[] = {"freeze", NULL}, *const none[] = {NULL};
    assert_int_equal(gp_check_keys(value("{out: 1, pad: 2}"), "conv", known, later, &err), GP_OK);
    static const char *const cases[][2] = {
        {"{kernel_size: 1}", "t.yaml:1:6: conv: unknown key \"kernel_size\"; did you mean kernel?"},
        {"{out: 1, num_output: 1}", "t.yaml:1:14: conv: unknown key \"num_output\"; did you mean out?"},
        {"{\xE2\x80\x8B"
         "kernel: 1}",
         "t.yaml:1:6: conv: unknown key \"\\u200Bkernel\"; known are out, kernel, stride, pad, bias"},
        {"{pad\xC2\xA0: 1}", "t.yaml:1:6: conv: unknown key \"pad\\u00A0\"; known are out, kernel, stride, pad, bias"},
        {"{padding: 1}", "t.yaml:1:6: conv: unknown key \"padding\"; did you mean pad?"},
        {"{strid: 1}", "t.yaml:1:6: conv: unknown key \"strid\"; did you mean stride?"},
        {"{freeze: 1}", "t.yaml:1:6: conv: \"freeze\" is not available yet"},
        {"{zebra: 1}", "t.yaml:1:6: conv: unknown key \"zebra\"; known are out, kernel, stride, pad, bias"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(gp_check_keys(value(cases[i][0]), "conv", known, later, &err), GP_CONFIG);
        assert_string_equal(err.text, cases[i][1]);
    }
    assert_int_equal(
        gp_check_keys(value("{out: 1, kernel_size: 3, freeze: true, zebra: 1}"), "conv", known, later, &err),
        GP_CONFIG);
    assert_string_equal(err.text, "t.yaml:1:14: conv: unknown key \"kernel_size\"; did you mean kernel?\n"
                                  "t.yaml:1:30: conv: \"freeze\" is not available yet\n"
                                  "t.yaml:1:44: conv: unknown key \"zebra\"; known are out, kernel, stride, pad, bias");
    assert_int_equal(gp_check_keys(value("{a: 1}"), "relu", none, NULL, &err), GP_CONFIG);
    assert_string_equal(err.text, "t.yaml:1:6: relu: unknown key \"a\"; it has no options");
    assert_message(gp_read_mapping(value("3"), "model", &err), "model: needs a mapping (key: value), not \"3\"");
}

static void knows_what_others_call_it(void **state) {
    (void)state;
    static const char *const layers[] = {"conv",    "linear",  "batch_norm", "relu",   "max_pool", "global_avg_pool",
                                         "flatten", "dropout", "add",        "concat", NULL};
    static const char *const options[] = {"out",      "kernel", "stride", "pad",  "dilation",  "groups", "bias", "eps",
                                          "momentum", "p",      "from",   "name", "smoothing", "ignore", NULL};
    static const char *const train[] = {"epochs", "steps", "seed", "eval_every", "init", NULL};
    static const char *const schedules[] = {"constant", "step", "multistep", "cosine", "every", "gamma", NULL};
    static const char *const sections[] = {"model", "data", "pipeline", "optimizer", "train", NULL};
    static const struct {
        const char *theirs, *const *known, *ours;
    } cases[] = {
        {"Conv2d", layers, "conv"},
        {"Convolution", layers, "conv"},
        {"conv2D", layers, "conv"},
        {"InnerProduct", layers, "linear"},
        {"Linear", layers, "linear"},
        {"Dense", layers, "linear"},
        {"fc", layers, "linear"},
        {"BatchNorm2d", layers, "batch_norm"},
        {"batchnorm", layers, "batch_norm"},
        {"BatchNormalization", layers, "batch_norm"},
        {"ReLU", layers, "relu"},
        {"MaxPool2d", layers, "max_pool"},
        {"maxpool", layers, "max_pool"},
        {"Pooling", layers, "max_pool"},
        {"AdaptiveAvgPool2d", layers, "global_avg_pool"},
        {"Dropout", layers, "dropout"},
        {"Eltwise", layers, "add"},
        {"cat", layers, "concat"},
        {"Concatenate", layers, "concat"},
        {"flaten", layers, "flatten"},
        {"kernel_size", options, "kernel"},
        {"num_output", options, "out"},
        {"out_channels", options, "out"},
        {"out_features", options, "out"},
        {"filters", options, "out"},
        {"units", options, "out"},
        {"padding", options, "pad"},
        {"strides", options, "stride"},
        {"group", options, "groups"},
        {"dilations", options, "dilation"},
        {"dilation_rate", options, "dilation"},
        {"bias_term", options, "bias"},
        {"use_bias", options, "bias"},
        {"epsilon", options, "eps"},
        {"dropout_ratio", options, "p"},
        {"rate", options, "p"},
        {"bottom", options, "from"},
        {"top", options, "name"},
        {"inputs", options, "from"},
        {"label_smoothing", options, "smoothing"},
        {"ignore_index", options, "ignore"},
        {"ignore_label", options, "ignore"},
        {"num_epochs", train, "epochs"},
        {"max_iter", train, "steps"},
        {"manual_seed", train, "seed"},
        {"random_seed", train, "seed"},
        {"test_interval", train, "eval_every"},
        {"pretrained", train, "init"},
        {"epoch", train, "epochs"},
        {"StepLR", schedules, "step"},
        {"CosineAnnealingLR", schedules, "cosine"},
        {"step_size", schedules, "every"},
        {"net", sections, "model"},
        {"solver", sections, "optimizer"},
        {"dataset", sections, "data"},
        {"Trainer", sections, "train"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *nearest = gp_nearest_name(cases[i].theirs, cases[i].known);
        if (!nearest || strcmp(nearest, cases[i].ours) != 0)
            fail_msg("%s is near %s, not %s", cases[i].theirs, nearest ? nearest : "nothing", cases[i].ours);
    }
}

/* A name of another program that has no equal gets advice, and never a name that is near by chance. */
static void advises_where_there_is_no_equal(void **state) {
    (void)state;
    static const char *const layers[] = {"conv", "linear",   "batch_norm", "relu", "leaky_relu", "gelu", "silu",
                                         "tanh", "max_pool", "dropout",    "add",  "concat",     NULL};
    static const char *const optimizers[] = {"sgd", "adam", "adamw", NULL};
    static const char *const losses[] = {"cross_entropy", "mse", "bce_logits", NULL};
    static const char *const precisions[] = {"f32", "tf32", NULL};
    static const char *const schedules[] = {"gpipe", "1f1b", "interleaved", "zb_h1", "zb_h2", "zb_v", "file", NULL};
    static const char *const rates[] = {"constant", "step", "multistep", "cosine", NULL};
    static const char *const modes[] = {"auto", "size", NULL};
    static const char *const options[] = {"out", "kernel", "name", "from", "init", "freeze", NULL};
    static const char *const sections[] = {"model", "data", "pipeline", "optimizer", "train", NULL};
    static const char *const train[] = {"epochs", "steps", "seed", "eval_every", "init", "save_every", "keep", NULL};
    static const char *const data[] = {"train", "eval", "batch", "shuffle", "drop_last", "threads", NULL};
    static const char *const pipeline[] = {"devices", "balance", "micro_batches", "schedule", "checkpoint", NULL};
    static const char a_skip[] =
        "; a skip is written with from: name the earlier layer, and let the later one say from: its name";
    static const char activations[] = "; the activations are relu, leaky_relu, gelu, silu, sigmoid and tanh";
    static const char optimizers_text[] = "; this version has sgd, adam and adamw";
    static const char precision[] = "; mixed precision is not available yet; train.precision is f32 or tf32";
    static const char deferred[] =
        "; batch norm is always deferred: its running statistics are updated once per mini-batch";
    static const struct {
        const char *name;
        const char *const *known;
        const char *text;
    } cases[] = {
        {"stash", layers, a_skip},
        {"Pop", layers, a_skip},
        {"gru", layers, "; this version has no recurrent layers"},
        {"LSTM", layers, "; this version has no recurrent layers"},
        {"elu", layers, activations},
        {"selu", layers, activations},
        {"GLU", layers, activations},
        {"Embedding", layers, "; on one-hot rows a linear layer without bias is one: docs/configuration.md#tokens"},
        {"MultiheadAttention", layers,
         "; layers after a frozen part with attention train on what it gives: docs/configuration.md#tokens"},
        {"pad", layers, "; conv, max_pool and avg_pool have the option pad"},
        {"drop_path", layers,
         "; this version cannot drop whole paths; dropout with channels: true drops whole channels"},
        {"conv1d", layers, "; a sequence is a picture of height 1: input shape [channels, 1, length], kernel: [1, 3]"},
        {"softmax", layers, "; cross_entropy includes the softmax: let the last layer give logits"},
        {"mul", layers, ""},
        {"abs", layers, ""},
        {"max", layers, "; did you mean max_pool?"},
        {"rleu", layers, "; did you mean relu?"},
        {"droput", layers, "; did you mean dropout?"},
        {"rmsprop", optimizers, optimizers_text},
        {"NAdam", optimizers, optimizers_text},
        {"asgd", optimizers, optimizers_text},
        {"sdg", optimizers, "; did you mean sgd?"},
        {"adamx", optimizers, "; did you mean adam?"},
        {"mea", losses, ""},
        {"BCELoss", losses, "; use bce_logits, which takes logits: leave out the sigmoid before it"},
        {"float32", precisions, "; did you mean f32?"},
        {"pipedream", schedules, "; did you mean 1f1b?"},
        {"interleaved_1f1b", schedules, "; did you mean interleaved?"},
        {"exponential", rates, "; write step: {every: 1 epoch, gamma: 0.9}"},
        {"time", modes, "; did you mean auto?"},
        {"in_channels", options, "; leave it out: a layer takes this size from its input"},
        {"requires_grad", options, "; write freeze: true for requires_grad: false"},
        {"epochs", sections, "; did you mean train.epochs?"},
        {"batch_size", train, "; did you mean data.batch?"},
        {"learning_rate", train, "; did you mean optimizer.sgd.lr?"},
        {"weight_decay", train, "; did you mean optimizer.sgd.weight_decay?"},
        {"chunks", train, "; did you mean pipeline.micro_batches?"},
        {"gradient_checkpointing", train, "; did you mean pipeline.checkpoint?"},
        {"max_epochs", data, "; did you mean train.epochs?"},
        {"gradient_checkpointing", pipeline, "; did you mean checkpoint?"},
        {"deferred_batch_norm", pipeline, deferred},
        {"deferred_batch_norm", train, deferred},
        {"fp16", train, precision},
        {"bf16", sections, precision},
        {"amp", train, precision},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gp_suggestion suggestion = gp_suggest(cases[i].name, cases[i].known);
        if (strcmp(suggestion.text, cases[i].text) != 0)
            fail_msg("%s: \"%s\", not \"%s\"", cases[i].name, suggestion.text, cases[i].text);
    }
}

static void knows_what_comes_later(void **state) {
    (void)state;
    static const char *const later[] = {"bf16", "f16", NULL};
    static const char *const yes[] = {"bf16", "f16", "fp16", "Float16", "half", "bfloat16", "amp"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) assert_true(gp_is_later(yes[i], later));
    assert_false(gp_is_later("f8", later));
    assert_false(gp_is_later("f16", NULL));
}

static void finds_no_name_where_none_is_near(void **state) {
    (void)state;
    static const char *const known[] = {"out", "kernel", "lr", NULL};
    static const char *const far[] = {"", "_", "zebra", "x", "transposed", "xx", "xyz"};
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) assert_null(gp_nearest_name(far[i], known));
    char longest[1000];
    memset(longest, 'k', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_null(gp_nearest_name(longest, known));
    assert_string_equal(gp_nearest_name("rl", known), "lr"); /* a swap is one step */
    assert_string_equal(gp_nearest_name("otu", known), "out");
}

static void reads_kinds(void **state) {
    (void)state;
    static const char *const beside[] = {"take", "name", NULL};
    gp_choice out;
    assert_int_equal(gp_read_kind(value("relu"), "layer", NULL, &out, &err), GP_OK);
    assert_string_equal(out.kind, "relu");
    assert_null(out.options);
    assert_null(out.main);
    assert_int_equal(out.place.column, 5);
    assert_int_equal(gp_read_kind(value("{max_pool: 2}"), "layer", NULL, &out, &err), GP_OK);
    assert_string_equal(out.kind, "max_pool");
    assert_string_equal(out.main->text, "2");
    assert_int_equal(out.place.column, 6);
    assert_int_equal(gp_read_kind(value("{add: [a, -1]}"), "layer", NULL, &out, &err), GP_OK);
    assert_int_equal(out.main->count, 2);
    assert_int_equal(gp_read_kind(value("{conv: {out: 3}}"), "layer", NULL, &out, &err), GP_OK);
    assert_null(out.main);
    assert_int_equal(out.options->count, 1);
    assert_int_equal(gp_read_kind(value("{relu: }"), "layer", NULL, &out, &err), GP_OK);
    assert_true(!out.main && !out.options);
    assert_int_equal(gp_read_kind(value("{take: [0, 5], idx: {a: b}}"), "source", beside, &out, &err), GP_OK);
    assert_string_equal(out.kind, "idx");
}

static void refuses_kinds(void **state) {
    (void)state;
    static const char *const beside[] = {"take", NULL};
    static const char *const cases[][2] = {
        {"[relu]", "t.yaml:1:5: layer: needs a name, or a name with options, not a list"},
        {"''", "t.yaml:1:5: layer: needs a name, or a name with options, not \"\""},
        {"{}", "t.yaml:1:5: layer: the mapping has no key that is a kind"},
        {"{take: 1}", "t.yaml:1:5: layer: the mapping has no key that is a kind"},
        {"{conv: , out: 3}",
         "t.yaml:1:14: layer: \"out\" stands beside \"conv\"; the options of a kind go below it, in conv: {…}"},
        {"{idx: 1, taek: 3}", "t.yaml:1:14: layer: \"taek\" stands beside \"idx\"; did you mean take?"},
    };
    gp_choice out;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(gp_read_kind(value(cases[i][0]), "layer", beside, &out, &err), GP_CONFIG);
        assert_string_equal(err.text, cases[i][1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_integers),
        cmocka_unit_test(reads_numbers),
        cmocka_unit_test(reads_booleans),
        cmocka_unit_test(reads_texts),
        cmocka_unit_test(reads_sizes),
        cmocka_unit_test(reads_times),
        cmocka_unit_test(reads_how_often),
        cmocka_unit_test(reads_choices),
        cmocka_unit_test(reads_lists),
        cmocka_unit_test(checks_keys),
        cmocka_unit_test(knows_what_others_call_it),
        cmocka_unit_test(advises_where_there_is_no_equal),
        cmocka_unit_test(knows_what_comes_later),
        cmocka_unit_test(finds_no_name_where_none_is_near),
        cmocka_unit_test(reads_kinds),
        cmocka_unit_test(refuses_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, forget_document);
}
