#include "device/cuda/cuda.h"
#include "session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "plan/memory.h"
#include "profile/cost.h"
#include "session/devices.h"
#include "session/fixture.h"

/* The usual configuration with one text in it replaced, so that places have lines; valid until the next call. */
static const char *with(const char *old, const char *new) {
    static char text[4096];
    const char *at = strstr(FIXTURE_CONFIG, old);
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - FIXTURE_CONFIG), FIXTURE_CONFIG, new, at + strlen(old));
    return text;
}

static void expect_layers(const gp_session *session, const int64_t *layers, int stages) {
    assert_int_equal(session->plan->stages->count, stages);
    for (int s = 0; s < stages; s++) assert_int_equal(session->layers[s], layers[s]);
}

/* ---- balance ----------------------------------------------------------------------------------------------------- */

static void layers_per_stage_run_as_given(void **state) {
    (void)state;
    gp_session *session =
        fixture_session(FIXTURE_CHANGES("pipeline.devices=[cpu, cpu, cpu]", "pipeline.balance=[1, 6, 1]"));
    expect_layers(session, (const int64_t[]){1, 6, 1}, 3);
    gp_session_close(&session);
}

/* Of two stages every cut is tried: none has a cheaper dearest stage. */
static void expect_least(const gp_session *session, const int64_t *cost) {
    int64_t total = 0, before = 0, least = INT64_MAX, chosen = 0;
    int layers = session->graph->layer_count;
    for (int i = 0; i < layers; i++) total += cost[i];
    for (int cut = 1; cut < layers; cut++) {
        before += cost[cut - 1];
        int64_t most = before > total - before ? before : total - before;
        if (most < least) least = most;
        if (cut == session->layers[0]) chosen = most;
    }
    assert_int_equal(session->layers[0] + session->layers[1], layers);
    assert_int_equal(chosen, least);
}

static void auto_balances_time_and_size_balances_bytes(void **state) {
    (void)state;
    gp_error err = {0};
    int64_t cost[8];
    gp_session *session = fixture_session(NULL);
    fixture_count_cost(session, 0, cost);
    expect_least(session, cost);
    gp_session_close(&session);
    session = fixture_session(FIXTURE_CHANGES("pipeline.balance=size"));
    assert_int_equal(gp_cost_by_size(session->graph, 4, 1, cost, &err), GP_OK);
    expect_least(session, cost);
    gp_session_close(&session);
    session = fixture_session(FIXTURE_CHANGES("pipeline.balance=size", "optimizer.sgd.momentum=0"));
    assert_int_equal(gp_cost_by_size(session->graph, 4, 0, cost, &err), GP_OK);
    expect_least(session, cost);
    gp_session_close(&session);
}

/* Bytes of values grow with the micro-batch, those of parameters do not: in large ones the cut lies elsewhere. */
static void a_balance_is_that_of_the_micro_batchs_size(void **state) {
    (void)state;
    gp_error err = {0};
    int64_t cost[8], first[2];
    const char *const micro_batches[] = {"pipeline.micro_batches=1", "pipeline.micro_batches=16"};
    for (int i = 0; i < 2; i++) {
        gp_session *session =
            fixture_session(FIXTURE_CHANGES("pipeline.balance=size", "model.layers.7.linear.out=30", micro_batches[i]));
        assert_int_equal(gp_cost_by_size(session->graph, i == 0 ? 16 : 1, 1, cost, &err), GP_OK);
        expect_least(session, cost);
        first[i] = session->layers[0];
        gp_session_close(&session);
    }
    assert_int_not_equal(first[0], first[1]);
}

/* Costs of layers on a stage with so many replicas: of its share of 8 samples. */
static void cost_share(const gp_session *session, int replicas, bool size, int64_t *cost) {
    gp_error err = {0};
    gp_cost_request request = gp_cost_assumed(session->graph, (8 + replicas - 1) / replicas);
    request.recomputes = 0.5; /* of two micro-batches the last is kept */
    request.updates = 1.0 / session->config->pipeline.micro_batches;
    request.optimizer_states = session->update.states;
    request.kind = session->devices[0].kind;
    gp_status status = size ? gp_cost_by_size(session->graph, request.samples, request.optimizer_states, cost, &err)
                            : gp_cost_by_time(&request, cost, &err);
    if (status != GP_OK) fail_msg("%s", err.text);
}

/* What layers first … end − 1 take of values that they do not make, and give back: each value once. */
static int64_t cost_copies(const gp_session *session, int replicas, int first, int end) {
    const gp_graph *graph = session->graph;
    const gp_rates rates = gp_profile_rates(NULL, &session->devices[0]);
    int64_t all = 0;
    for (int v = 0; v < graph->value_count; v++) {
        const gp_value *value = &graph->values[v];
        bool used = false;
        for (int u = 0; u < value->use_count; u++) {
            int layer = graph->nodes[value->uses[u].node].unit;
            used |= layer >= first && layer < end;
        }
        if (!used || (value->producer >= 0 && graph->nodes[value->producer].unit >= first)) continue;
        double once = 1e12 * rates.copy_latency + 1e12 / rates.copy_bytes / replicas *
                                                      (double)gp_align_up(gp_value_bytes(graph, v, 8), GP_ALIGNMENT);
        all += (int64_t)(value->needs_grad ? 2 * once : once);
    }
    return all;
}

