/* Plays with links between workers, by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "schedule/links.h"
#include "schedule/play.h"
#include "schedule/toy_graph.h"

/* Seconds and bytes are small numbers of halves, so that sums are exact. A forward takes 1, a backward 2. */
typedef struct sizes {
    const gp_stages *stages;
    double copied;   /* seconds, by a thread */
    double edge;     /* bytes */
    double gradient; /* of replicas; other parts of collectives have none */
} sizes;

static double duration(const void *context, int worker, size_t pc, const gp_instr *instr) {
    (void)worker;
    (void)pc;
    switch (instr->op) {
    case GP_INSTR_FORWARD: return 1;
    case GP_INSTR_BACKWARD: return 2;
    case GP_INSTR_RECV: return ((const sizes *)context)->copied;
    default: return 0;
    }
}

static bool part(const void *context, const gp_instr *instr, int i, int *from, double *bytes) {
    const sizes *its = context;
    *bytes = its->edge;
    *from = instr->stage;
    if (instr->op == GP_INSTR_SEND) return i == 0;
    const gp_collective *collective = &its->stages->collectives[instr->collective];
    const gp_indices *members = &collective->contributors;
    for (size_t m = 0; m < members->count; m++) {
        if (members->items[m] == instr->stage || i-- > 0) continue;
        *from = members->items[m];
        *bytes = collective->part == GP_PART_GRADIENTS ? its->gradient : 0;
        return true;
    }
    return false;
}

/* Each worker is a process, `hosts` of as many workers each; one byte per second, half a second of latency between
 * hosts. */
static gp_links *make_links(int workers, int hosts, bool shared) {
    gp_links *links = NULL;
    gp_error err = {0};
    assert_int_equal(gp_links_create(workers, &links, &err), GP_OK);
    links->processes = workers;
    links->hosts = hosts;
    for (int w = 0; w < workers; w++) {
        links->process[w] = w;
        links->host[w] = w * hosts / workers;
    }
    links->of[GP_LINK_NETWORK] = (gp_link){.given = true, .shared = shared, .latency = 0.5, .bandwidth = 1};
    return links;
}

static int processors; /* of a host; 0: enough */

/* What is early on each of two workers: NOTHING, the posts of buckets at the beginning of their backward, sums too. */
typedef enum early { NOTHING, POSTS, SUMS } early;

typedef struct earlies {
    gp_early_post post[2];
    gp_early_sum sum[2];
    gp_worker_posts worker[2];
} earlies;

static size_t find(const gp_stages *stages, const gp_program *program, gp_instr_op op, gp_collective_kind kind) {
    for (size_t pc = 0; pc < program->count; pc++) {
        const gp_instr *its = &program->instrs[pc];
        if (its->op != op) continue;
        if (!gp_instr_has_collective(its)) return pc;
        const gp_collective *collective = &stages->collectives[its->collective];
        if (collective->kind == kind && collective->part == GP_PART_GRADIENTS) return pc;
    }
    fail_msg("no such instruction");
    return 0;
}

static void find_early(const gp_stages *stages, const gp_programs *programs, early what, earlies *out) {
    for (int w = 0; w < 2; w++) {
        const gp_program *its = &programs->worker[w];
        size_t backward = find(stages, its, GP_INSTR_BACKWARD, 0);
        size_t post = find(stages, its, GP_INSTR_POST, GP_COLLECTIVE_SCATTER);
        size_t collect = find(stages, its, GP_INSTR_COLLECT, GP_COLLECTIVE_SCATTER);
        size_t reduce = find(stages, its, GP_INSTR_REDUCE, GP_COLLECTIVE_SCATTER);
        size_t sums = find(stages, its, GP_INSTR_POST, GP_COLLECTIVE_EXCHANGE);
        out->post[w] = (gp_early_post){(uint32_t)backward, (uint32_t)post, 0, 0};
        out->sum[w] = (gp_early_sum){(uint32_t)collect, (uint32_t)reduce, (uint32_t)sums};
        out->worker[w] = (gp_worker_posts){.items = &out->post[w], .count = 1};
        out->worker[w].sums = &out->sum[w];
        out->worker[w].sum_count = what == SUMS;
    }
}

