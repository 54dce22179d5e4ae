/* Rates that are kept: a file for each machine, device, number of threads and version of the libraries, in gpipe/rates
 * beside the profiles.
 *
 * Any thread; two processes may write one file: it is replaced whole. */
#ifndef GP_BALANCE_RATES_FILE_H
#define GP_BALANCE_RATES_FILE_H

#include <stdbool.h>

#include "balance/rates.h"
#include "base/status.h"
#include "device/device.h"

/* Where the device's rates are kept; owned by the caller; NULL if there is no cache folder. */
GP_MUST_USE gp_status gp_rates_path(const gp_device_spec *spec, char **out, gp_error *err);
/* *found false: no file, one of another machine, or a damaged one, of which *warning then tells; owned by the caller,
 * NULL if there is nothing to tell. If the device has several threads and no file of its own, its rates follow from
 * those of one thread. */
GP_MUST_USE gp_status gp_rates_find(const gp_device_spec *spec, gp_rates *out, bool *found, char **warning,
                                    gp_error *err);
GP_MUST_USE gp_status gp_rates_keep(const gp_device_spec *spec, const gp_rates *rates, gp_error *err);

#endif