/* The bottleneck of no other cut into two stages costs less. */
static void expect_least_with_replicas(const char *devices, const int replicas[2], bool size, int64_t *first) {
    char text[80];
    int64_t cost[2][8], least = INT64_MAX, chosen = 0;
    snprintf(text, sizeof text, "pipeline.devices=%s", devices);
    gp_session *session = fixture_session(FIXTURE_CHANGES(text, "pipeline.micro_batches=2", "data.drop_last=true",
                                                          size ? "pipeline.balance=size" : "pipeline.balance=auto"));
    for (int s = 0; s < 2; s++) cost_share(session, replicas[s], size, cost[s]);
    for (int cut = 1; cut < 8; cut++) {
        int64_t of[2] = {0, 0};
        for (int i = 0; i < 8; i++) of[i >= cut] += cost[i >= cut][i];
        for (int s = 0; s < 2 && !size; s++) of[s] += cost_copies(session, replicas[s], s ? cut : 0, s ? 8 : cut);
        int64_t most = of[0] > of[1] ? of[0] : of[1];
        if (most < least) least = most;
        if (cut == session->layers[0]) chosen = most;
    }
    assert_int_equal(chosen, least);
    *first = session->layers[0];
    gp_session_close(&session);
}

/* A stage with replicas computes shares, and gets more layers for it. */
static void a_balance_is_that_of_the_stages_shares(void **state) {
    (void)state;
    for (int size = 0; size < 2; size++) {
        int64_t many_first, many_last;
        expect_least_with_replicas("[[cpu, cpu, cpu, cpu], cpu]", (const int[]){4, 1}, size, &many_first);
        expect_least_with_replicas("[cpu, [cpu, cpu, cpu, cpu]]", (const int[]){1, 4}, size, &many_last);
        assert_true(many_first > many_last);
    }
}

/* Both the skip and the chain would cross the network in the middle. */
static void a_slow_link_carries_few_values(void **state) {
    (void)state;
    gp_session *session = fixture_session(NULL);
    expect_layers(session, (const int64_t[]){4, 4}, 2);
    assert_null(session->plan->links);
    gp_session_close(&session);
    session =
        fixture_session(FIXTURE_CHANGES("pipeline.links={processes: 2, network: {latency: 0 us, bandwidth: 1 MB/s}}"));
    assert_int_equal(session->plan->links->hosts, 2);
    assert_int_not_equal(session->layers[0], 4);
    gp_session_close(&session);
    /* Two processes of one host, between which no link is given. */
    session = fixture_session(FIXTURE_CHANGES(
        "pipeline.links={processes: 2, processes_per_host: 2, network: {latency: 0 us, bandwidth: 1 MB/s}}"));
    expect_layers(session, (const int64_t[]){4, 4}, 2);
    gp_session_close(&session);
    /* Messages that are late keep no worker busy. */
    session = fixture_session(
        FIXTURE_CHANGES("pipeline.links={processes: 2, network: {latency: 1 s, bandwidth: 1000 GB/s}}"));
    expect_layers(session, (const int64_t[]){4, 4}, 2);
    gp_session_close(&session);
}

static void a_balance_of_other_sum_is_refused(void **state) {
    (void)state;
    fixture_refused(with("balance: auto", "balance: [4, 5]"), NULL, GP_CONFIG,
                    "c.yaml:20:12: pipeline.balance: the entries add up to 9, but the model has 8 layers");
    fixture_refused(with("balance: auto", "balance: [2147483647, 2147483647]"), NULL, GP_CONFIG,
                    "c.yaml:20:12: pipeline.balance: the entries add up to 4294967294, but the model has 8 layers");
}

