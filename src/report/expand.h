/* --expand: the configuration with its model as a list of layers.
 *
 * One thread. What is printed is the caller's stream's; what fails is said by the status.
 */
#ifndef GP_REPORT_EXPAND_H
#define GP_REPORT_EXPAND_H

#include <stdio.h>

#include "base/status.h"
#include "settings/config.h"

/* Takes the configuration, whatever happens: *config is NULL afterwards. Prints it whole, the model as a list, defaults
 * and paths written out (a balance that is `auto` or `size` stays so): it trains to the same bits. Needs no data.
 * GP_CONFIG with a place where no graph can be built of the model. */
GP_MUST_USE gp_status gp_expand(gp_config **config, FILE *out, gp_error *err);

#endif
