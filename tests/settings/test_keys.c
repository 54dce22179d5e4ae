/* The table of keys against docs/configuration.md: the list of all keys, the defaults of the sections' tables, and what
 * may change within a run. `test_keys --print` prints the list. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "settings/tables_internal.h"

enum { MOST_TEXT = 1 << 18 };

/* ---- the list ---------------------------------------------------------------------------------------------------- */

static void print_names(FILE *file, const char *const *names) {
    for (int i = 0; names && names[i]; i++) fprintf(file, "%s`%s`", i ? ", " : "", names[i]);
}

static void print_range(FILE *file, const gp_key *key) {
    double low = key->number.low, high = key->number.high;
    if (key->integer.high == INT64_MAX || (key->integer.low && !key->integer.high))
        fprintf(file, ", ≥ %lld", (long long)key->integer.low);
    else if (key->integer.high)
        fprintf(file, ", %lld … %lld", (long long)key->integer.low, (long long)key->integer.high);
    if (high > low && !isinf(low) && isinf(high)) fprintf(file, ", %s %g", key->number.open & 1U ? ">" : "≥", low);
    if (high > low && !isinf(high)) fprintf(file, ", %g … %g", low, high);
    if (high > low && !isinf(high) && key->number.open & 2U) fprintf(file, ", less than %g", high);
}

static void print_value(FILE *file, const gp_key *key) {
    const gp_key_kind *kind = key->table ? key->table->kinds : NULL;
    bool names = key->names || kind, noun = key->type->noun[0] && !(kind && key->type == &gp_table_type);
    if (key->type == &gp_elsewhere_type) fputs("see above", file);
    print_names(file, key->names);
    for (int i = 0; kind && kind[i].name; i++)
        if (strcmp(kind[i].name, "ref")) fprintf(file, "%s`%s`", i ? ", " : "", kind[i].name);
    if (noun) fprintf(file, "%s%s", names ? "; " : "", key->type->noun);
    print_range(file, key);
}

static const char *change_text(const char *path) {
    static const char *const texts[] = {[GP_CHANGE_BY_STEP] = "step",
                                        [GP_CHANGE_FREELY] = "edit",
                                        [GP_CHANGE_MACHINE] = "always",
                                        [GP_CHANGE_NEVER] = "never"};
    const char *reason;
    return texts[gp_find_change(&gp_config_table, path, &reason)];
}

static void print_table(FILE *file, const gp_key_table *table, const char *path);

static void print_key(FILE *file, const gp_key *key, const char *path) {
    bool list = key->type == &gp_transforms_type || key->type == &gp_devices_type;
    bool again = strcmp(path, "data.eval") == 0;
    char inner[204];
    fprintf(file, "| `%s` | ", path);
    if (again)
        fputs("as `data.train`", file);
    else
        print_value(file, key);
    fprintf(file, " | %s%s%s | %s |\n", key->unsaid ? "`" : "",
            key->unsaid    ? key->unsaid
            : key->example ? "required"
                           : "",
            key->unsaid ? "`" : "", change_text(path));
    snprintf(inner, sizeof inner, "%s%s", path, list ? ".N" : "");
    if (key->table && !again) print_table(file, key->table, inner);
}

static void print_table(FILE *file, const gp_key_table *table, const char *path) {
    char inner[200];
    for (const gp_key_kind *kind = table->kinds; kind && kind->name; kind++) {
        bool hidden = strcmp(kind->name, "ref") == 0; /* the oracle of the tests is not in the manual */
        snprintf(inner, sizeof inner, "%s.%s", path, kind->name);
        if (!hidden) print_table(file, &kind->options, inner);
    }
    for (const gp_key *key = table->keys; key && key->name; key++) {
        snprintf(inner, sizeof inner, "%s%s%s", path, *path ? "." : "", key->name);
        print_key(file, key, inner);
    }
}

static void print_list(FILE *file) {
    fputs("| key | value | default | may change |\n|---|---|---|---|\n", file);
    print_table(file, &gp_config_table, "");
}

/* ---- the document ------------------------------------------------------------------------------------------------ */

