/* Links of a session: where workers are, and whether the configuration or a profile says what messages take. */
#include "session/linking.h"

#include <string.h>

#include "device/cpu/cpu.h"
#include "session/fixture.h"

#define NETWORK_BY_HAND "network: {latency: 7 us, bandwidth: 3 MB/s}"

/* A profile that has nothing but links. */
static gp_profile measured(bool host, bool network) {
    return (gp_profile){
        .links = {[GP_LINK_HOST] = {host, 20e-6, 1 / 4e9}, [GP_LINK_NETWORK] = {network, 1e-3, 1 / 1e8}}};
}

/* Four workers in the places; the profile may be NULL. */
static gp_links *find(const char *links, const gp_link_places *places, const gp_profile *profile) {
    char all[400];
    gp_error err = {0};
    gp_links *found = NULL;
    snprintf(all, sizeof all, "pipeline.links=%s", links ? links : "");
    gp_config *config = fixture_config(FIXTURE_CONFIG, FIXTURE_CHANGES("pipeline.devices=[{cpu: {count: 4}}]",
                                                                       links ? all : "pipeline.micro_batches=4"));
    gp_status status = gp_links_find(&config->pipeline, places, &found, &err);
    if (status == GP_OK) status = gp_links_add_measured(&config->pipeline, places, profile, &found, &err);
    if (status != GP_OK) fail_msg("%s", err.text);
    gp_config_destroy(&config);
    return found;
}

static void expect_link(const gp_links *links, gp_link_kind kind, double latency, double bandwidth, bool is_measured) {
    const gp_link *link = &links->of[kind];
    assert_true(link->given && link->measured == is_measured);
    assert_true(link->latency > latency * (1 - 1e-9) && link->latency < latency * (1 + 1e-9));
    assert_true(link->bandwidth > bandwidth * (1 - 1e-9) && link->bandwidth < bandwidth * (1 + 1e-9));
}

static const gp_device_spec on_host[4] = {
    {&gp_cpu_kind, 0, 1, 0}, {&gp_cpu_kind, 0, 1, 0}, {&gp_cpu_kind, 0, 1, 0}, {&gp_cpu_kind, 0, 1, 0}};
static const int one_each[] = {0, 1, 2, 3}, pairs[] = {0, 0, 1, 1};

/* Machines by turns: processes 0 and 2 are on the first, 1 and 3 on the second. */
static void a_launch_has_its_hosts(void **state) {
    (void)state;
    static const int machines[] = {0, 1, 0, 1};
    const gp_link_places places = {4, one_each, machines, on_host};
    const gp_profile profile = measured(true, true);
    gp_links *links = find(NULL, &places, &profile);
    assert_int_equal(links->processes, 4);
    assert_int_equal(links->hosts, 2);
    for (int w = 0; w < 4; w++) assert_int_equal(links->host[w], w % 2);
    expect_link(links, GP_LINK_HOST, 20e-6, 4e9, true);
    expect_link(links, GP_LINK_NETWORK, 1e-3, 1e8, true);
    assert_true(links->of[GP_LINK_NETWORK].shared && !links->of[GP_LINK_HOST].shared);
    assert_false(links->of[GP_LINK_PROCESS].given);
    gp_links_destroy(&links);
    /* The configuration says otherwise. */
    links = find("{processes_per_host: 2}", &places, &profile);
    for (int w = 0; w < 4; w++) assert_int_equal(links->host[w], w / 2);
    gp_links_destroy(&links);
    links = find("{" NETWORK_BY_HAND "}", &places, NULL);
    for (int w = 0; w < 4; w++) assert_int_equal(links->host[w], w % 2);
    gp_links_destroy(&links);
}

