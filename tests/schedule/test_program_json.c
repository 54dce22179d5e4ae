#include "plan/program_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "plan/identity.h"
#include "plan/meets.h"
#include "plan/queues.h"
#include "schedule/toy_graph.h"

/* Forward 2, recompute 1, backward 3, a copy 0.5, all else nothing: sums are exact. */
static double duration(const void *context, int worker, size_t pc, const gp_instr *instr) {
    (void)context;
    (void)worker;
    (void)pc;
    switch (instr->op) {
    case GP_INSTR_FORWARD: return 2;
    case GP_INSTR_RECOMPUTE: return 1;
    case GP_INSTR_BACKWARD: return 3;
    case GP_INSTR_RECV: return 0.5;
    default: return 0;
    }
}

static size_t bytes_of(const void *context, const gp_instr *instr) {
    return *(const size_t *)context + instr->micro;
}

static gp_status follow(const void *context, int worker, size_t *bytes, gp_error *err) {
    (void)context;
    (void)err;
    for (size_t pc = 0; pc < 3; pc++) bytes[pc] = 10 * (size_t)worker + pc;
    return GP_OK;
}

/* Slots hold nothing up. */
static gp_waits *waits_of(const toy *t, const gp_programs *programs) {
    gp_waits *waits = NULL;
    gp_error err = {0};
    assert_int_equal(gp_waits_create(t->stages, programs, false, &waits, &err), GP_OK);
    return waits;
}

static char *write_json(const gp_program_json *its) {
    char *text = NULL;
    size_t bytes = 0;
    gp_error err = {0};
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    assert_int_equal(gp_program_json_write(its, out, &err), GP_OK);
    assert_int_equal(fclose(out), 0);
    return text;
}

/* Two stages, one micro-batch, evaluation: load, F and send on one worker; receive, load (of the target), F and, on the
 * last stage, nothing more. The receive begins when F has ended, at 2. */
static void a_small_program_to_the_letter(void **state) {
    (void)state;
    static const size_t bytes = 100;
    static const char wanted[] =
        "\"workers\":[{\"busy_ms\":2000,\"copy_ms\":0,\"instructions\":["
        "{\"name\":\"load s0 m0\",\"op\":\"load\",\"stage\":0,\"micro\":0,\"clock\":0,\"queue\":0,\"bytes\":100,"
        "\"start_ms\":0,\"end_ms\":0,\"bytes_alive\":0,\"waits\":[]},"
        "{\"name\":\"F s0 m0\",\"op\":\"F\",\"stage\":0,\"micro\":0,\"clock\":0,\"queue\":0,"
        "\"start_ms\":0,\"end_ms\":2000,\"bytes_alive\":1,\"waits\":[]},"
        "{\"name\":\"send s0 m0 e0\",\"op\":\"send\",\"stage\":0,\"micro\":0,\"clock\":0,\"queue\":0,\"edge\":0,"
        "\"bytes\":100,\"start_ms\":2000,\"end_ms\":2000,\"bytes_alive\":2,\"waits\":[]}]},"
        "{\"busy_ms\":2000,\"copy_ms\":500,\"instructions\":["
        "{\"name\":\"load s1 m0\",\"op\":\"load\",\"stage\":1,\"micro\":0,\"clock\":1,\"queue\":0,\"bytes\":100,"
        "\"start_ms\":0,\"end_ms\":0,\"bytes_alive\":10,\"waits\":[]},"
        "{\"name\":\"recv s1 m0 e0\",\"op\":\"recv\",\"stage\":1,\"micro\":0,\"clock\":1,\"queue\":0,\"edge\":0,"
        "\"bytes\":100,\"start_ms\":2000,\"end_ms\":2500,\"bytes_alive\":11,\"waits\":[[0,2]]},"
        "{\"name\":\"F s1 m0\",\"op\":\"F\",\"stage\":1,\"micro\":0,\"clock\":1,\"queue\":0,"
        "\"start_ms\":2500,\"end_ms\":4500,\"bytes_alive\":12,\"waits\":[]}]}]";
    toy t;
    toy_init_chain(&t, 2, false);
    gp_programs *programs = toy_programs(&t, (toy_run){1, GP_CHECKPOINT_NEVER, false, false});
    gp_waits *waits = waits_of(&t, programs);
    const gp_play_request request = {
        .stages = t.stages, .programs = programs, .waits = waits, .duration = duration, .timeline = true};
    gp_play *play = NULL;
    gp_error err = {0};
    assert_int_equal(gp_play_run(&request, &play, &err), GP_OK);
    gp_program_json json = {.played = &request,
                            .play = play,
                            .milliseconds = 1000,
                            .bytes = bytes_of,
                            .follow = follow,
                            .context = &bytes,
                            .instructions = true};
    char *text = write_json(&json);
    assert_string_equal(text, wanted);
    free(text);
    json.instructions = false;
    text = write_json(&json);
    assert_string_equal(text, "\"workers\":[{\"busy_ms\":2000,\"copy_ms\":0},{\"busy_ms\":2000,\"copy_ms\":500}]");
    free(text);
    gp_play_destroy(&play);
    gp_waits_destroy(&waits);
    gp_programs_destroy(&programs);
    toy_fini(&t);
}

