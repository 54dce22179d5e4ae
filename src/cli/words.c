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
    const gp_habit *habits;
    const char *program;
    const gp_option *flag; /* the word before was this option, which takes no value; else NULL */
} words;

/* ---- what other programs take ------------------------------------------------------------------------------------ */

static bool ends_with(const char *word, const char *end) {
    size_t length = strlen(word), its = strlen(end);
    return length >= its && strcmp(word + length - its, end) == 0;
}

static bool is_file(const char *word) {
    return ends_with(word, ".yaml") || ends_with(word, ".yml") || ends_with(word, ".json");
}

/* "train.epochs=3", which --set takes. */
static bool is_setting(const char *word) {
    size_t path = strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789_.");
    return path > 0 && word[path] == '=' && !is_file(word);
}

/* The next word, if it may be a value; else NULL. */
static const char *value_ahead(const words *w) {
    const char *word = w->next < w->count ? w->word[w->next] : "-";
    return (word[0] == '-' && !isdigit((unsigned char)word[1])) || is_file(word) || is_setting(word) ? NULL : word;
}

static const char *habit_of(const words *w, const char *folded) {
    size_t length = strlen(folded);
    for (const gp_habit *habit = w->habits; habit->theirs; habit++)
        for (const char *at = habit->theirs; (at = strstr(at, folded)); at += length)
            if ((at == habit->theirs || at[-1] == ' ') && (at[length] == '\0' || at[length] == ' '))
                return habit->advice;
    return NULL;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* "--set train.epochs 3" */
static gp_status add_to_list(const words *w, const gp_option *option, const char *text, gp_error *err) {
    const char *value = strpbrk(text, "=: ") || is_file(text) ? NULL : value_ahead(w);
    if (value)
        return gp_fail(err, GP_USAGE, "option %s takes one word, key.path=value: write %s %s=%.60s", option->name,
                       option->name, text, value);
    ((const char **)option->value)[(*(int *)option->second)++] = text;
    return GP_OK;
}

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
    w->flag = takes_value(option) ? NULL : option;
    switch (option->kind) {
    case GP_OPTION_FLAG: *(bool *)option->value = true; return GP_OK;
    case GP_OPTION_CHOICE: *(int *)option->value = option->choice; return GP_OK;
    case GP_OPTION_WORDS:
        *(bool *)option->value = true;
        if (*after) *(const char **)option->second = text;
        return GP_OK;
    case GP_OPTION_TEXT: *(const char **)option->value = text; return GP_OK;
    case GP_OPTION_LIST: return add_to_list(w, option, text, err);
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

/* What a name of another program's option means here; GP_OK: nothing is known of it. `value`: what was given to it, or
 * NULL. */
static gp_status refuse_foreign(const words *w, const char *name, const char *value, gp_error *err) {
    static const char *const sections[] = {"pipeline", NULL};
    char folded[GP_LONGEST_NAME + 1] = "";
    if (!gp_fold_name(name, folded) || !folded[0]) return GP_OK;
    const char *advice = habit_of(w, folded);
    if (advice) return gp_fail(err, GP_USAGE, "unknown option %s: %s", name, advice);
    const char *key = gp_home_of(folded, sections);
    bool kind = key && (strcmp(key, "optimizer.sgd.lr") == 0 || strcmp(key, "optimizer.sgd.weight_decay") == 0);
    if (key)
        return gp_fail(err, GP_USAGE, "unknown option %s: write --set %s=%.60s%s", name, key, value ? value : "…",
                       kind ? ", with adam or adamw in place of sgd if the configuration has it" : "");
    gp_suggestion suggestion = gp_advise(folded, sections);
    return suggestion.text[0] ? gp_fail(err, GP_USAGE, "unknown option %s%s", name, suggestion.text) : GP_OK;
}

static gp_status refuse(const words *w, const char *word, size_t length, gp_error *err) {
    const char *known[MOST_OPTIONS + 1] = {NULL};
    int count = 0;
    for (const gp_option *option = w->options; option->name && count < MOST_OPTIONS; option++)
        if (option->name[1] == '-') known[count++] = option->name;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)length, word);
    GP_RETURN_IF_FAILED(refuse_foreign(w, name, word[length] == '=' ? word + length + 1 : value_ahead(w), err));
    const char *near = word[1] == '-' ? gp_nearest_name(name, known) : NULL;
    if (near) return gp_fail(err, GP_USAGE, "unknown option %s: did you mean %s?", name, near);
    return gp_fail(err, GP_USAGE, "unknown option %s: see %s --help", name, w->program);
}

