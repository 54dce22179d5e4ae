/* What planning is said to take before it is done, and what it takes: instructions exactly, bytes within a factor. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "device/ref/ref.h"
#include "pipeline/harness.h"
#include "pipeline/networks.h"
#include "plan/plan_size.h"
#include "schedule/schedule_file.h"

/* ---- bytes in use, counted at each call (the linker wraps them) ---------------------------------------------------
 */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *block, size_t bytes);
void __real_free(void *block);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);
void __wrap_free(void *block);

static int64_t in_use, most_in_use;

static void *count(void *block) {
    in_use += (int64_t)malloc_usable_size(block);
    if (in_use > most_in_use) most_in_use = in_use;
    return block;
}

void *__wrap_malloc(size_t bytes) {
    return count(__real_malloc(bytes));
}

void *__wrap_calloc(size_t number, size_t bytes) {
    return count(__real_calloc(number, bytes));
}

void *__wrap_realloc(void *block, size_t bytes) {
    in_use -= (int64_t)malloc_usable_size(block);
    return count(__real_realloc(block, bytes));
}

void __wrap_free(void *block) {
    in_use -= (int64_t)malloc_usable_size(block);
    __real_free(block);
}

#define MIB ((size_t)1 << 20)

/* ---- plans --------------------------------------------------------------------------------------------------------
 */

static uint64_t count_instructions(const gp_plan *plan) {
    uint64_t sum = 0;
    for (int m = 0; m < plan->mini_count; m++)
        for (int w = 0; w < plan->workers; w++) sum += plan->minis[m].programs->worker[w].count;
    return sum;
}