/* ---- waits ------------------------------------------------------------------------------------------------------- */

/* What the JSON says of the n-th instruction of an operation on a worker: its waits. */
static void expect_waits(const char *text, const char *name, const char *wanted) {
    char from[64], found[128] = "";
    snprintf(from, sizeof from, "{\"name\":\"%s\"", name);
    const char *at = strstr(text, from);
    assert_non_null(at);
    at = strstr(at, "\"waits\":");
    assert_non_null(at);
    snprintf(found, sizeof found, "%.*s", (int)strcspn(at + 8, "}"), at + 8);
    assert_string_equal(found, wanted);
}

/* In clock 1 worker 1 receives micro-batch 0 from worker 0 before its barrier: worker 0 waits for that receive, and
 * worker 1, from which no worker receives, for nothing. If all meet, each waits for what stands before the other's. */
static void barriers_wait_for_whom_they_meet(void **state) {
    (void)state;
    toy t;
    gp_waits *waits = NULL, *meets = NULL;
    gp_play *play = NULL;
    gp_error err = {0};
    toy_init_chain(&t, 2, false);
    gp_programs *programs = toy_programs(&t, (toy_run){2, GP_CHECKPOINT_NEVER, true, false});
    assert_int_equal(gp_waits_create(t.stages, programs, true, &waits, &err), GP_OK);
    const gp_device_kind host = {.name = "host", .on_host = true};
    const gp_device_spec devices[] = {{.kind = &host}, {.kind = &host}};
    assert_int_equal(gp_meets_create(t.stages, programs, devices, &meets, &err), GP_OK);
    for (int all = 0; all < 2; all++) {
        const gp_play_request request = {.stages = t.stages,
                                         .programs = programs,
                                         .waits = waits,
                                         .meets = all ? NULL : meets,
                                         .duration = duration,
                                         .timeline = true};
        assert_int_equal(gp_play_run(&request, &play, &err), GP_OK);
        char *text =
            write_json(&(gp_program_json){.played = &request, .play = play, .milliseconds = 1, .instructions = true});
        char *second = strstr(text, "\"instructions\"");
        assert_non_null(second);
        second = strstr(second + 1, "\"instructions\"");
        assert_non_null(second);
        const gp_program *one = &programs->worker[1], *zero = &programs->worker[0];
        size_t recv = 0, before_zero = 0, before_one = 0;
        for (size_t pc = 0; pc < one->count; pc++) {
            if (one->instrs[pc].op == GP_INSTR_RECV && one->instrs[pc].micro == 0) recv = pc;
            if (one->instrs[pc].op == GP_INSTR_BARRIER && one->instrs[pc].clock == 1) before_one = pc - 1;
        }
        for (size_t pc = 0; pc < zero->count; pc++)
            if (zero->instrs[pc].op == GP_INSTR_BARRIER && zero->instrs[pc].clock == 1) before_zero = pc - 1;
        char wanted[64];
        snprintf(wanted, sizeof wanted, "[[1,%zu]]", all ? before_one : recv);
        expect_waits(text, "barrier, clock 1", wanted);
        snprintf(wanted, sizeof wanted, all ? "[[0,%zu]]" : "[]", before_zero);
        expect_waits(second, "barrier, clock 1", wanted);
        free(text);
        gp_play_destroy(&play);
    }
    gp_waits_destroy(&meets);
    gp_waits_destroy(&waits);
    gp_programs_destroy(&programs);
    toy_fini(&t);
}