/* Machines 0, 0, 2, 2: the second host has number 1. */
static void hosts_have_numbers_without_gaps(void **state) {
    (void)state;
    static const int machines[] = {0, 0, 2, 2};
    const gp_profile profile = measured(true, false);
    gp_links *links = find(NULL, &(gp_link_places){4, one_each, machines, on_host}, &profile);
    assert_int_equal(links->hosts, 2);
    for (int w = 0; w < 4; w++) assert_int_equal(links->host[w], w / 2);
    assert_false(links->of[GP_LINK_NETWORK].given); /* not known */
    gp_links_destroy(&links);
}

static void what_is_given_by_hand_wins(void **state) {
    (void)state;
    static const int machines[] = {0, 0};
    const gp_profile profile = measured(true, true);
    gp_links *links = find("{" NETWORK_BY_HAND "}", &(gp_link_places){2, pairs, machines, on_host}, &profile);
    expect_link(links, GP_LINK_NETWORK, 7e-6, 3e6, false);
    expect_link(links, GP_LINK_HOST, 20e-6, 4e9, true);
    gp_links_destroy(&links);
}

/* A plan for several processes, made by one. */
static void processes_by_hand_have_measured_links(void **state) {
    (void)state;
    const gp_link_places alone = {1, (const int[]){0, 0, 0, 0}, NULL, on_host};
    const gp_profile profile = measured(true, false);
    gp_links *links = find("{processes: 2, processes_per_host: 2}", &alone, &profile);
    assert_int_equal(links->hosts, 1);
    expect_link(links, GP_LINK_HOST, 20e-6, 4e9, true);
    gp_links_destroy(&links);
}

static void all_stays_without_what_could_be_used(void **state) {
    (void)state;
    static const int machines[] = {0, 1};
    const gp_link_places alone = {1, (const int[]){0, 0, 0, 0}, NULL, on_host}, apart = {2, pairs, machines, on_host};
    const gp_profile both = measured(true, true), host = measured(true, false), none = measured(false, false);
    assert_null(find(NULL, &alone, &both)); /* one process */
    const gp_link_places by_ranks = {2, pairs, NULL, on_host};
    assert_null(find(NULL, &by_ranks, &none)); /* it was not launched: nobody knows the hosts */
    assert_null(find(NULL, &by_ranks, NULL));
    const gp_profile *const profiles[] = {&host, &none, NULL}; /* between hosts nothing is known */
    for (int i = 0; i < 3; i++) {
        gp_links *links = find(NULL, &apart, profiles[i]);
        assert_int_equal(links->hosts, 2);
        assert_false(links->of[GP_LINK_NETWORK].given);
        gp_links_destroy(&links);
    }
    gp_links *links = find("{processes: 2}", &alone, &none);
    for (int k = 0; k < GP_LINK_KINDS; k++) assert_false(links->of[k].given);
    gp_links_destroy(&links);
}

/* Messages between GPUs go another way than those that are measured. */
static void links_of_gpus_are_not_known(void **state) {
    (void)state;
    static const int machines[] = {0, 1, 2, 3};
    const gp_device_kind away = {.name = "away"};
    const gp_profile profile = measured(true, true);
    gp_device_spec devices[4];
    memcpy(devices, on_host, sizeof devices);
    devices[3].kind = &away;
    const gp_link_places places = {4, one_each, machines, devices};
    gp_links *links = find(NULL, &places, &profile);
    for (int k = 0; k < GP_LINK_KINDS; k++) assert_false(links->of[k].given);
    gp_links_destroy(&links);
    links = find("{" NETWORK_BY_HAND "}", &places, &profile);
    expect_link(links, GP_LINK_NETWORK, 7e-6, 3e6, false);
    assert_false(links->of[GP_LINK_HOST].given);
    gp_links_destroy(&links);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_launch_has_its_hosts),
        cmocka_unit_test(hosts_have_numbers_without_gaps),
        cmocka_unit_test(what_is_given_by_hand_wins),
        cmocka_unit_test(processes_by_hand_have_measured_links),
        cmocka_unit_test(all_stays_without_what_could_be_used),
        cmocka_unit_test(links_of_gpus_are_not_known),
    };
    return cmocka_run_group_tests(tests, fixture_make, fixture_remove);
}
