#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "plan/meets.h"
#include "plan/queues.h"
#include "schedule/play.h"
#include "schedule/toy_graph.h"

/* Times are small whole numbers, so that sums are exact. */
typedef struct times {
    double forward, recompute, backward, copy;
} times;

static double duration(const void *context, int worker, size_t pc, const gp_instr *instr) {
    (void)worker;
    (void)pc;
    const times *t = context;
    switch (instr->op) {
    case GP_INSTR_FORWARD: return t->forward;
    case GP_INSTR_RECOMPUTE: return t->recompute;
    case GP_INSTR_BACKWARD: return t->backward;
    case GP_INSTR_RECV:
    case GP_INSTR_COLLECT: return t->copy;
    default: return 0;
    }
}

static gp_status try_play(const toy *t, const gp_programs *programs, times each, gp_play **out, gp_error *err) {
    gp_waits *waits = NULL;
    GP_RETURN_IF_FAILED(gp_waits_create(t->stages, programs, true, &waits, err));
    gp_play_request request = {.stages = t->stages,
                               .programs = programs,
                               .waits = waits,
                               .duration = duration,
                               .context = &each,
                               .timeline = true};
    gp_status status = gp_play_run(&request, out, err);
    gp_waits_destroy(&waits);
    return status;
}

static double play_length(int n, toy_run run, times each) {
    toy t;
    toy_init_chain(&t, n, false);
    gp_programs *programs = toy_programs(&t, run);
    gp_play *play = NULL;
    gp_error err = {0};
    if (try_play(&t, programs, each, &play, &err) != GP_OK) fail_msg("%s", err.text);
    double length = play->length;
    gp_play_destroy(&play);
    gp_programs_destroy(&programs);
    toy_fini(&t);
    return length;
}

/* GPipe, section 2.3: idle for (n−1)/(m+n−1) of the time. Each worker computes for 3·m, so that
 * (length − 3·m) / length is that share where length·(n−1) = (length − 3·m)·(m+n−1). */
static void bubble_is_gpipes(void **state) {
    (void)state;
    for (int n = 1; n <= 8; n++)
        for (int m = 1; m <= 16; m++)
            for (int lockstep = 0; lockstep < 2; lockstep++) {
                double length = play_length(n, (toy_run){m, GP_CHECKPOINT_NEVER, lockstep, true}, (times){1, 0, 2, 0});
                assert_true(length == 3.0 * (m + n - 1));
                assert_true(length * (n - 1) == (length - 3.0 * m) * (m + n - 1));
                length = play_length(n, (toy_run){m, GP_CHECKPOINT_NEVER, lockstep, false}, (times){1, 0, 2, 0});
                assert_true(length == m + n - 1);
            }
}

/* Only the last stage's recomputes lengthen the step: the others' are done before the gradient has come. */
static void recompute_precedes_the_gradient(void **state) {
    (void)state;
    for (int n = 2; n <= 6; n++)
        for (int m = 2; m <= 9; m++) {
            double length = play_length(n, (toy_run){m, GP_CHECKPOINT_ALWAYS, false, true}, (times){1, 1, 2, 0});
            assert_true(length == (m + n - 1) + 3.0 * m + 2.0 * (n - 1));
            /* In lockstep a clock is as long as its longest stage: all but the last two recompute. */
            length = play_length(n, (toy_run){m, GP_CHECKPOINT_ALWAYS, true, true}, (times){1, 1, 2, 0});
            assert_true(length == (m + n) + 3.0 * (m + n - 2) + 2);
        }
}

/* A chain of two by hand: copies of 1 between forwards of 2. */
static void starts_and_ends_are_known(void **state) {
    (void)state;
    toy t;
    toy_init_chain(&t, 2, false);
    gp_programs *programs = toy_programs(&t, (toy_run){2, GP_CHECKPOINT_ALWAYS, false, false});
    gp_play *play = NULL;
    gp_error err = {0};
    assert_int_equal(try_play(&t, programs, (times){2, 0, 0, 1}, &play, &err), GP_OK);
    /* worker 0: load F send, load F send; worker 1: load recv F, load recv F */
    const double start0[] = {0, 0, 2, 2, 2, 4}, start1[] = {0, 2, 3, 5, 5, 6};
    assert_int_equal(programs->worker[0].count, 6);
    assert_int_equal(programs->worker[1].count, 6);
    assert_memory_equal(play->worker[0].start, start0, sizeof start0);
    assert_memory_equal(play->worker[1].start, start1, sizeof start1);
    assert_true(play->worker[1].end[1] == 3);
    assert_true(play->length == 8);
    gp_play_destroy(&play);
    gp_programs_destroy(&programs);
    toy_fini(&t);
}

