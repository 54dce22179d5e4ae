#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/philox.h"
#include "schedule/emit.h"
#include "schedule/issue.h"

/* A chain of stages, one for each device but interleaved and zb_v. Times are small whole numbers or halves of them, so
 * that sums are exact. */
typedef struct setting {
    gp_schedule schedule;
    int devices, pieces;
    bool lockstep;
    gp_checkpoint_mode checkpoint;
    double forward, recompute, input, weight, step;
    double wire, latency;
    gp_issue_model model;
} setting;

typedef struct played {
    setting set;
    gp_stages *stages;
    gp_programs *programs;
    gp_play *play;
} played;

static double duration(const void *context, int worker, size_t pc, const gp_instr *instr) {
    (void)worker;
    (void)pc;
    const played *p = context;
    const setting *s = &p->set;
    switch (instr->op) {
    case GP_INSTR_FORWARD: return s->forward;
    case GP_INSTR_RECOMPUTE: return s->recompute;
    case GP_INSTR_BACKWARD: return s->input + s->weight;
    case GP_INSTR_BACKWARD_INPUT: return s->input;
    case GP_INSTR_BACKWARD_WEIGHT: return s->weight;
    case GP_INSTR_STEP: return s->step;
    case GP_INSTR_SEND:
    case GP_INSTR_RECV: return s->wire;
    default: return 0;
    }
}

static double latency(const void *context, int worker, size_t pc, const gp_instr *instr) {
    (void)worker;
    (void)pc;
    const played *p = context;
    const gp_edge *edge = &p->stages->edges[instr->edge];
    const int *device = p->programs->worker_of_stage;
    return device[edge->from] == device[edge->to] ? 0 : p->set.latency;
}

static void prepare(played *p, const setting *s) {
    gp_error err = {0};
    *p = (played){.set = *s};
    assert_int_equal(gp_stages_create_chain(gp_schedule_stages(&s->schedule, s->devices), &p->stages, &err), GP_OK);
    gp_emit_request request = {.stages = p->stages,
                               .pieces = {.count = s->pieces},
                               .checkpoint = s->checkpoint,
                               .lockstep = s->lockstep,
                               .training = true,
                               .schedule = s->schedule};
    assert_int_equal(gp_programs_emit(&request, &p->programs, &err), GP_OK);
}

static gp_status try_issue(played *p, gp_error *err) {
    gp_issue_request request = {.stages = p->stages,
                                .programs = p->programs,
                                .model = p->set.model,
                                .duration = duration,
                                .latency = latency,
                                .context = p,
                                .timeline = true};
    gp_waits *waits = NULL;
    assert_int_equal(gp_waits_create(p->stages, p->programs, false, &waits, err), GP_OK);
    request.waits = waits;
    gp_status status = gp_issue_play(&request, &p->play, err);
    gp_waits_destroy(&waits);
    return status;
}

static played issue(const setting *s) {
    played p;
    gp_error err = {0};
    prepare(&p, s);
    if (try_issue(&p, &err) != GP_OK) fail_msg("%s", err.text);
    return p;
}

/* The model without host threads: a copy starts when its value is there. */
static played play_ideal(const setting *s) {
    played p;
    gp_error err = {0};
    gp_play_copies copies[16];
    for (int d = 0; d < 16; d++) copies[d] = GP_PLAY_POSTED;
    prepare(&p, s);
    gp_waits *waits = NULL;
    assert_int_equal(gp_waits_create(p.stages, p.programs, false, &waits, &err), GP_OK);
    gp_play_request request = {.stages = p.stages,
                               .programs = p.programs,
                               .waits = waits,
                               .copies = copies,
                               .duration = duration,
                               .latency = latency,
                               .context = &p,
                               .channels = s->wire > 0,
                               .timeline = true};
    if (gp_play_run(&request, &p.play, &err) != GP_OK) fail_msg("%s", err.text);
    gp_waits_destroy(&waits);
    return p;
}

static void fini(played *p) {
    gp_play_destroy(&p->play);
    gp_programs_destroy(&p->programs);
    gp_stages_destroy(&p->stages);
}

