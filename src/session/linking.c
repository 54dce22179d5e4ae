#include "session/linking.h"

#include <stdint.h>
#include <string.h>

#include "session/placement.h"

static gp_link convert(const gp_link_config *its) {
    return (gp_link){
        .given = its->given, .shared = its->shared, .latency = its->latency * 1e-6, .bandwidth = its->bandwidth};
}

static gp_status fill(const gp_pipeline_config *pipeline, int processes, const int *process, gp_links *links,
                      gp_error *err) {
    const gp_links_config *its = &pipeline->links;
    links->processes = processes > 1 ? processes : its->processes;
    links->hosts = (links->processes + its->per_host - 1) / its->per_host;
    if (processes > 1)
        memcpy(links->process, process, (size_t)links->workers * sizeof *process);
    else
        GP_RETURN_IF_FAILED(gp_placement_find(pipeline, its->processes, links->process, err));
    for (int w = 0; w < links->workers; w++) links->host[w] = links->process[w] / its->per_host;
    for (int k = 0; k < GP_LINK_KINDS; k++) links->of[k] = convert(&its->of[k]);
    return GP_OK;
}

gp_status gp_links_find(const gp_pipeline_config *pipeline, int processes, const int *process, gp_links **out,
                        gp_error *err) {
    int workers = pipeline->device_count, asked = pipeline->links.processes;
    *out = NULL;
    if (!pipeline->links_given) return GP_OK;
    if (asked > workers)
        return gp_fail_at(err, GP_CONFIG, pipeline->links.place,
                          "pipeline.links.processes: %d are more than the %d worker%s", asked, workers,
                          workers == 1 ? "" : "s");
    GP_RETURN_IF_FAILED(gp_links_create(workers, out, err));
    return fill(pipeline, processes, process, *out, err);
}