/* Loads of worker 1 take 5, of worker 2 take 1. */
static double slow_loads(const void *context, int worker, size_t pc, const gp_instr *instr) {
    if (instr->op == GP_INSTR_LOAD) return worker == 1 ? 5 : worker == 2 ? 1 : 0;
    return duration(context, worker, pc, instr);
}

/* Passes of replicas that synchronise begin together; of those that do not, each when it can. Copies by queues too. */
static void groups_begin_together(void **state) {
    (void)state;
    for (int group = 1; group <= 2; group++)
        for (int queued = 0; queued < 2; queued++) {
            toy t;
            gp_error err = {0};
            gp_play *play = NULL;
            gp_waits *waits = NULL;
            gp_program_queues *queues = NULL;
            const times each = {2, 0, 3, 0};
            const gp_play_copies one = (gp_play_copies)queued, copies[4] = {one, one, one, one};
            toy_init_replicated(&t, (const int64_t[]){1}, (const int[]){4}, false, 1, NULL, 0);
            for (int s = 0; s < 4; s++) t.stages->stage[s].group = group;
            gp_programs *programs = toy_programs(&t, (toy_run){1, GP_CHECKPOINT_NEVER, false, true});
            assert_int_equal(gp_waits_create(t.stages, programs, true, &waits, &err), GP_OK);
            const gp_queues_request asked = {
                .stages = t.stages, .programs = programs, .waits = waits, .memory = GP_QUEUES_MEMORY};
            assert_int_equal(gp_queues_create(&asked, &queues, &err), GP_OK);
            const gp_play_request request = {.stages = t.stages,
                                             .programs = programs,
                                             .waits = waits,
                                             .queues = queues,
                                             .copies = copies,
                                             .duration = slow_loads,
                                             .context = &each,
                                             .timeline = true};
            assert_int_equal(gp_play_run(&request, &play, &err), GP_OK);
            const double alone[] = {0, 5, 1, 0}, joint[] = {5, 5, 1, 1};
            for (int w = 0; w < 4; w++) {
                double start = group == 1 ? alone[w] : joint[w];
                assert_int_equal(programs->worker[w].instrs[1].op, GP_INSTR_FORWARD);
                assert_true(play->worker[w].start[1] == start);
                assert_true(play->worker[w].end[1] == start + 2);
                assert_true(play->worker[w].busy == 5);
            }
            gp_play_destroy(&play);
            gp_queues_destroy(&queues);
            gp_waits_destroy(&waits);
            gp_programs_destroy(&programs);
            toy_fini(&t);
        }
}

static void remove_instr(gp_program *program, size_t pc) {
    memmove(&program->instrs[pc], &program->instrs[pc + 1], (program->count - pc - 1) * sizeof *program->instrs);
    program->count--;
}

static void deadlocks_are_named(void **state) {
    (void)state;
    toy t;
    toy_init_chain(&t, 2, false);
    gp_play *play = NULL;
    gp_error err = {0};
    gp_programs *programs = toy_programs(&t, (toy_run){1, GP_CHECKPOINT_NEVER, false, false});
    assert_int_equal(programs->worker[0].instrs[2].op, GP_INSTR_SEND);
    remove_instr(&programs->worker[0], 2);
    assert_int_equal(try_play(&t, programs, (times){1, 0, 2, 0}, &play, &err), GP_PROGRAM);
    assert_string_equal(err.text, "worker 1, instruction 1 (recv s1 m0 e0): deadlock: waits until micro-batch 0 is "
                                  "sent on edge 0, which never happens");
    gp_programs_destroy(&programs);
    programs = toy_programs(&t, (toy_run){1, GP_CHECKPOINT_NEVER, false, true});
    assert_int_equal(programs->worker[1].instrs[3].op, GP_INSTR_POST);
    remove_instr(&programs->worker[1], 3);
    assert_int_equal(try_play(&t, programs, (times){1, 0, 2, 0}, &play, &err), GP_PROGRAM);
    assert_string_equal(err.text, "worker 0, instruction 5 (collect s0 c0): deadlock: waits until stage 1 posts in "
                                  "collective 0, which never happens");
    gp_programs_destroy(&programs);
    programs = toy_programs(&t, (toy_run){1, GP_CHECKPOINT_NEVER, true, false});
    assert_int_equal(programs->worker[0].instrs[4].op, GP_INSTR_BARRIER);
    remove_instr(&programs->worker[0], 4);
    assert_int_equal(try_play(&t, programs, (times){1, 0, 2, 0}, &play, &err), GP_PROGRAM);
    assert_non_null(strstr(err.text, "deadlock: waits at a barrier that only 1 of 2 workers reach"));
    assert_null(play);
    gp_programs_destroy(&programs);
    toy_fini(&t);
}

