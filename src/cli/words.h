/* The words of a command line, read one after another.
 *
 * By hand: getopt_long takes any prefix of a name, which the next option's name would make ambiguous, and does not say
 * which word it refuses. Borrows argv; the main thread only. */
#ifndef GP_CLI_WORDS_H
#define GP_CLI_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct gp_words {
    char **words;
    int count, next;
} gp_words;

/* `length` of `word` is the option's name; a value stands behind it ("": none does) or is the next word. */
GP_MUST_USE gp_status gp_words_value(gp_words *rest, const char *word, size_t length, const char *behind,
                                     const char **out, gp_error *err);
/* The value of --processors, likewise: a whole number from 1 to 4096. */
GP_MUST_USE gp_status gp_words_processors(gp_words *rest, const char *word, size_t length, int *out, gp_error *err);
bool gp_word_is(const char *word, size_t length, const char *name);
/* An option that takes no value, and what it sets. */
typedef struct gp_words_flag {
    const char *name;
    bool *is;
} gp_words_flag;
/* Whether the word is one of them, which is then set; `flags` ends with a NULL name. */
bool gp_words_flag_set(const char *word, const gp_words_flag *flags);

/* Who takes the options: "--plan=x", "-qv". */
typedef struct gp_words_taker {
    gp_status (*take_long)(void *options, const char *word, gp_words *rest, gp_error *err);
    gp_status (*take_short)(void *options, const char *word, gp_words *rest, gp_error *err);
    void *options;
    const char **config; /* the one word that is none */
} gp_words_taker;
/* All words; behind "--" none is an option. GP_USAGE for a second configuration, and as the taker says. */
GP_MUST_USE gp_status gp_words_take(gp_words *rest, const gp_words_taker *taker, gp_error *err);

/* GP_USAGE for an option that is not known, or takes no value; `known`: all of the program's, NULL-terminated. */
gp_status gp_words_refuse(const char *word, size_t length, const char *const *known, const char *program,
                          gp_error *err);

#endif
