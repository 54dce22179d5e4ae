/* What a session does with GPUs before any is opened: which one plans are for, and what it asks other processes. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "cuda/host_api.h"
#include "device/cpu/cpu.h"
#include "device/cuda/cuda.h"
#include "process/loop_wire.h"
#include "session/fixture.h"
#include "session/sharing.h"

enum { PROCESSES = 3, TAG = 5, NONE = -2 };

static gp_cuda_api api;

/* ---- which GPU plans are for ------------------------------------------------------------------------------------- */

static int planned_for;

static void plan_for(int index) {
    planned_for = index;
}

static int open_at(const char *devices, int processes, int rank) {
    const int64_t samples[] = {50, 14};
    char override[200];
    gp_error err = {0};
    gp_session *session = NULL;
    snprintf(override, sizeof override, "pipeline.devices=%s", devices);
    gp_config *config = fixture_config(FIXTURE_CONFIG, FIXTURE_CHANGES(override));
    const gp_session_options options = {
        .processes = processes, .rank = rank, .data_samples = rank > 0 ? samples : NULL};
    planned_for = NONE;
    if (gp_session_open(&config, &options, &session, &err) != GP_OK) fail_msg("%s", err.text);
    gp_session_close(&session);
    return planned_for;
}

/* A process opens no GPU of another process, and one that has none opens none. */
static void plans_are_for_a_gpu_of_ones_own(void **state) {
    (void)state;
    api = gp_host_api;
    api.plan_for = plan_for;
    assert_int_equal(open_at("[cpu, cpu]", 0, 0), NONE);
    assert_int_equal(open_at("[cuda:3, cuda:1]", 0, 0), 3);
    assert_int_equal(open_at("[cpu, cuda:1]", 0, 0), 1);
    static const char three[] = "[{cuda:2: {rank: 1}}, {cpu: {rank: 0}}, {cuda:1: {rank: 1}}, {cuda:3: {rank: 2}}]";
    static const int own[] = {-1, 2, 3};
    for (int rank = 0; rank < 3; rank++) assert_int_equal(open_at(three, 3, rank), own[rank]);
}

/* ---- GPUs that processes share ----------------------------------------------------------------------------------- */

static gp_status find_address(int index, char text[GP_BUS_ADDRESS], gp_error *err) {
    if (index > 1) return gp_fail(err, GP_DEVICE, "cudaDeviceGetPCIBusId: invalid device ordinal");
    snprintf(text, GP_BUS_ADDRESS, "0000:%02d:00.0", 60 + index);
    return GP_OK;
}

typedef struct member {
    gp_wire *wire;
    const gp_cancel *cancel;
    gp_bus_addresses own;
    gp_status status;
    gp_error err;
} member;

static void *send(void *argument) {
    member *its = argument;
    its->status = gp_bus_addresses_gather(its->wire, TAG, &its->own, NULL, its->cancel, &its->err);
    return NULL;
}

static void ignore(void *context, int rank, const gp_error *cause) {
    (void)context;
    (void)rank;
    (void)cause;
}

/* A text without an end is ended. */
static void addresses_reach_process_0(void **state) {
    (void)state;
    static gp_bus_addresses own, all[PROCESSES];
    static member others[PROCESSES];
    pthread_t thread[PROCESSES];
    gp_cancel cancel;
    gp_error err = {0};
    assert_int_equal(gp_cancel_init(&cancel, &err), GP_OK);
    loop_hub *hub = loop_open(PROCESSES, 7, 100, ignore, NULL);
    api = gp_host_api;
    api.bus_address = find_address;
    gp_bus_addresses_find(&own);
    assert_string_equal(own.of[0], "0000:60:00.0");
    assert_string_equal(own.of[1], "0000:61:00.0");
    for (int i = 2; i < GP_BUS_ADDRESSES; i++) assert_string_equal(own.of[i], "");
    for (int p = 1; p < PROCESSES; p++) {
        others[p] = (member){.wire = loop_wire_of(hub, p), .cancel = &cancel};
        memset(&others[p].own, '0' + p, sizeof others[p].own);
        assert_int_equal(gp_thread_start(&thread[p], 0, send, &others[p]), 0);
    }
    if (gp_bus_addresses_gather(loop_wire_of(hub, 0), TAG, &own, all, &cancel, &err) != GP_OK) fail_msg("%s", err.text);
    for (int p = 1; p < PROCESSES; p++) {
        pthread_join(thread[p], NULL);
        assert_int_equal(others[p].status, GP_OK);
        for (int i = 0; i < GP_BUS_ADDRESSES; i++) {
            assert_int_equal(strlen(all[p].of[i]), GP_BUS_ADDRESS - 1);
            assert_int_equal(all[p].of[i][0], '0' + p);
        }
    }
    assert_memory_equal(&all[0], &own, sizeof own);
    loop_close(&hub);
    gp_cancel_fini(&cancel);
}

