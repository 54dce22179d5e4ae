/* Which times a session plans with: kept, measured, scaled or counted ones; and what it leaves for later sessions. No
 * result depends on how long anything takes. */
#include "session/session.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "balance/expect.h"
#include "device/cpu/cpu.h"
#include "profile/profile_file.h"
#include "profile/profile_kept.h"
#include "profile/profile_words.h"
#include "profile/rates_measure.h"
#include "report/balance_report.h"
#include "session/fixture.h"

static const gp_device_spec cpu = {.kind = &gp_cpu_kind, .threads = 1};

/* Nothing is kept yet. */
static void use_new_cache(void) {
    setenv("XDG_CACHE_HOME", fixture_new_folder(), 1);
}

static bool has_rates(gp_rates *out) {
    gp_error err = {0};
    bool found = false;
    assert_int_equal(gp_rates_find(&cpu, out, &found, &err), GP_OK);
    return found;
}

/* The kept profile of the rates, as measured on a machine at another time that computes slowly, and moves memory slowly
 * or at once. */
static void slow_down_rates(bool memory) {
    glob_t found;
    char pattern[500];
    gp_profile *profile = NULL;
    gp_error err = {0};
    snprintf(pattern, sizeof pattern, "%s/gpipe/rates/*.json", getenv("XDG_CACHE_HOME"));
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    assert_int_equal(gp_profile_read(found.gl_pathv[0], &profile, &err), GP_OK);
    for (int i = 0; i < profile->layer_count; i++)
        for (int t = 0; t < GP_PROFILE_TIMES; t++)
            profile->devices[0].layers[i].time[t] = memory || i == 3 || i == 5 ? 5e3 : 1e-6 * (i + 1);
    profile->devices[0].slowdown = 1; /* those that were disturbed are not used for long */
    profile->devices[0].spread = 0;
    profile->taken = 1763838164;
    assert_int_equal(gp_profile_keep(profile, found.gl_pathv[0], &err), GP_OK);
    gp_profile_destroy(&profile);
    globfree(&found);
}

static gp_session *open_with(const gp_session_options *options, const char *const *changes) {
    gp_config *config = fixture_config(FIXTURE_CONFIG, changes);
    gp_session *session = NULL;
    gp_error err = {0};
    if (gp_session_open(&config, options, &session, &err) != GP_OK) fail_msg("%s", err.text);
    return session;
}

/* As gpipe-balance opens it. */
static gp_session *balance(void) {
    return open_with(&(gp_session_options){.balances = true, .profiling = GP_PROFILING_MEASURE, .seconds = 0.01}, NULL);
}

static gp_session *find(const char *const *changes) {
    return open_with(&(gp_session_options){.profiling = GP_PROFILING_FIND}, changes);
}

static void rates_are_used_if_there_are_some(void **state) {
    (void)state;
    gp_rates rates;
    gp_error err = {0};
    use_new_cache();
    gp_session *session = find(NULL);
    assert_null(session->profile);
    gp_session_close(&session);
    assert_int_equal(gp_rates_measure(&cpu, false, 1e-9, NULL, &rates, &err), GP_OK);
    slow_down_rates(true);
    session = find(NULL);
    assert_true(session->profile && gp_profile_is_counted(session->profile));
    gp_expectation assumed, measured;
    assert_int_equal(gp_expect(session->plan, 0, NULL, &assumed, &err), GP_OK);
    assert_int_equal(gp_expect(session->plan, 0, session->profile, &measured, &err), GP_OK);
    assert_true(measured.seconds > 1000 * assumed.seconds);
    free(assumed.busy);
    free(measured.busy);
    char *source = NULL;
    assert_int_equal(gp_profile_source(session->profile, &source, &err), GP_OK);
    assert_string_equal(source, "counted, with this machine's measured rates of 2025-11-22; no profile fits");
    free(source);
    gp_session_close(&session);
    session = fixture_session(NULL); /* one that uses no times */
    assert_null(session->profile);
    gp_session_close(&session);
}

