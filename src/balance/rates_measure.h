/* Measuring a device's rates: a small network of the usual layers, timed for a fraction of a second.
 *
 * One thread calls; blocks. */
#ifndef GP_BALANCE_RATES_MEASURE_H
#define GP_BALANCE_RATES_MEASURE_H

#include "balance/rates.h"
#include "base/status.h"
#include "device/device.h"

/* Seconds that measuring one device usually takes, the preparation of its ops included; for deciding whether a run is
 * long enough for it. */
#define GP_RATES_SECONDS 0.5

/* Every op is timed at least once. `seconds`: that timing may take; `clock`: nanoseconds; NULL: gp_clock. */
GP_MUST_USE gp_status gp_rates_measure(const gp_device_spec *spec, double seconds, uint64_t (*clock)(void),
                                       gp_rates *out, gp_error *err);

#endif