/* Queues without marks: F of a device waits for the last of its copies that stand before it, a send for none. */
static void a_computation_waits_for_the_copies_before_it(void **state) {
    (void)state;
    toy t;
    gp_play *play = NULL;
    gp_error err = {0};
    toy_init_chain(&t, 2, false);
    gp_programs *programs = toy_programs(&t, (toy_run){2, GP_CHECKPOINT_NEVER, false, true});
    gp_waits *waits = waits_of(&t, programs);
    gp_play_request request = {
        .stages = t.stages, .programs = programs, .waits = waits, .duration = duration, .timeline = true};
    assert_int_equal(gp_play_run(&request, &play, &err), GP_OK);
    const gp_play_copies copies[] = {GP_PLAY_QUEUED, GP_PLAY_QUEUED};
    request.copies = copies;
    char *text =
        write_json(&(gp_program_json){.played = &request, .play = play, .milliseconds = 1, .instructions = true});
    /* Worker 0: load m0, F m0, send, load m1, F m1, send, receive of a gradient, B m1, receive, B m0. */
    expect_waits(text, "F s0 m0", "[[0,0]]");
    expect_waits(text, "F s0 m1", "[[0,3]]");
    expect_waits(text, "send s0 m1 e0", "[]");
    expect_waits(text, "B s0 m1", "[[0,3],[0,6]]");
    expect_waits(text, "B s0 m0", "[[0,3],[0,8]]");
    free(text);
    gp_play_destroy(&play);
    gp_waits_destroy(&waits);
    gp_programs_destroy(&programs);
    toy_fini(&t);
}

/* A transfer that needs no worker: the send says when it arrives, also where transfers share a channel. */
static double latency(const void *context, int worker, size_t pc, const gp_instr *instr) {
    (void)context;
    (void)worker;
    (void)pc;
    (void)instr;
    return 0.25;
}

static double posted_duration(const void *context, int worker, size_t pc, const gp_instr *instr) {
    if (instr->op == GP_INSTR_SEND) return 3;
    return instr->op == GP_INSTR_RECV ? 0 : duration(context, worker, pc, instr);
}

static void posted_sends_say_when_they_arrive(void **state) {
    (void)state;
    toy t;
    gp_play *play = NULL;
    gp_error err = {0};
    toy_init_chain(&t, 2, false);
    gp_programs *programs = toy_programs(&t, (toy_run){2, GP_CHECKPOINT_NEVER, false, false});
    const gp_play_copies copies[] = {GP_PLAY_POSTED, GP_PLAY_POSTED};
    gp_waits *waits = waits_of(&t, programs);
    const gp_play_request request = {.stages = t.stages,
                                     .programs = programs,
                                     .waits = waits,
                                     .copies = copies,
                                     .duration = posted_duration,
                                     .latency = latency,
                                     .channels = true,
                                     .timeline = true};
    assert_int_equal(gp_play_run(&request, &play, &err), GP_OK);
    char *text =
        write_json(&(gp_program_json){.played = &request, .play = play, .milliseconds = 1, .instructions = true});
    /* F ends at 2 and at 4. The first transfer has the channel from 2 to 5, the second from 5 to 8; each takes 0.25
     * more. */
    assert_non_null(strstr(text, "\"start_ms\":2,\"end_ms\":2,\"arrives_ms\":5.25,\"waits\":[]}"));
    assert_non_null(strstr(text, "\"start_ms\":4,\"end_ms\":4,\"arrives_ms\":8.25,\"waits\":[]}"));
    free(text);
    gp_play_destroy(&play);
    gp_waits_destroy(&waits);
    gp_programs_destroy(&programs);
    toy_fini(&t);
}

/* Instructions, and a quarter of the waits of barriers in which all meet: their pairs are short. */
static void size_counts_instructions_and_meetings(void **state) {
    (void)state;
    toy t;
    toy_init_chain(&t, 5, false);
    gp_programs *programs = toy_programs(&t, (toy_run){4, GP_CHECKPOINT_NEVER, true, true});
    size_t count = 0, barriers = 0;
    for (int w = 0; w < 5; w++)
        for (size_t pc = 0; pc < programs->worker[w].count; pc++) {
            count++;
            barriers += programs->worker[w].instrs[pc].op == GP_INSTR_BARRIER;
        }
    assert_true(barriers > 0);
    const gp_waits some = {0};
    assert_int_equal(gp_program_json_size(programs, &some), count);
    assert_int_equal(gp_program_json_size(programs, NULL), count + barriers);
    gp_programs_destroy(&programs);
    toy_fini(&t);
}

