/* Rates of this machine's devices, from the profile of a small network of the usual layers. It is timed for a fraction
 * of a second, and its profile is kept in gpipe/rates/ of the cache folder. Rates are fitted to the times of that
 * profile. Brief rates come from a smaller network of the same layers, in a tenth of a second.
 *
 * One thread calls; measuring blocks. */
#ifndef GP_PROFILE_RATES_MEASURE_H
#define GP_PROFILE_RATES_MEASURE_H

#include "base/status.h"
#include "device/device.h"
#include "profile/rates.h"

/* Seconds that measuring one device usually takes, the preparation of its ops included. */
#define GP_RATES_SECONDS 0.5
/* Seconds that timing for brief rates takes. */
#define GP_RATES_BRIEF_SECONDS 0.1

/* *found false: there is no kept profile that fits; a damaged one does not, and none that was disturbed
 * (profile_kept.h). The rates of several threads follow from those of one if they have no profile; brief ones of as
 * many threads are the last choice. */
GP_MUST_USE gp_status gp_rates_find(const gp_device_spec *spec, gp_rates *out, bool *found, gp_error *err);
/* Timing may take `seconds`; `clock` as gp_measure_request's. Keeps the profile, if the cache can be written. */
GP_MUST_USE gp_status gp_rates_measure(const gp_device_spec *spec, bool brief, double seconds, uint64_t (*clock)(void),
                                       gp_rates *out, gp_error *err);

#endif
