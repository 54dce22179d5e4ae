#include "profile/profile_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "profile/when.h"

double gp_profile_slowdown(const gp_profile *profile) {
    double most = 0;
    for (int d = 0; d < profile->device_count; d++)
        if (profile->devices[d].slowdown > most) most = profile->devices[d].slowdown;
    return most;
}

double gp_profile_spread(const gp_profile *profile) {
    if (gp_profile_is_counted(profile)) return GP_SPREAD_COUNTED;
    double most = profile->taken > 0 ? GP_SPREAD_LEAST : 0;
    for (int d = 0; d < profile->device_count; d++) {
        const gp_profile_device *device = &profile->devices[d];
        double excess = device->slowdown > 1 && profile->taken > 0 ? device->slowdown - 1 : 0;
        if (device->spread + excess > most) most = device->spread + excess;
    }
    return most + (profile->scaled ? GP_SPREAD_SCALED : 0);
}

bool gp_profile_is_disturbed(const gp_profile *profile) {
    if (gp_profile_is_counted(profile)) return false;
    for (int d = 0; d < profile->device_count; d++)
        if (profile->devices[d].slowdown >= GP_DISTURBED_SLOWDOWN || profile->devices[d].spread >= GP_DISTURBED_SPREAD)
            return true;
    return false;
}

static double worst_spread(const gp_profile *profile) {
    double most = 0;
    for (int d = 0; d < profile->device_count; d++)
        if (profile->devices[d].spread > most) most = profile->devices[d].spread;
    return most;
}

const char *gp_profile_disturbance(char buffer[GP_DISTURBANCE_TEXT], const gp_profile *profile) {
    double slowdown = gp_profile_slowdown(profile), spread = worst_spread(profile);
    if (slowdown >= GP_DISTURBED_SLOWDOWN || spread < GP_DISTURBED_SPREAD)
        snprintf(buffer, GP_DISTURBANCE_TEXT, "slowdown %.2f", slowdown);
    else
        snprintf(buffer, GP_DISTURBANCE_TEXT, "spread %.0f%%", 100 * spread);
    return buffer;
}

/* Rates of several devices may be of several days: the oldest. */
static gp_status counted_source(const gp_profile *profile, char **out, gp_error *err) {
    char date[GP_WHEN_TEXT];
    int64_t oldest = 0;
    bool all = profile != NULL, brief = false;
    for (int d = 0; profile && d < profile->device_count; d++) {
        int64_t taken = profile->devices[d].rates.taken;
        if (taken == 0) all = false;
        brief = brief || profile->devices[d].rates.brief;
        if (taken > 0 && (oldest == 0 || taken < oldest)) oldest = taken;
    }
    char lack[160] = "no profile fits";
    bool disturbed = profile && profile->set_aside[0];
    if (disturbed)
        snprintf(lack, sizeof lack,
                 "the kept profile is not used: other programs disturbed it when it was measured "
                 "(%s)",
                 profile->set_aside);
    const char *advice = oldest == 0 || brief || disturbed ? "; gpipe-balance measures one" : "";
    if (oldest == 0) return gp_format_text(out, err, "counted, with assumed rates; %s%s", lack, advice);
    return gp_format_text(out, err, "counted, with this machine's %srates of %s%s; %s%s",
                          brief ? "briefly measured " : "measured ", gp_when_date(date, oldest),
                          all ? "" : ", and assumed ones of some devices", lack, advice);
}

gp_status gp_profile_source(const gp_profile *profile, char **out, gp_error *err) {
    if (gp_profile_is_counted(profile)) return counted_source(profile, out, err);
    const char *path = profile->path ? profile->path : "taken now";
    char company[80] = "", size[80] = "";
    if (profile->other_company)
        snprintf(company, sizeof company, ", taken with %" PRId64 " of the host's devices at work",
                 profile->identity.together);
    if (profile->scaled)
        snprintf(size, sizeof size, ", of micro-batches of %" PRId64 " sample%s", profile->scaled,
                 profile->scaled == 1 ? "" : "s");
    return gp_format_text(out, err, "%sfrom the profile %s%s%s", profile->scaled ? "scaled " : "", path, size, company);
}

const char *gp_profile_taking(char buffer[GP_TAKING_TEXT], const gp_profile *profile, int64_t now) {
    char age[GP_WHEN_TEXT], taken[GP_WHEN_TEXT + 16] = "", how[GP_DISTURBANCE_TEXT];
    buffer[0] = '\0';
    if (gp_profile_is_counted(profile)) return buffer;
    if (profile->taken > 0) snprintf(taken, sizeof taken, "taken %s, ", gp_when_age(age, profile->taken, now));
    bool disturbed = gp_profile_is_disturbed(profile) && !profile->named;
    if (disturbed)
        snprintf(buffer, GP_TAKING_TEXT, "%s%s: disturbed by other programs", taken,
                 gp_profile_disturbance(how, profile));
    else
        snprintf(buffer, GP_TAKING_TEXT, "%sslowdown %.2f", taken, gp_profile_slowdown(profile));
    return buffer;
}