static char *read_document(void) {
    char *text = calloc(1, MOST_TEXT);
    FILE *file = fopen(GP_TEST_SOURCE_DIR "/../docs/configuration.md", "r");
    assert_non_null(file);
    assert_non_null(text);
    text[fread(text, 1, MOST_TEXT - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* The text below "## name", up to the next heading of that size; cut out of `document`. */
static char *section_of(char *document, const char *name) {
    char heading[80];
    snprintf(heading, sizeof heading, "\n## %s\n", name);
    char *begin = strstr(document, heading);
    if (!begin) fail_msg("docs/configuration.md has no section %s", name);
    begin += strlen(heading);
    char *end = strstr(begin, "\n## ");
    return strndup(begin, end ? (size_t)(end - begin) : strlen(begin));
}

static void the_document_lists_every_key(void **state) {
    (void)state;
    char *document = read_document(), *section = section_of(document, "Every key"), *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    print_list(file);
    fclose(file);
    char *table = strstr(section, "| key |");
    assert_non_null(table);
    char *end = strstr(table, "\n\n");
    if (end) end[1] = '\0';
    char *shown = table, *made = text;
    while (*shown && *made) { /* line by line, so that a difference is easy to find */
        char *a = strsep(&shown, "\n"), *b = strsep(&made, "\n");
        assert_string_equal(a, b);
        if (!shown || !made) break;
    }
    if (shown && *shown) fail_msg("docs/configuration.md lists more keys: %s", shown);
    if (made && *made) fail_msg("docs/configuration.md lacks %s", made);
    free(text);
    free(section);
    free(document);
}

static bool cell_says(const char *cell, const char *value) {
    char quoted[80], plain[80];
    snprintf(quoted, sizeof quoted, " `%s` |", value);
    snprintf(plain, sizeof plain, " %s |", value);
    return strncmp(cell, quoted, strlen(quoted)) == 0 || strncmp(cell, plain, strlen(plain)) == 0;
}

/* The line of a key in the table of its section: "| `key` | default | …" or "| `key`, `other` | …". */
static void check_line(const char *section, const char *path, const gp_key *key) {
    char alone[80], with[80];
    snprintf(alone, sizeof alone, "`%s`", key->name);
    snprintf(with, sizeof with, "`%s:", key->name);
    for (const char *line = section; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        if (strncmp(line, "| `", 3) != 0) continue;
        const char *cell = strstr(line, " | ");
        const char *name = strstr(line, alone) ? strstr(line, alone) : strstr(line, with);
        if (!cell || !name || name > cell) continue;
        if (key->unsaid && !cell_says(cell + 2, key->unsaid))
            fail_msg("docs/configuration.md says another default of %s than %s: %.100s", path, key->unsaid, line);
        if (key->example && !key->unsaid && !strstr(line, "required") && strcmp(path, "model"))
            fail_msg("docs/configuration.md does not say that %s is required: %.100s", path, line);
        return;
    }
    fail_msg("docs/configuration.md has no line for %s", path);
}

static void the_sections_have_a_line_for_each_key(void **state) {
    (void)state;
    static const char *const sections[] = {"data", "pipeline", "optimizer", "train", NULL};
    char *document = read_document();
    for (const gp_key *key = gp_config_table.keys; key->name; key++) {
        if (gp_index_of(key->name, sections) < 0) continue;
        char *section = section_of(document, key->name), path[80];
        for (const gp_key *its = key->table->keys; its->name; its++) {
            snprintf(path, sizeof path, "%s.%s", key->name, its->name);
            check_line(section, path, its);
        }
        free(section);
    }
    free(document);
}

/* ---- the table itself -------------------------------------------------------------------------------------------- */

static void check_table(const gp_key_table *table, const char *path) {
    int count = 0;
    char inner[200];
    for (const gp_key *key = table->keys; key && key->name; key++, count++) {
        snprintf(inner, sizeof inner, "%s.%s", path, key->name);
        bool read = key->type->read || key->type == &gp_elsewhere_type;
        if (!read || !key->type->noun) fail_msg("%s has no type", inner);
        if (key->unsaid && key->example) fail_msg("%s is required, and has a default", inner);
        if ((key->change == GP_CHANGE_NEVER) != (key->fixed != NULL)) fail_msg("%s: no reason, or no rule", inner);
        if (key->table) check_table(key->table, inner);
    }
    for (const gp_key_kind *kind = table->kinds; kind && kind->name; kind++, count++)
        check_table(&kind->options, kind->name);
    for (int i = 0; table->later_keys && table->later_keys[i]; i++) count++;
    if (count > GP_MAX_KEYS) fail_msg("%s has more than %d keys", path, GP_MAX_KEYS);
    if (table->alone && !table->keys) fail_msg("%s has no key that could stand alone", path);
}

/* A key that stands in the wrong section is answered with its path, and every such path is in the table. */
static void homes_are_paths_of_the_table(void **state) {
    (void)state;
    static const char *const none[] = {"nothing", "pipeline", NULL};
    static const char *const shared[] = {"train", "eval", "threads", "input", "rules", "changes", NULL};
    for (const gp_key *section = gp_config_table.keys; section->name; section++) {
        for (const gp_key *key = section->table ? section->table->keys : NULL; key && key->name; key++) {
            char path[80];
            const char *home = gp_home_of(key->name, none);
            snprintf(path, sizeof path, "%s.%s", section->name, key->name);
            if (gp_index_of(key->name, shared) >= 0)
                assert_null(home);
            else if (!home || strcmp(home, path) != 0)
                fail_msg("%s is said to be %s", path, home ? home : "nowhere");
        }
    }
    static const char *const options[] = {"lr", "momentum", "nesterov", "weight_decay"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        char path[80];
        snprintf(path, sizeof path, "optimizer.sgd.%s", options[i]);
        assert_string_equal(gp_home_of(options[i], none), path);
    }
    assert_string_equal(gp_home_of("betas", none), "optimizer.adam.betas");
}

static void rows_are_whole(void **state) {
    (void)state;
    check_table(&gp_config_table, "configuration");
}

/* The rows of kinds carry the names that the rooms below give to them. */
static void kinds_have_the_names_of_their_rooms(void **state) {
    (void)state;
    const gp_key *schedule = gp_pipeline_table.keys;
    while (strcmp(schedule->name, "schedule") != 0) schedule++;
    for (int i = 0; i < GP_SCHEDULES; i++) {
        assert_int_equal(schedule->table->kinds[i].value, i);
        assert_string_equal(schedule->table->kinds[i].name, gp_schedule_kind_name((gp_schedule_kind)i));
    }
    assert_null(schedule->table->kinds[GP_SCHEDULES].name);
    for (int i = 0; gp_transform_table.kinds[i].name; i++) {
        assert_int_equal(gp_transform_table.kinds[i].value, i);
        assert_string_equal(gp_transform_table.kinds[i].name, gp_transform_name((gp_transform_kind)i));
    }
}

static void rules_come_from_the_deepest_row(void **state) {
    (void)state;
    static const struct {
        const char *path;
        gp_key_change change;
    } cases[] = {{"data.batch", GP_CHANGE_BY_STEP},
                 {"data.train.idx.images", GP_CHANGE_NEVER},
                 {"data.train.transform.0.pad", GP_CHANGE_BY_STEP},
                 {"data.eval.transform.0.pad", GP_CHANGE_NEVER},
                 {"data.threads", GP_CHANGE_MACHINE},
                 {"train.save_every", GP_CHANGE_MACHINE},
                 {"train.keep", GP_CHANGE_MACHINE},
                 {"train.steps", GP_CHANGE_FREELY},
                 {"train.init.skip", GP_CHANGE_NEVER},
                 {"pipeline.devices.0.cpu.threads", GP_CHANGE_FREELY},
                 {"pipeline.nothing", GP_CHANGE_FREELY},
                 {"optimizer.sgd", GP_CHANGE_NEVER},
                 {"optimizer.sgd.lr", GP_CHANGE_BY_STEP},
                 {"nothing", GP_CHANGE_BY_STEP},
                 {"", GP_CHANGE_BY_STEP}};
    const char *reason;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (gp_find_change(&gp_config_table, cases[i].path, &reason) != cases[i].change)
            fail_msg("%s has another rule", cases[i].path);
        assert_true((reason != NULL) == (cases[i].change == GP_CHANGE_NEVER));
    }
}

int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_document_lists_every_key),        cmocka_unit_test(the_sections_have_a_line_for_each_key),
        cmocka_unit_test(homes_are_paths_of_the_table),        cmocka_unit_test(rows_are_whole),
        cmocka_unit_test(kinds_have_the_names_of_their_rooms), cmocka_unit_test(rules_come_from_the_deepest_row),
    };
    if (count == 2 && strcmp(arguments[1], "--print") == 0) {
        print_list(stdout);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
