/* Rates of this machine's devices: a small network of the usual layers is timed for a fraction of a second, and its
 * profile is kept in gpipe/rates/ of the cache folder. Rates are fitted to the times of that profile.
 *
 * One thread calls; measuring blocks. */
#ifndef GP_PROFILE_RATES_MEASURE_H
#define GP_PROFILE_RATES_MEASURE_H

#include "base/status.h"
#include "device/device.h"
#include "profile/rates.h"

/* Seconds that measuring one device usually takes, the preparation of its ops included. */
#define GP_RATES_SECONDS 0.5

/* `processors`: of the machine, for telling whether the rates were taken under load. *found false: there is no kept
 * profile that fits; a damaged one does not. The rates of several threads follow from those of one if they have no
 * profile. */
GP_MUST_USE gp_status gp_rates_find(const gp_device_spec *spec, int processors, gp_rates *out, bool *found,
                                    gp_error *err);

typedef struct gp_rates_request {
    double seconds;          /* that timing may take */
    uint64_t (*clock)(void); /* nanoseconds; NULL: gp_clock */
    int processors;          /* of the machine */
    const double *load;      /* in place of the load that other programs make; NULL: theirs */
} gp_rates_request;
/* Keeps the profile, if the cache can be written. */
GP_MUST_USE gp_status gp_rates_measure(const gp_device_spec *spec, const gp_rates_request *request, gp_rates *out,
                                       gp_error *err);

#endif
