#include "config/names.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/printable.h"
#include "config/foreign.h"

enum { SHORT = 4 };

/* Insertions, deletions, changes and swaps of neighbours that make one text of the other. */
static int edit_distance(const char *a, const char *b) {
    int rows[3][GP_LONGEST_NAME + 1];
    int *before = rows[0], *above = rows[1], *row = rows[2];
    int columns = (int)strlen(b);
    for (int j = 0; j <= columns; j++) above[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        row[0] = i;
        for (int j = 1; j <= columns; j++) {
            int best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best) best = above[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && before[j - 2] + 1 < best) best = before[j - 2] + 1;
            row[j] = best;
        }
        int *free_row = before;
        before = above;
        above = row;
        row = free_row;
    }
    return above[columns];
}

/* Two slips in a long word, one in a shorter one: anything farther is another word. */
static int misspelling_distance(int length) {
    return length > 7 ? 2 : length > 1 ? 1 : 0;
}

/* A short word has many neighbours: "gru" is not "gelu", but "sdg" is "sgd". Its first letter is right, or swapped. */
static bool is_short_misspelling(const char *typed, const char *name) {
    return typed[0] == name[0] || (typed[0] == name[1] && typed[1] == name[0]);
}

/* The only name that begins so: "norm" is "normal". */
static const char *find_beginning(const char *folded, const char *const *known) {
    enum { LEAST = 3 };
    char other[GP_LONGEST_NAME + 1];
    const char *found = NULL;
    for (size_t i = 0; known[i] && strlen(folded) >= LEAST; i++) {
        if (!gp_fold_name(known[i], other) || strncmp(other, folded, strlen(folded)) != 0) continue;
        if (found) return NULL;
        found = known[i];
    }
    return found;
}

/* "torch.nn.ReLU()" is "ReLU". */
static const char *bare_name(const char *name, char out[GP_LONGEST_NAME + 1]) {
    static const char *const packages[] = {"torch.", "nn.",     "optim.",      "lr_scheduler.", "functional.", "F.",
                                           "keras.", "layers.", "transforms.", "torchvision.",  "tf.",         NULL};
    for (bool found = true; found;) {
        found = false;
        for (size_t i = 0; packages[i] && !found; i++) {
            found = strncmp(name, packages[i], strlen(packages[i])) == 0;
            if (found) name += strlen(packages[i]);
        }
    }
    size_t length = strcspn(name, "(");
    if (length > GP_LONGEST_NAME) return name;
    memcpy(out, name, length);
    out[length] = '\0';
    return out;
}

bool gp_is_later(const char *name, const char *const *later) {
    char folded[GP_LONGEST_NAME + 1], bare[GP_LONGEST_NAME + 1];
    if (!later) return false;
    name = bare_name(name, bare);
    for (size_t i = 0; later[i]; i++)
        if (gp_same_name(name, later[i])) return true;
    return gp_fold_name(name, folded) && gp_foreign_name(folded, later);
}

const char *gp_nearest_name(const char *name, const char *const *known) {
    char folded[GP_LONGEST_NAME + 1] = "", other[GP_LONGEST_NAME + 1] = "", bare[GP_LONGEST_NAME + 1];
    if (!gp_fold_name(bare_name(name, bare), folded) || folded[0] == '\0') return NULL;
    for (size_t i = 0; known[i]; i++)
        if (gp_fold_name(known[i], other) && strcmp(folded, other) == 0) return known[i];
    const char *nearest = gp_foreign_name(folded, known);
    if (nearest || gp_foreign_advice(folded, known) || gp_foreign_home(folded, known)) return nearest;
    if (folded[strspn(folded, "0123456789")] == '\0') return NULL; /* no number is a misspelling of another */
    int least = misspelling_distance((int)strlen(folded));
    for (size_t i = 0; known[i]; i++) {
        if (!gp_fold_name(known[i], other)) continue;
        int distance = edit_distance(folded, other);
        if (distance > least || distance >= (int)strlen(other) || (nearest && distance == least)) continue;
        if (strlen(folded) <= SHORT && !is_short_misspelling(folded, other)) continue;
        least = distance;
        nearest = known[i];
    }
    return nearest ? nearest : find_beginning(folded, known);
}

gp_shown gp_show(const char *text) {
    enum { MOST = 60, WIDE_SPACE = 0x3000 };
    gp_shown shown;
    size_t used = 0;
    shown.text[used++] = '"';
    for (; *text && used < MOST; text++) {
        unsigned char c = (unsigned char)*text;
        uint32_t point;
        size_t bytes = gp_utf8_next(text, 4, &point);
        bool printable;
        (void)gp_printable_next(text, &printable);
        if (bytes > 1 && (!printable || gp_is_invisible(point) || point == WIDE_SPACE)) {
            used += (size_t)sprintf(shown.text + used, point > 0xFFFF ? "\\U%08X" : "\\u%04X", (unsigned)point);
            text += bytes - 1;
            continue;
        }
        if (c == '\n')
            used += (size_t)sprintf(shown.text + used, "\\n");
        else if (c < 0x20 || c == 0x7F)
            used += (size_t)sprintf(shown.text + used, "\\x%02X", (unsigned)c);
        else
            shown.text[used++] = (char)c;
    }
    bool cut = *text != '\0';
    while (*text && ((unsigned char)*text & 0xC0U) == 0x80U) shown.text[used++] = *text++;
    sprintf(shown.text + used, "%s\"", cut && *text ? "…" : "");
    return shown;
}

gp_shown gp_show_node(const gp_yaml *node) {
    if (node->kind == GP_YAML_SEQUENCE) return (gp_shown){"a list"};
    if (node->kind == GP_YAML_MAPPING) return (gp_shown){"a mapping"};
    if (!node->quoted && node->text[0] == '\0') return (gp_shown){"an empty value"};
    return gp_show(node->text);
}

const char *gp_home_of(const char *name, const char *const *known) {
    char folded[GP_LONGEST_NAME + 1];
    return gp_fold_name(name, folded) ? gp_foreign_home(folded, known) : NULL;
}

gp_suggestion gp_advise(const char *name, const char *const *known) {
    gp_suggestion advice = {""};
    char folded[GP_LONGEST_NAME + 1], bare[GP_LONGEST_NAME + 1];
    const char *sentence = gp_fold_name(bare_name(name, bare), folded) ? gp_foreign_advice(folded, known) : NULL;
    if (sentence) snprintf(advice.text, sizeof advice.text, "; %s", sentence);
    return advice;
}

gp_suggestion gp_suggest(const char *name, const char *const *known) {
    gp_suggestion suggestion = gp_advise(name, known);
    const char *nearest = gp_nearest_name(name, known);
    if (!nearest && !suggestion.text[0]) nearest = gp_home_of(name, known);
    if (nearest) snprintf(suggestion.text, sizeof suggestion.text, "; did you mean %.60s?", nearest);
    return suggestion;
}

gp_listing gp_list_names(const char *const *names) {
    gp_listing listing = {""};
    size_t used = 0;
    for (size_t i = 0; names[i] && used < sizeof listing.text - 64; i++)
        used += (size_t)snprintf(listing.text + used, sizeof listing.text - used, "%s%.60s", i ? ", " : "", names[i]);
    return listing;
}