/* ---- identity ---------------------------------------------------------------------------------------------------- */

static void expect_other(const gp_programs *programs, uint64_t was) {
    assert_true(gp_identity_programs(0, programs) != was);
}

/* Each field of an instruction, and what the programs say of themselves, changes the identity; a copy has the same. */
static void every_field_counts(void **state) {
    (void)state;
    toy t;
    gp_error err = {0};
    toy_init_chain(&t, 3, true);
    gp_programs *programs = toy_programs(&t, (toy_run){2, GP_CHECKPOINT_EXCEPT_LAST, true, true}), *copy = NULL;
    uint64_t was = gp_identity_programs(0, programs);
    assert_int_equal(gp_programs_copy(programs, &copy, &err), GP_OK);
    assert_true(gp_identity_programs(0, copy) == was);
    gp_programs_destroy(&copy);
    assert_true(gp_identity_programs(1, programs) != was);
    for (size_t pc = 0; pc < programs->worker[1].count; pc++) {
        gp_instr *instr = &programs->worker[1].instrs[pc], kept = *instr;
        for (int field = 0; field < 8; field++) {
            bool copies = gp_instr_has_edge(&kept) || gp_instr_has_collective(&kept);
            if (field == 0) instr->op = (uint8_t)(kept.op == GP_INSTR_STEP ? GP_INSTR_NORM : GP_INSTR_STEP);
            if (field == 0 && copies) instr->op = kept.op == GP_INSTR_SEND ? GP_INSTR_RECV : GP_INSTR_SEND;
            if (field == 0 && gp_instr_has_collective(&kept))
                instr->op = kept.op == GP_INSTR_POST ? GP_INSTR_COLLECT : GP_INSTR_POST;
            if (field == 1) instr->flags ^= GP_INSTR_LAST;
            if (field == 2) instr->stage++;
            if (field == 3) instr->micro++;
            if (field == 4) instr->slot++;
            if (field == 5) instr->clock++;
            if (field == 6 && copies) instr->edge++;
            if (field == 6 && !copies) instr->work++;
            if (field == 7 && copies) instr->edge += 65536;
            if (field == 7 && !copies) instr->grad++;
            expect_other(programs, was);
            *instr = kept;
        }
    }
    programs->worker_of_stage[0]++;
    expect_other(programs, was);
    programs->worker_of_stage[0]--;
    programs->descending = !programs->descending;
    expect_other(programs, was);
    programs->descending = !programs->descending;
    programs->pieces++;
    expect_other(programs, was);
    programs->pieces--;
    programs->worker[1].count--;
    expect_other(programs, was);
    programs->worker[1].count++;
    assert_true(gp_identity_programs(0, programs) == was);
    gp_programs_destroy(&programs);
    toy_fini(&t);
}

/* The hash of a program that is known byte by byte, by an implementation of FNV-1a in Python: what is written today is
 * known tomorrow, and on every machine. */
static void an_identity_is_the_same_everywhere(void **state) {
    (void)state;
    int on[] = {0};
    gp_instr instrs[] = {
        {.op = GP_INSTR_FORWARD, .flags = GP_INSTR_KEEP, .stage = 0, .micro = 3, .slot = 2, .clock = 7},
        {.op = GP_INSTR_SEND, .micro = 3, .edge = 5, .clock = 258}};
    instrs[0].work = 1;
    instrs[0].grad = 4;
    gp_program program = {.instrs = instrs, .count = 2};
    const gp_programs programs = {.workers = 1, .worker = &program, .stages = 1, .worker_of_stage = on, .pieces = 9};
    assert_true(gp_identity_programs(0, &programs) == UINT64_C(0x7A896E15C6F10D9E));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_program_to_the_letter),
        cmocka_unit_test(barriers_wait_for_whom_they_meet),
        cmocka_unit_test(a_computation_waits_for_the_copies_before_it),
        cmocka_unit_test(posted_sends_say_when_they_arrive),
        cmocka_unit_test(size_counts_instructions_and_meetings),
        cmocka_unit_test(every_field_counts),
        cmocka_unit_test(an_identity_is_the_same_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
