#include "tune/what_if.h"

#include <stdlib.h>

#include "base/memory.h"
#include "schedule/emit.h"
#include "schedule/play.h"
#include "tune/what_if_json.h"

typedef struct simulation {
    const gp_what_if *question;
    gp_schedule schedule;
    gp_stages *stages;
    gp_programs *programs;
    gp_waits *waits;
    gp_play_copies *copies; /* [device] */
    bool timeline;          /* times of instructions are kept */
} simulation;

/* The later stage of an edge between two devices; −1: it takes no time. */
static int boundary_of(const simulation *s, const gp_instr *instr) {
    const gp_edge *edge = &s->stages->edges[instr->edge];
    const int *device = s->programs->worker_of_stage;
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

static gp_status take_answer(const simulation *s, const gp_play *play, gp_what_if_answer *out, gp_error *err) {
    gp_play_span longest = gp_play_longest(play);
    gp_what_if_answer answer = {
        .step = play->length, .cost = longest.seconds, .longest = longest.worker, .bubble = longest.bubble};
    GP_RETURN_IF_FAILED(GP_NEW(&answer.device, play->workers, err));
    for (int d = 0; d < play->workers; d++) {
        const gp_play_worker *its = &play->worker[d];
        double span = its->last - its->first;
        double in_flight = most_in_flight(&s->programs->worker[d], s->question->chunks);
        answer.device[d] = (gp_what_if_device){span, its->busy, span - its->busy, in_flight};
        answer.copies += its->copies;
        answer.delay += its->delay;
    }
    if (answer.copies > 0) answer.delay /= (double)answer.copies;
    *out = answer;
    return GP_OK;
}

static gp_status prepare(simulation *s, gp_error *err) {
    const gp_what_if *q = s->question;
    GP_RETURN_IF_FAILED(gp_stages_create_chain(q->devices * q->chunks, &s->stages, err));
    gp_emit_request request = {.stages = s->stages,
                               .pieces = q->micro_batches,
                               .checkpoint = q->checkpoint,
                               .lockstep = q->lockstep,
                               .training = true,
                               .schedule = s->schedule};
    GP_RETURN_IF_FAILED(gp_programs_emit(&request, &s->programs, err));
    GP_RETURN_IF_FAILED(gp_waits_create(s->stages, s->programs, false, &s->waits, err));
    GP_RETURN_IF_FAILED(GP_NEW(&s->copies, q->devices, err));
    for (int d = 0; d < q->devices; d++) s->copies[d] = GP_PLAY_POSTED;
    return GP_OK;
}

/* Who gets the play before it is gone, to write it as JSON. */
typedef struct taker {
    const char *path;
    FILE *out;
} taker;

static void write_json(const gp_what_if *q, const gp_what_if_answer *a, FILE *out);

static gp_status write_played(const simulation *s, const gp_play *play, const gp_what_if_answer *answer,
                              const taker *json, gp_error *err) {
    const gp_what_if_played played = {s->question, s->stages, s->programs, s->waits, s->copies, play};
    write_json(s->question, answer, json->out);
    GP_RETURN_IF_FAILED(gp_what_if_json(&played, json->path, json->out, err));
    fputs("}\n", json->out);
    return GP_OK;
}

/* On devices that host threads issue to. */
static gp_status play_issued(const simulation *s, gp_play **out, gp_error *err) {
    gp_issue_request request = {.stages = s->stages,
                                .programs = s->programs,
                                .waits = s->waits,
                                .model = s->question->model,
                                .duration = duration,
                                .latency = latency,
                                .context = s,
                                .timeline = s->timeline};
    return gp_issue_play(&request, out, err);
}

static gp_status play(const simulation *s, gp_play **out, gp_error *err) {
    const gp_what_if *q = s->question;
    gp_play_request request = {.stages = s->stages,
                               .programs = s->programs,
                               .waits = s->waits,
                               .copies = s->copies,
                               .duration = duration,
                               .latency = latency,
                               .context = s,
                               .channels = q->wire > 0,
                               .processors = q->processors,
                               .timeline = s->timeline};
    return q->issued ? play_issued(s, out, err) : gp_play_run(&request, out, err);
}

/* `json`: NULL: is not written. */
static gp_status play_for(const gp_what_if *question, const taker *json, gp_what_if_answer *out, gp_error *err) {
    simulation s = {.question = question, .schedule = {question->schedule, question->chunks, NULL}};
    gp_play *its = NULL;
    gp_status status = prepare(&s, err);
    s.timeline = status == GP_OK && json && gp_what_if_json_lists(s.programs);
    if (status == GP_OK) status = play(&s, &its, err);
    if (status == GP_OK) status = take_answer(&s, its, out, err);
    if (status == GP_OK && json) status = write_played(&s, its, out, json, err);
    gp_play_destroy(&its);
    gp_waits_destroy(&s.waits);
    gp_programs_destroy(&s.programs);
    gp_stages_destroy(&s.stages);
    free(s.copies);
    return status;
}

gp_status gp_what_if_play(const gp_what_if *question, gp_what_if_answer *out, gp_error *err) {
    return play_for(question, NULL, out, err);
}

void gp_what_if_answer_fini(gp_what_if_answer *answer) {
    free(answer->device);
    *answer = (gp_what_if_answer){0};
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

typedef enum column { SPAN, BUSY, WAITING, IN_FLIGHT } column;

static double column_of(const gp_what_if_device *device, column which) {
    switch (which) {
    case SPAN: return device->span;
    case BUSY: return device->busy;
    case WAITING: return device->waiting;
    case IN_FLIGHT: return device->in_flight;
    }
    return 0;
}

static void write_model(const gp_what_if *q, const gp_what_if_answer *a, FILE *out) {
    fprintf(out,
            "\"device\": {\"copies\": \"%s\", \"hosts\": \"%s\", \"launch\": %.12g, \"launch_copy\": %.12g, "
            "\"wake\": %.12g}, \"copies\": %zu, \"copy_delay\": %.12g, ",
            gp_what_if_copies[q->model.copies], gp_what_if_hosts[q->model.one_host], q->model.launch,
            q->model.launch_copy, q->model.wake, a->copies, a->delay);
}

/* What the answer is, without the end of the object. */
static void write_json(const gp_what_if *q, const gp_what_if_answer *a, FILE *out) {
    static const char *const names[] = {"spans", "busy", "waiting", "in_flight"};
    fprintf(out, "{\"schedule\": \"%s\", \"stages\": %d, \"chunks\": %d, \"micro_batches\": %d, ",
            gp_schedule_kind_name(q->schedule), q->devices, q->chunks, q->micro_batches);
    if (q->processors) fprintf(out, "\"processors\": %d, ", q->processors);
    if (q->issued) write_model(q, a, out);
    fprintf(out, "\"step\": %.12g, \"cost\": %.12g, \"longest\": %d, \"bubble\": %.12g", a->step, a->cost, a->longest,
            a->bubble);
    for (int c = SPAN; c <= IN_FLIGHT; c++) {
        fprintf(out, ", \"%s\": [", names[c]);
        for (int d = 0; d < q->devices; d++)
            fprintf(out, "%s%.12g", d ? ", " : "", column_of(&a->device[d], (column)c));
        fputs("]", out);
    }
}

static void write_table(const gp_what_if *q, const gp_what_if_answer *a, FILE *out) {
    fprintf(out, "%s, %d stage%s", gp_schedule_kind_name(q->schedule), q->devices, q->devices == 1 ? "" : "s");
    if (q->chunks > 1) fprintf(out, " of %d chunks", q->chunks);
    fprintf(out, ", %d micro-batch%s", q->micro_batches, q->micro_batches == 1 ? "" : "es");
    if (q->processors) fprintf(out, ", %d processor%s", q->processors, q->processors == 1 ? "" : "s");
    if (q->lockstep && q->issued) fputs(", lockstep", out);
    fputs("\n", out);
    if (q->issued)
        fprintf(out, "issued  copies %s, %s; launch %g ms, of a copy %g ms, wake %g ms\n",
                gp_what_if_copies[q->model.copies],
                q->model.one_host ? "one host thread" : "one host thread per device", q->model.launch,
                q->model.launch_copy, q->model.wake);
    fprintf(out, "step    %.3f ms\n", a->step);
    fprintf(out, "bubble  %.2f %% of the longest span, %.3f ms of stage %d\n", 100 * a->bubble, a->cost, a->longest);
    if (q->issued) fprintf(out, "copies  %zu, which start %.3f ms late on average\n", a->copies, a->delay);
    fputs("\n", out);
    fputs("  stage         span         busy      waiting  in flight\n", out);
    for (int d = 0; d < q->devices; d++) {
        const gp_what_if_device *its = &a->device[d];
        fprintf(out, "%7d %12.3f %12.3f %12.3f %10.4g\n", d, its->span, its->busy, its->waiting, its->in_flight);
    }
}

gp_status gp_what_if_answer_file(const char *path, bool json, FILE *out, gp_error *err) {
    gp_yaml_document *document = NULL;
    gp_what_if question = {0};
    gp_what_if_answer answer = {0};
    GP_RETURN_IF_FAILED(gp_yaml_load(path, &document, err));
    gp_status status = gp_what_if_read(gp_yaml_root(document), path, &question, err);
    const taker to = {path, out};
    if (status == GP_OK) status = play_for(&question, json ? &to : NULL, &answer, err);
    if (status == GP_OK && !json) write_table(&question, &answer, out);
    gp_what_if_answer_fini(&answer);
    gp_what_if_fini(&question);
    gp_yaml_destroy(&document);
    return status;
}
