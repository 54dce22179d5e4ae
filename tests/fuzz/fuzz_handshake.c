/* What processes say when they start: where process 0 listens, which processes share a machine, which addresses they
 * have, how long instructions should take. The input has these numbers, one after another; what it does not fill is
 * zeros. */
#include <math.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "process/handshake.h"
#include "train/opening_check.h"

enum { PROCESSES = 6, TIMES = 4 };

static void read_to(const uint8_t **at, size_t *left, void *to, size_t bytes) {
    size_t its = bytes < *left ? bytes : *left;
    memset(to, 0, bytes);
    if (its > 0) memcpy(to, *at, its);
    *at += its;
    *left -= its;
}

static void check_said(gp_status status, const gp_error *err) {
    FUZZ_PROMISE(status == GP_OK || err->text[0]);
}

static void check_machines(const int *machines) {
    int hosts = 0;
    for (int p = 0; p < PROCESSES; p++) {
        FUZZ_PROMISE(machines[p] >= 0 && machines[p] <= p && machines[machines[p]] == machines[p]);
        hosts += machines[p] == p;
    }
    FUZZ_PROMISE(hosts >= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    gp_guard_door door = {0};
    gp_guard_network networks[2];
    int machines[PROCESSES];
    double expected[TIMES];
    gp_error err = {0};
    read_to(&bytes, &size, machines, sizeof machines);
    read_to(&bytes, &size, expected, sizeof expected);
    read_to(&bytes, &size, &door.port, sizeof door.port);
    read_to(&bytes, &size, &door.count, sizeof door.count);
    for (int p = 0; p < 2; p++) read_to(&bytes, &size, &networks[p], sizeof networks[p]);
    gp_status status = gp_handshake_check_machines(machines, PROCESSES, &err);
    check_said(status, &err);
    if (status == GP_OK) check_machines(machines);
    status = gp_expected_check(expected, TIMES, &err);
    check_said(status, &err);
    for (int i = 0; i < TIMES && status == GP_OK; i++) FUZZ_PROMISE(isfinite(20 * expected[i]) && expected[i] >= 0);
    status = gp_handshake_check_door(&door, &err);
    check_said(status, &err);
    FUZZ_PROMISE(status != GP_OK || door.count >= 1);
    unsigned sum = 0, largest = 2 * GP_GUARD_ADDRESSES * 16 * UINT8_MAX;
    for (int a = 0; a < door.count && status == GP_OK; a++) sum += door.address[a][15];
    FUZZ_PROMISE(sum == 0);
    status = gp_handshake_check_networks(networks, 2, &err);
    check_said(status, &err);
    for (int p = 0; p < 2 && status == GP_OK; p++)
        for (int a = 0; a < networks[p].count; a++)
            for (int i = 0; i < 16; i++) sum += networks[p].address[a][i];
    FUZZ_PROMISE(sum <= largest);
    return 0;
}
