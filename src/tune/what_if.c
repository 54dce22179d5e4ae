#include "tune/what_if.h"

#include <stdlib.h>

#include "base/memory.h"
#include "schedule/emit.h"
#include "plan/program_json.h"

typedef struct simulation {
    const gp_what_if *question;
    gp_what_if_answer *answer;
} simulation;

/* The later stage of an edge between two devices; −1: it takes no time. */
static int boundary_of(const simulation *s, const gp_instr *instr) {
    const gp_edge *edge = &s->answer->stages->edges[instr->edge];
    const int *device = s->answer->programs->worker_of_stage;
    if (device[edge->from] == device[edge->to]) return -1;
    return edge->from > edge->to ? edge->from : edge->to;
}

static double duration(const void *context, int worker, size_t pc, const gp_instr *instr) {
    const simulation *s = context;
    const gp_what_if *q = s->question;
    (void)worker;
    (void)pc;
    switch (instr->op) {
    case GP_INSTR_FORWARD: return q->forward[instr->stage];
    case GP_INSTR_RECOMPUTE: return q->recompute[instr->stage];
    case GP_INSTR_BACKWARD: return q->input[instr->stage] + q->weight[instr->stage];
    case GP_INSTR_BACKWARD_INPUT: return q->input[instr->stage];
    case GP_INSTR_BACKWARD_WEIGHT: return q->weight[instr->stage];
    case GP_INSTR_SEND: /* asked if transfers are posted; the receive is asked if they are issued */
    case GP_INSTR_RECV: return q->wire > 0 && boundary_of(s, instr) >= 0 ? q->wire : 0;
    case GP_INSTR_STEP: return q->update[instr->stage];
    default: return 0;
    }
}

static double latency(const void *context, int worker, size_t pc, const gp_instr *instr) {
    const simulation *s = context;
    (void)worker;
    (void)pc;
    int boundary = boundary_of(s, instr);
    return boundary < 0 ? 0 : s->question->copy[boundary];
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

static double most_in_flight(const gp_program *program, int chunks) {
    int now = 0, most = 0;
    for (size_t pc = 0; pc < program->count; pc++) {
        const gp_instr *instr = &program->instrs[pc];
        if (instr->op == GP_INSTR_FORWARD && ++now > most) most = now;
        now -= gp_instr_begins_backward(instr);
    }
    return (double)most / chunks;
}

static gp_status take_answer(const simulation *s, gp_error *err) {
    gp_what_if_answer *out = s->answer;
    const gp_play *play = out->play;
    gp_play_span longest = gp_play_longest(play);
    out->step = play->length;
    out->cost = longest.seconds;
    out->longest = longest.worker;
    out->bubble = longest.bubble;
    GP_RETURN_IF_FAILED(GP_NEW(&out->device, play->workers, err));
    for (int d = 0; d < play->workers; d++) {
        const gp_play_worker *its = &play->worker[d];
        double span = its->last - its->first;
        double in_flight = most_in_flight(&out->programs->worker[d], s->question->chunks);
        out->device[d] = (gp_what_if_device){span, its->busy, span - its->busy, in_flight};
        out->copies += its->copies;
        out->delay += its->delay;
    }
    if (out->copies > 0) out->delay /= (double)out->copies;
    return GP_OK;
}

static gp_status prepare(const simulation *s, gp_error *err) {
    const gp_what_if *q = s->question;
    gp_what_if_answer *out = s->answer;
    GP_RETURN_IF_FAILED(gp_stages_create_chain(q->devices * q->chunks, &out->stages, err));
    gp_emit_request request = {.stages = out->stages,
                               .pieces = {.count = q->micro_batches},
                               .checkpoint = q->checkpoint,
                               .lockstep = q->lockstep,
                               .training = true,
                               .schedule = {q->schedule, q->chunks, NULL}};
    GP_RETURN_IF_FAILED(gp_programs_emit(&request, &out->programs, err));
    GP_RETURN_IF_FAILED(gp_waits_create(out->stages, out->programs, false, &out->waits, err));
    GP_RETURN_IF_FAILED(GP_NEW(&out->posted, q->devices, err));
    for (int d = 0; d < q->devices; d++) out->posted[d] = GP_PLAY_POSTED;
    return GP_OK;
}

/* On devices that host threads issue to. */
static gp_status play_issued(const simulation *s, gp_error *err) {
    gp_issue_request request = {.stages = s->answer->stages,
                                .programs = s->answer->programs,
                                .waits = s->answer->waits,
                                .model = s->question->model,
                                .duration = duration,
                                .latency = latency,
                                .context = s,
                                .timeline = gp_what_if_lists(s->answer->programs)};
    return gp_issue_play(&request, &s->answer->play, err);
}

static gp_status play(const simulation *s, gp_error *err) {
    const gp_what_if *q = s->question;
    gp_play_request request = {.stages = s->answer->stages,
                               .programs = s->answer->programs,
                               .waits = s->answer->waits,
                               .copies = s->answer->posted,
                               .duration = duration,
                               .latency = latency,
                               .context = s,
                               .channels = q->wire > 0,
                               .processors = q->processors,
                               .timeline = gp_what_if_lists(s->answer->programs)};
    return gp_play_run(&request, &s->answer->play, err);
}

gp_status gp_what_if_play(const gp_what_if *question, gp_what_if_answer *out, gp_error *err) {
    const simulation s = {question, out};
    *out = (gp_what_if_answer){0};
    GP_RETURN_IF_FAILED(prepare(&s, err));
    GP_RETURN_IF_FAILED((question->issued ? play_issued : play)(&s, err));
    return take_answer(&s, err);
}

void gp_what_if_answer_fini(gp_what_if_answer *answer) {
    free(answer->device);
    gp_play_destroy(&answer->play);
    gp_waits_destroy(&answer->waits);
    gp_programs_destroy(&answer->programs);
    gp_stages_destroy(&answer->stages);
    free(answer->posted);
    *answer = (gp_what_if_answer){0};
}

gp_status gp_what_if_answer_file(const char *path, bool json, FILE *out, gp_error *err) {
    gp_yaml_document *document = NULL;
    gp_what_if question = {0};
    gp_what_if_answer answer = {0};
    GP_RETURN_IF_FAILED(gp_yaml_load(path, &document, err));
    gp_status status = gp_what_if_read(gp_yaml_root(document), path, &question, err);
    if (status == GP_OK) status = gp_what_if_play(&question, &answer, err);
    if (status == GP_OK && json) status = gp_what_if_json(&question, &answer, path, out, err);
    if (status == GP_OK && !json) gp_what_if_table(&question, &answer, out);
    gp_what_if_answer_fini(&answer);
    gp_what_if_fini(&question);
    gp_yaml_destroy(&document);
    return status;
}