/* Gives the kept profile this slowdown and age. */
static void spoil(const gp_session *session, double slowdown, int64_t age) {
    gp_profile *profile = NULL;
    gp_error err = {0};
    assert_int_equal(gp_profile_read(session->profile->path, &profile, &err), GP_OK);
    profile->devices[0].slowdown = slowdown;
    profile->devices[0].spread = 0;
    profile->taken = (int64_t)time(NULL) - age;
    assert_int_equal(gp_profile_keep(profile, session->profile->path, &err), GP_OK);
    gp_profile_destroy(&profile);
}

static void a_slowed_profile_is_measured_again(void **state) {
    static const struct {
        double slowdown;
        int64_t age;
        bool again;
    } cases[] = {{900, 3600, true}, {900, 60, false}, {1.1, 3600, false}};
    (void)state;
    use_new_cache();
    gp_session *session = balance();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        spoil(session, cases[i].slowdown, cases[i].age);
        gp_session_close(&session);
        session = balance();
        assert_int_equal(session->measured.rounds > 0, cases[i].again);
        assert_int_equal(gp_profile_slowdown(session->profile) == cases[i].slowdown, !cases[i].again);
    }
    gp_session_close(&session);
}

/* Planning measures nothing: it uses a disturbed profile as long as what disturbed it may still run, to predict and not
 * to choose. Later it counts, for any size of micro-batch, and says why. */
static void a_disturbed_profile_chooses_nothing(void **state) {
    (void)state;
    gp_error err = {0};
    const char *const *mixed =
        FIXTURE_CHANGES("model.layers=[flatten, linear: 3, relu, relu, relu]", "pipeline.micro_batches=4");
    use_new_cache();
    gp_session *counted = find(mixed);
    gp_session *session =
        open_with(&(gp_session_options){.balances = true, .profiling = GP_PROFILING_MEASURE, .seconds = 0.01}, mixed);
    gp_profile *profile = NULL;
    for (int disturbed = 0; disturbed < 2; disturbed++) {
        assert_int_equal(gp_profile_read(session->profile->path, &profile, &err), GP_OK);
        for (int i = 0; i < profile->layer_count; i++)
            for (int t = 0; t < GP_PROFILE_TIMES; t++)
                profile->devices[0].layers[i].time[t] = i == 4 ? 1 : 1e-6; /* the last layer takes longest */
        profile->devices[0].slowdown = disturbed ? 2.26 : 1;
        profile->devices[0].spread = 0;
        profile->taken = (int64_t)time(NULL) - 60;
        assert_int_equal(gp_profile_keep(profile, session->profile->path, &err), GP_OK);
        gp_profile_destroy(&profile);
        gp_session *found = find(mixed);
        assert_false(gp_profile_is_counted(found->profile));
        assert_int_equal(found->layers[0], disturbed ? counted->layers[0] : 4);
        gp_session_close(&found);
    }
    assert_true(counted->layers[0] != 4);
    spoil(session, 2.26, 45 * 60);
    for (int other = 0; other < 2; other++) {
        gp_session *found = find(
            other ? FIXTURE_CHANGES("model.layers=[flatten, linear: 3, relu, relu, relu]", "pipeline.micro_batches=8")
                  : mixed);
        assert_true(gp_profile_is_counted(found->profile));
        char *source = NULL;
        assert_int_equal(gp_profile_source(found->profile, &source, &err), GP_OK);
        assert_int_equal(strstr(source,
                                "; the kept profile is not used: other programs disturbed it when it was measured "
                                "(slowdown 2.26); gpipe-balance measures one") != NULL,
                         !other);
        free(source);
        gp_session_close(&found);
    }
    gp_session_close(&session);
    gp_session_close(&counted);
}

static void balancing_leaves_rates_and_a_profile(void **state) {
    (void)state;
    gp_rates rates;
    use_new_cache();
    gp_session *session = balance();
    assert_true(session->measured.rounds > 0 && session->profile->path && session->profile->taken > 0);
    assert_true(has_rates(&rates) && !rates.brief);
    gp_session_close(&session);
    session = find(NULL);
    assert_false(gp_profile_is_counted(session->profile));
    assert_int_equal(session->profile->scaled, 0);
    gp_session_close(&session);
}