static gp_status refuse_value(const gp_option *option, gp_error *err) {
    return gp_fail(err, GP_USAGE, "option %s takes no value%s%s", option->name, option->instead ? "; " : "",
                   option->instead ? option->instead : "");
}

static gp_status read_long(words *w, const char *word, gp_error *err) {
    size_t length = strcspn(word, "=");
    const gp_option *option = find_option(w, word, length);
    if (!option) return refuse(w, word, length, err);
    if (word[length] && !takes_value(option) && option->kind != GP_OPTION_WORDS) return refuse_value(option, err);
    return set_option(w, option, word + length, err);
}

/* "-output x" is not -o utput: a word of other programs, or a long option with one dash. GP_OK: it is neither. */
static gp_status refuse_word(const words *w, const char *word, gp_error *err) {
    char name[64], folded[GP_LONGEST_NAME + 1] = "";
    int length = (int)strcspn(word, "=");
    if (length < 4 || length >= (int)sizeof name - 1) return GP_OK;
    snprintf(name, sizeof name, "-%.*s", length, word);
    if (find_option(w, name, (size_t)length + 1))
        return gp_fail(err, GP_USAGE, "unknown option %s: did you mean %s?", name + 1, name);
    const char *advice = gp_fold_name(name, folded) ? habit_of(w, folded) : NULL;
    return advice ? gp_fail(err, GP_USAGE, "unknown option %s: %s", name + 1, advice) : GP_OK;
}

/* -q, -qv, -oDIR, -o DIR. Other programs have "-lr 0.1" too. */
static gp_status read_letters(words *w, const char *word, gp_error *err) {
    GP_RETURN_IF_FAILED(refuse_word(w, word, err));
    for (const char *letter = word + 1; *letter; letter++) {
        const gp_option *option = find_option(w, (const char[]){'-', *letter}, 2);
        if (!option && letter == word + 1) return refuse(w, word, strcspn(word, "="), err);
        if (!option) return gp_fail(err, GP_USAGE, "unknown option -%c: see %s --help", *letter, w->program);
        GP_RETURN_IF_FAILED(set_option(w, option, letter + 1, err));
        if (takes_value(option)) break;
    }
    return GP_OK;
}

/* `flag`: the option that stood just before the first name, and takes no value; NULL: none did. */
static gp_status read_name(const char *word, const gp_option *flag, const char **config, gp_error *err) {
    if (!*config) {
        *config = word;
        return GP_OK;
    }
    if (flag && flag->instead && !is_file(*config)) return refuse_value(flag, err);
    return gp_fail(err, GP_USAGE, "only one configuration may be given; %s is the second", word);
}

gp_status gp_words_read(int argc, char **argv, const gp_option *options, const gp_habit *habits, const char *program,
                        const char **config, gp_error *err) {
    words w = {argv, argc, 1, options, habits, program, NULL};
    const gp_option *flag = NULL;
    bool only_names = false;
    while (w.next < w.count) {
        const char *word = w.word[w.next++];
        if (!only_names && strcmp(word, "--") == 0) {
            only_names = true;
        } else if (!only_names && strncmp(word, "--", 2) == 0) {
            GP_RETURN_IF_FAILED(read_long(&w, word, err));
        } else if (!only_names && word[0] == '-' && word[1]) {
            GP_RETURN_IF_FAILED(read_letters(&w, word, err));
        } else {
            if (!only_names && is_setting(word))
                return gp_fail(err, GP_USAGE, "%s needs --set before it: --set %s", word, word);
            if (!*config) flag = w.flag;
            GP_RETURN_IF_FAILED(read_name(word, flag, config, err));
            w.flag = NULL;
        }
    }
    return GP_OK;
}