static void who_shares_a_gpu(void **state) {
    (void)state;
    static const gp_bus_addresses all[] = {{{"a", "b"}}, {{"b", "a"}}, {{"c"}}, {{""}}};
    static const int machines[] = {0, 0, 2, 2};
    const gp_device_kind *const gpu = &gp_cuda_kind, *const cpu = &gp_cpu_kind;
    static const struct {
        bool cpu;
        int index[2], process[2], found;
        bool apart;
    } cases[] = {
        {false, {0, 1}, {0, 1}, 0, false}, /* a launcher shows them in another order */
        {false, {0, 0}, {0, 1}, -1, false},   {false, {1, 0}, {0, 1}, 0, false},
        {false, {0, 0}, {0, 0}, -1, false}, /* workers of one process may share */
        {false, {0, 1}, {0, 1}, -1, true},  /* on two machines */
        {false, {5, 5}, {0, 1}, -1, false},   {false, {0, 0}, {3, 3}, -1, false},
        {false, {99, 99}, {0, 1}, -1, false}, {true, {0, 1}, {0, 1}, -1, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const gp_device_spec devices[] = {{.kind = cases[i].cpu ? cpu : gpu, .index = cases[i].index[0]},
                                          {.kind = cases[i].cpu ? cpu : gpu, .index = cases[i].index[1]}};
        static const int far[] = {0, 1, 2, 3};
        int other = -1;
        int found = gp_sharing_find(devices, 2, cases[i].process, cases[i].apart ? far : machines, all, &other);
        if (found != cases[i].found) fail_msg("case %zu: %d", i, found);
        if (found >= 0) assert_int_equal(other, 1);
    }
    const gp_device_spec devices[] = {{.kind = gpu}, {.kind = gpu, .index = 1}};
    int other = -1;
    assert_int_equal(gp_sharing_find(devices, 2, (const int[]){0, 1}, NULL, all, &other), 0);
}

typedef struct launch {
    gp_bus_addresses all[2];
    int asked;
} launch;

static gp_status tell_addresses(void *context, const gp_bus_addresses **out, gp_error *err) {
    launch *its = context;
    (void)err;
    its->asked++;
    *out = its->all;
    return GP_OK;
}

static gp_status open_shared(launch *its, const char *transport, bool shares, gp_session **out, gp_error *err) {
    static const int machines[] = {0, 0};
    char override[64];
    snprintf(override, sizeof override, "pipeline.transport=%s", transport);
    gp_config *config =
        fixture_config(FIXTURE_CONFIG, FIXTURE_CHANGES("pipeline.devices=[{cuda:0: {rank: 0}}, {cuda:0: {rank: 1}}]",
                                                       override, "changes={2: {optimizer.sgd.lr: 0.01}}"));
    const gp_helpers helpers = {.addresses = tell_addresses, .context = its};
    const gp_session_options options = {
        .processes = 2, .machines = machines, .helpers = its ? &helpers : NULL, .shares = shares};
    *err = (gp_error){0};
    return gp_session_open(&config, &options, out, err);
}

/* With `lines`, the plan's; with MPI, none. */
static bool plans_lines(launch *its, const char *transport, bool shares) {
    gp_error err;
    gp_session *session = NULL;
    if (open_shared(its, transport, shares, &session, &err) != GP_OK) fail_msg("%s", err.text);
    bool lines = session->plan->lines;
    if (its) assert_int_equal(session->options.shares, strcmp(its->all[0].of[0], its->all[1].of[0]) == 0);
    if (gp_session_change(session, &err) != GP_OK) fail_msg("%s", err.text);
    assert_int_equal(session->plan->lines, lines);
    gp_session_close(&session);
    return lines;
}

static gp_status comm_id(char id[GP_LINE_ID], gp_error *err) {
    (void)id;
    return gp_fail(err, GP_INTERNAL, "no run begins");
}

/* Whatever the indices say, process 0 asks, and the others hear it from process 0. */
static void a_shared_gpu_takes_mpi(void **state) {
    (void)state;
    launch apart = {.all = {{{"a"}}, {{"b"}}}}, together = {.all = {{{"a"}}, {{"a"}}}};
    gp_session *session = NULL;
    gp_error err;
    api = gp_host_api;
    api.comm_id = comm_id;
    assert_true(plans_lines(&apart, "auto", false));
    assert_false(plans_lines(&together, "auto", false));
    assert_true(apart.asked > 0 && together.asked > 0);
    assert_true(plans_lines(NULL, "auto", false));
    assert_false(plans_lines(NULL, "auto", true));
    assert_true(plans_lines(&apart, "nccl", false));
    assert_false(plans_lines(&apart, "mpi", false));
    assert_int_equal(open_shared(&together, "nccl", false, &session, &err), GP_CONFIG);
    assert_non_null(strstr(err.text, "pipeline.transport: nccl connects no processes on one GPU, but worker 0 of "
                                     "process 0 and worker 1 of process 1 are both on a; give each process a GPU of "
                                     "its own, or use auto or mpi"));
}

static int make(void **state) {
    gp_cuda = &api;
    return fixture_make(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(plans_are_for_a_gpu_of_ones_own),
                                       cmocka_unit_test(addresses_reach_process_0), cmocka_unit_test(who_shares_a_gpu),
                                       cmocka_unit_test(a_shared_gpu_takes_mpi)};
    return cmocka_run_group_tests(tests, make, fixture_remove);
}
