/* Profiles: what reads has times that can be added up, and writes to a text that reads to the same. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "profile/profile_file.h"

static void check_numbers(const gp_profile *profile) {
    FUZZ_PROMISE(profile->layer_count > 0 && profile->device_count > 0 && profile->identity.samples > 0);
    for (int d = 0; d < profile->device_count; d++) {
        FUZZ_PROMISE(profile->devices[d].slowdown > 0 && isfinite(profile->devices[d].slowdown));
        for (int i = 0; i < profile->layer_count; i++)
            for (int t = 0; t < GP_PROFILE_TIMES; t++) {
                double time = profile->devices[d].layers[i].time[t];
                FUZZ_PROMISE(time >= 0 && time < 1e7);
            }
    }
    for (int c = 0; c < profile->copy_count; c++)
        FUZZ_PROMISE(profile->copies[c].latency >= 0 && isfinite(profile->copies[c].per_byte));
    for (int k = 0; k < GP_LINK_KINDS; k++) {
        const gp_profile_link *link = &profile->links[k];
        FUZZ_PROMISE(!link->known || (link->latency >= 0 && link->latency < 1e7));
        FUZZ_PROMISE(!link->known || (isfinite(1 / link->per_byte) && link->per_byte > 0));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    gp_error err = {0};
    gp_profile *profile = NULL, *again = NULL;
    char *first = NULL, *second = NULL;
    gp_status status = gp_profile_parse((const char *)bytes, size, "p.json", &profile, &err);
    fuzz_check(status, &err);
    if (status != GP_OK) return 0;
    check_numbers(profile);
    gp_profile_round(profile);
    FUZZ_PROMISE(gp_profile_text(profile, &first, &err) == GP_OK);
    FUZZ_PROMISE(gp_profile_parse(first, strlen(first), "again", &again, &err) == GP_OK);
    check_numbers(again);
    FUZZ_PROMISE(gp_profile_text(again, &second, &err) == GP_OK);
    FUZZ_PROMISE(strcmp(first, second) == 0);
    free(first);
    free(second);
    gp_profile_destroy(&profile);
    gp_profile_destroy(&again);
    return 0;
}
