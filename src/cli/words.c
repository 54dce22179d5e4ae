#include "cli/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/read.h"

gp_status gp_words_value(gp_words *rest, const char *word, size_t length, const char *behind, const char **out,
                         gp_error *err) {
    if (*behind)
        *out = behind + (*behind == '=');
    else if (rest->next < rest->count)
        *out = rest->words[rest->next++];
    else
        return gp_fail(err, GP_USAGE, "option %.*s needs a value", (int)length, word);
    return GP_OK;
}

gp_status gp_words_processors(gp_words *rest, const char *word, size_t length, int *out, gp_error *err) {
    enum { MOST = 4096 };
    const char *text = NULL;
    char *end;
    GP_RETURN_IF_FAILED(gp_words_value(rest, word, length, word + length, &text, err));
    long value = strtol(text, &end, 10);
    if (text[0] < '1' || text[0] > '9' || *end || value > MOST)
        return gp_fail(err, GP_USAGE, "option --processors takes a whole number from 1 to %d, not \"%s\"", MOST, text);
    *out = (int)value;
    return GP_OK;
}

bool gp_word_is(const char *word, size_t length, const char *name) {
    return strlen(name) == length && strncmp(word, name, length) == 0;
}

bool gp_words_flag_set(const char *word, const gp_words_flag *flags) {
    for (; flags->name; flags++) {
        if (strcmp(word, flags->name) != 0) continue;
        *flags->is = true;
        return true;
    }
    return false;
}

gp_status gp_words_take(gp_words *rest, const gp_words_taker *taker, gp_error *err) {
    bool only_names = false;
    while (rest->next < rest->count) {
        const char *word = rest->words[rest->next++];
        if (!only_names && strcmp(word, "--") == 0) {
            only_names = true;
            continue;
        }
        if (!only_names && strncmp(word, "--", 2) == 0)
            GP_RETURN_IF_FAILED(taker->take_long(taker->options, word, rest, err));
        else if (!only_names && word[0] == '-' && word[1])
            GP_RETURN_IF_FAILED(taker->take_short(taker->options, word, rest, err));
        else if (*taker->config)
            return gp_fail(err, GP_USAGE, "only one configuration may be given; %s is the second", word);
        else
            *taker->config = word;
    }
    return GP_OK;
}

gp_status gp_words_refuse(const char *word, size_t length, const char *const *known, const char *program,
                          gp_error *err) {
    for (size_t i = 0; known[i]; i++)
        if (gp_word_is(word, length, known[i])) return gp_fail(err, GP_USAGE, "option %s takes no value", known[i]);
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)length, word);
    const char *near = gp_nearest_name(name, known);
    if (near) return gp_fail(err, GP_USAGE, "unknown option %s: did you mean %s?", name, near);
    return gp_fail(err, GP_USAGE, "unknown option %s: see %s --help", name, program);
}
