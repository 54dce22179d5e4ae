/* The command line of gpipe-balance: options, their help, and what is refused.
 *
 * Texts and their list stay argv's. The main thread only. */
#ifndef GP_CLI_BALANCE_OPTIONS_H
#define GP_CLI_BALANCE_OPTIONS_H

#include <stdbool.h>

#include "base/status.h"

typedef struct gp_balance_options {
    const char *config;
    const char *simulate;   /* times to play a schedule on; NULL: a configuration is balanced */
    const char **overrides; /* of --set; the first words of argv */
    int override_count;
    const char *profile;                      /* that is used; NULL: one that was kept, or is measured */
    const char *out;                          /* where a measured profile is written; NULL: where such are kept */
    double seconds;                           /* that measuring may take */
    int processors;                           /* that predictions are for; 0: those of this machine */
    bool orders;                              /* of the devices too */
    bool search;                              /* for stages, schedule and checkpoint mode too */
    const char *frees;                        /* --search=…: as given; NULL: nothing more */
    bool frees_micro_batches, frees_replicas; /* which the search may change */
    bool quiet;                               /* no progress on standard error */
    bool again, json, write, help, version;
} gp_balance_options;

/* GP_USAGE with a sentence. Moves the arguments of --set to the front of argv. */
GP_MUST_USE gp_status gp_balance_options_parse(int argc, char **argv, gp_balance_options *out, gp_error *err);
const char *gp_balance_options_help(void);

#endif