/* ---- who copies -------------------------------------------------------------------------------------------------- */

typedef struct setting {
    int workers;
    gp_schedule schedule;
    toy_run run;
    times each;
    gp_play_copies copies;
    bool channels;
    double latency;
} setting;

static double slow_at_the_end(const void *context, int worker, size_t pc, const gp_instr *instr) {
    (void)context;
    (void)pc;
    return instr->op == GP_INSTR_FORWARD ? (worker == 2 ? 10 : 1) : 0;
}

/* When each worker has passed its last barrier. */
static void play_barriers(bool meets_all, double ends[3]) {
    toy t;
    gp_device_kind kind = {.on_host = true};
    const gp_device_spec devices[] = {{.kind = &kind}, {.kind = &kind}, {.kind = &kind}};
    gp_waits *waits = NULL, *meets = NULL;
    gp_play *play = NULL;
    gp_error err = {0};
    toy_init_chain(&t, 3, false);
    gp_programs *programs = toy_programs(&t, (toy_run){2, GP_CHECKPOINT_NEVER, true, false});
    assert_int_equal(gp_waits_create(t.stages, programs, true, &waits, &err), GP_OK);
    assert_int_equal(gp_meets_create(t.stages, programs, devices, &meets, &err), GP_OK);
    gp_play_request request = {.stages = t.stages,
                               .programs = programs,
                               .waits = waits,
                               .meets = meets_all ? NULL : meets,
                               .duration = slow_at_the_end,
                               .timeline = true};
    assert_int_equal(gp_play_run(&request, &play, &err), GP_OK);
    assert_true(play->length == 22);
    for (int w = 0; w < 3; w++)
        for (size_t pc = 0; pc < programs->worker[w].count; pc++)
            if (programs->worker[w].instrs[pc].op == GP_INSTR_BARRIER) ends[w] = play->worker[w].end[pc];
    gp_play_destroy(&play);
    gp_waits_destroy(&meets);
    gp_waits_destroy(&waits);
    gp_programs_destroy(&programs);
    toy_fini(&t);
}

/* Two micro-batches through three stages, of which the last takes ten times as long: the middle one waits until its
 * second output is pulled, and the first one need not. */
static void a_barrier_waits_for_copies_out_of_its_worker(void **state) {
    (void)state;
    double ends[3];
    play_barriers(true, ends);
    assert_true(ends[0] == 12 && ends[1] == 12 && ends[2] == 12);
    play_barriers(false, ends);
    assert_true(ends[0] == 2 && ends[1] == 12 && ends[2] == 12);
}

typedef struct played {
    toy t;
    gp_programs *programs;
    gp_play *play;
} played;

static double of_copies(const void *context, int worker, size_t pc, const gp_instr *instr) {
    const setting *s = context;
    if (instr->op == GP_INSTR_SEND) return s->copies == GP_PLAY_POSTED ? s->each.copy : 0;
    return duration(&s->each, worker, pc, instr);
}

static double latency_of(const void *context, int worker, size_t pc, const gp_instr *instr) {
    (void)worker;
    (void)pc;
    assert_int_equal(instr->op, ((const setting *)context)->copies == GP_PLAY_POSTED ? GP_INSTR_SEND : GP_INSTR_RECV);
    return ((const setting *)context)->latency;
}

static played play_as(const setting *s) {
    played p = {.play = NULL};
    gp_play_copies copies[8];
    gp_waits *waits = NULL;
    gp_program_queues *queues = NULL;
    gp_error err = {0};
    toy_init_chain(&p.t, gp_schedule_stages(&s->schedule, s->workers), false);
    p.programs = toy_programs_of(&p.t, s->schedule, s->run);
    for (int w = 0; w < s->workers; w++) copies[w] = s->copies;
    if (gp_waits_create(p.t.stages, p.programs, true, &waits, &err) != GP_OK) fail_msg("%s", err.text);
    gp_queues_request with = {.stages = p.t.stages, .programs = p.programs, .waits = waits, .memory = GP_QUEUES_MEMORY};
    if (gp_queues_create(&with, &queues, &err) != GP_OK) fail_msg("%s", err.text);
    gp_play_request request = {.stages = p.t.stages,
                               .programs = p.programs,
                               .waits = waits,
                               .queues = queues,
                               .copies = copies,
                               .duration = of_copies,
                               .latency = latency_of,
                               .context = s,
                               .channels = s->channels,
                               .timeline = true};
    if (gp_play_run(&request, &p.play, &err) != GP_OK) fail_msg("%s", err.text);
    gp_queues_destroy(&queues);
    gp_waits_destroy(&waits);
    return p;
}

