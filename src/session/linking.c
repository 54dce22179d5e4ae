#include "session/linking.h"

#include <stdint.h>
#include <string.h>

#include "session/placement.h"

static gp_link convert(const gp_link_config *its) {
    return (gp_link){
        .given = its->given, .shared = its->shared, .latency = its->latency * 1e-6, .bandwidth = its->bandwidth};
}

/* Numbers the machines in the order of their first processes. */
static int number_machines(const int *machines, int process) {
    int before = 0;
    for (int p = 0; p < machines[process]; p++) before += machines[p] == p;
    return before;
}

static void find_hosts(const gp_links_config *its, const gp_link_places *places, gp_links *links) {
    bool known = places->processes > 1 && places->machines && !its->per_host_given;
    int per_host = its->per_host > 0 ? its->per_host : 1;
    links->hosts = known ? 0 : (links->processes + per_host - 1) / per_host;
    for (int p = 0; p < links->processes && known; p++) links->hosts += places->machines[p] == p;
    for (int w = 0; w < links->workers; w++)
        links->host[w] = known ? number_machines(places->machines, links->process[w]) : links->process[w] / per_host;
}

static gp_status fill(const gp_pipeline_config *pipeline, const gp_link_places *places, gp_links *links,
                      gp_error *err) {
    const gp_links_config *its = &pipeline->links;
    links->processes = places->processes > 1 ? places->processes : its->processes;
    if (places->processes > 1)
        memcpy(links->process, places->process, (size_t)links->workers * sizeof *links->process);
    else
        GP_RETURN_IF_FAILED(gp_placement_find(pipeline, its->processes, links->process, err));
    find_hosts(its, places, links);
    for (int k = 0; k < GP_LINK_KINDS; k++) links->of[k] = convert(&its->of[k]);
    return GP_OK;
}

gp_status gp_links_find(const gp_pipeline_config *pipeline, const gp_link_places *places, gp_links **out,
                        gp_error *err) {
    int workers = pipeline->device_count, asked = pipeline->links.processes;
    *out = NULL;
    if (!pipeline->links_given && !(places->processes > 1 && places->machines)) return GP_OK;
    if (asked > workers)
        return gp_fail_at(err, GP_CONFIG, pipeline->links.place,
                          "pipeline.links.processes: %d are more than the %d worker%s", asked, workers,
                          workers == 1 ? "" : "s");
    GP_RETURN_IF_FAILED(gp_links_create(workers, out, err));
    return fill(pipeline, places, *out, err);
}

/* ---- what a profile has ------------------------------------------------------------------------------------------ */

bool gp_links_are_of_hosts(const gp_device_spec *devices, int count) {
    bool all = true;
    for (int d = 0; d < count; d++) all = all && devices[d].kind->on_host;
    return all;
}

static bool has_kind(const gp_links *links, gp_link_kind kind) {
    for (int from = 0; from < links->workers; from++)
        for (int to = from + 1; to < links->workers; to++)
            if (gp_links_kind(links, from, to) == kind) return true;
    return false;
}

/* Whether one of those that stand between workers was added. */
static bool add(const gp_profile *profile, gp_links *links) {
    bool any = false;
    for (int k = 0; k < GP_LINK_KINDS; k++) {
        const gp_profile_link *its = &profile->links[k];
        if (!its->known || links->of[k].given) continue;
        links->of[k] = (gp_link){.given = true,
                                 .shared = k == GP_LINK_NETWORK, /* as pipeline.links has it by default */
                                 .latency = its->latency,
                                 .bandwidth = 1 / its->per_byte,
                                 .measured = true};
        any = any || has_kind(links, (gp_link_kind)k);
    }
    return any;
}

gp_status gp_links_add_measured(const gp_pipeline_config *pipeline, const gp_link_places *places,
                                const gp_profile *profile, gp_links **links, gp_error *err) {
    bool had = *links != NULL;
    if (!profile || !gp_profile_has_links(profile) || (!had && places->processes <= 1)) return GP_OK;
    if (!gp_links_are_of_hosts(places->devices, pipeline->device_count)) return GP_OK;
    if (!had) {
        GP_RETURN_IF_FAILED(gp_links_create(pipeline->device_count, links, err));
        GP_RETURN_IF_FAILED(fill(pipeline, places, *links, err));
    }
    if (!add(profile, *links) && !had) gp_links_destroy(links);
    return GP_OK;
}