/* A run measures rates, though its balance is given: brief ones if it is short. Planning measures nothing, and uses
 * them. A run without steps needs none. */
static void a_run_leaves_rates(void **state) {
    (void)state;
    const gp_session_options run = {.profiling = GP_PROFILING_MEASURE};
    const char *const *without_end = FIXTURE_CHANGES("pipeline.balance=[3, 5]", "train.epochs=100000000");
    gp_rates rates;
    use_new_cache();
    gp_session *session = find(without_end);
    assert_null(session->profile);
    assert_false(has_rates(&rates));
    gp_session_close(&session);
    session = open_with(&run, FIXTURE_CHANGES("pipeline.balance=[3, 5]"));
    assert_true(session->profile && gp_profile_is_counted(session->profile));
    assert_true(session->profile->devices[0].rates.brief && has_rates(&rates) && rates.brief);
    gp_session_close(&session);
    session = find(without_end);
    assert_true(session->profile && session->profile->devices[0].rates.brief);
    gp_session_close(&session);
    session = open_with(&run, without_end);
    assert_false(session->profile->devices[0].rates.brief);
    assert_true(has_rates(&rates) && !rates.brief);
    gp_session_close(&session);
}

/* The cut of the first run is that of a machine without rates, whatever it measures. */
static void brief_rates_cut_nothing(void **state) {
    (void)state;
    gp_rates rates;
    gp_error err = {0};
    /* Convolutions with few bytes, and a layer with many. */
    const char *const *mixed = FIXTURE_CHANGES(
        "model.layers=[conv: {out: 64, kernel: 5, pad: 2}, conv: {out: 64, kernel: 5, pad: 2}, conv: {out: 64, kernel: "
        "5, pad: 2}, conv: {out: 64, kernel: 5, pad: 2}, flatten, linear: 2000, linear: 3]");
    for (int brief = 0; brief < 2; brief++) {
        use_new_cache();
        gp_session *assumed = find(mixed);
        assert_int_equal(gp_rates_measure(&cpu, brief, 1e-9, NULL, &rates, &err), GP_OK);
        slow_down_rates(false);
        gp_session *session = find(mixed);
        assert_true(session->profile && session->profile->devices[0].rates.brief == brief);
        assert_int_equal(session->layers[0] == assumed->layers[0], brief);
        gp_session_close(&session);
        gp_session_close(&assumed);
    }
}

/* Each layer keeps the ratio of its measured time to its counted one. */
static void other_micro_batches_are_scaled(void **state) {
    (void)state;
    char *source = NULL, wanted[400];
    gp_error err = {0};
    use_new_cache();
    gp_session *session = balance();
    snprintf(wanted, sizeof wanted, "scaled from the profile %s, of micro-batches of 4 samples",
             session->profile->path);
    gp_session_close(&session);
    /* What is no file is not waited for. */
    char pipe[500];
    snprintf(pipe, sizeof pipe, "%s/gpipe/profiles/0.json", getenv("XDG_CACHE_HOME"));
    assert_int_equal(mkfifo(pipe, S_IRUSR | S_IWUSR), 0);
    session = find(FIXTURE_CHANGES("pipeline.micro_batches=8"));
    assert_int_equal(session->profile->scaled, 4);
    assert_int_equal(session->profile->identity.samples, 2);
    assert_int_equal(gp_profile_source(session->profile, &source, &err), GP_OK);
    assert_string_equal(source, wanted);
    free(source);
    gp_session_close(&session);
    session = find(FIXTURE_CHANGES("model.layers.7.linear.out=4", "pipeline.micro_batches=8"));
    assert_true(gp_profile_is_counted(session->profile)); /* another model */
    gp_session_close(&session);
}