static void played_fini(played *p) {
    gp_play_destroy(&p->play);
    gp_programs_destroy(&p->programs);
    toy_fini(&p->t);
}

static double length_as(const setting *s) {
    played p = play_as(s);
    double length = p.play->length;
    played_fini(&p);
    return length;
}

/* Two workers, three micro-batches, forwards of 2 and copies of 1: a thread's copies stand between its computations,
 * a queue's beside them. Backwards take nothing; the copies of their gradients and of the scalars follow. */
static void queues_copy_beside_computations(void **state) {
    (void)state;
    setting s = {.workers = 2, .run = {3, GP_CHECKPOINT_NEVER, false, true}, .each = {2, 0, 0, 1}};
    assert_true(length_as(&s) == 11 + 4);
    s.copies = GP_PLAY_QUEUED;
    assert_true(length_as(&s) == 9 + 4);
    played p = play_as(&s);
    assert_true(p.play->worker[1].busy == 6 && p.play->worker[1].copying == 3);
    assert_true(p.play->worker[1].first == 3 && p.play->worker[1].last == 9);
    gp_play_span longest = gp_play_longest(p.play);
    assert_true(longest.worker == 0 && longest.seconds == 6 && longest.bubble == 0);
    played_fini(&p);
    s.latency = 5; /* holds no queue: the copies' latencies overlap */
    p = play_as(&s);
    assert_true(p.play->worker[1].first == 8 && p.play->worker[1].last == 14);
    played_fini(&p);
    s.copies = GP_PLAY_PULLED;
    p = play_as(&s);
    assert_true(p.play->worker[1].first == 8 && p.play->worker[1].last == 2 + 3 * (1 + 5 + 2));
    played_fini(&p);
}

/* In lockstep the host gives a queue all of it at once. */
static void queues_do_not_stop_for_barriers(void **state) {
    (void)state;
    setting s = {.workers = 3, .run = {4, GP_CHECKPOINT_ALWAYS, true, true}, .each = {2, 2, 3, 1}};
    s.copies = GP_PLAY_QUEUED;
    double lockstep = length_as(&s);
    s.run.lockstep = false;
    assert_true(length_as(&s) == lockstep);
}

/* Sent at 1 and at 2; the channel is held for 3. */
static void transfers_wait_for_their_channel(void **state) {
    (void)state;
    setting s = {.workers = 2,
                 .run = {2, GP_CHECKPOINT_NEVER, false, false},
                 .each = {1, 0, 0, 3},
                 .copies = GP_PLAY_POSTED,
                 .latency = 10};
    played p = play_as(&s);
    assert_true(p.play->worker[1].first == 14 && p.play->length == 16);
    assert_true(p.play->worker[0].last == 2); /* sending takes it no time */
    played_fini(&p);
    s.channels = true;
    p = play_as(&s);
    assert_true(p.play->worker[1].first == 14 && p.play->length == 18);
    played_fini(&p);
}

typedef struct hold {
    double asked, start;
    int from, to;
} hold;

/* All copies, and from when each could have begun: it was sent, and its queue was free. */
static size_t find_holds(const played *p, hold *out) {
    const gp_edge *edges = p->t.stages->edges;
    size_t count = 0;
    for (int w = 0; w < p->programs->workers; w++) {
        const gp_program *program = &p->programs->worker[w];
        double free_at[GP_QUEUES] = {0};
        for (size_t pc = 0; pc < program->count; pc++) {
            const gp_instr *instr = &program->instrs[pc];
            if (instr->op != GP_INSTR_RECV) continue;
            int from = p->programs->worker_of_stage[edges[instr->edge].from];
            double *queue = &free_at[gp_instr_queue(p->t.stages, instr)];
            const gp_program *other = &p->programs->worker[from];
            size_t sent = 0;
            while (other->instrs[sent].op != GP_INSTR_SEND || other->instrs[sent].edge != instr->edge ||
                   other->instrs[sent].micro != instr->micro)
                sent++;
            double ready = p->play->worker[from].end[sent];
            out[count++] = (hold){ready > *queue ? ready : *queue, p->play->worker[w].start[pc], from, w};
            *queue = p->play->worker[w].end[pc];
        }
    }
    return count;
}

