#include "tune/what_if_json.h"

#include <inttypes.h>
#include <string.h>

#include "base/json_text.h"
#include "base/memory.h"
#include "plan/identity.h"
#include "schedule/program_json.h"

static void write_workers(const gp_programs *programs, FILE *out) {
    fputs(", \"workers\": [", out);
    for (int w = 0; w < programs->workers; w++) {
        bool any = false;
        fprintf(out, "%s{\"name\": \"device:%d\", \"device\": \"simulated\", \"threads\": 1, \"stages\": [",
                w ? ", " : "", w);
        for (int s = 0; s < programs->stages; s++) {
            if (programs->worker_of_stage[s] != w) continue;
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

bool gp_what_if_json_lists(const gp_programs *programs) {
    return gp_program_json_size(programs, NULL) <= GP_PROGRAM_JSON_MOST;
}

static bool has_instructions(const gp_programs *programs, FILE *out) {
    size_t count = 0;
    if (gp_what_if_json_lists(programs)) return true;
    for (int w = 0; w < programs->workers; w++) count += programs->worker[w].count;
    fprintf(out, ", \"left_out\": \"%zu instructions; simulate fewer micro-batches to see them\"", count);
    return false;
}

gp_status gp_what_if_json(const gp_what_if_played *its, const char *path, FILE *out, gp_error *err) {
    const gp_play *play = its->play;
    const gp_play_request played = {
        .stages = its->stages, .programs = its->programs, .waits = its->waits, .copies = its->copies};
    const char *slash = strrchr(path, '/');
    double busy = 0;
    for (int w = 0; w < play->workers; w++) busy += play->worker[w].busy;
    fputs(", \"format\": \"gpipe-plan\", \"version\": 1, \"kind\": \"simulation\", \"name\": ", out);
    gp_json_text(out, slash ? slash + 1 : path);
    fputs(", \"times\": \"given\", \"source\": ", out);
    gp_json_text(out, path);
    fprintf(out, ", \"lockstep\": %s, \"identity\": \"%016" PRIx64 "\"", its->question->lockstep ? "true" : "false",
            gp_identity_programs(0, its->programs));
    write_workers(its->programs, out);
    write_edges(its->stages, out);
    const gp_program_json program = {
        .played = &played, .play = play, .milliseconds = 1, .instructions = has_instructions(its->programs, out)};
    fprintf(out,
            ", \"programs\": [{\"pass\": \"training\", \"micro_batches\": %d, \"step_ms\": %.12g, \"bubble\": %.12g, ",
            its->programs->pieces, play->length, play->length > 0 ? 1 - busy / (play->length * play->workers) : 0);
    GP_RETURN_IF_FAILED(gp_program_json_write(&program, out, err));
    fputs("}]", out);
    return GP_OK;
}