static double play_with(const toy *t, toy_run run, sizes its, const gp_links *links, early what) {
    gp_programs *programs = toy_programs(t, run);
    gp_waits *waits = NULL;
    earlies found;
    gp_play *played = NULL;
    gp_error err = {0};
    its.stages = t->stages;
    assert_int_equal(gp_waits_create(t->stages, programs, true, &waits, &err), GP_OK);
    const gp_play_request request = {.stages = t->stages,
                                     .programs = programs,
                                     .waits = waits,
                                     .duration = duration,
                                     .context = &its,
                                     .processors = processors,
                                     .links = links,
                                     .early = what == NOTHING ? NULL : found.worker,
                                     .part = part};
    if (what != NOTHING) find_early(t->stages, programs, what, &found);
    if (gp_play_run(&request, &played, &err) != GP_OK) fail_msg("%s", err.text);
    double length = played->length;
    gp_play_destroy(&played);
    gp_waits_destroy(&waits);
    gp_programs_destroy(&programs);
    return length;
}

static double play(const toy *t, toy_run run, sizes its, const gp_links *links) {
    return play_with(t, run, its, links, NOTHING);
}

static double play_chain(double edge, bool shared) {
    toy t;
    toy_init_chain(&t, 2, false);
    gp_links *links = make_links(2, 2, shared);
    double length = play(&t, (toy_run){2, GP_CHECKPOINT_NEVER, false, true}, (sizes){.edge = edge}, links);
    gp_links_destroy(&links);
    toy_fini(&t);
    return length;
}

/* Of one byte: F0 F1 of stage 0 end at 1 and 2 and arrive at 2.5 and 3.5; stage 1 ends B1 at 6.5 and B0 at 8.5, which
 * arrive at 8 and 10; stage 0 ends at 12. Of two bytes: arrivals at 3.5, 4.5, 10 and 12. On a shared link the second
 * activation waits until 3 and arrives at 5.5; B1 and B0 end at 8.5 and 10.5, and arrive at 11 and 13. */
static void messages_arrive_beside_computations(void **state) {
    (void)state;
    assert_true(play_chain(1, false) == 12);
    assert_true(play_chain(2, false) == 14);
    assert_true(play_chain(2, true) == 15);
}

static double play_replicas(bool training, sizes its, const gp_links *links, int stages) {
    static const int64_t layers[] = {1, 1};
    static const int replicas[] = {2, 2};
    toy t;
    toy_init_replicated(&t, layers, replicas, false, stages, NULL, 0);
    double length = play(&t, (toy_run){1, GP_CHECKPOINT_NEVER, false, training}, its, links);
    toy_fini(&t);
    return length;
}

/* Two workers of a host send at 1: the second message leaves the host at 3. */
static void workers_of_a_host_share_its_network(void **state) {
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        gp_links *links = make_links(4, 2, shared);
        assert_true(play_replicas(false, (sizes){.edge = 2}, links, 2) == (shared ? 6.5 : 4.5));
        gp_links_destroy(&links);
    }
}

/* Threads of a process copy from 1 on, for 2 seconds each: at the same time, or on a shared link one after another. */
static void threads_share_a_process(void **state) {
    (void)state;
    gp_links *links = make_links(4, 1, false);
    links->processes = 1;
    memset(links->process, 0, 4 * sizeof *links->process);
    links->of[GP_LINK_PROCESS] = (gp_link){.given = true, .bandwidth = 1};
    assert_true(play_replicas(false, (sizes){.copied = 2}, links, 2) == 4);
    links->of[GP_LINK_PROCESS].shared = true;
    assert_true(play_replicas(false, (sizes){.copied = 2}, links, 2) == 6);
    gp_links_destroy(&links);
}

/* Replica 0 has the losses at 1.5 and ends its backward at 3.5, replica 1 at 3. Shards of 3 bytes, posted then, are
 * there at 6.5 and 7, and the sums at 10.5 and 10; statistics, without bytes, at 10.5 and 11. */
