/* How the answer of a simulation is printed: as a table, and as JSON in the form of the plan. */
#include <inttypes.h>
#include <string.h>

#include "base/json_text.h"
#include "base/number.h"
#include "plan/identity.h"
#include "plan/program_json.h"
#include "tune/what_if.h"

bool gp_what_if_lists(const gp_programs *programs) {
    return gp_program_json_size(programs, NULL) <= GP_PROGRAM_JSON_MOST;
}

/* ---- for people -------------------------------------------------------------------------------------------------- */

void gp_what_if_table(const gp_what_if *q, const gp_what_if_answer *a, FILE *out) {
    fprintf(out, "%s, %d stage%s", gp_schedule_kind_name(q->schedule), q->devices, q->devices == 1 ? "" : "s");
    if (q->chunks > 1) fprintf(out, " of %d chunks", q->chunks);
    fprintf(out, ", %d micro-batch%s", q->micro_batches, q->micro_batches == 1 ? "" : "es");
    if (q->processors) fprintf(out, ", %d processor%s", q->processors, q->processors == 1 ? "" : "s");
    if (q->lockstep && q->issued) fputs(", lockstep", out);
    fputs("\n", out);
    char text[3][GP_NUMBER_TEXT];
    if (q->issued)
        fprintf(out, "issued  copies %s, %s; launch %s ms, of a copy %s ms, wake %s ms\n",
                gp_what_if_copies[q->model.copies],
                q->model.one_host ? "one host thread" : "one host thread per device",
                gp_number_text(text[0], q->model.launch), gp_number_text(text[1], q->model.launch_copy),
                gp_number_text(text[2], q->model.wake));
    fprintf(out, "step    %.3f ms\n", a->step);
    fprintf(out, "bubble  %.2f %% of the longest span, %.3f ms of stage %d\n", 100 * a->bubble, a->cost, a->longest);
    if (q->issued) fprintf(out, "copies  %zu, which start %.3f ms late on average\n", a->copies, a->delay);
    fputs("\n", out);
    fputs("  stage         span         busy      waiting  in flight\n", out);
    for (int d = 0; d < q->devices; d++) {
        const gp_what_if_device *its = &a->device[d];
        fprintf(out, "%7d %12.3f %12.3f %12.3f %10s\n", d, its->span, its->busy, its->waiting,
                gp_rounded_text(text[0], its->in_flight, 4));
    }
}

/* ---- for programs ------------------------------------------------------------------------------------------------ */

static void write_model(const gp_what_if *q, const gp_what_if_answer *a, FILE *out) {
    fprintf(out,
            "\"device\": {\"copies\": \"%s\", \"hosts\": \"%s\", \"launch\": %.12g, \"launch_copy\": %.12g, "
            "\"wake\": %.12g}, \"copies\": %zu, \"copy_delay\": %.12g, ",
            gp_what_if_copies[q->model.copies], gp_what_if_hosts[q->model.one_host], q->model.launch,
            q->model.launch_copy, q->model.wake, a->copies, a->delay);
}

/* One number of each device, which lies at this offset. */
static void write_devices(const gp_what_if *q, const gp_what_if_answer *a, const char *name, size_t offset, FILE *out) {
    fprintf(out, ", \"%s\": [", name);
    for (int d = 0; d < q->devices; d++)
        fprintf(out, "%s%.12g", d ? ", " : "", *(const double *)((const char *)&a->device[d] + offset));
    fputs("]", out);
}

static void write_answer(const gp_what_if *q, const gp_what_if_answer *a, FILE *out) {
    fprintf(out, "{\"schedule\": \"%s\", \"stages\": %d, \"chunks\": %d, \"micro_batches\": %d, ",
            gp_schedule_kind_name(q->schedule), q->devices, q->chunks, q->micro_batches);
    if (q->processors) fprintf(out, "\"processors\": %d, ", q->processors);
    if (q->issued) write_model(q, a, out);
    fprintf(out, "\"step\": %.12g, \"cost\": %.12g, \"longest\": %d, \"bubble\": %.12g", a->step, a->cost, a->longest,
            a->bubble);
    write_devices(q, a, "spans", offsetof(gp_what_if_device, span), out);
    write_devices(q, a, "busy", offsetof(gp_what_if_device, busy), out);
    write_devices(q, a, "waiting", offsetof(gp_what_if_device, waiting), out);
    write_devices(q, a, "in_flight", offsetof(gp_what_if_device, in_flight), out);
}

static void write_workers(const gp_programs *programs, FILE *out) {
    fputs(", \"workers\": [", out);
    for (int w = 0; w < programs->workers; w++) {
        bool any = false;
        fprintf(out, "%s{\"name\": \"device:%d\", \"device\": \"simulated\", \"threads\": 1, \"stages\": [",
                w ? ", " : "", w);
        for (int s = 0; s < programs->stages; s++) {
            if (gp_programs_worker(programs, s) != w) continue;
            fprintf(out, "%s%d", any ? ", " : "", s);
            any = true;
        }
        fputs("]}", out);
    }
    fputs("]", out);
}

static void write_edges(const gp_stages *stages, FILE *out) {
    fputs(", \"edges\": [", out);
    for (size_t e = 0; e < stages->edge_count; e++)
        fprintf(out, "%s{\"from\": %d, \"to\": %d, \"carries\": \"%s\"}", e ? ", " : "", stages->edges[e].from,
                stages->edges[e].to, gp_edge_kind_name(stages->edges[e].kind));
    fputs("], ", out);
    gp_collectives_json_write(stages, out);
}

static void write_left_out(const gp_programs *programs, FILE *out) {
    size_t count = 0;
    for (int w = 0; w < programs->workers; w++) count += programs->worker[w].count;
    fprintf(out, ", \"left_out\": \"%zu instructions; simulate fewer micro-batches to see them\"", count);
}

gp_status gp_what_if_json(const gp_what_if *q, const gp_what_if_answer *a, const char *path, FILE *out, gp_error *err) {
    const gp_play_request played = {
        .stages = a->stages, .programs = a->programs, .waits = a->waits, .copies = a->posted};
    const gp_program_json program = {
        .played = &played, .play = a->play, .milliseconds = 1, .instructions = gp_what_if_lists(a->programs)};
    const char *slash = strrchr(path, '/');
    write_answer(q, a, out);
    fputs(", \"format\": \"gpipe-plan\", \"version\": 1, \"kind\": \"simulation\", \"name\": ", out);
    gp_json_text(out, slash ? slash + 1 : path);
    fputs(", \"times\": \"given\", \"source\": ", out);
    gp_json_text(out, path);
    fprintf(out, ", \"lockstep\": %s, \"identity\": \"%016" PRIx64 "\"", q->lockstep ? "true" : "false",
            gp_identity_programs(0, a->programs));
    write_workers(a->programs, out);
    write_edges(a->stages, out);
    if (!program.instructions) write_left_out(a->programs, out);
    fprintf(out,
            ", \"programs\": [{\"pass\": \"training\", \"micro_batches\": %d, \"step_ms\": %.12g, \"bubble\": %.12g, ",
            a->programs->pieces, a->play->length, gp_play_bubble(a->play));
    GP_RETURN_IF_FAILED(gp_program_json_write(&program, out, err));
    fputs("}]}\n", out);
    return GP_OK;
}