static void what_is_measured_is_told(void **state) {
    (void)state;
    char *told = NULL;
    size_t bytes = 0;
    FILE *notice = open_memstream(&told, &bytes);
    assert_non_null(notice);
    use_new_cache();
    gp_session *session = open_with(
        &(gp_session_options){.balances = true, .profiling = GP_PROFILING_MEASURE, .seconds = 1, .notice = notice},
        FIXTURE_CHANGES("pipeline.devices=[cpu, {cpu: 2}]", "model.layers=[flatten, linear: 3]"));
    fclose(notice);
    static const char wanted[] = "timing 2 layers on cpu and cpu, 2 threads, micro-batches of 4 samples: at most 1 s\n";
    if (strncmp(told, wanted, sizeof wanted - 1) != 0) fail_msg("%s", told);
    free(told);
    gp_session_close(&session);
}

/* ---- links ------------------------------------------------------------------------------------------------------- */

/* What a launch would measure, and how often it did. */
typedef struct launch {
    gp_profile_link link;
    gp_link_kind kind;
    int calls;
    gp_status fails;
} launch;

static gp_status measure_links(void *context, gp_profile_link out[GP_LINK_KINDS], gp_error *err) {
    launch *its = context;
    its->calls++;
    if (its->fails != GP_OK) return gp_fail(err, its->fails, "the run ended");
    out[its->kind] = its->link;
    return GP_OK;
}

static const int machines[] = {0, 1};

/* As process 0 of two, on two hosts, balances. */
static gp_status balance_launched(launch *its, gp_session **out, gp_error *err) {
    gp_helpers helpers = {.measure = measure_links, .context = its};
    helpers.has[its->kind] = true;
    gp_config *config = fixture_config(FIXTURE_CONFIG, NULL);
    return gp_session_open(&config,
                           &(gp_session_options){.balances = true,
                                                 .profiling = GP_PROFILING_MEASURE,
                                                 .seconds = 0.01,
                                                 .processes = 2,
                                                 .machines = machines,
                                                 .helpers = &helpers},
                           out, err);
}

static gp_session *must_balance(launch *its) {
    gp_session *session = NULL;
    gp_error err = {0};
    if (balance_launched(its, &session, &err) != GP_OK) fail_msg("%s", err.text);
    return session;
}

static bool is_near(double value, double expected) {
    return value > expected * (1 - 1e-5) && value < expected * (1 + 1e-5);
}

/* 100 bytes per second: what crosses decides alone, and in the middle both the skip and the chain would. */
static void a_measured_link_is_kept_and_used(void **state) {
    (void)state;
    launch slow = {{true, 0.25, 1e-2}, GP_LINK_NETWORK, 0, GP_OK};
    gp_error err = {0};
    gp_expectation expected;
    use_new_cache();
    gp_session *session = must_balance(&slow);
    assert_int_equal(slow.calls, 1);
    assert_true(session->measured.rounds > 0);
    assert_true(session->plan->links && session->plan->links->of[GP_LINK_NETWORK].measured);
    assert_int_equal(session->plan->links->hosts, 2);
    assert_int_not_equal(session->layers[0], 4);
    assert_int_equal(gp_expect(session->plan, 0, session->profile, &expected, &err), GP_OK);
    assert_true(expected.seconds > 16 * 4 * 4 * 4 / 100.0); /* its bytes would not fit into less */
    free(expected.busy);
    gp_session_close(&session);
    /* By a process that is alone, whose configuration says where workers are. */
    session = find(FIXTURE_CHANGES("pipeline.links.processes=2"));
    const gp_link *link = &session->plan->links->of[GP_LINK_NETWORK];
    assert_true(link->measured && is_near(link->latency, 0.25) && is_near(link->bandwidth, 100));
    gp_session_close(&session);
    session = find(NULL);
    assert_null(session->plan->links);
    gp_session_close(&session);
}

