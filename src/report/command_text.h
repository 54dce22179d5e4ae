/* Command lines in reports, as a shell reads them back. Words are in quotation marks if a shell would not leave them as
 * they are. If they hold what is not printed (base/printable.h), these are $'…', which bash reads.
 *
 * Writes to a stream; one thread per stream. */
#ifndef GP_REPORT_COMMAND_TEXT_H
#define GP_REPORT_COMMAND_TEXT_H

#include <stdio.h>

#include "base/status.h"

/* What the command line said whose repetition is printed. Borrowed. */
typedef struct gp_command {
    const char *config;           /* path */
    const char *const *overrides; /* of --set */
    int override_count;
    const char *profile; /* of --profile, or what -o wrote; NULL: neither */
    int processors;      /* of --processors; 0: it was not given */
} gp_command;

/* A key of the configuration and its value. */
typedef struct gp_command_set {
    const char *key, *value;
} gp_command_set;

/* "to write it  gpipe-balance --search --write …": the command with `option` and --write. `checked`: whether the file
 * can take what was found. GP_USAGE and GP_CONFIG mean that --write would be refused: then nothing is printed. */
GP_MUST_USE gp_status gp_command_write_again(const gp_command *command, const char *option, gp_status checked,
                                             FILE *out, gp_error *err);
/* "to train     gpipe-train …": the overrides but those of these keys, and then these. A new line begins after
 * `first` keys; 0: none does. */
void gp_command_train(const gp_command *command, const gp_command_set *sets, int count, int first, FILE *out);

#endif
