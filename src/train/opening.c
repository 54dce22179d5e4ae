#include "train/opening.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"
#include "base/text_file.h"
#include "config/tree.h"
#include "plan/identity.h"
#include "profile/link_times.h"

/* ---- the file of the configuration ------------------------------------------------------------------------------- */

typedef struct seen {
    uint64_t known; /* 1: the file can be read; else 0 */
    uint64_t hash;
} seen;

static seen look_at(const char *path) {
    char *text = NULL;
    size_t bytes = 0;
    gp_error none = {0};
    if (gp_text_file_read(path, GP_YAML_MAX_BYTES, "a configuration", &text, &bytes, &none) != GP_OK) return (seen){0};
    const seen its = {1, gp_hash_bytes(0, text, bytes)};
    free(text);
    return its;
}

/* Process 0 receives from all, also after it has found a difference. */
static gp_status compare_seen(gp_wire *wire, const seen *own, const char *path, const gp_cancel *cancel,
                              gp_error *err) {
    int other = 0;
    seen its;
    if (wire->rank > 0) return gp_wire_send_now(wire, 0, GP_OPENING_FILE, own, sizeof *own, cancel, err);
    for (int p = 1; p < wire->processes; p++) {
        GP_RETURN_IF_FAILED(gp_wire_receive_now(wire, p, GP_OPENING_FILE, &its, sizeof its, cancel, err));
        if (other == 0 && own->known && its.known && its.hash != own->hash) other = p;
    }
    if (other == 0) return GP_OK;
    return gp_fail(err, GP_CONFIG, "%s: process %d has another file of this name than process 0; all need the same",
                   path, other);
}

gp_status gp_opening_compare_file(gp_processes *processes, const char *path, gp_error *err) {
    const seen own = look_at(path);
    gp_cancel cancel;
    GP_RETURN_IF_FAILED(gp_processes_cancel_init(processes, &cancel, err));
    gp_status status = compare_seen(gp_processes_wire(processes), &own, path, &cancel, err);
    gp_processes_cancel_fini(processes, &cancel);
    return status;
}

/* ---- what process 0 sends ---------------------------------------------------------------------------------------- */

gp_status gp_opening_send(gp_trainer *t, gp_error *err) {
    const gp_session *session = t->session;
    const gp_resume *resume = t->options->resume;
    char *text = NULL;
    if (!t->options->processes) return GP_OK;
    gp_opening_head its = {.samples = {session->train_samples, session->eval_samples},
                           .phase = session->options.step,
                           .step = resume ? resume->snapshot.reached.step : 0,
                           .norms = session->options.norms,
                           .shares = session->options.shares,
                           .timeout = session->config->pipeline.timeout};
    gp_opening_set_version(&its);
    memcpy(its.libraries, t->libraries, sizeof its.libraries);
    if (!realpath(t->folder.path.text, its.folder.text))
        snprintf(its.folder.text, sizeof its.folder.text, "%s", t->folder.path.text);
    GP_RETURN_IF_FAILED(gp_config_text(session->whole, &text, err));
    its.bytes = strlen(text);
    gp_processes_set_timeout(t->options->processes, its.timeout);
    gp_processes_begin_run(t->options->processes);
    gp_status status = gp_processes_tell(t->options->processes, GP_OPENING_HEAD, &its, sizeof its, err);
    if (status == GP_OK) status = gp_processes_tell(t->options->processes, GP_OPENING_TEXT, text, its.bytes, err);
    free(text);
    return status == GP_OK ? gp_phase_send(t, err) : status;
}

/* An opening without a text. */
gp_status gp_opening_decline(gp_processes *processes, gp_error *err) {
    gp_opening_head its = {.bytes = 0};
    gp_opening_set_version(&its);
    return gp_processes_tell(processes, GP_OPENING_HEAD, &its, sizeof its, err);
}

/* ---- what the others help with ----------------------------------------------------------------------------------- */

