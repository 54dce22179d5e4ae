/* What NVML says of this process's memory, with its calls answered by the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "device/cuda/toolkit/own_memory.h"

static struct {
    int device, processes; /* what the calls return */
    unsigned count;
    gp_nvml_process process[3];
} said;

static int find_device(const char *bus, void **out) {
    assert_string_equal(bus, "0000:1B:00.0");
    *out = &said;
    return said.device;
}

static int list_processes(void *device, unsigned *count, gp_nvml_process *out) {
    assert_ptr_equal(device, &said);
    assert_true(*count >= 3);
    memcpy(out, said.process, sizeof said.process);
    *count = said.count;
    return said.processes;
}

static size_t held(unsigned pid) {
    static const gp_nvml_calls nvml = {NULL, find_device, list_processes};
    return gp_nvml_held(&nvml, "0000:1B:00.0", pid);
}

static void test_held(void **state) {
    (void)state;
    memset(&said, 0, sizeof said);
    said.count = 3;
    said.process[0] = (gp_nvml_process){41, 1000, 0, 0};
    said.process[1] = (gp_nvml_process){42, 300, 0, 0};
    said.process[2] = (gp_nvml_process){42, 20, 1, 0};
    assert_int_equal(held(41), 1000);
    assert_int_equal(held(42), 320);
    assert_int_equal(held(43), 0);
    said.process[2].used = ~0ULL;
    assert_int_equal(held(42), 0);
    assert_int_equal(held(41), 1000);
    said.processes = 7;
    assert_int_equal(held(41), 0);
    said.processes = 0;
    said.device = 6;
    assert_int_equal(held(41), 0);
}

/* With a GPU or without one, asking again gives the same answer. */
static void test_opens_once(void **state) {
    (void)state;
    assert_ptr_equal(gp_nvml_open(), gp_nvml_open());
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_held), cmocka_unit_test(test_opens_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