static void parts_of_collectives_are_messages(void **state) {
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        gp_links *links = make_links(2, 2, shared);
        assert_true(play_replicas(true, (sizes){.gradient = 3}, links, 1) == 11);
        gp_links_destroy(&links);
    }
}

/* The same, with shards that are posted at the beginning of the backwards, at 1.5 and 1. Of half a byte, they are there
 * at 2 and 2.5. Sums that are posted then are there at 3.5 and 3, and statistics at 3.5 and 4. Sums that are posted
 * after the backwards are there at 4 and 4.5, and statistics at 5 and 4.5. Shards of 3 bytes come after the backwards
 * in any case: at 4.5 and 5, the sums at 8.5 and 8, and statistics at 8.5 and 9. */
static void sums_are_posted_within_a_backward(void **state) {
    (void)state;
    toy t;
    const toy_run run = {1, GP_CHECKPOINT_NEVER, false, true};
    gp_links *links = make_links(2, 2, false);
    toy_init_replicated(&t, (const int64_t[]){1, 1}, (const int[]){2, 2}, false, 1, NULL, 0);
    assert_true(play_with(&t, run, (sizes){.gradient = 0.5}, links, SUMS) == 4);
    assert_true(play_with(&t, run, (sizes){.gradient = 0.5}, links, POSTS) == 5);
    assert_true(play_with(&t, run, (sizes){.gradient = 3}, links, SUMS) == 9);
    assert_true(play_with(&t, run, (sizes){.gradient = 3}, links, POSTS) == 9);
    gp_links_destroy(&links);
    toy_fini(&t);
}

/* Two workers of a host compute on one processor, and so at half their speed; those of two hosts do not. */
static void each_host_has_its_processors(void **state) {
    (void)state;
    static const int64_t layers[] = {1};
    static const int replicas[] = {2};
    for (int hosts = 1; hosts <= 2; hosts++) {
        toy t;
        toy_init_replicated(&t, layers, replicas, false, 1, NULL, 0);
        gp_links *links = make_links(2, hosts, false);
        processors = 1;
        double length = play(&t, (toy_run){1, GP_CHECKPOINT_NEVER, false, false}, (sizes){0}, links);
        processors = 0;
        assert_true(length == (hosts == 1 ? 2 : 1.5)); /* a message to replica 0, for its total */
        gp_links_destroy(&links);
        toy_fini(&t);
    }
}

static void lanes_belong_to_hosts_and_processes(void **state) {
    (void)state;
    gp_links *links = make_links(6, 3, true);
    char text[GP_LANE_TEXT];
    int lane[2];
    assert_int_equal(gp_links_kind(links, 0, 1), GP_LINK_HOST);
    assert_int_equal(gp_links_kind(links, 1, 2), GP_LINK_NETWORK);
    gp_links_find_lanes(links, 0, 5, lane);
    assert_string_equal(gp_links_lane_text(links, lane[0], text), "from host 0");
    assert_string_equal(gp_links_lane_text(links, lane[1], text), "to host 2");
    gp_links_find_lanes(links, 0, 1, lane);
    assert_true(lane[0] == -1 && lane[1] == -1);
    links->of[GP_LINK_HOST] = (gp_link){.given = true, .shared = true, .bandwidth = 1};
    gp_links_find_lanes(links, 3, 2, lane);
    assert_string_equal(gp_links_lane_text(links, lane[0], text), "host 1");
    assert_true(lane[1] == -1);
    links->process[1] = 0;
    links->of[GP_LINK_PROCESS] = (gp_link){.given = true, .shared = true, .bandwidth = 1};
    gp_links_find_lanes(links, 0, 1, lane);
    assert_string_equal(gp_links_lane_text(links, lane[0], text), "process 0");
    assert_true(lane[0] < gp_links_lanes(links));
    gp_links_destroy(&links);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_arrive_beside_computations),
        cmocka_unit_test(workers_of_a_host_share_its_network),
        cmocka_unit_test(threads_share_a_process),
        cmocka_unit_test(parts_of_collectives_are_messages),
        cmocka_unit_test(sums_are_posted_within_a_backward),
        cmocka_unit_test(each_host_has_its_processors),
        cmocka_unit_test(lanes_belong_to_hosts_and_processes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
