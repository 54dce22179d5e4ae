#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "schedule/toy_graph.h"
#include "schedule/validate.h"

static char *write_text(const gp_programs *programs) {
    char *text = NULL;
    gp_error err = {0};
    if (gp_programs_write(programs, &text, &err) != GP_OK) fail_msg("%s", err.text);
    return text;
}

static gp_programs *read_text(const char *text) {
    gp_programs *programs = NULL;
    gp_error err = {0};
    if (gp_programs_read(text, "p.txt", &programs, &err) != GP_OK) fail_msg("%s", err.text);
    return programs;
}

static void assert_same_programs(const gp_programs *a, const gp_programs *b) {
    assert_int_equal(a->workers, b->workers);
    assert_int_equal(a->stages, b->stages);
    assert_int_equal(a->pieces, b->pieces);
    assert_int_equal(a->training, b->training);
    assert_int_equal(a->descending, b->descending);
    assert_memory_equal(a->worker_of_stage, b->worker_of_stage, (size_t)a->stages * sizeof *a->worker_of_stage);
    for (int w = 0; w < a->workers; w++) {
        assert_int_equal(a->worker[w].count, b->worker[w].count);
        if (a->worker[w].count > 0)
            assert_memory_equal(a->worker[w].instrs, b->worker[w].instrs, a->worker[w].count * sizeof(gp_instr));
    }
}

static void check_round_trip(gp_programs *programs) {
    char *text = write_text(programs);
    gp_programs *again = read_text(text);
    assert_same_programs(programs, again);
    char *text_again = write_text(again);
    assert_string_equal(text, text_again);
    free(text);
    free(text_again);
    gp_programs_destroy(&again);
    gp_programs_destroy(&programs);
}

static void schedules_round_trip(void **state) {
    (void)state;
    toy t;
    for (int n = 1; n <= 5; n++) {
        toy_init_chain(&t, n, true);
        if (n % 2) toy_add_norms(&t);
        for (int i = 0; i < 12; i++)
            check_round_trip(toy_programs(&t, (toy_run){1 + i % 7, (gp_checkpoint_mode)(i % 3), i % 2, i % 4 != 0}));
        toy_fini(&t);
    }
    toy_init_chain(&t, 4, true);
    check_round_trip(toy_interleaved(&t, 3));
    toy_fini(&t);
}

/* Each field at its highest, and each flag. */
static void every_field_round_trips(void **state) {
    (void)state;
    const gp_instr instrs[] = {
        {.op = GP_INSTR_LOAD, .stage = 4095, .micro = 4095, .slot = 65535, .clock = UINT32_MAX},
        {.op = GP_INSTR_FORWARD, .slot = 1, .work = 65535, .flags = GP_INSTR_KEEP | GP_INSTR_LAST, .clock = 7},
        {.op = GP_INSTR_FORWARD, .micro = 3, .slot = 65535, .work = 65534},
        {.op = GP_INSTR_RECOMPUTE, .stage = 2, .micro = 1, .slot = 5, .work = 6, .clock = 8},
        {.op = GP_INSTR_BACKWARD, .slot = 1, .work = 2, .grad = 65535, .flags = GP_INSTR_FIRST},
        {.op = GP_INSTR_SEND, .edge = UINT32_MAX, .slot = 65535, .flags = GP_INSTR_KEEP},
        {.op = GP_INSTR_RECV, .stage = 1, .micro = 2, .edge = 70000, .slot = 3, .clock = 4},
        {.op = GP_INSTR_BARRIER, .stage = 3, .clock = 5},
        {.op = GP_INSTR_NORM, .stage = 5, .clock = 9},
        {.op = GP_INSTR_CLIP, .stage = 6, .clock = 10},
        {.op = GP_INSTR_TOTAL, .stage = 9, .clock = 12},
        {.op = GP_INSTR_REDUCE, .stage = 10, .clock = 13},
        {.op = GP_INSTR_UPDATE, .stage = 11, .clock = 14},
        {.op = GP_INSTR_STEP, .stage = 4, .clock = 6},
        {.op = GP_INSTR_POST, .stage = 7, .collective = UINT32_MAX, .clock = 11},
        {.op = GP_INSTR_COLLECT, .stage = 8, .collective = 65536},
    };
    gp_programs *programs = NULL;
    gp_error err = {0};
    assert_int_equal(gp_programs_create(2, (const int[]){1, 0, 1}, 3, 4096, true, false, &programs, &err), GP_OK);
    programs->piece = INT32_MAX;
    programs->last = 1;
    for (size_t i = 0; i < sizeof instrs / sizeof *instrs; i++)
        assert_int_equal(gp_program_add(&programs->worker[0], instrs[i], &err), GP_OK);
    check_round_trip(programs);
}