static void more_stages_than_layers_are_refused(void **state) {
    (void)state;
    fixture_refused(with("[cpu, cpu]", "[{cpu: {count: 8}}, cpu]"), NULL, GP_CONFIG,
                    "c.yaml:18:32: pipeline.devices: 9 stages are more than the model's 8 layers");
    fixture_refused(with("balance: auto", "schedule: {interleaved: {chunks: 5}}"), NULL, GP_CONFIG,
                    "c.yaml:20:14: pipeline.schedule: 10 stages are more than the model's 8 layers");
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

static void a_device_that_this_build_lacks_is_refused(void **state) {
    (void)state;
    if (gp_cuda_built()) skip();
    fixture_refused(with("[cpu, cpu]", "[cpu, cuda:1]"), NULL, GP_UNSUPPORTED,
                    "c.yaml:18:18: device cuda:1: this program was built without CUDA; build it on a machine "
                    "where CMake finds the CUDA toolkit");
    assert_int_equal(gp_status_exit(GP_UNSUPPORTED), 1);
}

static gp_status open_with(const char *const *changes, gp_session **out, gp_error *err) {
    gp_config *config = fixture_config(FIXTURE_CONFIG, changes);
    return gp_session_open(&config, NULL, out, err);
}

/* ---- precision --------------------------------------------------------------------------------------------------- */

static void the_precision_is_every_layers(void **state) {
    (void)state;
    static const char *const precisions[] = {"f32", "tf32"};
    for (int tf32 = 0; tf32 < 2; tf32++) {
        char text[64];
        gp_session *session;
        gp_error err = {0};
        snprintf(text, sizeof text, "train.precision=%s", precisions[tf32]);
        const char *const changes[] = {text, NULL};
        if (open_with(changes, &session, &err) != GP_OK) fail_msg("%s", err.text);
        for (int n = 0; n < session->graph->node_count; n++)
            assert_int_equal(session->graph->nodes[n].layer->tf32, tf32);
        gp_session_close(&session);
    }
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static size_t largest_arena_of(const gp_session *session, int first, int workers) {
    size_t most = 0;
    for (int w = first; w < first + workers; w++)
        if (session->plan->arena[w] > most) most = session->plan->arena[w];
    return most;
}

static size_t largest_arena(const gp_session *session) {
    return largest_arena_of(session, 0, session->plan->workers);
}

static void a_plan_over_memory_is_refused_with_the_numbers(void **state) {
    (void)state;
    char text[64], balance[64], wanted[200], bytes[32];
    gp_error err = {0};
    gp_session *session = fixture_session(FIXTURE_CHANGES("pipeline.checkpoint=never"));
    size_t needed[2] = {session->plan->arena[0], session->plan->arena[1]};
    snprintf(balance, sizeof balance, "pipeline.balance=[%d, %d]", (int)session->layers[0], (int)session->layers[1]);
    gp_session_close(&session);
    /* A byte less than it needs is refused, the very bytes are not. */
    snprintf(text, sizeof text, "pipeline.devices=[cpu, {cpu: {memory: %zu}}]", needed[1] - 1);
    assert_int_equal(open_with(FIXTURE_CHANGES("pipeline.checkpoint=never", text, balance), &session, &err), GP_CONFIG);
    assert_int_equal(gp_status_exit(GP_CONFIG), 2);
    snprintf(wanted, sizeof wanted, ": the plan does not fit: worker 1 needs %s (%zu bytes), but its memory is ",
             gp_bytes_text(bytes, needed[1]), needed[1]);
    if (!strstr(err.text, wanted)) fail_msg("%s in: %s", wanted, err.text);
    assert_non_null(strstr(err.text, "stashes 16.5 KiB, "));
    assert_non_null(strstr(err.text, "; it fits with balance: auto"));
    snprintf(text, sizeof text, "pipeline.devices=[cpu, {cpu: {memory: %zu}}]", needed[1]);
    assert_int_equal(open_with(FIXTURE_CHANGES("pipeline.checkpoint=never", text, balance), &session, &err), GP_OK);
    gp_session_close(&session);
}

static void a_refused_plan_has_the_devices_place(void **state) {
    (void)state;
    gp_error err = {0};
    gp_session *session = NULL;
    gp_config *config = fixture_config(with("[cpu, cpu]", "[cpu, {cpu: {memory: 1KiB}}]"), NULL);
    assert_int_equal(gp_session_open(&config, NULL, &session, &err), GP_CONFIG);
    assert_non_null(strstr(err.text, "/c.yaml:18:19: the plan does not fit: worker 1 needs "));
}

/* "it fits with a: 1 and b: c" as changes to the configuration. */
static int read_remedy(const char *message, char changes[4][96]) {
    const char *at = strstr(message, "; it fits with ");
    int count = 0;
    if (!at) return 0;
    at += strlen("; it fits with ");
    while (at) {
        char key[32], value[32];
        assert_true(count < 4);
        assert_int_equal(sscanf(at, "%31[^:]: %31[^ ]", key, value), 2);
        snprintf(changes[count++], 96, "%s%s=%s", strchr(key, '.') ? "" : "pipeline.", key, value);
        at = strstr(at, " and ");
        if (at) at += strlen(" and ");
    }
    return count;
}

/* The plan fits stages with 4 and 1 replicas, or with 1 and 4, and the four have so many bytes each; then their largest
 * arena. layers: of the first stage; 0: auto. */
static bool fits_replicas(bool last, size_t memory, int layers, size_t *arena) {
    char devices[128], balance[64];
    gp_error err = {0};
    gp_session *session = NULL;
    snprintf(devices, sizeof devices, "pipeline.devices=[%s[{cpu: {memory: %zu, count: 4}}]%s]", last ? "cpu, " : "",
             memory, last ? "" : ", cpu");
    snprintf(balance, sizeof balance, layers ? "pipeline.balance=[%d, %d]" : "pipeline.balance=auto", layers,
             8 - layers);
    gp_status status =
        open_with(FIXTURE_CHANGES(devices, balance, "pipeline.micro_batches=2", "data.drop_last=true"), &session, &err);
    if (status == GP_OK) *arena = largest_arena_of(session, last, 4);
    gp_session_close(&session);
    return status == GP_OK;
}

/* Memory limits replicas by what their shares take: with the bytes of any cut there is a plan, and a byte less than the
 * least is too few. */
static void a_balance_keeps_within_the_memory_of_replicas(void **state) {
    (void)state;
    for (int last = 0; last < 2; last++) {
        size_t arena[8] = {0}, least = SIZE_MAX, ignored;
        for (int layers = 1; layers < 8; layers++) {
            assert_true(fits_replicas(last, (size_t)1 << 30, layers, &arena[layers]));
            if (arena[layers] < least) least = arena[layers];
        }
        for (int layers = 1; layers < 8; layers++) assert_true(fits_replicas(last, arena[layers], 0, &ignored));
        assert_false(fits_replicas(last, least - 1, 0, &ignored));
    }
}

static bool fits(const char *devices, const char *balance, int micro_batches, const char *checkpoint,
                 const char *rules) {
    char changes[3][64];
    gp_error err = {0};
    gp_session *session = NULL;
    snprintf(changes[0], sizeof changes[0], "pipeline.balance=%s", balance);
    snprintf(changes[1], sizeof changes[1], "pipeline.micro_batches=%d", micro_batches);
    snprintf(changes[2], sizeof changes[2], "pipeline.checkpoint=%s", checkpoint);
    bool fit = open_with(FIXTURE_CHANGES(devices, changes[0], changes[1], changes[2], rules), &session, &err) == GP_OK;
    gp_session_close(&session);
    return fit;
}

/* With mini-batches of one sample, as little is kept as can be. */
static bool fits_a_sample(const char *devices, const char *rules) {
    gp_error err = {0};
    gp_session *session = NULL;
    bool fit = open_with(FIXTURE_CHANGES(devices, rules, "data.batch=1", "pipeline.checkpoint=always"), &session,
                         &err) == GP_OK;
    gp_session_close(&session);
    return fit;
}

/* Whether mini-batches of so many samples (0: as configured) fit with any number of micro-batches, on two such devices.
 */
static bool fits_within(size_t limit, int batch) {
    static const char *const modes[] = {"always", "never"};
    char devices[96], samples[32] = "", pieces[48], mode[48];
    snprintf(devices, sizeof devices, "pipeline.devices=[{cpu: {memory: %zu, count: 2}}]", limit);
    if (batch > 0) snprintf(samples, sizeof samples, "data.batch=%d", batch);
    bool fit = false;
    for (int m = 0; m < 5 && !fit && (batch == 0 || 1 << m <= batch); m++) {
        for (int c = 0; c < 2 && !fit; c++) {
            gp_error err = {0};
            gp_session *session = NULL;
            snprintf(pieces, sizeof pieces, "pipeline.micro_batches=%d", 1 << m);
            snprintf(mode, sizeof mode, "pipeline.checkpoint=%s", modes[c]);
            const char *changes[] = {devices, pieces, mode, "pipeline.balance=size", batch > 0 ? samples : NULL, NULL};
            fit = open_with(changes, &session, &err) == GP_OK;
            gp_session_close(&session);
        }
    }
    return fit;
}

/* The least memory of two such devices in which they fit, to about 0.2 %. `enough` is enough. */
static size_t least_memory(size_t enough, int batch) {
    size_t little = 0;
    assert_true(fits_within(enough, batch));
    while (enough - little > enough / 500 + 1) {
        size_t middle = little + (enough - little) / 2;
        if (fits_within(middle, batch))
            enough = middle;
        else
            little = middle;
    }
    return enough;
}

/* Between the memory that two samples need and the memory that the configured batch needs, only the batch helps. */
static void a_smaller_batch_is_proposed_if_only_that_helps(void **state) {
    (void)state;
    char devices[96], remedy[4][96];
    gp_error err = {0};
    gp_session *session = fixture_session(
        FIXTURE_CHANGES("pipeline.micro_batches=1", "pipeline.checkpoint=never", "pipeline.balance=size"));
    size_t enough = 2 * largest_arena(session);
    gp_session_close(&session);
    size_t small = least_memory(enough, 2);
    if (fits_within(small, 0)) skip(); /* scratchpads so large that the batch hardly counts */
    snprintf(devices, sizeof devices, "pipeline.devices=[{cpu: {memory: %zu, count: 2}}]", small);
    const char *changes[8] = {devices, "pipeline.micro_batches=1", "pipeline.balance=size"};
    assert_int_equal(open_with(changes, &session, &err), GP_CONFIG);
    assert_non_null(strstr(err.text, "; with this batch nothing makes it fit; it fits with data.batch: "));
    int count = read_remedy(err.text, remedy);
    for (int i = 0; i < count; i++) changes[3 + i] = remedy[i];
    if (open_with(changes, &session, &err) != GP_OK) fail_msg("%s", err.text);
    gp_session_close(&session);
}

/* Whatever is proposed fits when it is done; and where nothing is proposed, nothing of the kind fits. With batch norm
 * the micro-batches stay as many: of 16 samples, more would show it fewer than 16. */
static void check_proposals(bool norm) {
    static const char *const balances[] = {"auto", "[2, 6]", "size"};
    const char *rules = norm ? "model.rules={}" : "model.rules={batch_norm: {freeze: true}}";
    int proposed = 0, hopeless = 0, micro_batches = 0;
    for (int b = 0; b < 3; b++) {
        char balance[64];
        snprintf(balance, sizeof balance, "pipeline.balance=%s", balances[b]);
        gp_session *session =
            fixture_session(FIXTURE_CHANGES("pipeline.micro_batches=1", "pipeline.checkpoint=never", balance, rules));
        size_t most = largest_arena(session);
        gp_session_close(&session);
        session =
            fixture_session(FIXTURE_CHANGES("pipeline.micro_batches=16", "pipeline.checkpoint=always", balance, rules));
        size_t least = largest_arena(session);
        gp_session_close(&session);
        if (least >= most) continue; /* scratchpads of one sample that are larger than those of 16 */
        /* From less than any change makes fit to almost enough. */
        size_t span = most - least;
        for (size_t limit = least > 2 * span ? least - span : least / 2; limit < most; limit += 1 + span / 9) {
            char devices[96], remedy[4][96];
            gp_error err = {0};
            snprintf(devices, sizeof devices, "pipeline.devices=[{cpu: {memory: %zu}}, {cpu: {memory: %zu}}]", limit,
                     limit);
            const char *changes[10] = {devices, "pipeline.micro_batches=1", "pipeline.checkpoint=never", balance,
                                       rules};
            gp_status status = open_with(changes, &session, &err);
            gp_session_close(&session);
            if (status == GP_OK && b != 1) continue; /* with less memory another cut was found */
            assert_int_equal(status, GP_CONFIG);
            int count = read_remedy(err.text, remedy);
            for (int i = 0; i < count; i++) changes[5 + i] = remedy[i];
            micro_batches += strstr(err.text, "micro_batches: ") != NULL;
            if (count > 0) {
                proposed++;
                if (open_with(changes, &session, &err) != GP_OK) fail_msg("%s", err.text);
                gp_session_close(&session);
                continue;
            }
            hopeless++;
            bool one_layer =
                strstr(err.text, "; neither more stages nor a smaller batch help; its device needs more memory");
            if (one_layer) assert_non_null(strstr(err.text, "layer \""));
            if (!one_layer && !norm)
                assert_non_null(strstr(err.text,
                                       "; neither checkpoint: always nor more micro-batches nor another balance nor a "
                                       "smaller batch make it fit; more stages or more memory may"));
            if (!one_layer && norm)
                assert_non_null(strstr(err.text,
                                       "; neither checkpoint: always nor more micro-batches that show batch norm "
                                       "16 samples at a time nor another balance nor a smaller batch make it "
                                       "fit; more stages or more memory may"));
            assert_false(fits_a_sample(devices, rules));
            for (int m = 1; m <= (norm ? 1 : 16); m *= 2) {
                assert_false(fits(devices, balances[b], m, "never", rules));
                assert_false(fits(devices, balances[b], m, "always", rules));
                assert_false(fits(devices, "size", m, "always", rules));
                assert_false(fits(devices, "auto", m, "always", rules));
            }
        }
    }
    assert_true(proposed >= 5);
    assert_true(hopeless >= 3);
    assert_true(norm ? micro_batches == 0 : micro_batches > 0);
}

static void what_a_refusal_proposes_fits(void **state) {
    (void)state;
    check_proposals(true);
    check_proposals(false);
}

/* The numbers of a refusal: `least` as the memory of each device is enough for a balance, a byte less is not; and a
 * plan needs more than it may use. Returns whether the sentence says the least. */
static bool check_least(const char *text, const char *const *changes, size_t limit) {
    char devices[96];
    const char *all[8] = {devices};
    size_t needs = 0, least = 0;
    for (int i = 0; changes[i]; i++) all[i + 1] = changes[i];
    for (int round = 0; round < 3; round++) {
        gp_error err = {0};
        gp_session *session = NULL;
        snprintf(devices, sizeof devices, "pipeline.devices=[{cpu: {memory: %zu, count: 3}}]",
                 round == 0   ? limit
                 : round == 1 ? least
                              : least - 1);
        gp_config *config = fixture_config(text, all);
        gp_status status = gp_session_open(&config, NULL, &session, &err);
        gp_session_close(&session);
        if (round == 0 && status == GP_OK) return false;
        assert_int_equal(status, round == 1 ? GP_OK : GP_CONFIG);
        if (round > 0) continue;
        const char *at = strstr(err.text, " needs ");
        assert_non_null(at);
        assert_int_equal(sscanf(strchr(at, '('), "(%zu bytes)", &needs), 1);
        assert_true(needs > limit);
        at = strstr(err.text, "; the least memory with which 3 stages fit is ");
        if (!at) return false;
        assert_int_equal(sscanf(strchr(at, '('), "(%zu bytes)", &least), 1);
        assert_true(least > limit);
    }
    return true;
}

static size_t largest_arena_with(const char *text, const char *const *changes) {
    gp_error err = {0};
    gp_session *session = NULL;
    gp_config *config = fixture_config(text, changes);
    if (gp_session_open(&config, NULL, &session, &err) != GP_OK) fail_msg("%s", err.text);
    size_t most = largest_arena(session);
    gp_session_close(&session);
    return most;
}

static void the_least_memory_fits_and_a_byte_less_does_not(void **state) {
    (void)state;
    static const char plain[] =
        "model:\n  input: {shape: [2, 4, 4]}\n  layers: [flatten, linear: 32, relu, linear: 32, gelu, linear: 32, "
        "relu, "
        "linear: 32, relu, linear: 32, relu, linear: 3]\n  loss: cross_entropy\n"
        "data: {train: {tensors: d.safetensors}, batch: 16}\n"
        "pipeline: {devices: [cpu, cpu, cpu], micro_batches: 16}\noptimizer: {adam: {lr: 0.01}}\ntrain: {steps: 2}\n";
    static const char *const schedules[] = {"pipeline.schedule=gpipe", "pipeline.schedule=1f1b"};
    int said = 0;
    for (int model = 0; model < 2; model++)
        for (int k = 0; k < 2; k++) {
            /* Scratchpads, which differ by processor, are part of what all limits must leave room for. */
            const char *text = model ? plain : FIXTURE_CONFIG;
            size_t most = largest_arena_with(
                text, FIXTURE_CHANGES("pipeline.devices=[cpu, cpu, cpu]", "pipeline.checkpoint=always", schedules[k]));
            for (size_t less = 1; less < 36000 && less < most; less += 4000)
                said += check_least(text, FIXTURE_CHANGES("pipeline.checkpoint=always", schedules[k]), most - less);
        }
    assert_true(said >= 4);
}

/* One stage has one balance, whose plan says what it needs. */
static void one_stage_needs_what_its_plan_needs(void **state) {
    (void)state;
    gp_error err = {0};
    gp_session *session = fixture_session(FIXTURE_CHANGES("pipeline={devices: [cpu]}"));
    char devices[96];
    snprintf(devices, sizeof devices, "pipeline={devices: [{cpu: {memory: %zu}}]}", largest_arena(session) - 1);
    gp_session_close(&session);
    assert_int_equal(open_with(FIXTURE_CHANGES(devices), &session, &err), GP_CONFIG);
    assert_null(strstr(err.text, "least memory"));
}

/* ---- batch norm -------------------------------------------------------------------------------------------------- */

static void expect_norm(int64_t least, int64_t most, int64_t joined, const char *const *changes) {
    gp_session *session = fixture_session(changes);
    gp_norm_samples norm = gp_plan_norm_samples(session->plan);
    assert_int_equal(norm.least, least);
    assert_int_equal(norm.most, most);
    assert_int_equal(norm.joined, joined);
    gp_session_close(&session);
}

static void batch_norm_sees_shares_of_micro_batches(void **state) {
    (void)state;
    expect_norm(4, 4, 4, NULL);
    expect_norm(16, 16, 16, FIXTURE_CHANGES("pipeline.micro_batches=1"));
    expect_norm(3, 4, 3, FIXTURE_CHANGES("data.batch=15"));
    const char *two = "pipeline.devices=[[cpu, cpu], cpu]", *four = "pipeline.devices=[[cpu, cpu, cpu, cpu], cpu]";
    expect_norm(2, 2, 4, FIXTURE_CHANGES(two));
    expect_norm(4, 4, 4, FIXTURE_CHANGES(two, "model.rules={batch_norm: {sync: true}}"));
    expect_norm(1, 1, 4, FIXTURE_CHANGES(four));
    expect_norm(2, 2, 4, FIXTURE_CHANGES(four, "model.rules={batch_norm: {sync: 2}}"));
    expect_norm(0, 0, 0, FIXTURE_CHANGES("model.rules={batch_norm: {freeze: true}}"));
    expect_norm(0, 0, 0, FIXTURE_CHANGES("train={steps: 0}"));
}

/* With many samples more micro-batches are proposed after all that keeps them, and never so many that batch norm sees
 * fewer than 16 samples at a time. The sentence says how many. */
static void more_micro_batches_are_the_last_resort_of_batch_norm(void **state) {
    (void)state;
    static const char *const always[] = {"pipeline.micro_batches=1", "pipeline.checkpoint=always",
                                         "pipeline.balance=size"};
    size_t arena[2];
    int proposed = 0;
    for (int i = 0; i < 2; i++) {
        gp_session *session = fixture_session(
            FIXTURE_CHANGES("data.batch=50", i ? "pipeline.micro_batches=3" : always[0], always[1], always[2]));
        arena[i] = largest_arena(session);
        gp_session_close(&session);
    }
    for (size_t limit = arena[1] / 2; limit < arena[0]; limit += 1 + arena[0] / 24) {
        char devices[96], remedy[4][96];
        gp_error err = {0};
        gp_session *session = NULL;
        snprintf(devices, sizeof devices, "pipeline.devices=[{cpu: {memory: %zu, count: 2}}]", limit);
        const char *changes[10] = {devices, "data.batch=50", always[0], always[1], always[2]};
        gp_status status = open_with(changes, &session, &err);
        gp_session_close(&session);
        if (status == GP_OK) continue;
        const char *at = strstr(err.text, "pipeline.micro_batches: ");
        assert_null(at);
        at = strstr(err.text, "; it fits with micro_batches: ");
        if (!at) continue;
        proposed++;
        assert_non_null(
            strstr(err.text, "; with as many micro-batches nothing makes it fit; it fits with micro_batches: 2"));
        assert_non_null(strstr(at, " (batch norm then sees 25 samples at a time, not 50)"));
        int count = read_remedy(err.text, remedy);
        for (int i = 0; i < count; i++) changes[5 + i] = remedy[i];
        if (open_with(changes, &session, &err) != GP_OK) fail_msg("%s", err.text);
        gp_session_close(&session);
    }
    assert_true(proposed > 0);
}

/* ---- data and steps ---------------------------------------------------------------------------------------------- */

static void expect_steps(const char *const *changes, int64_t epoch_steps, int64_t steps) {
    gp_session *session = fixture_session(changes);
    assert_int_equal(session->epoch_steps, epoch_steps);
    assert_int_equal(session->steps, steps);
    gp_session_close(&session);
}

static void the_first_of_steps_and_epochs_ends_the_run(void **state) {
    (void)state;
    expect_steps(NULL, 4, 8);
    expect_steps(FIXTURE_CHANGES("train.steps=7"), 4, 7);
    expect_steps(FIXTURE_CHANGES("train.steps=9"), 4, 8);
    expect_steps(FIXTURE_CHANGES("train={steps: 9}"), 4, 9);
    expect_steps(FIXTURE_CHANGES("data.drop_last=true"), 3, 6);
    expect_steps(FIXTURE_CHANGES("data.batch=64"), 1, 2);
}

static void a_run_has_so_many_steps_at_most(void **state) {
    (void)state;
    expect_steps(FIXTURE_CHANGES("train={steps: 4294967295}"), 4, 4294967295);
    fixture_refused(with("train: {epochs: 2}", "train: {steps: 4294967296}"), NULL, GP_CONFIG,
                    "c.yaml:24:8: train: 4294967296 steps are more than the 4294967295 of one run");
    fixture_refused(with("train: {epochs: 2}", "train: {epochs: 9007199254740992}"), NULL, GP_CONFIG,
                    "c.yaml:24:8: train: 36028797018963968 steps are more than the 4294967295 of one run");
}

static void drop_last_must_leave_something(void **state) {
    (void)state;
    fixture_refused(with("batch: 16", "batch: 51\n  drop_last: true"), NULL, GP_CONFIG,
                    "c.yaml:16:10: data.batch: 51 is more than the 50 training samples, and drop_last leaves out what "
                    "is not full: nothing is left to train on");
    expect_steps(FIXTURE_CHANGES("data.batch=50", "data.drop_last=true"), 1, 2);
}

static void expect_sizes(const char *const *changes, const gp_mini_size *sizes, int count) {
    gp_session *session = fixture_session(changes);
    assert_int_equal(session->plan->mini_count, count);
    for (int i = 0; i < count; i++) assert_true(gp_plan_find(session->plan, sizes[i].training, sizes[i].samples) >= 0);
    gp_session_close(&session);
}

static void the_sizes_that_the_run_meets_are_planned(void **state) {
    (void)state;
    expect_sizes(NULL, (const gp_mini_size[]){{16, true}, {2, true}, {14, false}}, 3);
    expect_sizes(FIXTURE_CHANGES("train.steps=3"), (const gp_mini_size[]){{16, true}, {14, false}}, 2);
    expect_sizes(FIXTURE_CHANGES("data.drop_last=true"), (const gp_mini_size[]){{16, true}, {14, false}}, 2);
    expect_sizes(FIXTURE_CHANGES("data.batch=10"), (const gp_mini_size[]){{10, true}, {10, false}, {4, false}}, 3);
    expect_sizes(FIXTURE_CHANGES("data.batch=64"), (const gp_mini_size[]){{50, true}, {14, false}}, 2);
    expect_sizes(FIXTURE_CHANGES("train.steps=0"), (const gp_mini_size[]){{14, false}}, 1);
}

static void a_run_of_no_steps_needs_no_training_data(void **state) {
    (void)state;
    gp_session *session = fixture_session(FIXTURE_CHANGES("train.steps=0", "data.train={tensors: none}"));
    assert_null(session->train);
    assert_non_null(session->eval);
    assert_int_equal(session->steps, 0);
    gp_session_close(&session);
}

static size_t memory_of(gp_session *session, gp_memory_kind kind) {
    size_t sum = 0;
    for (int s = 0; s < session->plan->stages->count; s++) sum += session->plan->stage[s].memory[kind];
    return sum;
}

static void a_run_of_no_steps_has_no_memory_for_training(void **state) {
    (void)state;
    gp_session *trains = fixture_session(NULL), *evaluates = fixture_session(FIXTURE_CHANGES("train.steps=0"));
    assert_int_equal(memory_of(evaluates, GP_MEMORY_PARAMETERS), memory_of(trains, GP_MEMORY_PARAMETERS));
    assert_int_equal(memory_of(evaluates, GP_MEMORY_GRADIENTS), 0);
    assert_int_equal(memory_of(evaluates, GP_MEMORY_OPTIMIZER), 0);
    assert_true(memory_of(trains, GP_MEMORY_GRADIENTS) > 0);
    assert_true(memory_of(trains, GP_MEMORY_OPTIMIZER) > 0);
    gp_session_close(&trains);
    gp_session_close(&evaluates);
}

static bool is_read(const gp_stage_plan *stage, size_t offset) {
    for (int i = 0; i < stage->sized_count; i++)
        for (int r = 0; r < GP_ROUTINES; r++) {
            const gp_routine *routine = &stage->sized[i].routine[r];
            for (size_t o = 0; o < routine->count; o++)
                for (int p = 0; p < GP_MAX_OPERANDS; p++)
                    if (routine->ops[o].operand[p].area == GP_AREA_FIXED && routine->ops[o].operand[p].offset == offset)
                        return true;
        }
    return false;
}

/* The forward pass reads the parameters themselves. The backward pass of the second convolution, which has groups and
 * so is no product, needs another format. */
static void a_working_copy_is_there_to_be_read(void **state) {
    (void)state;
    size_t bytes[2];
    for (int trains = 0; trains < 2; trains++) {
        const char *const changes[] = {"model.layers.0.conv.out=32", "model.layers.3.conv.out=32",
                                       "model.layers.3.conv.groups=2", trains ? NULL : "train.steps=0", NULL};
        gp_session *session = fixture_session(changes);
        for (int s = 0; s < session->plan->stages->count; s++) {
            const gp_stage_plan *stage = &session->plan->stage[s];
            for (int i = 0; i < stage->param_count; i++)
                if (stage->params[i].copy.bytes) assert_true(is_read(stage, stage->params[i].copy.offset));
        }
        bytes[trains] = memory_of(session, GP_MEMORY_WORKING);
        gp_session_close(&session);
    }
    assert_int_equal(bytes[0], 0);
    assert_true(bytes[1] > 0);
}

static void expect_opens(const char *text, const char *const *changes) {
    gp_error err = {0};
    gp_config *config = fixture_config(text, changes);
    gp_session *session = NULL;
    if (gp_session_open(&config, NULL, &session, &err) != GP_OK) fail_msg("%s", err.text);
    gp_session_close(&session);
}

static void something_must_be_left_to_train(void **state) {
    (void)state;
    static const char frozen[] = "model:\n"
                                 "  input: {shape: [2, 4, 4]}\n"
                                 "  layers: [flatten, {linear: {out: 3, freeze: true}}]\n"
                                 "  loss: cross_entropy\n"
                                 "data: {train: {tensors: d.safetensors}, eval: {tensors: d.safetensors}, batch: 16}\n"
                                 "optimizer: {sgd: 0.1}\n"
                                 "train: {epochs: 1}\n";
    fixture_refused(frozen, NULL, GP_CONFIG,
                    "c.yaml:2:3: model: every layer with parameters is frozen, and there is nothing to train; "
                    "train.steps: 0 evaluates, and --predict predicts");
    fixture_refused(frozen, FIXTURE_CHANGES("model.layers=[flatten, relu]"), GP_CONFIG,
                    "c.yaml:2:3: model: no layer has parameters, and there is nothing to train; train.steps: 0 "
                    "evaluates, and --predict predicts");
    expect_opens(frozen, FIXTURE_CHANGES("train.steps=0"));
    expect_opens(frozen, FIXTURE_CHANGES("train.steps=0", "model.layers=[flatten, relu]"));
}

static void files_are_checked_before_anything_runs(void **state) {
    (void)state;
    fixture_refused(
        FIXTURE_CONFIG, FIXTURE_CHANGES("data.train={tensors: none.safetensors}"), GP_DATA,
        "--set data.train={tensors: none.safetensors}: none.safetensors: cannot be opened: No such file or directory");
    fixture_refused(
        FIXTURE_CONFIG, FIXTURE_CHANGES("data.eval={tensors: none.safetensors}"), GP_DATA,
        "--set data.eval={tensors: none.safetensors}: none.safetensors: cannot be opened: No such file or directory");
    fixture_refused(FIXTURE_CONFIG, FIXTURE_CHANGES("train.init=none.safetensors"), GP_DATA,
                    "--set train.init=none.safetensors: none.safetensors: cannot be opened: No such file or directory");
    fixture_refused(FIXTURE_CONFIG, FIXTURE_CHANGES("train.init=d.safetensors"), GP_DATA,
                    "--set train.init=d.safetensors: d.safetensors: tensor \"0.weight\" is missing");
    fixture_refused(FIXTURE_CONFIG,
                    FIXTURE_CHANGES("model.layers.7.linear={out: 3, name: head.fc}",
                                    "train.init={file: d.safetensors, skip: haed}"),
                    GP_CONFIG,
                    "--set train.init={file: d.safetensors, skip: haed}: train.init.skip: the model has no layer "
                    "\"haed\" with parameters; did you mean head?");
    fixture_refused(FIXTURE_CONFIG, FIXTURE_CHANGES("pipeline.schedule={file: none.txt}"), GP_CONFIG,
                    "--set pipeline.schedule={file: none.txt}: none.txt: cannot be opened: No such file or directory");
    fixture_refused(with("balance: auto", "schedule: {file: none.txt}"), NULL, GP_CONFIG,
                    "c.yaml:20:20: none.txt: cannot be opened: No such file or directory");
    FILE *zero = fopen(fixture_path("zero.txt"), "w");
    assert_non_null(zero);
    fwrite("F0\0", 1, 3, zero);
    fclose(zero);
    fixture_refused(FIXTURE_CONFIG, FIXTURE_CHANGES("pipeline.schedule={file: zero.txt}"), GP_CONFIG,
                    "--set pipeline.schedule={file: zero.txt}: zero.txt: is not text: byte 2 is 0");
    fixture_refused(with("take: [50, 64]", "take: [50, 65]"), NULL, GP_CONFIG,
                    "c.yaml:15:40: take: [50, 65] is not a range of the 64 samples of d.safetensors; "
                    "0 ≤ from < to ≤ 64 is the rule");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_per_stage_run_as_given),
        cmocka_unit_test(auto_balances_time_and_size_balances_bytes),
        cmocka_unit_test(a_balance_is_that_of_the_micro_batchs_size),
        cmocka_unit_test(a_balance_is_that_of_the_stages_shares),
        cmocka_unit_test(a_slow_link_carries_few_values),
        cmocka_unit_test(a_balance_of_other_sum_is_refused),
        cmocka_unit_test(more_stages_than_layers_are_refused),
        cmocka_unit_test(a_device_that_this_build_lacks_is_refused),
        cmocka_unit_test(the_precision_is_every_layers),
        cmocka_unit_test(a_plan_over_memory_is_refused_with_the_numbers),
        cmocka_unit_test(a_balance_keeps_within_the_memory_of_replicas),
        cmocka_unit_test(a_refused_plan_has_the_devices_place),
        cmocka_unit_test(a_smaller_batch_is_proposed_if_only_that_helps),
        cmocka_unit_test(what_a_refusal_proposes_fits),
        cmocka_unit_test(the_least_memory_fits_and_a_byte_less_does_not),
        cmocka_unit_test(one_stage_needs_what_its_plan_needs),
        cmocka_unit_test(batch_norm_sees_shares_of_micro_batches),
        cmocka_unit_test(more_micro_batches_are_the_last_resort_of_batch_norm),
        cmocka_unit_test(the_first_of_steps_and_epochs_ends_the_run),
        cmocka_unit_test(a_run_has_so_many_steps_at_most),
        cmocka_unit_test(drop_last_must_leave_something),
        cmocka_unit_test(the_sizes_that_the_run_meets_are_planned),
        cmocka_unit_test(a_run_of_no_steps_needs_no_training_data),
        cmocka_unit_test(a_run_of_no_steps_has_no_memory_for_training),
        cmocka_unit_test(a_working_copy_is_there_to_be_read),
        cmocka_unit_test(something_must_be_left_to_train),
        cmocka_unit_test(files_are_checked_before_anything_runs),
    };
    return cmocka_run_group_tests_name("session", tests, fixture_make, fixture_remove);
}