/* Two stages per worker, so that activations and gradients meet on the way; slots hold nothing up here (the queues' own
 * waits would show as a start later than all of this allows). */
static void channels_serve_in_the_order_of_asking(void **state) {
    (void)state;
    for (int pieces = 2; pieces <= 8; pieces += 2)
        for (int copy = 1; copy <= 4; copy++) {
            setting s = {.workers = 2,
                         .schedule = {GP_SCHEDULE_INTERLEAVED, 2, NULL},
                         .run = {pieces, GP_CHECKPOINT_NEVER, false, true},
                         .each = {2, 0, 3, copy},
                         .copies = GP_PLAY_QUEUED,
                         .channels = true};
            played p = play_as(&s);
            hold holds[128];
            size_t count = find_holds(&p, holds);
            assert_int_equal(count, 6 * pieces);
            for (size_t i = 0; i < count; i++)
                for (size_t j = 0; j < count; j++) {
                    const hold *a = &holds[i], *b = &holds[j];
                    if (i == j || a->from != b->from || a->to != b->to) continue;
                    assert_true(a->start + copy <= b->start || b->start + copy <= a->start);
                }
            s.channels = false;
            assert_true(p.play->length >= length_as(&s));
            played_fini(&p);
        }
}

/* ---- processors that are shared ---------------------------------------------------------------------------------- */

typedef struct sharing {
    int workers, processors;
    gp_schedule schedule;
    toy_run run;
    times each;
    const int *threads;
    gp_play_copies copies;
} sharing;

static played play_shared(const sharing *s) {
    played p = {.play = NULL};
    gp_play_copies copies[8];
    gp_waits *waits = NULL;
    gp_program_queues *queues = NULL;
    gp_error err = {0};
    toy_init_chain(&p.t, gp_schedule_stages(&s->schedule, s->workers), false);
    p.programs = toy_programs_of(&p.t, s->schedule, s->run);
    for (int w = 0; w < s->workers; w++) copies[w] = s->copies;
    if (gp_waits_create(p.t.stages, p.programs, true, &waits, &err) != GP_OK) fail_msg("%s", err.text);
    gp_queues_request with = {.stages = p.t.stages, .programs = p.programs, .waits = waits, .memory = GP_QUEUES_MEMORY};
    if (gp_queues_create(&with, &queues, &err) != GP_OK) fail_msg("%s", err.text);
    gp_play_request request = {.stages = p.t.stages,
                               .programs = p.programs,
                               .waits = waits,
                               .queues = queues,
                               .copies = copies,
                               .duration = duration,
                               .context = &s->each,
                               .processors = s->processors,
                               .threads = s->threads,
                               .timeline = true};
    if (gp_play_run(&request, &p.play, &err) != GP_OK) fail_msg("%s", err.text);
    gp_queues_destroy(&queues);
    gp_waits_destroy(&waits);
    return p;
}

static double shared_length(const sharing *s) {
    played p = play_shared(s);
    double length = p.play->length;
    played_fini(&p);
    return length;
}

static void assert_near(double is, double should) {
    if (!(is > should - 1e-9 * (1 + should) && is < should + 1e-9 * (1 + should)))
        fail_msg("%.17g is not %.17g", is, should);
}

/* Two stages, two micro-batches, forwards of 2 and no copies, on one processor: the second forward of the first stage
 * and the first of the second stage are under way together, and take twice as long. */
static void threads_share_processors(void **state) {
    (void)state;
    sharing s = {.workers = 2, .processors = 1, .run = {2, GP_CHECKPOINT_NEVER, false, false}, .each = {2, 0, 0, 0}};
    played p = play_shared(&s);
    const double start0[] = {0, 0, 2, 2, 2, 6}, end1[] = {0, 2, 6, 6, 6, 8};
    assert_memory_equal(p.play->worker[0].start, start0, sizeof start0);
    assert_memory_equal(p.play->worker[1].end, end1, sizeof end1);
    assert_true(p.play->length == 8 && p.play->worker[0].busy == 6 && p.play->worker[1].busy == 6);
    played_fini(&p);
    s.processors = 2;
    assert_true(shared_length(&s) == 6);
}

