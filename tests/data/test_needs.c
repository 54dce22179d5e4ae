/* Lists of needed positions, against tables that are drawn at random (GPIPE_TEST_SEED chooses others). */
#include "data/needs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "size.h"

enum { SAMPLES = 29, TABLES = 400 };

typedef struct table {
    bool needed[2][SAMPLES]; /* inputs, targets */
} table;

/* One range is as long as it can be, but for a limit, so that ranges also meet. */
static gp_share next(const void *context, int64_t samples, bool target, int64_t from) {
    const bool *needed = ((const table *)context)->needed[target];
    int64_t first = from, end;
    while (first < samples && !needed[first]) first++;
    for (end = first; end < samples && needed[end] && end % 7 != 6;) end++;
    if (end < samples && end % 7 == 6 && needed[end]) end++;
    return (gp_share){first, end - first};
}

static void draw(table *out, uint32_t number) {
    for (int target = 0; target < 2; target++) {
        gp_philox odds = gp_philox_draw(1, (gp_philox){{number, (uint32_t)target, 1, 0}});
        for (uint32_t i = 0; i < SAMPLES; i++) {
            gp_philox word = gp_philox_draw((uint64_t)test_seed(), (gp_philox){{number, i, (uint32_t)target, 0}});
            out->needed[target][i] = word.word[0] % 4 < odds.word[0] % 5;
        }
    }
}

static void check(const table *its, int most) {
    const gp_needs needs = {next, its};
    bool seen[2][SAMPLES] = {{false}};
    int64_t from = 0;
    while (from < SAMPLES) {
        gp_position positions[SAMPLES];
        int64_t end, before = from - 1;
        int count = gp_needs_list(&needs, SAMPLES, from, most, positions, &end);
        assert_true(count <= most && end > from - (count == 0) && end <= SAMPLES);
        assert_true(count == most || end == SAMPLES);
        assert_true(count > 0 || from == 0); /* otherwise the call before would have said that nothing is left */
        for (int i = 0; i < count; before = positions[i++].at) {
            assert_true(positions[i].at > before && positions[i].at < end);
            assert_true(positions[i].input || positions[i].target);
            seen[0][positions[i].at] = positions[i].input;
            seen[1][positions[i].at] = positions[i].target;
        }
        from = end;
    }
    assert_memory_equal(seen, its->needed, sizeof seen);
    for (int target = 0; target < 2; target++)
        assert_int_equal(gp_needs_any(&needs, SAMPLES, target), memchr(its->needed[target], 1, SAMPLES) != NULL);
}

static void lists_what_is_needed(void **state) {
    (void)state;
    for (uint32_t i = 0; i < TABLES; i++) {
        table its;
        draw(&its, i);
        for (int most = 1; most <= SAMPLES; most += 4) check(&its, most);
    }
}

static void all_is_needed_without_a_function(void **state) {
    (void)state;
    const gp_needs all = {NULL, NULL};
    gp_position positions[4];
    int64_t end;
    assert_int_equal(gp_needs_list(&all, 6, 3, 4, positions, &end), 3);
    assert_int_equal(end, 6);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(positions[i].at, 3 + i);
        assert_true(positions[i].input && positions[i].target);
    }
    assert_true(gp_needs_any(&all, 1, true));
    assert_false(gp_needs_any(&all, 0, true));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_what_is_needed),
        cmocka_unit_test(all_is_needed_without_a_function),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
