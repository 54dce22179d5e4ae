#include "session/session.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/share.h"
#include "session/session_internal.h"

int64_t gp_session_last(const gp_session *session) {
    return session->steps < session->until ? session->steps : session->until;
}

gp_run_length gp_session_length(const gp_session *session) {
    return (gp_run_length){.steps = session->steps,
                           .epoch_steps = session->epoch_steps ? session->epoch_steps : 1,
                           .epochs = session->epochs.count > 0 ? &session->epochs : NULL};
}

int64_t gp_session_piece(const gp_session *session) {
    int64_t pieces = session->config->pipeline.micro_batches;
    return (session->config->data.batch + pieces - 1) / pieces;
}

int64_t gp_session_share(const gp_session *session) {
    const gp_pipeline_config *pipeline = &session->config->pipeline;
    int fewest = pipeline->replicas[0];
    for (int e = 1; e < pipeline->entry_count; e++)
        if (pipeline->replicas[e] < fewest) fewest = pipeline->replicas[e];
    return gp_share_of(gp_session_piece(session), fewest, 0).count;
}

gp_status gp_session_find_mini(const gp_session *session, bool training, int64_t samples, int *out, gp_error *err) {
    *out = gp_plan_find(session->plan, training, samples);
    return *out >= 0 ? GP_OK : gp_fail(err, GP_INTERNAL, "no plan for a mini-batch of %" PRId64, samples);
}

gp_status gp_session_check_machine(gp_session *session, gp_error *err) {
    gp_machine_memory machine;
    gp_host_memory_measure(&session->host);
    gp_machine_memory_read("", &machine);
    GP_RETURN_IF_FAILED(gp_host_memory_check(&session->host, &machine, err));
    for (int i = 0; i < session->later_count; i++) {
        const gp_change *change = &session->whole->changes[session->changes + i];
        if (gp_host_memory_check(&session->later[i], &machine, err) != GP_OK)
            return gp_error_context(err, "from step %" PRId64 " on, ", change->step);
    }
    return GP_OK;
}

void gp_session_set_phase(gp_session *session, int changes) {
    const gp_config *whole = session->whole;
    session->changes = changes;
    session->config = gp_config_phase(session->whole, changes);
    session->after = changes > 0 ? whole->changes[changes - 1].step - 1 : 0;
    session->until = changes < whole->change_count ? whole->changes[changes].step - 1 : INT64_MAX;
}

gp_status gp_session_find_epochs(gp_session *session, gp_error *err) {
    session->epochs.samples = session->train_samples;
    for (int i = 0; i <= session->changes; i++) {
        const gp_data_config *data = &gp_config_phase(session->whole, i)->data;
        int64_t after = i > 0 ? session->whole->changes[i - 1].step - 1 : 0;
        GP_RETURN_IF_FAILED(gp_epochs_add(&session->epochs, after, data->batch, data->drop_last, err));
    }
    return GP_OK;
}

void gp_session_close(gp_session **session) {
    gp_session *it = *session;
    if (!it) return;
    gp_plan_destroy(&it->plan);
    gp_profile_destroy(&it->profile);
    free(it->profile_difference);
    gp_schedule_file_destroy(&it->schedule_file);
    free(it->layers);
    free(it->order);
    free(it->rules);
    free(it->keeps);
    free(it->own_keeps);
    free(it->devices);
    free(it->process);
    gp_links_destroy(&it->links);
    gp_dataset_close(&it->eval);
    gp_dataset_close(&it->train);
    gp_graph_destroy(&it->graph);
    gp_epochs_fini(&it->epochs);
    free(it->later);
    gp_config_destroy(&it->whole);
    free(it);
    *session = NULL;
}
