/* What bounds the memory of this process: each of three limits, from files below a root folder of the test's own. */
#include "base/machine_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/roots.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

/* The linker wraps fopen: as if there were no /proc. */
static bool without_proc;
FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);

FILE *__wrap_fopen(const char *path, const char *mode) {
    return without_proc && strncmp(path, "/proc/", 6) == 0 ? NULL : __real_fopen(path, mode);
}

static void give_process(void) {
    char statm[64];
    give("/proc/meminfo", "MemTotal:        8388608 kB\nMemFree:  1024 kB\n");
    give("/proc/self/limits", "Limit                     Soft Limit           Hard Limit           Units     \n"
                              "Max resident set          unlimited            unlimited            bytes     \n"
                              "Max address space         unlimited            unlimited            bytes     \n");
    snprintf(statm, sizeof statm, "%zu %zu 403 375 5 0 123\n", 64 * MIB / (size_t)sysconf(_SC_PAGESIZE),
             16 * MIB / (size_t)sysconf(_SC_PAGESIZE));
    give("/proc/self/statm", statm);
}

static size_t left(gp_memory_limit limit) {
    gp_machine_memory memory;
    gp_machine_memory_read(root, &memory);
    return gp_machine_memory_left(&memory, limit);
}

static gp_memory_limit least(void) {
    gp_machine_memory memory;
    gp_machine_memory_read(root, &memory);
    return gp_machine_memory_least(&memory);
}

static void a_root_without_files_has_no_limit(void **state) {
    (void)state;
    for (int i = 0; i < GP_MEMORY_LIMITS; i++) assert_true(left((gp_memory_limit)i) == SIZE_MAX);
    assert_int_equal(gp_process_peak(root), 0);
}

static void physical_memory_is_what_the_machine_has(void **state) {
    (void)state;
    give_process();
    gp_machine_memory memory;
    assert_true(left(GP_LIMIT_PHYSICAL) == 8 * GIB - 16 * MIB);
    gp_machine_memory_read(root, &memory);
    assert_true(memory.available == SIZE_MAX); /* it does not say */
    give("/proc/meminfo", "MemTotal:        8388608 kB\nMemAvailable:  1024 kB\n");
    gp_machine_memory_read(root, &memory);
    assert_true(memory.available == MIB && left(GP_LIMIT_PHYSICAL) == 8 * GIB - 16 * MIB);
    assert_true(left(GP_LIMIT_CGROUP) == SIZE_MAX);
    assert_true(left(GP_LIMIT_ADDRESS_SPACE) == SIZE_MAX);
    assert_int_equal(least(), GP_LIMIT_PHYSICAL);
}

static void the_address_space_counts_what_is_mapped(void **state) {
    (void)state;
    give_process();
    give("/proc/self/limits", "Max address space         1073741824           unlimited            bytes     \n");
    assert_true(left(GP_LIMIT_ADDRESS_SPACE) == GIB - 64 * MIB);
    assert_int_equal(least(), GP_LIMIT_ADDRESS_SPACE);
    give("/proc/self/limits", "Max address space         1048576              unlimited            bytes     \n");
    assert_true(left(GP_LIMIT_ADDRESS_SPACE) == 0);
}