static void text_reads_well(void **state) {
    (void)state;
    toy t;
    toy_init_chain(&t, 2, false);
    gp_programs *programs = toy_programs(&t, (toy_run){2, GP_CHECKPOINT_EXCEPT_LAST, true, true});
    char *text = write_text(programs);
    assert_string_equal(text, "programs workers=2 stages=2 micro_batches=2 training descending on=0,1\n"
                              "worker 0:\n"
                              "load s0 m0 stash=0 @0\n"
                              "barrier s0 @0\n"
                              "F s0 m0 stash=0 outbox=0 @0\n"
                              "send s0 m0 e0 slot=0 @0\n"
                              "load s0 m1 stash=1 @1\n"
                              "barrier s0 @1\n"
                              "F s0 m1 stash=1 saved=0 keep last @1\n"
                              "send s0 m1 e0 slot=0 keep @1\n"
                              "barrier s0 @2\n"
                              "barrier s0 @3\n"
                              "recv s0 m1 e1 slot=0 @4\n"
                              "barrier s0 @4\n"
                              "B s0 m1 stash=1 saved=0 grad=0 first @4\n"
                              "R s0 m0 stash=0 saved=0 @4\n"
                              "recv s0 m0 e1 slot=0 @5\n"
                              "barrier s0 @5\n"
                              "B s0 m0 stash=0 saved=0 grad=0 @5\n"
                              "collect s0 c0 @5\n"
                              "step s0 @5\n"
                              "worker 1:\n"
                              "barrier s1 @0\n"
                              "load s1 m0 stash=0 @1\n"
                              "recv s1 m0 e0 slot=0 @1\n"
                              "barrier s1 @1\n"
                              "F s1 m0 stash=0 outbox=0 @1\n"
                              "load s1 m1 stash=1 @2\n"
                              "recv s1 m1 e0 slot=1 @2\n"
                              "barrier s1 @2\n"
                              "F s1 m1 stash=1 saved=0 keep last @2\n"
                              "post s1 c0 @2\n"
                              "barrier s1 @3\n"
                              "B s1 m1 stash=1 saved=0 grad=0 first @3\n"
                              "send s1 m1 e1 slot=0 @3\n"
                              "R s1 m0 stash=0 saved=0 @3\n"
                              "barrier s1 @4\n"
                              "B s1 m0 stash=0 saved=0 grad=0 @4\n"
                              "send s1 m0 e1 slot=0 @4\n"
                              "barrier s1 @5\n"
                              "step s1 @5\n");
    free(text);
    gp_programs_destroy(&programs);
    toy_fini(&t);
}

/* Written by hand: any order, comments, blanks, carriage returns; what is 0 is left out. */
static void people_write_too(void **state) {
    (void)state;
    gp_programs *programs = read_text("# mine\r\n\r\n"
                                      "  programs workers=1 stages=1 pieces=1 evaluation ascending on=0  # small\r\n"
                                      "worker 0:#\n"
                                      "\tload m0 s0\n"
                                      "F last @3 m0   s0 stash=2#F\n");
    assert_false(programs->training);
    assert_false(programs->descending);
    assert_int_equal(programs->worker[0].count, 2);
    const gp_instr forward = {.op = GP_INSTR_FORWARD, .flags = GP_INSTR_LAST, .slot = 2, .clock = 3};
    assert_memory_equal(&programs->worker[0].instrs[1], &forward, sizeof forward);
    gp_programs_destroy(&programs);
}

#define HEADER "programs workers=1 stages=2 pieces=3 training descending on=0,0\n"

