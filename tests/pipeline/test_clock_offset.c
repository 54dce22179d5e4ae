/* The offset of another clock: it lies in the range of each reading, and 0 where nothing speaks against it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pipeline/clock_offset.h"

enum { READINGS = 200 };

/* Readings of a clock that is `ahead`: messages take 20 µs and now and then much longer, in one direction. */
static gp_clock_range read_clock(int64_t ahead, int readings) {
    gp_clock_range range = gp_clock_range_open();
    uint64_t now = UINT64_C(7000000000), random = 12345;
    for (int i = 0; i < readings; i++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t there = 20000 + (random >> 60 == 0 ? 3000000 : random >> 52), back = 20000 + (random >> 45 & 0xfff);
        gp_clock_range_narrow(&range, now, now + there + (uint64_t)ahead, now + there + back);
        now += there + back + 1000;
    }
    return range;
}

static void one_reading_leaves_its_length_open(void **state) {
    (void)state;
    gp_clock_range range = gp_clock_range_open();
    gp_clock_range_narrow(&range, 1000, 51200, 1400);
    assert_true(range.least == 49800 && range.most == 50200);
    assert_int_equal(gp_clock_range_offset(&range), 50000);
}

static void the_offset_lies_in_all_ranges(void **state) {
    (void)state;
    static const int64_t ahead[] = {50000, -50000, INT64_C(86400000000000), -INT64_C(6999000000), 21000};
    for (size_t i = 0; i < sizeof ahead / sizeof *ahead; i++) {
        const gp_clock_range one = read_clock(ahead[i], 1), many = read_clock(ahead[i], READINGS);
        assert_true(many.least <= ahead[i] && ahead[i] <= many.most);
        assert_true(many.most - many.least < one.most - one.least);
        assert_in_range(many.most - many.least, 40000, 40400); /* the two fastest messages */
        int64_t wrong = gp_clock_range_offset(&many) - ahead[i];
        assert_true(wrong >= -200 && wrong <= 200);
    }
}

static void one_clock_has_no_offset(void **state) {
    (void)state;
    for (int readings = 1; readings <= READINGS; readings++) {
        const gp_clock_range range = read_clock(0, readings);
        assert_int_equal(gp_clock_range_offset(&range), 0);
    }
}

/* The clock has drifted so far that no offset fits all: the range stays one. */
static void readings_that_contradict_are_left_out(void **state) {
    (void)state;
    gp_clock_range range = gp_clock_range_open();
    gp_clock_range_narrow(&range, 1000, 51200, 1400);
    gp_clock_range_narrow(&range, 9000, 59900, 9400);
    assert_int_equal(gp_clock_range_offset(&range), 50000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_reading_leaves_its_length_open),
        cmocka_unit_test(the_offset_lies_in_all_ranges),
        cmocka_unit_test(one_clock_has_no_offset),
        cmocka_unit_test(readings_that_contradict_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
