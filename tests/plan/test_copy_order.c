/* Numbers of copies, how many are in flight, and the memory that this takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "device/ref/ref.h"
#include "pipeline/harness.h"
#include "pipeline/networks.h"
#include "plan/copy_order.h"

enum { PIECES = 4 };

/* One edge from worker 0 to worker 1; `waits`: which copy the sender sees pulled before each of its sends, or −1. */
static gp_copy_orders *orders_of(const uint16_t *sent, const uint16_t *received, const int *waits) {
    gp_instr instrs[2][PIECES] = {0};
    gp_wait items[PIECES] = {0};
    uint32_t first[2][PIECES + 1] = {0};
    for (int i = 0; i < PIECES; i++) {
        instrs[0][i] = (gp_instr){.op = GP_INSTR_SEND, .micro = sent[i]};
        instrs[1][i] = (gp_instr){.op = GP_INSTR_RECV, .stage = 1, .micro = received[i]};
        first[0][i + 1] = first[0][i] + (waits[i] >= 0);
        if (waits[i] >= 0) items[first[0][i]] = (gp_wait){.micro = (uint16_t)waits[i], .kind = GP_WAIT_PULLED};
    }
    gp_program workers[2] = {{.instrs = instrs[0], .count = PIECES}, {.instrs = instrs[1], .count = PIECES}};
    gp_programs programs = {.workers = 2, .worker = workers, .pieces = PIECES};
    gp_worker_waits worker_waits[2] = {{.first = first[0], .items = items}, {.first = first[1]}};
    gp_waits all = {2, worker_waits};
    gp_stages stages = {.edge_count = 1};
    gp_mini_plan mini = {.pieces = PIECES, .programs = &programs, .waits = &all};
    gp_plan plan = {.stages = &stages, .minis = &mini, .mini_count = 1};
    gp_copy_orders *orders = NULL;
    assert_int_equal(gp_copy_orders_create(&plan, &orders, NULL), GP_OK);
    for (int i = 0; i < PIECES; i++) {
        assert_int_equal(gp_copy_number(orders, 0, 0, false, sent[i]), i);
        assert_int_equal(gp_copy_number(orders, 0, 0, true, received[i]), i);
    }
    return orders;
}

static void expect(const uint16_t *sent, const uint16_t *received, const int *waits, int in_flight, int tables) {
    gp_copy_orders *orders = orders_of(sent, received, waits);
    assert_int_equal(orders->in_flight[0], in_flight);
    assert_int_equal((orders->order[0].number != NULL) + (orders->order[1].number != NULL), tables);
    gp_copy_orders_destroy(&orders);
}

static const uint16_t rising[] = {0, 1, 2, 3}, falling[] = {3, 2, 1, 0}, mixed[] = {0, 2, 1, 3}, other[] = {2, 0, 3, 1};

static void copies_are_counted_in_any_order(void **state) {
    (void)state;
    const int none[] = {-1, -1, -1, -1};
    expect(rising, rising, none, PIECES, 0);
    expect(falling, falling, none, PIECES, 0);
    expect(rising, falling, none, PIECES, 0);
    expect(mixed, mixed, none, PIECES, 2);
    expect(rising, other, none, PIECES, 1);
}

static void what_was_pulled_is_not_in_flight(void **state) {
    (void)state;
    const int two_slots[] = {-1, -1, 0, 1}, two_falling[] = {-1, -1, 3, 2}, two_mixed[] = {-1, -1, 0, 2};
    const int later_shows_earlier[] = {-1, -1, -1, 2}, from_one[] = {-1, 0, 1, 2};
    expect(rising, rising, two_slots, 2, 0);
    expect(falling, falling, two_falling, 2, 0);
    expect(mixed, mixed, two_mixed, 2, 2);
    expect(rising, rising, from_one, 1, 0);
    expect(rising, rising, later_shows_earlier, 3, 0);
    /* The receiver has another order: what it has pulled by then is not the first copies that were sent. */
    expect(rising, mixed, two_slots, PIECES, 1);
    expect(rising, falling, two_slots, PIECES, 0);
}

/* Without frames for each micro-batch, four times as many cost nothing. */
static void memory_follows_what_is_in_flight(void **state) {
    (void)state;
    static const int64_t cut[] = {2, 6, 9};
    harness_options options = {.model = network_skips,
                               .layers = cut,
                               .stages = 3,
                               .schedule = {.kind = GP_SCHEDULE_1F1B},
                               .kind = &gp_ref_kind,
                               .real = GP_F32};
    size_t bytes[2];
    gp_error err = {0};
    for (int i = 0; i < 2; i++) {
        harness h;
        options.micro_batches = i ? 64 : 16;
        options.batch = options.micro_batches;
        harness_plan(&h, &options);
        assert_int_equal(gp_run_bytes(h.plan, &bytes[i], &err), GP_OK);
        harness_end(&h);
    }
    assert_int_equal(bytes[0], bytes[1]);
    assert_in_range(bytes[0], 1000, 20000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_counted_in_any_order),
        cmocka_unit_test(what_was_pulled_is_not_in_flight),
        cmocka_unit_test(memory_follows_what_is_in_flight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
