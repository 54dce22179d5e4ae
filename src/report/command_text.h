/* Command lines in reports, as a shell reads them back.
 *
 * Writes to a stream; one thread per stream. */
#ifndef GP_REPORT_COMMAND_TEXT_H
#define GP_REPORT_COMMAND_TEXT_H

#include <stdio.h>

/* What the command line said whose repetition is printed. Borrowed. */
typedef struct gp_command {
    const char *config;           /* path */
    const char *const *overrides; /* of --set */
    int override_count;
    const char *profile; /* of --profile, or what -o wrote; NULL: neither */
    int processors;      /* of --processors; 0: it was not given */
} gp_command;

/* All with a space before them, in quotation marks where a shell would not leave them as they are. If they hold what is
 * not printed (base/printable.h), these are $'…', which bash reads. */
void gp_command_write_word(const char *word, FILE *out);
void gp_command_write_set(const char *key, const char *value, FILE *out); /* --set key=value */
/* But for those of the keys `later`, NULL-terminated, which the line says again behind them. */
void gp_command_write_overrides(const gp_command *command, const char *const *later, FILE *out);
void gp_command_write_profile(const gp_command *command, FILE *out);    /* nothing where there is none */
void gp_command_write_processors(const gp_command *command, FILE *out); /* likewise */
void gp_command_write_config(const gp_command *command, FILE *out);

#endif
