#include "cli/words.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/read.h"

enum { MOST_OPTIONS = 32, MOST_COUNT = 4096 };
static const double most_seconds = 86400;

typedef struct words {
    char **word;
    int count, next;
    const gp_option *options;
    const char *program;
} words;

/* ---- values ------------------------------------------------------------------------------------------------------ */

static gp_status set_count(const gp_option *option, const char *text, gp_error *err) {
    char *end;
    long value = strtol(text, &end, 10);
    if (text[0] < '1' || text[0] > '9' || *end || value > MOST_COUNT)
        return gp_fail(err, GP_USAGE, "option %s takes a whole number from 1 to %d, not \"%s\"", option->name,
                       MOST_COUNT, text);
    *(int *)option->value = (int)value;
    return GP_OK;
}

static gp_status set_seconds(const gp_option *option, const char *text, gp_error *err) {
    char *end;
    double seconds = strtod(text, &end);
    if (!*text || *end || !(seconds > 0 && seconds <= most_seconds))
        return gp_fail(err, GP_USAGE, "option %s takes a number above 0 and up to %g, not \"%s\"", option->name,
                       most_seconds, text);
    *(double *)option->value = seconds;
    return GP_OK;
}

static gp_status set_steps(const gp_option *option, const char *text, gp_error *err) {
    int64_t first = 0, last = 0;
    int length = 0;
    bool two = sscanf(text, "%9" SCNd64 ":%9" SCNd64 "%n", &first, &last, &length) == 2 && !text[length];
    bool one = !two && sscanf(text, "%9" SCNd64 "%n", &first, &length) == 1 && !text[length];
    if (one) last = first;
    if (!(one || two) || first < 1 || last < first || !isdigit((unsigned char)*text))
        return gp_fail(err, GP_USAGE, "option %s takes the first and the last step, as in 1:100, not \"%s\"",
                       option->name, text);
    *(int64_t *)option->value = first;
    *(int64_t *)option->second = last;
    return GP_OK;
}

static bool takes_value(const gp_option *option) {
    return option->kind != GP_OPTION_FLAG && option->kind != GP_OPTION_CHOICE && option->kind != GP_OPTION_WORDS;
}

/* `after`: the rest of the word. */
static gp_status set_option(words *w, const gp_option *option, const char *after, gp_error *err) {
    const char *text = after + (*after == '=');
    if (takes_value(option) && !*after) {
        if (w->next == w->count) return gp_fail(err, GP_USAGE, "option %s needs a value", option->name);
        text = w->word[w->next++];
    }
    switch (option->kind) {
    case GP_OPTION_FLAG: *(bool *)option->value = true; return GP_OK;
    case GP_OPTION_CHOICE: *(int *)option->value = option->choice; return GP_OK;
    case GP_OPTION_WORDS:
        *(bool *)option->value = true;
        if (*after) *(const char **)option->second = text;
        return GP_OK;
    case GP_OPTION_TEXT: *(const char **)option->value = text; return GP_OK;
    case GP_OPTION_LIST: ((const char **)option->value)[(*(int *)option->second)++] = text; return GP_OK;
    case GP_OPTION_COUNT: return set_count(option, text, err);
    case GP_OPTION_SECONDS: return set_seconds(option, text, err);
    case GP_OPTION_STEPS: return set_steps(option, text, err);
    }
    return GP_OK;
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static const gp_option *find_option(const words *w, const char *name, size_t length) {
    const gp_option *option = w->options;
    while (option->name && (strlen(option->name) != length || strncmp(option->name, name, length) != 0)) option++;
    return option->name ? option : NULL;
}

static gp_status refuse(const words *w, const char *word, size_t length, gp_error *err) {
    const char *known[MOST_OPTIONS + 1] = {NULL};
    int count = 0;
    for (const gp_option *option = w->options; option->name && count < MOST_OPTIONS; option++)
        if (option->name[1] == '-') known[count++] = option->name;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)length, word);
    const char *near = gp_nearest_name(name, known);
    if (near) return gp_fail(err, GP_USAGE, "unknown option %s: did you mean %s?", name, near);
    return gp_fail(err, GP_USAGE, "unknown option %s: see %s --help", name, w->program);
}

static gp_status read_long(words *w, const char *word, gp_error *err) {
    size_t length = strcspn(word, "=");
    const gp_option *option = find_option(w, word, length);
    if (!option) return refuse(w, word, length, err);
    if (word[length] && !takes_value(option) && option->kind != GP_OPTION_WORDS)
        return gp_fail(err, GP_USAGE, "option %s takes no value", option->name);
    return set_option(w, option, word + length, err);
}

/* -q, -qv, -oDIR, -o DIR. */
static gp_status read_letters(words *w, const char *word, gp_error *err) {
    for (const char *letter = word + 1; *letter; letter++) {
        const gp_option *option = find_option(w, (const char[]){'-', *letter}, 2);
        if (!option) return gp_fail(err, GP_USAGE, "unknown option -%c: see %s --help", *letter, w->program);
        GP_RETURN_IF_FAILED(set_option(w, option, letter + 1, err));
        if (takes_value(option)) break;
    }
    return GP_OK;
}

gp_status gp_words_read(int argc, char **argv, const gp_option *options, const char *program, const char **config,
                        gp_error *err) {
    words w = {argv, argc, 1, options, program};
    bool only_names = false;
    while (w.next < w.count) {
        const char *word = w.word[w.next++];
        if (!only_names && strcmp(word, "--") == 0)
            only_names = true;
        else if (!only_names && strncmp(word, "--", 2) == 0)
            GP_RETURN_IF_FAILED(read_long(&w, word, err));
        else if (!only_names && word[0] == '-' && word[1])
            GP_RETURN_IF_FAILED(read_letters(&w, word, err));
        else if (*config)
            return gp_fail(err, GP_USAGE, "only one configuration may be given; %s is the second", word);
        else
            *config = word;
    }
    return GP_OK;
}