static void bad_texts_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"", "p.txt:1:1: there are no programs: the text is empty"},
        {"# nothing\n", "p.txt:2:1: there are no programs: the text is empty"},
        {"F s0 m0\n", "p.txt:1:1: expected a header that begins with \"programs\""},
        {"programs stages=2\n", "p.txt:1:10: expected workers= and a number from 1 to 4096"},
        {"programs workers=0\n", "p.txt:1:10: expected workers= and a number from 1 to 4096"},
        {"programs workers=1 stages=4294967297\n",
         "p.txt:1:20: expected stages= and a number from 1 to 4096, not \"stages=4294967297\""},
        {"programs workers=1 stages=1 pieces=5000\n",
         "p.txt:1:29: expected pieces= and a number from 1 to 4096, not \"pieces=5000\""},
        {"programs workers=1 stages=1 micro_batches=2x\n",
         "p.txt:1:29: expected micro_batches= and a number from 1 to 4096, not \"micro_batches=2x\""},
        {"programs workers=1 stages=1 pieces=2 samples=0 last=1\n",
         "p.txt:1:38: expected samples= and a number from 1 to 2147483647, not \"samples=0\""},
        {"programs workers=1 stages=1 pieces=2 samples=3 last=4\n",
         "p.txt:1:48: expected last= and a number from 1 to 3, not \"last=4\""},
        {"programs workers=1 stages=1 pieces=2 samples=3 training\n",
         "p.txt:1:48: expected last= and a number from 1 to 3, not \"training\""},
        {"programs workers=3 stages=2 pieces=1\n",
         "p.txt:1:20: 3 workers are too many for 2 stages: each worker needs at least one"},
        {"programs workers=1 stages=1 pieces=1 learning\n",
         "p.txt:1:38: expected training or evaluation, not \"learning\""},
        {"programs workers=1 stages=1 pieces=1 training\n", "p.txt:1:46: expected descending or ascending, not \"\""},
        {"programs workers=1 stages=2 pieces=1 training descending 0,0\n",
         "p.txt:1:58: expected on= and the worker of each stage, not \"0,0\""},
        {"programs workers=1 stages=2 pieces=1 training descending on=0\n",
         "p.txt:1:62: expected the worker of stage 1, a number from 0 to 0"},
        {"programs workers=1 stages=2 pieces=1 training descending on=0,1\n",
         "p.txt:1:63: expected the worker of stage 1, a number from 0 to 0"},
        {"programs workers=1 stages=2 pieces=1 training descending on=0,0,0\n",
         "p.txt:1:64: on= has more than 2 workers: one for each stage"},
        {"programs workers=1 stages=1 pieces=1 training descending on=0 twice\n",
         "p.txt:1:63: unexpected \"twice\" after on="},
        {HEADER, "p.txt:2:1: the text ends before worker 0"},
        {HEADER "F s0 m0\n", "p.txt:2:1: expected \"worker 0:\" before the first instruction"},
        {HEADER "worker 1:\n", "p.txt:2:8: expected \"0:\", not \"1:\": workers must be in order"},
        {HEADER "worker 0\n", "p.txt:2:8: expected \"0:\", not \"0\": workers must be in order"},
        {HEADER "worker 0: F\n", "p.txt:2:11: unexpected \"F\" after a worker's number"},
        {HEADER "worker 0:\nworker 1:\n", "p.txt:3:8: there are only 1 workers"},
        {HEADER "worker 0:\n G s0 m0\n", "p.txt:3:2: unknown instruction \"G\""},
        {HEADER "worker 0:\nF s0\n", "p.txt:3:1: F needs the micro-batch, such as \"m0\""},
        {HEADER "worker 0:\nsend s0 m1\n", "p.txt:3:1: send needs the edge, such as \"e0\""},
        {HEADER "worker 0:\npost s0\n", "p.txt:3:1: post needs the collective, such as \"c0\""},
        {HEADER "worker 0:\ncollect c1\n", "p.txt:3:1: collect needs the stage, such as \"s0\""},
        {HEADER "worker 0:\ncollect s0 c0 m1\n", "p.txt:3:15: \"m1\" is not a field or flag of collect"},
        {HEADER "worker 0:\npost s0 e0\n", "p.txt:3:9: \"e0\" is not a field or flag of post"},
        {HEADER "worker 0:\npost s0 c0 c1\n", "p.txt:3:12: \"c1\" sets the collective a second time"},
        {HEADER "worker 0:\npost s0 c4294967296\n",
         "p.txt:3:9: \"c4294967296\": the collective must be a number from 0 to 4294967295"},
        {HEADER "worker 0:\nsend s0 m1 c0\n", "p.txt:3:12: \"c0\" is not a field or flag of send"},
        {HEADER "worker 0:\nF s0 m0 s1\n", "p.txt:3:9: \"s1\" sets the stage a second time"},
        {HEADER "worker 0:\nF s4096 m0\n", "p.txt:3:3: \"s4096\": the stage must be a number from 0 to 4095"},
        {HEADER "worker 0:\nF s0 m0 stash=65536\n",
         "p.txt:3:9: \"stash=65536\": the stash slot must be a number from 0 to 65535"},
        {HEADER "worker 0:\nF s0 m0x\n", "p.txt:3:6: \"m0x\": the micro-batch must be a number from 0 to 4095"},
        {HEADER "worker 0:\nF s0 m-1\n", "p.txt:3:6: \"m-1\" is not a field or flag of F"},
        {HEADER "worker 0:\nF s0 m0 e1\n", "p.txt:3:9: \"e1\" is not a field or flag of F"},
        {HEADER "worker 0:\nF s0 m0 first\n", "p.txt:3:9: \"first\" is not a field or flag of F"},
        {HEADER "worker 0:\nF s0 m0 keep keep\n", "p.txt:3:14: \"keep\" occurs twice"},
        {HEADER "worker 0:\nF s0 m0 saved=1\n",
         "p.txt:3:1: F with keep has a saved slot, F without keep has an outbox slot"},
        {HEADER "worker 0:\nF s0 m0 outbox=1 keep\n",
         "p.txt:3:1: F with keep has a saved slot, F without keep has an outbox slot"},
        {HEADER "worker 0:\nstep s0 \x01\x1b[2J\n", "p.txt:3:9: \"??[2J\" is not a field or flag of step"},
        {HEADER "worker 0:\nstep s0 0123456789012345678901234567890123456789tail\n",
         "p.txt:3:9: \"0123456789012345678901234567890123456789\" is not a field or flag of step"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gp_programs *programs = NULL;
        gp_error err = {0};
        assert_int_equal(gp_programs_read(bad[i].text, "p.txt", &programs, &err), GP_CONFIG);
        assert_string_equal(err.text, bad[i].message);
        assert_null(programs);
    }
}

