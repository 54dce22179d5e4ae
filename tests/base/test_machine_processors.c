/* Which processors workers get, from files below a root folder of the test's own. */
#include "base/machine_processors.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/roots.h"

enum { GROUPS = 3 };

/* Bit p: processor p, for the first 64. */
static cpu_set_t set_of(uint64_t bits) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (size_t p = 0; p < 64; p++)
        if (bits >> p & 1) CPU_SET(p, &set);
    return set;
}

static bool divides(uint64_t allowed, const int threads[GROUPS], cpu_set_t share[GROUPS]) {
    const cpu_set_t set = set_of(allowed);
    return gp_processors_divide(root, &set, threads, GROUPS, share);
}

static void is_divided(uint64_t allowed, const int threads[GROUPS], const uint64_t expected[GROUPS]) {
    cpu_set_t share[GROUPS];
    assert_true(divides(allowed, threads, share));
    for (int i = 0; i < GROUPS; i++) {
        const cpu_set_t its = set_of(expected[i]);
        assert_true(CPU_EQUAL(&share[i], &its));
    }
}

static void is_too_much(uint64_t allowed, const int threads[GROUPS]) {
    cpu_set_t share[GROUPS];
    assert_false(divides(allowed, threads, share));
}

static void give_siblings(int processor, const char *list) {
    char name[96];
    snprintf(name, sizeof name, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", processor);
    give(name, list);
}

static void groups_have_processors_of_their_own(void **state) {
    (void)state;
    is_divided(0xff, (const int[]){2, 1, 3}, (const uint64_t[]){0x3, 0x4, 0x38});
    is_divided(0xff, (const int[]){2, 0, 1}, (const uint64_t[]){0x3, 0, 0x4});
    is_divided(0x7, (const int[]){1, 1, 1}, (const uint64_t[]){0x1, 0x2, 0x4});
}

static void only_allowed_processors_are_given(void **state) {
    (void)state;
    is_divided(0x8000000000000f50, (const int[]){1, 1, 4}, (const uint64_t[]){0x10, 0x40, 0xf00});
    is_too_much(0x50, (const int[]){1, 1, 1});
    is_too_much(0x7, (const int[]){4, 0, 0});
}

/* Four cores with two hardware threads each, numbered as Linux does it on Intel and AMD, and in pairs. */
static void each_core_comes_before_any_second_thread(void **state) {
    (void)state;
    for (int p = 0; p < 8; p++) {
        char list[16];
        snprintf(list, sizeof list, "%d,%d\n", p % 4, p % 4 + 4);
        give_siblings(p, list);
    }
    is_divided(0xff, (const int[]){2, 2, 1}, (const uint64_t[]){0x3, 0xc, 0x10});
    for (int p = 0; p < 8; p++) {
        char list[16];
        snprintf(list, sizeof list, "%d-%d\n", p / 2 * 2, p / 2 * 2 + 1);
        give_siblings(p, list);
    }
    is_divided(0xff, (const int[]){2, 2, 1}, (const uint64_t[]){0x5, 0x50, 0x2});
    /* Of the first core only the second thread is allowed. */
    is_divided(0xfe, (const int[]){1, 3, 1}, (const uint64_t[]){0x2, 0x54, 0x8});
}

static void a_quota_counts_in_whole_processors(void **state) {
    (void)state;
    give("/proc/self/cgroup", "0::/job/inner\n");
    give("/proc/self/mountinfo", "30 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    give("/sys/fs/cgroup/job/inner/cpu.max", "max 100000\n");
    give("/sys/fs/cgroup/job/cpu.max", "250000 100000\n");
    is_divided(0xff, (const int[]){1, 1, 0}, (const uint64_t[]){0x1, 0x2, 0});
    is_too_much(0xff, (const int[]){1, 1, 1});
    give("/sys/fs/cgroup/job/cpu.max", "max 100000\n");
    is_divided(0xff, (const int[]){1, 1, 1}, (const uint64_t[]){0x1, 0x2, 0x4});
}

static void a_quota_of_the_first_version_counts_too(void **state) {
    (void)state;
    give("/proc/self/cgroup", "5:cpuacct,cpu:/job\n0::/\n");
    give("/proc/self/mountinfo", "35 31 0:32 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n");
    give("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "50000\n");
    give("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "100000\n");
    is_divided(0xff, (const int[]){2, 0, 0}, (const uint64_t[]){0x3, 0, 0});
    is_too_much(0xff, (const int[]){3, 0, 0});
    give("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
    is_divided(0xff, (const int[]){3, 0, 0}, (const uint64_t[]){0x7, 0, 0});
}

static uint32_t spins(uint64_t allowed, int threads) {
    const cpu_set_t set = set_of(allowed);
    return gp_processors_spin(root, &set, threads);
}

/* As many threads as processors may spin, no more. */
static void threads_spin_if_each_has_a_processor(void **state) {
    (void)state;
    assert_true(spins(0xa5, 4) > 0);
    assert_int_equal(spins(0xa5, 5), 0);
    give("/proc/self/cgroup", "0::/job\n");
    give("/proc/self/mountinfo", "30 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    give("/sys/fs/cgroup/job/cpu.max", "250000 100000\n");
    assert_true(spins(0xa5, 2) > 0);
    assert_int_equal(spins(0xa5, 3), 0);
}

/* The affinity mask counts. */
static void this_machine_spins_likewise(void **state) {
    (void)state;
    cpu_set_t own, one;
    size_t first = 0;
    assert_int_equal(sched_getaffinity(0, sizeof own, &own), 0);
    assert_int_equal(gp_machine_spin(CPU_COUNT(&own) + 1), 0);
    if (CPU_COUNT(&own) < 2) skip();
    while (!CPU_ISSET(first, &own)) first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    uint32_t spin = gp_machine_spin(2);
    assert_int_equal(sched_setaffinity(0, sizeof own, &own), 0);
    assert_int_equal(spin, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(groups_have_processors_of_their_own, make_root, remove_root),
        cmocka_unit_test_setup_teardown(only_allowed_processors_are_given, make_root, remove_root),
        cmocka_unit_test_setup_teardown(each_core_comes_before_any_second_thread, make_root, remove_root),
        cmocka_unit_test_setup_teardown(a_quota_counts_in_whole_processors, make_root, remove_root),
        cmocka_unit_test_setup_teardown(a_quota_of_the_first_version_counts_too, make_root, remove_root),
        cmocka_unit_test_setup_teardown(threads_spin_if_each_has_a_processor, make_root, remove_root),
        cmocka_unit_test(this_machine_spins_likewise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