/* Process 0 with each of those that help; or one of these with process 0. */
static gp_status time_links(gp_processes *processes, const gp_cancel *cancel, gp_profile_link out[GP_LINK_KINDS],
                            gp_error *err) {
    gp_wire *wire = gp_processes_wire(processes);
    for (int k = 0; k < GP_LINK_KINDS; k++) {
        int peer = gp_link_peer(gp_processes_machines(processes), wire->processes, (gp_link_kind)k);
        const gp_link_route route = {wire, wire->rank == 0 ? peer : 0, GP_OPENING_LINKS, cancel};
        if (wire->rank == 0 && peer >= 0) GP_RETURN_IF_FAILED(gp_link_ask(&route, NULL, &out[k], err));
        if (wire->rank > 0 && peer == wire->rank) GP_RETURN_IF_FAILED(gp_link_answer(&route, err));
    }
    return GP_OK;
}

/* All processes. Ends when the run ends elsewhere. `helpers`: process 0's; NULL: this one answers. */
static gp_status take_part(gp_processes *processes, gp_opening_question question, gp_opening_helpers *helpers,
                           gp_error *err) {
    gp_cancel cancel;
    gp_bus_addresses own;
    GP_RETURN_IF_FAILED(gp_processes_cancel_init(processes, &cancel, err));
    gp_status status;
    if (question == GP_OPENING_ASKS_LINKS) {
        status = time_links(processes, &cancel, helpers ? helpers->found : NULL, err);
    } else {
        gp_bus_addresses_find(&own);
        status = gp_bus_addresses_gather(gp_processes_wire(processes), GP_OPENING_ADDRESSES, &own,
                                         helpers ? helpers->addresses : NULL, &cancel, err);
    }
    gp_processes_cancel_fini(processes, &cancel);
    return status;
}

static gp_status ask(gp_opening_helpers *helpers, gp_opening_question question, gp_error *err) {
    gp_opening_head its = {.asks = question};
    gp_opening_set_version(&its);
    GP_RETURN_IF_FAILED(gp_processes_tell(helpers->processes, GP_OPENING_HEAD, &its, sizeof its, err));
    return take_part(helpers->processes, question, helpers, err);
}

static gp_status measure_links(void *context, gp_profile_link out[GP_LINK_KINDS], gp_error *err) {
    gp_opening_helpers *helpers = context;
    if (!helpers->measured) GP_RETURN_IF_FAILED(ask(helpers, GP_OPENING_ASKS_LINKS, err));
    helpers->measured = true;
    memcpy(out, helpers->found, sizeof helpers->found);
    return GP_OK;
}

static gp_status ask_addresses(void *context, const gp_bus_addresses **out, gp_error *err) {
    gp_opening_helpers *helpers = context;
    bool known = helpers->addresses != NULL;
    if (!known) GP_RETURN_IF_FAILED(GP_NEW(&helpers->addresses, gp_processes_wire(helpers->processes)->processes, err));
    if (!known) GP_RETURN_IF_FAILED(ask(helpers, GP_OPENING_ASKS_ADDRESSES, err));
    *out = helpers->addresses;
    return GP_OK;
}

gp_helpers gp_opening_help(gp_opening_helpers *others) {
    gp_helpers its = {.measure = measure_links, .addresses = ask_addresses, .context = others};
    const int *machines = gp_processes_machines(others->processes);
    for (int k = 0; k < GP_LINK_KINDS; k++)
        its.has[k] = gp_link_peer(machines, gp_processes_wire(others->processes)->processes, (gp_link_kind)k) >= 0;
    return its;
}

void gp_opening_helpers_fini(gp_opening_helpers *others) {
    free(others->addresses);
    others->addresses = NULL;
}

/* ---- what the others receive ------------------------------------------------------------------------------------- */