/* A computation of three threads on two processors; a copy of it takes one thread, and so is as fast as ever. */
static void computations_take_their_threads(void **state) {
    (void)state;
    sharing s = {.workers = 2,
                 .processors = 2,
                 .run = {1, GP_CHECKPOINT_NEVER, false, false},
                 .each = {2, 0, 0, 1},
                 .threads = (const int[]){3, 4}};
    assert_near(shared_length(&s), 2 * 3 / 2.0 + 1 + 2 * 4 / 2.0);
    s.threads = (const int[]){1, 2};
    assert_true(shared_length(&s) == 5);
    s.processors = 1; /* of three threads in all, never more than two at once */
    assert_near(shared_length(&s), 2 + 1 + 4);
}

/* One processor always has work: a step takes the sum of all work. More workers than processors take at least as long
 * as that sum over the processors, and as without other workers; with enough processors nothing changes. */
static void no_schedule_takes_less_than_its_work(void **state) {
    (void)state;
    static const gp_schedule schedules[] = {
        {GP_SCHEDULE_GPIPE, 1, NULL}, {GP_SCHEDULE_1F1B, 1, NULL}, {GP_SCHEDULE_INTERLEAVED, 2, NULL}};
    for (size_t k = 0; k < sizeof schedules / sizeof *schedules; k++)
        for (int n = 2; n <= 6; n++)
            for (int lockstep = 0; lockstep < (k == 0 ? 2 : 1); lockstep++) {
                int m = 2 * n;
                sharing s = {.workers = n,
                             .schedule = schedules[k],
                             .run = {m, GP_CHECKPOINT_NEVER, lockstep, true},
                             .each = {1, 0, 2, 0}};
                double alone = shared_length(&s), work = 3.0 * m * gp_schedule_stages(&s.schedule, n);
                for (s.processors = 1; s.processors <= n; s.processors++) {
                    double length = shared_length(&s);
                    if (s.processors == 1 && !lockstep) assert_near(length, work);
                    if (s.processors == n) assert_true(length == alone);
                    assert_true(length >= work / s.processors - 1e-6 && length >= alone - 1e-6 &&
                                length <= work + 1e-6);
                }
            }
}

/* Their computations are the device's. */
static void queues_share_no_processors(void **state) {
    (void)state;
    sharing s = {
        .workers = 3, .run = {4, GP_CHECKPOINT_NEVER, false, true}, .each = {2, 0, 3, 1}, .copies = GP_PLAY_QUEUED};
    double alone = shared_length(&s);
    s.processors = 1;
    assert_true(shared_length(&s) == alone);
}

/* ---- collectives ------------------------------------------------------------------------------------------------- */

/* The norm of stage s takes 4 - s, and nothing else takes time but forwards and backwards: 1 each. */
static double norms_of_stages(const void *context, int worker, size_t pc, const gp_instr *instr) {
    (void)context;
    (void)worker;
    (void)pc;
    if (instr->op == GP_INSTR_NORM) return 4 - instr->stage;
    return instr->op == GP_INSTR_FORWARD || gp_instr_is_backward(instr) ? 1 : 0;
}

static double start_of(const gp_programs *programs, const gp_play *play, int stage, gp_instr_op op) {
    int w = programs->worker_of_stage[stage];
    for (size_t pc = 0; pc < programs->worker[w].count; pc++)
        if (programs->worker[w].instrs[pc].op == op && programs->worker[w].instrs[pc].stage == stage)
            return play->worker[w].start[pc];
    fail_msg("stage %d has no %s", stage, gp_instr_op_name((int)op));
    return 0;
}

/* Three stages, one micro-batch: three forwards, three backwards. Stage 0 ends its backward at 6 and its norm at 10,
 * the last of all: the gather ends then, and so does the broadcast. Without norms the broadcast ends with the last
 * forward, at 3. */
static void collects_wait_for_all_posts(void **state) {
    (void)state;
    for (int norms = 0; norms < 2; norms++) {
        toy t;
        gp_waits *waits = NULL;
        gp_play *play = NULL;
        gp_error err = {0};
        toy_init_chain(&t, 3, false);
        if (norms) toy_add_norms(&t);
        gp_programs *programs = toy_programs(&t, (toy_run){1, GP_CHECKPOINT_NEVER, false, true});
        assert_int_equal(gp_waits_create(t.stages, programs, true, &waits, &err), GP_OK);
        const gp_play_request request = {
            .stages = t.stages, .programs = programs, .waits = waits, .duration = norms_of_stages, .timeline = true};
        assert_int_equal(gp_play_run(&request, &play, &err), GP_OK);
        assert_true(start_of(programs, play, 2, GP_INSTR_POST) == (norms ? 10 : 3));
        if (norms) assert_true(start_of(programs, play, 2, GP_INSTR_COLLECT) == 10);
        for (int s = 0; s < 3; s++) assert_true(start_of(programs, play, s, GP_INSTR_STEP) == (norms ? 10 : 6 - s));
        gp_play_destroy(&play);
        gp_waits_destroy(&waits);
        gp_programs_destroy(&programs);
        toy_fini(&t);
    }
}