static double length_of(const setting *s) {
    played p = issue(s);
    double length = p.play->length;
    fini(&p);
    return length;
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

/* Of an instruction: from when its device may start it, start, end. */
typedef struct row {
    const char *name;
    double issued, start, end;
} row;

/* A receive has the name of what is computed from it, with c for F, and g for B. */
static const char *name_of(char text[16], const gp_stages *stages, const gp_instr *instr) {
    bool gradient = instr->op == GP_INSTR_RECV && stages->edges[instr->edge].kind == GP_EDGE_GRADIENT;
    char letter = '?';
    if (instr->op == GP_INSTR_FORWARD) letter = 'F';
    if (instr->op == GP_INSTR_RECOMPUTE) letter = 'R';
    if (instr->op == GP_INSTR_BACKWARD) letter = 'B';
    if (instr->op == GP_INSTR_RECV) letter = gradient ? 'g' : 'c';
    snprintf(text, 16, "%c%d s%d", letter, instr->micro, instr->stage);
    return text;
}

static void check_row(const played *p, const row *expected) {
    for (int w = 0; w < p->programs->workers; w++)
        for (size_t pc = 0; pc < p->programs->worker[w].count; pc++) {
            const gp_instr *instr = &p->programs->worker[w].instrs[pc];
            char name[16];
            if (strcmp(name_of(name, p->stages, instr), expected->name) != 0) continue;
            const gp_play_worker *its = &p->play->worker[w];
            if (its->issued[pc] != expected->issued || its->start[pc] != expected->start ||
                its->end[pc] != expected->end)
                fail_msg("%s: issued %g, %g to %g; not %g, %g to %g", name, its->issued[pc], its->start[pc],
                         its->end[pc], expected->issued, expected->start, expected->end);
            return;
        }
    fail_msg("%s: is in no program", expected->name);
}

/* `rows` ends with one without a name. */
static void check_table(const setting *s, const row *rows, double length, double delay) {
    played p = issue(s);
    double sum = 0;
    for (int i = 0; rows[i].name; i++) check_row(&p, &rows[i]);
    if (p.play->length != length) fail_msg("the step is %g, not %g", p.play->length, length);
    for (int w = 0; w < s->devices; w++) sum += p.play->worker[w].delay;
    if (sum != delay) fail_msg("the copies are delayed by %g, not %g", sum, delay);
    fini(&p);
}

static const setting two = {.devices = 2,
                            .pieces = 3,
                            .forward = 4,
                            .input = 2,
                            .weight = 2,
                            .latency = 1,
                            .schedule = {GP_SCHEDULE_GPIPE, 1, NULL},
                            .model = {GP_ISSUE_QUEUED, true, 0, 0, 0}};

/* Order of issue, by clock, in each clock stage 0 first:
 *     F0s0 | F1s0 c0s1 F0s1 | F2s0 c1s1 F1s1 | c2s1 F2s1 | B2s1 | g2s0 B2s0 B1s1 | g1s0 B1s0 B0s1 | g0s0 B0s0
 * The copy c0 stands after F1s0, which was issued in the same clock. c2 waits for c1. Going back, g2s0 stands before
 * B1s1. */
static void one_host_delays_copies_forward(void **state) {
    (void)state;
    static const row rows[] = {{"F0 s0", 0, 0, 4},   {"F1 s0", 0, 4, 8},   {"F2 s0", 0, 8, 12},  {"c0 s1", 0, 8, 9},
                               {"F0 s1", 0, 9, 13},  {"c1 s1", 0, 12, 13}, {"F1 s1", 0, 13, 17}, {"c2 s1", 0, 13, 14},
                               {"F2 s1", 0, 17, 21}, {"B2 s1", 0, 21, 25}, {"g2 s0", 0, 25, 26}, {"B2 s0", 0, 26, 30},
                               {"B1 s1", 0, 25, 29}, {"g1 s0", 0, 29, 30}, {"B1 s0", 0, 30, 34}, {"B0 s1", 0, 29, 33},
                               {"g0 s0", 0, 33, 34}, {"B0 s0", 0, 34, 38}, {NULL, 0, 0, 0}};
    check_table(&two, rows, 38, 4 + 4 + 1);
}

/* In lockstep c0s1 stands before F1s0: F0s0 | c0s1 F1s0 F0s1 | c1s1 F2s0 F1s1 | c2s1 F2s1 | … Nothing is delayed. */
static void lockstep_delays_none(void **state) {
    (void)state;
    static const row rows[] = {{"F0 s0", 0, 0, 4},   {"F1 s0", 0, 4, 8},   {"F2 s0", 0, 8, 12},  {"c0 s1", 0, 4, 5},
                               {"F0 s1", 0, 5, 9},   {"c1 s1", 0, 8, 9},   {"F1 s1", 0, 9, 13},  {"c2 s1", 0, 12, 13},
                               {"F2 s1", 0, 13, 17}, {"B2 s1", 0, 17, 21}, {"g2 s0", 0, 21, 22}, {"B2 s0", 0, 22, 26},
                               {"B1 s1", 0, 21, 25}, {"g1 s0", 0, 25, 26}, {"B1 s0", 0, 26, 30}, {"B0 s1", 0, 25, 29},
                               {"g0 s0", 0, 29, 30}, {"B0 s0", 0, 30, 34}, {NULL, 0, 0, 0}};
    setting s = two;
    s.lockstep = true;
    check_table(&s, rows, 34, 0);
    s.model.one_host = false;
    check_table(&s, rows, 34, 0);
    s.lockstep = false;
    s.model.copies = GP_ISSUE_BESIDE;
    check_table(&s, rows, 34, 0);
}

/* Host threads that need no time issue all that their programs let them issue: each copy waits for all forwards, or all
 * backwards, of its source. The copies wait for each other, too. */
static void hosts_run_ahead(void **state) {
    (void)state;
    static const row rows[] = {{"F0 s0", 0, 0, 4},   {"F1 s0", 0, 4, 8},   {"F2 s0", 0, 8, 12},  {"c0 s1", 0, 12, 13},
                               {"c1 s1", 0, 13, 14}, {"c2 s1", 0, 14, 15}, {"F0 s1", 0, 13, 17}, {"F2 s1", 0, 21, 25},
                               {"B2 s1", 0, 25, 29}, {"B0 s1", 0, 33, 37}, {"g2 s0", 0, 37, 38}, {"g0 s0", 0, 39, 40},
                               {"B2 s0", 0, 38, 42}, {"B0 s0", 0, 46, 50}, {NULL, 0, 0, 0}};
    setting s = two;
    s.model.one_host = false;
    check_table(&s, rows, 50, (8 + 5 + 2) + (8 + 5 + 2));
}

/* A computation is issued in 2, a copy in 1. c0s1 can be issued from 2, when F0s0 is, and is at 3: half of the kernels
 * of F1s0 stand before it, which are over at 6. c1s1 is issued at 6, when all of F2s0 is. c2s1 is issued at 9. */
static void copies_fall_between_kernels(void **state) {
    (void)state;
    static const row rows[] = {
        {"F0 s0", 0, 0, 4},    {"F1 s0", 2, 4, 8},    {"F2 s0", 4, 8, 12},   {"c0 s1", 3, 6, 7},
        {"F0 s1", 3, 7, 11},   {"c1 s1", 6, 12, 13},  {"F1 s1", 6, 13, 17},  {"c2 s1", 9, 13, 14},
        {"F2 s1", 9, 17, 21},  {"B2 s1", 11, 21, 25}, {"B1 s1", 13, 25, 29}, {"B0 s1", 15, 29, 33},
        {"g2 s0", 14, 27, 28}, {"B2 s0", 14, 28, 32}, {"g1 s0", 17, 33, 34}, {"B1 s0", 17, 34, 38},
        {"g0 s0", 20, 34, 35}, {"B0 s0", 20, 38, 42}, {NULL, 0, 0, 0}};
    setting s = two;
    s.model = (gp_issue_model){GP_ISSUE_QUEUED, false, 2, 1, 0};
    check_table(&s, rows, 42, (2 + 4 + 1) + (2 + 4 + 1));
    /* Its host thread hears of F0s0 at 3: c0s1 is issued at 4, after all of F1s0. */
    static const row woken[] = {{"c0 s1", 4, 8, 9}, {"F0 s1", 4, 9, 13}, {NULL, 0, 0, 0}};
    s.model.wake = 1;
    played p = issue(&s);
    for (int i = 0; woken[i].name; i++) check_row(&p, &woken[i]);
    fini(&p);
}

/* The same in lockstep, and a thread that waits goes on 1 later. Barriers end at 0, 4, 9, 14, 16, 20, 25 and 30: in
 * clock 1 the host thread of stage 1 hears of F0s0, issued at 2, at 3, and issues the copy until 4; that of stage 0
 * goes on at 5. */
static void lockstep_takes_time_of_hosts(void **state) {
    (void)state;
    static const row rows[] = {
        {"F0 s0", 0, 0, 4},    {"c0 s1", 4, 4, 5},    {"F0 s1", 4, 5, 9},    {"F1 s0", 5, 5, 9},
        {"c1 s1", 9, 9, 10},   {"F1 s1", 9, 10, 14},  {"F2 s0", 10, 10, 14}, {"c2 s1", 14, 14, 15},
        {"F2 s1", 14, 15, 19}, {"B2 s1", 16, 19, 23}, {"g2 s0", 20, 23, 24}, {"B2 s0", 20, 24, 28},
        {"B1 s1", 21, 23, 27}, {"g1 s0", 25, 27, 28}, {"B1 s0", 25, 28, 32}, {"B0 s1", 26, 27, 31},
        {"g0 s0", 30, 31, 32}, {"B0 s0", 30, 32, 36}, {NULL, 0, 0, 0}};
    setting s = two;
    s.lockstep = true;
    s.model = (gp_issue_model){GP_ISSUE_QUEUED, false, 2, 1, 1};
    check_table(&s, rows, 36, 0);
}

/* Copies in both computing queues. Each clock is a copy and a computation: F0s0 is over at 4, c0s1 at 5, F1s0 and F0s1
 * at 9, c1s1 at 10, … */
static void copies_in_the_same_queue_stop_both_devices(void **state) {
    (void)state;
    static const row rows[] = {{"F0 s0", 0, 0, 4},   {"c0 s1", 0, 4, 5},   {"F1 s0", 0, 5, 9},   {"F0 s1", 0, 5, 9},
                               {"c1 s1", 0, 9, 10},  {"F2 s0", 0, 10, 14}, {"F1 s1", 0, 10, 14}, {"c2 s1", 0, 14, 15},
                               {"F2 s1", 0, 15, 19}, {"B2 s1", 0, 19, 23}, {"g2 s0", 0, 23, 24}, {"B2 s0", 0, 24, 28},
                               {"B1 s1", 0, 24, 28}, {"g1 s0", 0, 28, 29}, {"B1 s0", 0, 29, 33}, {"B0 s1", 0, 29, 33},
                               {"g0 s0", 0, 33, 34}, {"B0 s0", 0, 34, 38}, {NULL, 0, 0, 0}};
    setting s = two;
    s.lockstep = true;
    s.model.copies = GP_ISSUE_SAME_QUEUE;
    check_table(&s, rows, 38, 0);
    s.model.one_host = false;
    check_table(&s, rows, 38, 0);
    /* Without lockstep c0s1, issued at 3, stands amid the kernels of F1s0: two of its four have run by 6, the others
     * run after the copy, from 7. c1s1, issued at 6, waits for F2s0, issued from 4 to 6, which is over at 13. */
    static const row amid[] = {{"F0 s0", 0, 0, 4},   {"F1 s0", 2, 4, 9},   {"F2 s0", 4, 9, 13},  {"c0 s1", 3, 6, 7},
                               {"F0 s1", 3, 7, 11},  {"c1 s1", 6, 13, 14}, {"F1 s1", 6, 14, 18}, {"c2 s1", 9, 18, 19},
                               {"F2 s1", 9, 19, 23}, {NULL, 0, 0, 0}};
    s.lockstep = false;
    s.model.launch = 2;
    s.model.launch_copy = 1;
    played p = issue(&s);
    for (int i = 0; amid[i].name; i++) check_row(&p, &amid[i]);
    fini(&p);
}

/* A copy into a device stops the next copy out of it: c0s2, whose value is there at 9, waits for c1s1. */
static void copies_in_the_same_queue_stop_each_other(void **state) {
    (void)state;
    static const row rows[] = {{"c0 s1", 0, 4, 5},   {"F0 s1", 0, 5, 9},   {"c1 s1", 0, 9, 10},
                               {"c0 s2", 0, 10, 11}, {"F1 s1", 0, 11, 15}, {NULL, 0, 0, 0}};
    setting s = two;
    s.devices = 3;
    s.lockstep = true;
    s.model.copies = GP_ISSUE_SAME_QUEUE;
    played p = issue(&s);
    for (int i = 0; rows[i].name; i++) check_row(&p, &rows[i]);
    fini(&p);
}

/* The delay adds up over stages. Order of issue:
 *     F0s0 | F1s0 c0s1 F0s1 | F2s0 c1s1 F1s1 c0s2 F0s2 | c2s1 F2s1 c1s2 F1s2 | c2s2 F2s2 | B2s2 | g2s1 B2s1 B1s2 | …
 * c0s1 waits for F1s0 (4 instead of 2), and c0s2 for F1s1 (9 instead of 7): F0s2 starts at 10; in lockstep, at 6. */
static void delays_add_up_over_stages(void **state) {
    (void)state;
    static const row before[] = {{"F0 s0", 0, 0, 2},   {"F1 s0", 0, 2, 4},   {"F2 s0", 0, 4, 6},   {"c0 s1", 0, 4, 5},
                                 {"F0 s1", 0, 5, 7},   {"c1 s1", 0, 6, 7},   {"F1 s1", 0, 7, 9},   {"c0 s2", 0, 9, 10},
                                 {"F0 s2", 0, 10, 12}, {"c2 s1", 0, 7, 8},   {"F2 s1", 0, 9, 11},  {"c1 s2", 0, 11, 12},
                                 {"F1 s2", 0, 12, 14}, {"c2 s2", 0, 12, 13}, {"F2 s2", 0, 14, 16}, {"B2 s2", 0, 16, 19},
                                 {"g2 s1", 0, 19, 20}, {"B2 s1", 0, 20, 23}, {"B1 s2", 0, 19, 22}, {"g2 s0", 0, 23, 24},
                                 {"B2 s0", 0, 24, 27}, {"g1 s1", 0, 22, 23}, {"B1 s1", 0, 23, 26}, {"B0 s2", 0, 22, 25},
                                 {"g1 s0", 0, 26, 27}, {"B1 s0", 0, 27, 30}, {"g0 s1", 0, 25, 26}, {"B0 s1", 0, 26, 29},
                                 {"g0 s0", 0, 29, 30}, {"B0 s0", 0, 30, 33}, {NULL, 0, 0, 0}};
    static const row after[] = {{"c0 s1", 0, 2, 3},   {"F0 s1", 0, 3, 5},   {"c1 s1", 0, 4, 5},   {"F1 s1", 0, 5, 7},
                                {"c0 s2", 0, 5, 6},   {"F0 s2", 0, 6, 8},   {"c2 s1", 0, 6, 7},   {"F2 s1", 0, 7, 9},
                                {"c1 s2", 0, 7, 8},   {"F1 s2", 0, 8, 10},  {"c2 s2", 0, 9, 10},  {"F2 s2", 0, 10, 12},
                                {"B2 s2", 0, 12, 15}, {"B2 s1", 0, 16, 19}, {"B2 s0", 0, 20, 23}, {"B0 s0", 0, 26, 29},
                                {NULL, 0, 0, 0}};
    setting s = two;
    s.devices = 3;
    s.forward = 2;
    s.weight = 1;
    check_table(&s, before, 33, (2 + 2 + 1) + (2 + 2 + 1));
    s.lockstep = true;
    check_table(&s, after, 29, 0);
}

/* Kernels that are issued more slowly than they run: a forward of 4 that is issued in 10 lasts 10, computes for 4. */
static void launching_can_take_longer_than_computing(void **state) {
    (void)state;
    static const row rows[] = {{"F0 s0", 0, 0, 10},   {"F1 s0", 10, 10, 20}, {"F2 s0", 20, 20, 30},
                               {"B2 s0", 30, 30, 40}, {"B0 s0", 50, 50, 60}, {NULL, 0, 0, 0}};
    setting s = two;
    s.devices = 1;
    s.model.launch = 10;
    check_table(&s, rows, 60, 0);
    played p = issue(&s);
    assert_true(p.play->worker[0].busy == 6 * 4 && p.play->worker[0].last == 60);
    fini(&p);
    s.model.one_host = false;
    s.step = 5; /* is issued, too */
    check_table(&s, rows, 70, 0);
}

/* c0s1 and c1s1 wait for F1s0 and F2s0; c2s1 only for F2s0, which made its value. In lockstep no copy waits. */
static void copies_say_what_they_wait_for(void **state) {
    (void)state;
    for (int lockstep = 0; lockstep <= 1; lockstep++) {
        setting s = two;
        s.lockstep = lockstep == 1;
        played p = issue(&s);
        const gp_program *sender = &p.programs->worker[0], *receiver = &p.programs->worker[1];
        int receives = 0;
        for (size_t pc = 0; pc < receiver->count; pc++) {
            uint32_t after = p.play->worker[1].after[pc];
            bool waits = receiver->instrs[pc].op == GP_INSTR_RECV && receives++ < 2 && !s.lockstep;
            assert_int_equal(after > 0, waits);
            if (!waits) continue;
            assert_int_equal(sender->instrs[after - 1].op, GP_INSTR_FORWARD);
            assert_int_equal(sender->instrs[after - 1].micro, receives);
        }
        assert_int_equal(receives, 3);
        fini(&p);
    }
}

/* ---- all schedules ----------------------------------------------------------------------------------------------- */

static int draw(uint32_t test, uint32_t what, int low, int high) {
    gp_philox its = gp_philox_draw(11, (gp_philox){{test, what, 0, 0}});
    return low + (int)(its.word[0] % (uint32_t)(high - low + 1));
}

/* Launch times are powers of two, so that shares of them are exact. */
static setting draw_setting(uint32_t test) {
    static const gp_schedule schedules[] = {{GP_SCHEDULE_GPIPE, 1, NULL},       {GP_SCHEDULE_1F1B, 1, NULL},
                                            {GP_SCHEDULE_INTERLEAVED, 2, NULL}, {GP_SCHEDULE_ZB_H1, 1, NULL},
                                            {GP_SCHEDULE_ZB_H2, 1, NULL},       {GP_SCHEDULE_ZB_V, 2, NULL}};
    setting s = {.schedule = schedules[draw(test, 0, 0, 5)],
                 .devices = draw(test, 1, 1, 5),
                 .pieces = draw(test, 2, 1, 9),
                 .checkpoint = (gp_checkpoint_mode)draw(test, 3, 0, 2),
                 .forward = draw(test, 4, 0, 6),
                 .recompute = draw(test, 5, 0, 6),
                 .input = draw(test, 6, 0, 6),
                 .weight = draw(test, 7, 0, 6),
                 .step = draw(test, 8, 0, 2),
                 .latency = draw(test, 9, 0, 4)};
    s.model = (gp_issue_model){(gp_issue_copies)draw(test, 10, 0, 2), draw(test, 11, 0, 1) == 1,
                               draw(test, 12, 0, 1) << draw(test, 16, 0, 2), draw(test, 13, 0, 3), 0};
    if (!s.model.one_host) s.model.wake = draw(test, 14, 0, 2);
    s.lockstep = s.schedule.kind == GP_SCHEDULE_GPIPE && draw(test, 15, 0, 1) == 1;
    return s;
}

enum { TESTS = 3000 };

static bool computes(const gp_instr *instr) {
    return instr->op == GP_INSTR_FORWARD || instr->op == GP_INSTR_RECOMPUTE || gp_instr_is_backward(instr);
}

/* Worker and index of the send that a receive takes from. */
static void find_send(const played *p, const gp_instr *recv, int *worker, size_t *at) {
    *worker = p->programs->worker_of_stage[p->stages->edges[recv->edge].from];
    const gp_program *program = &p->programs->worker[*worker];
    for (*at = 0; *at < program->count; (*at)++) {
        const gp_instr *its = &program->instrs[*at];
        if (its->op == GP_INSTR_SEND && its->edge == recv->edge && its->micro == recv->micro) return;
    }
    fail_msg("a receive without a send");
}

/* In the order of the program, one after another, not before they are issued, and with all that was received. */
static void check_computations(const played *p, int worker) {
    const gp_play_worker *its = &p->play->worker[worker];
    double over = 0, received = 0;
    for (size_t pc = 0; pc < p->programs->worker[worker].count; pc++) {
        const gp_instr *instr = &p->programs->worker[worker].instrs[pc];
        assert_true(its->issued[pc] <= its->start[pc] && its->start[pc] <= its->end[pc]);
        if (instr->op == GP_INSTR_RECV && its->end[pc] > received) received = its->end[pc];
        if (!computes(instr)) continue;
        assert_true(its->start[pc] >= over && its->start[pc] >= received);
        assert_true(its->end[pc] - its->start[pc] >= duration(p, worker, pc, instr));
        over = its->end[pc];
    }
}

/* The instructions of each queue run one after another, as readers of timelines demand. */
static void check_queues(const played *p, int worker) {
    const gp_play_worker *its = &p->play->worker[worker];
    double over[GP_QUEUES] = {0};
    for (size_t pc = 0; pc < p->programs->worker[worker].count; pc++) {
        gp_queue queue = gp_instr_queue(p->stages, &p->programs->worker[worker].instrs[pc]);
        assert_true(its->start[pc] >= over[queue] && its->end[pc] >= its->start[pc]);
        over[queue] = its->end[pc];
    }
}

/* Not before its value is there; QUEUED, nor before what its source was issued earlier is over. Whether anything was
 * issued earlier is plain only if issuing takes time. */
static void check_copies(const played *p, int worker) {
    const gp_play_worker *its = &p->play->worker[worker];
    const gp_issue_model *model = &p->set.model;
    for (size_t pc = 0; pc < p->programs->worker[worker].count; pc++) {
        const gp_instr *instr = &p->programs->worker[worker].instrs[pc];
        int from;
        size_t at;
        if (instr->op != GP_INSTR_RECV) continue;
        find_send(p, instr, &from, &at);
        const gp_play_worker *source = &p->play->worker[from];
        assert_true(its->start[pc] >= source->end[at] && its->issued[pc] >= source->issued[at]);
        if (from == worker) continue;
        assert_true(its->end[pc] == its->start[pc] + p->set.wire + p->set.latency);
        if (model->copies == GP_ISSUE_BESIDE || model->launch == 0) continue;
        for (size_t i = 0; i < p->programs->worker[from].count; i++)
            if (computes(&p->programs->worker[from].instrs[i]) && source->issued[i] + model->launch <= its->issued[pc])
                assert_true(source->end[i] <= its->start[pc]);
    }
}

/* In any model, each instruction of any schedule ends no earlier than without host threads, if copies need no way. */
static void no_model_is_faster_than_the_ideal(void **state) {
    (void)state;
    int slower = 0;
    for (uint32_t test = 0; test < TESTS; test++) {
        setting s = draw_setting(test), without = s;
        without.lockstep = false; /* whose threads would wait for computations */
        played p = issue(&s), ideal = play_ideal(&without);
        for (int w = 0; w < s.devices; w++) {
            check_computations(&p, w);
            check_copies(&p, w);
            check_queues(&p, w);
            assert_true(p.play->worker[w].busy == ideal.play->worker[w].busy);
            assert_true(p.play->worker[w].last >= ideal.play->worker[w].last);
            assert_true(p.play->worker[w].first >= ideal.play->worker[w].first || ideal.play->worker[w].busy == 0);
        }
        assert_true(p.play->length >= ideal.play->length);
        slower += p.play->length > ideal.play->length;
        fini(&p);
        fini(&ideal);
    }
    assert_true(slower > TESTS / 3);
}

/* Copies without length beside computations, and nothing takes time to issue: the same start and end of every
 * computation. */
static void beside_and_without_launch_is_the_ideal(void **state) {
    (void)state;
    for (uint32_t test = 0; test < TESTS; test++) {
        setting s = draw_setting(test);
        s.model = (gp_issue_model){GP_ISSUE_BESIDE, s.model.one_host, 0, 0, 0};
        s.lockstep = false;
        s.latency = 0;
        played p = issue(&s), ideal = play_ideal(&s);
        for (int w = 0; w < s.devices; w++)
            for (size_t pc = 0; pc < p.programs->worker[w].count; pc++) {
                if (!computes(&p.programs->worker[w].instrs[pc])) continue;
                assert_true(p.play->worker[w].start[pc] == ideal.play->worker[w].start[pc]);
                assert_true(p.play->worker[w].end[pc] == ideal.play->worker[w].end[pc]);
            }
        assert_true(p.play->length == ideal.play->length);
        fini(&p);
        fini(&ideal);
    }
}

typedef struct hold {
    int from, to;
    double start;
} hold;

static size_t find_holds(const played *p, hold *out) {
    size_t count = 0;
    for (int w = 0; w < p->programs->workers; w++)
        for (size_t pc = 0; pc < p->programs->worker[w].count; pc++) {
            const gp_instr *instr = &p->programs->worker[w].instrs[pc];
            const gp_edge *edge = &p->stages->edges[instr->edge];
            int from = instr->op == GP_INSTR_RECV ? p->programs->worker_of_stage[edge->from] : w;
            if (from != w) out[count++] = (hold){from, w, p->play->worker[w].start[pc]};
        }
    return count;
}

/* Activations and gradients that go from one device to another: schedules with several stages on a device have both. */
static void one_copy_at_a_time_between_two_devices(void **state) {
    (void)state;
    for (uint32_t test = 0; test < TESTS / 3; test++) {
        hold holds[512];
        setting s = draw_setting(test);
        s.wire = draw(test, 20, 1, 4);
        s.forward = draw(test, 21, 0, 2); /* so that copies crowd */
        played p = issue(&s);
        size_t count = find_holds(&p, holds);
        assert_true(count <= 512);
        for (size_t i = 0; i < count; i++)
            for (size_t j = 0; j < i; j++)
                if (holds[i].from == holds[j].from && holds[i].to == holds[j].to)
                    assert_true(fabs(holds[i].start - holds[j].start) >= s.wire);
        fini(&p);
    }
}

/* If nothing takes time to issue, a step is no longer in lockstep than without; if no stage recomputes either, it is
 * that of copies beside computations. */
static void lockstep_without_launch_is_never_slower(void **state) {
    (void)state;
    int shorter = 0;
    for (uint32_t test = 0; test < TESTS; test++) {
        setting s = draw_setting(test);
        s.schedule = (gp_schedule){GP_SCHEDULE_GPIPE, 1, NULL};
        s.model = (gp_issue_model){GP_ISSUE_BESIDE, s.model.one_host, 0, 0, 0};
        s.lockstep = false;
        double beside = length_of(&s);
        s.model.copies = GP_ISSUE_QUEUED;
        double without = length_of(&s);
        s.lockstep = true;
        double with = length_of(&s);
        assert_true(with >= beside && with <= without);
        if (s.checkpoint == GP_CHECKPOINT_NEVER) assert_true(with == beside);
        shorter += with < without;
    }
    assert_true(shorter > TESTS / 3);
}

/* A recompute is issued in the clock before its backward, so before the copies of that clock: g1s0 queues after R0s1.
 * The last stage recomputes micro-batch 0 while the first one waits for the gradient of 1: that costs R, once. */
static void recomputes_delay_gradients_in_lockstep(void **state) {
    (void)state;
    setting s = two;
    s.checkpoint = GP_CHECKPOINT_ALWAYS;
    s.forward = 1;
    s.recompute = 8;
    s.lockstep = true;
    double queued = length_of(&s);
    s.model.copies = GP_ISSUE_BESIDE;
    assert_true(queued == length_of(&s) + 8);
}

/* ---- deadlocks --------------------------------------------------------------------------------------------------- */

/* The last one. */
static void remove_instr(gp_program *program, gp_instr_op op) {
    size_t pc = program->count - 1;
    while (program->instrs[pc].op != op) pc--;
    memmove(&program->instrs[pc], &program->instrs[pc + 1], (program->count - pc - 1) * sizeof *program->instrs);
    program->count--;
}

static void check_deadlock(const setting *s, gp_instr_op without, const char *message) {
    for (int one = 0; one <= 1; one++) {
        played p;
        gp_error err = {0};
        prepare(&p, s);
        p.set.model.one_host = one == 1;
        remove_instr(&p.programs->worker[1], without);
        assert_int_equal(try_issue(&p, &err), GP_PROGRAM);
        assert_string_equal(err.text, message);
        assert_null(p.play);
        fini(&p);
    }
}

static void deadlocks_are_named(void **state) {
    (void)state;
    setting s = two;
    check_deadlock(&s, GP_INSTR_SEND,
                   "worker 0, instruction 13 (recv s0 m0 e1): deadlock: its host thread waits until micro-batch 0 is "
                   "sent on edge 1, which never happens");
    s.lockstep = true;
    check_deadlock(
        &s, GP_INSTR_BARRIER,
        "worker 0, instruction 21 (barrier, clock 7): deadlock: its host thread waits at a barrier that only 1 of 2 "
        "workers reach");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_host_delays_copies_forward),
        cmocka_unit_test(lockstep_delays_none),
        cmocka_unit_test(hosts_run_ahead),
        cmocka_unit_test(copies_fall_between_kernels),
        cmocka_unit_test(lockstep_takes_time_of_hosts),
        cmocka_unit_test(copies_in_the_same_queue_stop_both_devices),
        cmocka_unit_test(copies_in_the_same_queue_stop_each_other),
        cmocka_unit_test(delays_add_up_over_stages),
        cmocka_unit_test(one_copy_at_a_time_between_two_devices),
        cmocka_unit_test(launching_can_take_longer_than_computing),
        cmocka_unit_test(copies_say_what_they_wait_for),
        cmocka_unit_test(no_model_is_faster_than_the_ideal),
        cmocka_unit_test(beside_and_without_launch_is_the_ideal),
        cmocka_unit_test(lockstep_without_launch_is_never_slower),
        cmocka_unit_test(recomputes_delay_gradients_in_lockstep),
        cmocka_unit_test(deadlocks_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
