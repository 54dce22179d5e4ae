/* The words of a command line, read by a table of options.
 *
 * By hand: getopt_long takes any prefix of a name, which the next option's name would make ambiguous, and does not say
 * which word it refuses. Texts are borrowed from argv; the main thread only. */
#ifndef GP_CLI_WORDS_H
#define GP_CLI_WORDS_H

#include "base/status.h"

/* What an option sets, and the type of gp_option.value. A value stands after "=", after the letter, or is the next
 * word. */
typedef enum gp_option_kind {
    GP_OPTION_FLAG,   /* bool: true */
    GP_OPTION_CHOICE, /* int: `choice` */
    GP_OPTION_WORDS,  /* bool: true; `second`: const char *, what stands after "=", which may be missing */
    GP_OPTION_TEXT,   /* const char *: its value */
    GP_OPTION_LIST,   /* const char *[]: one more value, which may be stored in argv; `second`: the int that counts them
                       */
    GP_OPTION_COUNT,  /* int: a whole number from 1 to 4096 */
    GP_OPTION_SECONDS, /* double: above 0, up to a day */
    GP_OPTION_STEPS,   /* int64_t: the first step of "3:10", or of "3", which is one step; `second`: the last */
} gp_option_kind;

typedef struct gp_option {
    const char *name; /* "--plan", or "-q", which may stand with other letters: "-qv" */
    gp_option_kind kind;
    void *value, *second;
    int choice;
    const char *instead; /* of a flag that users give a value: what takes it; may be NULL */
} gp_option;

/* Options of other programs, without case and signs ("outputdir outdir", a letter too), and what to write here. */
typedef struct gp_habit {
    const char *theirs, *advice;
} gp_habit;

/* Reads all words; after "--" none is an option. `options`, `habits`: up to one without a name. *config: the one word
 * that is no option; stays if there is none. GP_USAGE for a second one, an unknown option, and a missing, wrong or
 * needless value. An unknown option that means a key of the configuration is answered with --set. */
GP_MUST_USE gp_status gp_words_read(int argc, char **argv, const gp_option *options, const gp_habit *habits,
                                    const char *program, const char **config, gp_error *err);

#endif