/* What the text cannot show would not come back: better said than lost. */
static void unused_fields_are_not_written(void **state) {
    (void)state;
    const gp_instr odd[] = {
        {.op = GP_INSTR_LOAD, .work = 1},
        {.op = GP_INSTR_STEP, .micro = 1},
        {.op = GP_INSTR_NORM, .micro = 1},
        {.op = GP_INSTR_CLIP, .work = 1},
        {.op = GP_INSTR_TOTAL, .micro = 1},
        {.op = GP_INSTR_REDUCE, .slot = 1},
        {.op = GP_INSTR_UPDATE, .micro = 1},
        {.op = GP_INSTR_POST, .slot = 1},
        {.op = GP_INSTR_COLLECT, .micro = 1},
        {.op = GP_INSTR_RECV, .flags = GP_INSTR_KEEP},
        {.op = GP_INSTR_FORWARD, .flags = 8},
        {.op = GP_INSTR_FORWARD, .stage = 4096},
        {.op = GP_INSTR_OPS},
    };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        gp_programs *programs = NULL;
        gp_error err = {0};
        char *text = NULL;
        assert_int_equal(gp_programs_create(1, (const int[]){0}, 1, 1, true, true, &programs, &err), GP_OK);
        assert_int_equal(gp_program_add(&programs->worker[0], odd[i], &err), GP_OK);
        assert_int_equal(gp_programs_write(programs, &text, &err), GP_PROGRAM);
        assert_non_null(strstr(err.text, "worker 0, instruction 0 ("));
        assert_non_null(strstr(err.text, "has a flag or a field that its operation does not use"));
        assert_null(text);
        gp_programs_destroy(&programs);
    }
}

/* Half of the edits turn a digit into another: those often read. */
static void edit(char *text, size_t length, uint64_t *state) {
    static const char alphabet[] = "0123456789smeFRB=@ \n,:kpu#\x7f";
    size_t at = toy_random(state, (uint32_t)length), from = toy_random(state, (uint32_t)length);
    switch (toy_random(state, 4)) {
    case 0: text[at] = alphabet[toy_random(state, sizeof alphabet - 1)]; break;
    case 1: memmove(text + at, text + from, length - (at > from ? at : from)); break;
    default:
        at += strcspn(text + at, "0123456789");
        if (text[at]) text[at] = (char)('0' + toy_random(state, 10));
    }
}

/* Broken texts cost an error at worst, and what reads at all reads back the same and may be shown to the validator. */
static void broken_texts_are_harmless(void **state) {
    (void)state;
    toy t;
    toy_init_chain(&t, 3, true);
    gp_programs *programs = toy_programs(&t, (toy_run){3, GP_CHECKPOINT_EXCEPT_LAST, true, true});
    char *text = write_text(programs);
    size_t length = strlen(text), read = 0, refused = 0;
    char *broken = malloc(length + 1);
    assert_non_null(broken);
    uint64_t random = 1;
    for (int i = 0; i < 4000; i++) {
        memcpy(broken, text, length + 1);
        for (uint32_t edits = 1 + toy_random(&random, 2); edits > 0; edits--) edit(broken, length, &random);
        gp_programs *it = NULL;
        gp_error err = {0};
        if (gp_programs_read(broken, "p.txt", &it, &err) != GP_OK) {
            refused++;
            assert_memory_equal(err.text, "p.txt:", 6);
            continue;
        }
        read++;
        if (gp_programs_validate(t.stages, it, &err) != GP_OK) assert_int_equal(err.status, GP_PROGRAM);
        check_round_trip(it);
    }
    assert_true(read > 400);
    assert_true(refused > 400);
    free(broken);
    free(text);
    gp_programs_destroy(&programs);
    toy_fini(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_round_trip),      cmocka_unit_test(every_field_round_trips),
        cmocka_unit_test(text_reads_well),           cmocka_unit_test(people_write_too),
        cmocka_unit_test(bad_texts_are_refused),     cmocka_unit_test(unused_fields_are_not_written),
        cmocka_unit_test(broken_texts_are_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