static void expect_joined(const gp_waits *waits, const gp_programs *programs, int stage, gp_instr_op op,
                          uint32_t collective, const int *members, size_t count) {
    const gp_program *program = &programs->worker[stage];
    const gp_worker_waits *its = &waits->worker[stage];
    size_t pc = 0;
    while (program->instrs[pc].op != op) pc++;
    assert_int_equal(its->first[pc + 1] - its->first[pc], count);
    for (size_t i = 0; i < count; i++) {
        const gp_wait *wait = &its->items[its->first[pc] + i];
        gp_wait_kind kind = op == GP_INSTR_COLLECT ? GP_WAIT_POSTED : GP_WAIT_COLLECTED;
        assert_true(wait->kind == kind && wait->edge == collective && wait->micro == members[i]);
    }
}

/* A mini-batch behind another one writes a part again: its first writer waits until all have collected it. */
static void parts_are_not_written_before_they_are_collected(void **state) {
    (void)state;
    toy t;
    gp_waits *within = NULL, *behind = NULL;
    gp_error err = {0};
    toy_init_chain(&t, 3, false);
    toy_add_norms(&t);
    gp_programs *programs = toy_programs(&t, (toy_run){1, GP_CHECKPOINT_NEVER, false, true});
    assert_int_equal(gp_waits_create(t.stages, programs, false, &within, &err), GP_OK);
    assert_int_equal(gp_waits_create_behind(t.stages, programs, &behind, &err), GP_OK);
    expect_joined(within, programs, 2, GP_INSTR_COLLECT, 0, (const int[]){0, 1}, 2);
    expect_joined(within, programs, 1, GP_INSTR_COLLECT, 1, (const int[]){2}, 1);
    expect_joined(behind, programs, 2, GP_INSTR_FORWARD, 1, (const int[]){0, 1}, 2);
    expect_joined(behind, programs, 0, GP_INSTR_NORM, 0, (const int[]){2}, 1);
    expect_joined(behind, programs, 2, GP_INSTR_NORM, 0, NULL, 0);
    gp_waits_destroy(&within);
    gp_waits_destroy(&behind);
    gp_programs_destroy(&programs);
    toy_fini(&t);
}

/* Replicas that share out the optimizer, stages 0 and 1: the first update of a mini-batch waits until the other one has
 * copied the parameters of the mini-batch before, and sums of blocks until the first has collected them. */
static void updates_wait_for_those_who_copy(void **state) {
    (void)state;
    toy t;
    gp_waits *behind = NULL;
    gp_error err = {0};
    toy_init_replicated(&t, (const int64_t[]){2}, (const int[]){2}, true, 1, NULL, 0);
    toy_add_norms(&t);
    gp_programs *programs = toy_programs(&t, (toy_run){1, GP_CHECKPOINT_NEVER, false, true});
    assert_int_equal(gp_waits_create_behind(t.stages, programs, &behind, &err), GP_OK);
    assert_int_equal(t.stages->collectives[2].part, GP_PART_BLOCKS);
    assert_int_equal(t.stages->collectives[5].part, GP_PART_PARAMETERS);
    expect_joined(behind, programs, 0, GP_INSTR_UPDATE, 5, (const int[]){1}, 1);
    expect_joined(behind, programs, 1, GP_INSTR_UPDATE, 5, (const int[]){0}, 1);
    expect_joined(behind, programs, 1, GP_INSTR_REDUCE, 2, (const int[]){0}, 1);
    expect_joined(behind, programs, 0, GP_INSTR_REDUCE, 2, NULL, 0);
    gp_waits_destroy(&behind);
    gp_programs_destroy(&programs);
    toy_fini(&t);
}

/* Worker 0 takes eight times as long for its backward as worker 1. */
static double uneven(const void *context, int worker, size_t pc, const gp_instr *instr) {
    (void)context;
    (void)pc;
    return instr->op != GP_INSTR_BACKWARD ? 0 : worker == 0 ? 8 : 1;
}