/* cgroup v2: a group's own limit is "max", and the one two above it bounds it. */
static void groups_of_v2_are_bounded_by_those_above(void **state) {
    (void)state;
    give_process();
    give("/proc/self/cgroup", "0::/user.slice/job/inner\n");
    give("/proc/self/mountinfo", "29 1 0:26 / /proc rw - proc proc rw\n"
                                 "30 23 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
    give("/sys/fs/cgroup/user.slice/job/inner/memory.max", "max\n");
    give("/sys/fs/cgroup/user.slice/job/memory.max", "3221225472\n");
    give("/sys/fs/cgroup/user.slice/memory.max", "2147483648\n");
    assert_true(left(GP_LIMIT_CGROUP) == 2 * GIB - 16 * MIB);
    assert_int_equal(least(), GP_LIMIT_CGROUP);
    give("/sys/fs/cgroup/user.slice/job/inner/memory.max", "1073741824\n");
    assert_true(left(GP_LIMIT_CGROUP) == GIB - 16 * MIB);
    /* Beside the mount lies no group, whatever stands there. */
    give("/sys/fs/memory.max", "1024\n");
    assert_true(left(GP_LIMIT_CGROUP) == GIB - 16 * MIB);
}

/* cgroup v1 beside v2, as systemd's hybrid has it; "unlimited" is a number that is larger than any memory. */
static void groups_of_v1_have_a_controller_of_their_own(void **state) {
    (void)state;
    give_process();
    give("/proc/self/cgroup", "9:name=systemd:/\n5:memory_other:/no\n4:cpu,memory:/job\n3:cpuset:/job\n0::/\n");
    give("/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
                                 "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
                                 "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,cpu,memory\n"
                                 "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    give("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    give("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "536870912\n");
    assert_true(left(GP_LIMIT_CGROUP) == 512 * MIB - 16 * MIB);
    give("/sys/fs/cgroup/unified/memory.max", "268435456\n");
    assert_true(left(GP_LIMIT_CGROUP) == 256 * MIB - 16 * MIB);
}

static void expect_group_left(size_t bytes) {
    gp_machine_memory memory;
    gp_machine_memory_read(root, &memory);
    assert_true(memory.group_left == bytes);
}

/* Whatever is in the group counts, but for pages of files that nobody reads; of several groups the fullest bounds. */
static void a_group_leaves_what_nobody_in_it_holds(void **state) {
    (void)state;
    give_process();
    expect_group_left(SIZE_MAX);
    give("/proc/self/cgroup", "0::/job/inner\n");
    give("/proc/self/mountinfo", "30 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    give("/sys/fs/cgroup/job/inner/memory.max", "max\n");
    expect_group_left(SIZE_MAX);
    give("/sys/fs/cgroup/job/memory.max", "1073741824\n");
    expect_group_left(0); /* what it holds is not known */
    give("/sys/fs/cgroup/job/memory.current", "805306368\n");
    expect_group_left(0);
    give("/sys/fs/cgroup/job/memory.stat", "anon 536870912\nactive_file 1024\ninactive_file 268435456\n");
    expect_group_left(512 * MIB);
    assert_true(left(GP_LIMIT_CGROUP) == GIB - 16 * MIB);
    give("/sys/fs/cgroup/job/inner/memory.max", "536870912\n");
    give("/sys/fs/cgroup/job/inner/memory.current", "4194304\n");
    give("/sys/fs/cgroup/job/inner/memory.stat", "inactive_file 0\n");
    expect_group_left(508 * MIB);
    give("/sys/fs/cgroup/job/memory.current", "2147483648\n");
    expect_group_left(0); /* the limit was lowered */
}

static void groups_of_v1_say_what_they_hold_in_other_files(void **state) {
    (void)state;
    give_process();
    give("/proc/self/cgroup", "4:memory:/job\n");
    give("/proc/self/mountinfo", "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    give("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    expect_group_left(SIZE_MAX);
    give("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "536870912\n");
    expect_group_left(0);
    give("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "402653184\n");
    give("/sys/fs/cgroup/memory/job/memory.stat", "inactive_file 1024\ntotal_inactive_file 134217728\n");
    expect_group_left(256 * MIB);
}

/* A container shows its own group as the top, and names it as the host does. */
static void a_container_shows_a_part_of_the_groups(void **state) {
    (void)state;
    give_process();
    give("/proc/self/cgroup", "4:memory:/docker/abc/inner\n");
    give("/proc/self/mountinfo",
         "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro master:9 - cgroup cgroup rw,memory\n");
    give("/sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
    give("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "134217728\n");
    assert_true(left(GP_LIMIT_CGROUP) == 128 * MIB - 16 * MIB);
    give("/proc/self/cgroup", "4:memory:/docker/abcdef\n");
    assert_true(left(GP_LIMIT_CGROUP) == 512 * MIB - 16 * MIB);
}

static void this_machine_says_what_it_has(void **state) {
    gp_machine_memory memory;
    (void)state;
    gp_machine_memory_read("", &memory);
    assert_in_range(memory.limit[GP_LIMIT_PHYSICAL], 16 * MIB, SIZE_MAX / 2);
    assert_in_range(memory.taken[GP_LIMIT_PHYSICAL], 100 * KIB, memory.limit[GP_LIMIT_PHYSICAL]);
    assert_in_range(memory.taken[GP_LIMIT_ADDRESS_SPACE], memory.taken[GP_LIMIT_PHYSICAL], SIZE_MAX / 2);
}

/* Physical memory and the limit of the address space are known, and nothing is known to be taken. */
static void without_proc_the_system_is_asked(void **state) {
    (void)state;
    gp_machine_memory without;
    struct rlimit before, limited;
    const rlim_t large = (rlim_t)1 << 60;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    limited = (struct rlimit){before.rlim_cur < large ? before.rlim_cur : large, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &limited), 0);
    without_proc = true;
    gp_machine_memory_read("", &without);
    size_t peak = gp_process_peak("");
    without_proc = false;
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_in_range(without.limit[GP_LIMIT_PHYSICAL], 16 * MIB, SIZE_MAX / 2);
    assert_true(without.limit[GP_LIMIT_ADDRESS_SPACE] == limited.rlim_cur);
    assert_true(without.limit[GP_LIMIT_CGROUP] == SIZE_MAX);
    for (int i = 0; i < GP_MEMORY_LIMITS; i++) assert_int_equal(without.taken[i], 0);
    assert_int_equal(peak, 0);
}

/* Holds so much for a moment. */
static void hold(size_t bytes) {
    char *block = malloc(bytes);
    assert_non_null(block);
    for (size_t i = 0; i < bytes; i += 1024) ((volatile char *)block)[i] = 1;
    free(block);
}

static void the_peak_is_this_process_s_and_can_begin_again(void **state) {
    (void)state;
    hold(64 * MIB);
    assert_in_range(gp_process_peak(""), 64 * MIB, SIZE_MAX / 2);
    gp_process_peak_reset();
    if (gp_process_peak("") >= 64 * MIB) skip(); /* the kernel was built without it */
    hold(32 * MIB);
    assert_in_range(gp_process_peak(""), 32 * MIB, 64 * MIB);
}

int main(void) {
#define WITH_ROOT(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)
    const struct CMUnitTest tests[] = {
        WITH_ROOT(a_root_without_files_has_no_limit),
        WITH_ROOT(physical_memory_is_what_the_machine_has),
        WITH_ROOT(the_address_space_counts_what_is_mapped),
        WITH_ROOT(groups_of_v2_are_bounded_by_those_above),
        WITH_ROOT(groups_of_v1_have_a_controller_of_their_own),
        WITH_ROOT(a_group_leaves_what_nobody_in_it_holds),
        WITH_ROOT(groups_of_v1_say_what_they_hold_in_other_files),
        WITH_ROOT(a_container_shows_a_part_of_the_groups),
        cmocka_unit_test(this_machine_says_what_it_has),
        cmocka_unit_test(without_proc_the_system_is_asked),
        cmocka_unit_test(the_peak_is_this_process_s_and_can_begin_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