static gp_status receive_head(gp_processes *processes, gp_opening_head *out, gp_error *err) {
    for (;;) {
        GP_RETURN_IF_FAILED(gp_processes_hear(processes, GP_OPENING_HEAD, out, sizeof *out, err));
        GP_RETURN_IF_FAILED(gp_opening_check(out, err));
        if (!out->asks) return GP_OK;
        GP_RETURN_IF_FAILED(take_part(processes, (gp_opening_question)out->asks, NULL, err));
    }
}

gp_status gp_opening_receive(gp_processes *processes, gp_opening *out, gp_error *err) {
    gp_opening_head its;
    char *text = NULL;
    GP_RETURN_IF_FAILED(receive_head(processes, &its, err));
    if (its.bytes > 0) {
        GP_RETURN_IF_FAILED(GP_NEW(&text, its.bytes + 1, err));
        gp_status status = gp_processes_hear(processes, GP_OPENING_TEXT, text, its.bytes, err);
        if (status != GP_OK) {
            free(text);
            return status;
        }
    }
    gp_opening_fill(out, &its, text);
    return GP_OK;
}

/* ---- the plan of a configuration --------------------------------------------------------------------------------- */

gp_status gp_phase_send(gp_trainer *t, gp_error *err) {
    const gp_session *session = t->session;
    gp_phase *its = NULL;
    if (!t->options->processes) return GP_OK;
    GP_RETURN_IF_FAILED(GP_NEW(&its, 1, err));
    its->identity = gp_identity_plan(session->plan);
    gp_identity_parts(session->plan, its->parts);
    its->count = session->plan->stages->numbers;
    memcpy(its->layers, session->layers, (size_t)its->count * sizeof *its->layers);
    gp_status status = gp_processes_tell(t->options->processes, GP_OPENING_PHASE, its, sizeof *its, err);
    free(its);
    return status;
}

gp_status gp_phase_receive(gp_processes *processes, gp_phase *out, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_processes_hear(processes, GP_OPENING_PHASE, out, sizeof *out, err));
    return gp_phase_check_layers(out, err);
}

static bool has_replicas(const gp_plan *plan) {
    for (int s = 0; s < plan->stages->count; s++)
        if (plan->stages->stage[s].replicas > 1) return true;
    return false;
}

/* The parts in which they differ, as far as these can be told apart. */
static gp_status refuse_plan(const gp_phase *phase, const gp_opening *opening, const gp_plan *plan,
                             const char *libraries, gp_error *err) {
    uint64_t own[GP_IDENTITY_PARTS];
    char differ[200] = "";
    size_t used = 0;
    gp_identity_parts(plan, own);
    for (int p = 0; p < GP_IDENTITY_PARTS; p++)
        if (own[p] != phase->parts[p])
            used += (size_t)snprintf(differ + used, sizeof differ - used, "%s%s", used ? ", " : "; they differ in ",
                                     gp_identity_part_name((gp_identity_part)p));
    bool alike = strcmp(libraries, opening->libraries) == 0;
    return gp_fail(
        err, GP_INTERNAL,
        "it made another plan than process 0 from the same configuration%s%s%s%s%s; do all hosts have the same "
        "program and processors?",
        differ, alike ? "" : "; it computes with ", alike ? "" : libraries, alike ? "" : ", but process 0 with ",
        alike ? "" : opening->libraries);
}

gp_status gp_phase_check(const gp_phase *phase, const gp_opening *opening, const gp_plan *plan, gp_error *err) {
    char libraries[GP_LIBRARIES_TEXT];
    gp_device_libraries(plan->devices, plan->workers, libraries);
    if (has_replicas(plan) && strcmp(libraries, opening->libraries) != 0)
        return gp_fail(err, GP_UNSUPPORTED,
                       "it computes with %s, but process 0 with %s: replicas of a stage must compute alike", libraries,
                       opening->libraries);
    return gp_identity_plan(plan) == phase->identity ? GP_OK : refuse_plan(phase, opening, plan, libraries, err);
}