static const int64_t ones[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

static const gp_schedule schedules[] = {
    {.kind = GP_SCHEDULE_GPIPE, .chunks = 1},       {.kind = GP_SCHEDULE_1F1B, .chunks = 1},
    {.kind = GP_SCHEDULE_INTERLEAVED, .chunks = 2}, {.kind = GP_SCHEDULE_ZB_H1, .chunks = 1},
    {.kind = GP_SCHEDULE_ZB_H2, .chunks = 1},       {.kind = GP_SCHEDULE_ZB_V, .chunks = 2}};

static void expect_exact(const harness_options *options, int way) {
    harness h;
    harness_plan(&h, options);
    gp_plan_size size = gp_plan_estimate(h.plan);
    if (size.instructions != count_instructions(h.plan))
        fail_msg("schedule %d, way %d: %llu instead of %llu", options->schedule.kind, way,
                 (unsigned long long)size.instructions, (unsigned long long)count_instructions(h.plan));
    harness_end(&h);
}

/* The same with replicas, of the first stages, the last ones, and all. */
static void instructions_of_replicas_are_exact(void **state) {
    (void)state;
    static const int64_t layers[] = {5, 4, 4, 4};
    static const int replicas[][4] = {{2, 1, 1, 1}, {1, 2, 1, 3}, {3, 2, 2, 2}};
    for (size_t s = 0; s < sizeof schedules / sizeof *schedules; s++)
        for (int way = 0; way < 48; way++) {
            bool empty = way / 24; /* shares, of the last replica */
            harness_options options = {.model = network_skips,
                                       .layers = layers,
                                       .stages = 4,
                                       .schedule = schedules[s],
                                       .replicas = replicas[way % 3],
                                       .shard_optimizer = way / 12 % 2,
                                       .kind = &gp_ref_kind,
                                       .checkpoint = (gp_checkpoint_mode)(way % 12 / 4),
                                       .lockstep = schedules[s].kind == GP_SCHEDULE_GPIPE && way % 2,
                                       .micro_batches = 3,
                                       .batch = empty ? 12 : 24,
                                       .last = empty ? 10 : 15,
                                       .evaluation = empty ? 3 : 18,
                                       .norms = way / 6 % 2};
            expect_exact(&options, way);
        }
}

/* Every schedule, mode and kind of mini-batch, with skips, norms and uneven micro-batches. */
static void instructions_are_exact(void **state) {
    (void)state;
    static const int64_t two[] = {8, 9}, four[] = {5, 4, 4, 4};
    for (size_t s = 0; s < sizeof schedules / sizeof *schedules; s++)
        for (int way = 0; way < 24; way++) {
            bool gpipe = schedules[s].kind == GP_SCHEDULE_GPIPE, few = way % 2 && schedules[s].chunks == 1;
            harness_options options = {.model = network_skips,
                                       .layers = few ? two : four,
                                       .stages = few ? 2 : 4,
                                       .schedule = schedules[s],
                                       .kind = &gp_ref_kind,
                                       .checkpoint = (gp_checkpoint_mode)(way % 3),
                                       .lockstep = gpipe && way % 4 < 2,
                                       .micro_batches = 5,
                                       .batch = way / 12 ? 3 : 17,
                                       .last = 7,
                                       .evaluation = 4,
                                       .norms = way / 6 % 2};
            expect_exact(&options, way);
        }
}

/* Its order, in which some backwards are whole and some are not, and only the micro-batches that are there. */
static void instructions_of_a_file_are_exact(void **state) {
    (void)state;
    char path[] = "/tmp/gp-test-plan-size-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    fputs("F0 F1 F2 I0 W0 B1 I2 W2\nF0 I0 F1 W0 B1 F2 I2 W2\n", file);
    fclose(file);
    gp_schedule schedule = {.kind = GP_SCHEDULE_FILE, .chunks = 1};
    gp_schedule_file *read = NULL;
    gp_error err = {0};
    gp_status status = gp_schedule_file_read(path, (gp_place){0}, NULL, &read, &err);
    unlink(path);
    if (status != GP_OK) fail_msg("%s", err.text);
    schedule.file = read;
    for (int pieces = 1; pieces <= 3; pieces++) {
        harness h;
        harness_options options = {.model = network_skips,
                                   .layers = (const int64_t[]){8, 9},
                                   .stages = 2,
                                   .schedule = schedule,
                                   .kind = &gp_ref_kind,
                                   .checkpoint = GP_CHECKPOINT_EXCEPT_LAST,
                                   .micro_batches = pieces,
                                   .batch = 6};
        harness_plan(&h, &options);
        assert_int_equal(gp_plan_estimate(h.plan).instructions, count_instructions(h.plan));
        harness_end(&h);
    }
    gp_schedule_file_destroy(&read);
}

/* A chain with a stage for each layer, so that nearly all bytes are of instructions. */
static const char *chain(int layers) {
    static char text[1000];
    int used = snprintf(text, sizeof text, "input: {shape: [2]}\nloss: mse\nlayers: [relu");
    for (int i = 1; i < layers; i++) used += snprintf(text + used, sizeof text - (size_t)used, ", relu");
    snprintf(text + used, sizeof text - (size_t)used, "]\n");
    return text;
}

static gp_status turns(gp_stream *stream, gp_error *err) {
    (void)stream;
    (void)err;
    return GP_OK;
}

/* On devices that are the host, that copy beside it, and whose steps begin while one is under way. */
static void bytes_are_near(void **state) {
    (void)state;
    enum { STAGES = 16, MICRO_BATCHES = 1024 };
    gp_device_kind away = gp_ref_kind, works_on = gp_ref_kind;
    away.on_host = works_on.on_host = false;
    works_on.stream_turn = turns;
    const gp_device_kind *kinds[] = {&gp_ref_kind, &away, &works_on};
    for (int way = 0; way < 12; way++) {
        harness h;
        harness_options options = {.model = chain(STAGES),
                                   .layers = ones,
                                   .stages = STAGES,
                                   .schedule = {.kind = way % 2 ? GP_SCHEDULE_ZB_H1 : GP_SCHEDULE_GPIPE, .chunks = 1},
                                   .kind = kinds[way / 4],
                                   .checkpoint = way % 4 < 2 ? GP_CHECKPOINT_ALWAYS : GP_CHECKPOINT_NEVER,
                                   .lockstep = way % 4 == 0,
                                   .micro_batches = MICRO_BATCHES,
                                   .batch = MICRO_BATCHES,
                                   .evaluation = way / 2 % 2 ? MICRO_BATCHES : 0};
        int64_t before = in_use;
        most_in_use = in_use;
        harness_plan(&h, &options);
        int64_t taken = most_in_use - before, said = (int64_t)gp_plan_estimate(h.plan).bytes;
        printf("way %d: %lld bytes were taken, %lld said, %.2f\n", way, (long long)taken, (long long)said,
               (double)taken / (double)said);
        assert_true(taken < said * 3 / 2 && said < taken * 3 / 2);
        harness_end(&h);
    }
}

static void expect_refused(const gp_plan *plan, const gp_machine_memory *machine, const char *limit) {
    gp_error err = {0};
    char sentence[400], needed[32];
    size_t bytes = (size_t)gp_plan_estimate(plan).bytes;
    assert_int_equal(gp_plan_check_size(plan, machine, &err), GP_UNSUPPORTED);
    snprintf(sentence, sizeof sentence,
             "planning 4 micro-batches on 2 stages needs %s more memory for %llu instructions, but %s",
             gp_bytes_text(needed, bytes), (unsigned long long)count_instructions(plan), limit);
    if (strncmp(err.text, sentence, strlen(sentence)) != 0) fail_msg("%s", err.text);
}

static void too_large_a_plan_is_refused(void **state) {
    (void)state;
    harness h;
    gp_error err = {0};
    harness_options options = {.model = network_skips,
                               .layers = (const int64_t[]){8, 9},
                               .stages = 2,
                               .kind = &gp_ref_kind,
                               .checkpoint = GP_CHECKPOINT_ALWAYS,
                               .micro_batches = 4,
                               .batch = 8};
    harness_plan(&h, &options);
    size_t bytes = (size_t)gp_plan_estimate(h.plan).bytes;
    gp_machine_memory machine = {.limit = {SIZE_MAX, SIZE_MAX, SIZE_MAX}, .taken = {MIB, MIB, 2 * MIB}};
    assert_int_equal(gp_plan_check_size(h.plan, NULL, &err), GP_OK);
    assert_int_equal(gp_plan_check_size(h.plan, &machine, &err), GP_OK);
    machine.limit[GP_LIMIT_PHYSICAL] = MIB + bytes;
    assert_int_equal(gp_plan_check_size(h.plan, &machine, &err), GP_OK);
    machine.limit[GP_LIMIT_PHYSICAL]--;
    expect_refused(h.plan, &machine, "the machine's memory, 1.00 MiB in all, has ");
    machine.limit[GP_LIMIT_ADDRESS_SPACE] = 2 * MIB + 1024;
    expect_refused(h.plan, &machine,
                   "the address space (RLIMIT_AS, ulimit -v), 2.00 MiB in all, has 1.00 KiB left; fewer micro-batches "
                   "or stages need less");
    machine.limit[GP_LIMIT_ADDRESS_SPACE] = 2 * MIB; /* nothing left is no freedom from limits */
    expect_refused(h.plan, &machine, "the address space (RLIMIT_AS, ulimit -v), 2.00 MiB in all, has 0 B left; ");
    harness_end(&h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions_are_exact),           cmocka_unit_test(instructions_of_replicas_are_exact),
        cmocka_unit_test(instructions_of_a_file_are_exact), cmocka_unit_test(bytes_are_near),
        cmocka_unit_test(too_large_a_plan_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