/* What is posted within a backward can be copied before the backward is over. */
static void posts_within_a_backward_are_early(void **state) {
    (void)state;
    toy t;
    gp_waits *waits = NULL;
    gp_error err = {0};
    toy_init_replicated(&t, (const int64_t[]){2}, (const int[]){2}, false, 1, NULL, 0);
    gp_programs *programs = toy_programs(&t, (toy_run){1, GP_CHECKPOINT_NEVER, false, true});
    assert_int_equal(gp_waits_create(t.stages, programs, true, &waits, &err), GP_OK);
    const gp_program *program = &programs->worker[0];
    size_t backward = 0, post = 0, collect = 0;
    while (program->instrs[backward].op != GP_INSTR_BACKWARD) backward++;
    while (program->instrs[post].op != GP_INSTR_POST ||
           t.stages->collectives[program->instrs[post].collective].kind != GP_COLLECTIVE_SCATTER)
        post++;
    const gp_instr *others = programs->worker[1].instrs;
    while (others[collect].op != GP_INSTR_COLLECT || others[collect].collective != program->instrs[post].collective)
        collect++;
    gp_early_post item = {(uint32_t)backward, (uint32_t)post, 1, 0.25};
    const gp_worker_posts early[2] = {{.items = &item, .count = 1}, {0}};
    for (int way = 0; way < 2; way++) {
        gp_play *play = NULL;
        const gp_play_request request = {.stages = t.stages,
                                         .programs = programs,
                                         .waits = waits,
                                         .early = way ? early : NULL,
                                         .duration = uneven,
                                         .timeline = true};
        assert_int_equal(gp_play_run(&request, &play, &err), GP_OK);
        assert_true(play->worker[1].start[collect] == (way ? 2 : 8));
        assert_true(play->worker[0].end[post] == 8 && play->length == 8);
        gp_play_destroy(&play);
    }
    gp_waits_destroy(&waits);
    gp_programs_destroy(&programs);
    toy_fini(&t);
}

/* A stage alone has none. Squares come first, whatever was added first. */
static void collectives_have_an_order(void **state) {
    (void)state;
    toy t;
    toy_init_chain(&t, 1, false);
    toy_add_norms(&t);
    assert_int_equal(t.stages->collective_count, 0);
    toy_fini(&t);
    toy_init_chain(&t, 3, false);
    assert_int_equal(t.stages->collective_count, 1);
    toy_add_norms(&t);
    assert_int_equal(t.stages->collective_count, 2);
    for (int c = 0; c < 2; c++) {
        const gp_collective *its = &t.stages->collectives[c];
        const gp_indices *others = c == 0 ? &its->contributors : &its->collectors;
        const gp_indices *root = c == 0 ? &its->collectors : &its->contributors;
        assert_int_equal(its->kind, c == 0 ? GP_COLLECTIVE_GATHER : GP_COLLECTIVE_BROADCAST);
        assert_int_equal(its->part, c == 0 ? GP_PART_SQUARES : GP_PART_SCALARS);
        assert_true(its->root == 2 && !gp_collective_is_mutual(its));
        assert_true(others->count == 2 && others->items[0] == 0 && others->items[1] == 1);
        assert_true(root->count == 1 && root->items[0] == 2);
    }
    toy_fini(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_barrier_waits_for_copies_out_of_its_worker),
        cmocka_unit_test(bubble_is_gpipes),
        cmocka_unit_test(recompute_precedes_the_gradient),
        cmocka_unit_test(starts_and_ends_are_known),
        cmocka_unit_test(groups_begin_together),
        cmocka_unit_test(deadlocks_are_named),
        cmocka_unit_test(collects_wait_for_all_posts),
        cmocka_unit_test(updates_wait_for_those_who_copy),
        cmocka_unit_test(posts_within_a_backward_are_early),
        cmocka_unit_test(collectives_have_an_order),
        cmocka_unit_test(parts_are_not_written_before_they_are_collected),
        cmocka_unit_test(queues_copy_beside_computations),
        cmocka_unit_test(queues_do_not_stop_for_barriers),
        cmocka_unit_test(transfers_wait_for_their_channel),
        cmocka_unit_test(channels_serve_in_the_order_of_asking),
        cmocka_unit_test(threads_share_processors),
        cmocka_unit_test(computations_take_their_threads),
        cmocka_unit_test(no_schedule_takes_less_than_its_work),
        cmocka_unit_test(queues_share_no_processors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