static void links_that_a_kept_profile_lacks_are_added(void **state) {
    (void)state;
    launch network = {{true, 1e-3, 1e-8}, GP_LINK_NETWORK, 0, GP_OK},
           host = {{true, 1e-5, 1e-9}, GP_LINK_HOST, 0, GP_OK};
    use_new_cache();
    gp_session *session = balance();
    assert_false(gp_profile_has_links(session->profile));
    int64_t taken = session->profile->taken;
    gp_session_close(&session);
    for (int time = 0; time < 2; time++) { /* the second time nothing is lacking */
        session = must_balance(&network);
        assert_int_equal(session->measured.rounds, 0);
        assert_true(session->profile->taken == taken && session->profile->links[GP_LINK_NETWORK].known);
        gp_session_close(&session);
        assert_int_equal(network.calls, 1);
    }
    session = must_balance(&host);
    assert_int_equal(host.calls, 1);
    /* A profile that is measured again, by one process, keeps them. */
    spoil(session, 900, 3600);
    gp_session_close(&session);
    session = balance();
    assert_true(session->measured.rounds > 0);
    assert_true(is_near(session->profile->links[GP_LINK_NETWORK].per_byte, 1e-8));
    assert_true(is_near(session->profile->links[GP_LINK_HOST].per_byte, 1e-9));
    gp_session_close(&session);
}

/* Both processes are on one machine, before and after. */
static void links_stay_in_changes(void **state) {
    (void)state;
    static const int one[] = {0, 0};
    launch host = {{true, 1e-5, 1e-9}, GP_LINK_HOST, 0, GP_OK};
    gp_session *session = NULL;
    gp_error err = {0};
    use_new_cache();
    session = must_balance(&host);
    gp_session_close(&session);
    gp_config *config = fixture_config(FIXTURE_CONFIG "changes: {2: {optimizer.sgd.lr: 0.1}}\n", NULL);
    const gp_session_options options = {.profiling = GP_PROFILING_FIND, .processes = 2, .machines = one};
    if (gp_session_open(&config, &options, &session, &err) != GP_OK) fail_msg("%s", err.text);
    for (int changes = 0; changes < 2; changes++) {
        assert_int_equal(session->changes, changes);
        assert_non_null(session->plan->links);
        assert_int_equal(session->plan->links->hosts, 1);
        assert_true(session->plan->links->of[GP_LINK_HOST].measured);
        if (changes == 0) assert_int_equal(gp_session_change(session, &err), GP_OK);
    }
    gp_session_close(&session);
}

/* A run that is too short for a profile measures no links either. */
static void a_short_run_measures_no_links(void **state) {
    (void)state;
    launch network = {{true, 1e-3, 1e-8}, GP_LINK_NETWORK, 0, GP_OK};
    const gp_helpers helpers = {.measure = measure_links, .context = &network, .has = {[GP_LINK_NETWORK] = true}};
    use_new_cache();
    gp_session *session = open_with(
        &(gp_session_options){
            .profiling = GP_PROFILING_MEASURE, .processes = 2, .machines = machines, .helpers = &helpers},
        NULL);
    assert_int_equal(network.calls, 0);
    assert_false(session->plan->links->of[GP_LINK_NETWORK].given);
    gp_session_close(&session);
}

static void a_lost_process_ends_the_measuring(void **state) {
    (void)state;
    launch lost = {{0}, GP_LINK_NETWORK, 0, GP_CANCELLED};
    gp_session *session = NULL;
    gp_error err = {0};
    use_new_cache();
    assert_int_equal(balance_launched(&lost, &session, &err), GP_CANCELLED);
    assert_null(session);
    session = find(NULL); /* and leaves no profile */
    assert_true(gp_profile_is_counted(session->profile));
    gp_session_close(&session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_used_if_there_are_some),
        cmocka_unit_test(balancing_leaves_rates_and_a_profile),
        cmocka_unit_test(a_run_leaves_rates),
        cmocka_unit_test(brief_rates_cut_nothing),
        cmocka_unit_test(other_micro_batches_are_scaled),
        cmocka_unit_test(what_is_measured_is_told),
        cmocka_unit_test(a_slowed_profile_is_measured_again),
        cmocka_unit_test(a_disturbed_profile_chooses_nothing),
        cmocka_unit_test(a_measured_link_is_kept_and_used),
        cmocka_unit_test(links_that_a_kept_profile_lacks_are_added),
        cmocka_unit_test(links_stay_in_changes),
        cmocka_unit_test(a_short_run_measures_no_links),
        cmocka_unit_test(a_lost_process_ends_the_measuring),
    };
    return cmocka_run_group_tests(tests, fixture_make, fixture_remove);
}
