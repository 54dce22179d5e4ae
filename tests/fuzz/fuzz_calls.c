/* What the processes of a run tell one another: calls and lists, answers, findings, reports, spans. The first byte says
 * which process this is; all that it receives comes from the input, and then it is zeros. The run goes on, or fails
 * with a sentence.
 *
 * Workers of this process have threads. What they receive, values and gradients, is zeros, so that only the main thread
 * reads the input. */
#include <stdatomic.h>
#include <string.h>

#include "device/ref/ref.h"
#include "fuzz/fuzz.h"
#include "pipeline/follow.h"
#include "pipeline/harness.h"
#include "pipeline/team_internal.h"
#include "plan/tags.h"

enum { BATCH = 8, LAST = 4, MICRO_BATCHES = 2, MOST_CALLS = 12 };

/* Small, since an input is up to twelve steps. */
static const char network[] = "input: {shape: [3]}\n"
                              "layers: [{linear: 2}, batch_norm, {add: [-1, -1]}, {linear: 2}]\n"
                              "loss: mse\n";

typedef struct byte_wire {
    gp_wire wire;
    const uint8_t *at;
    size_t left;
    uint32_t first; /* tag that is no edge's */
    int calls;
} byte_wire;

/* After the input, or too many, a call is the last one: a process that follows would go on for ever. */
static void fill(byte_wire *its, const gp_parcel *parcel) {
    size_t bytes = parcel->bytes < its->left ? parcel->bytes : its->left;
    bool call = parcel->tag == its->first + GP_TAG_CALL, ends = call && (its->left == 0 || ++its->calls > MOST_CALLS);
    memset(parcel->address, 0, parcel->bytes);
    if (parcel->tag < its->first) return;
    if (bytes > 0 && !ends) memcpy(parcel->address, its->at, bytes);
    its->at += bytes;
    its->left -= bytes;
    if (ends) ((gp_call *)parcel->address)->kind = GP_CALL_END;
}

static void post(gp_wire *wire, gp_parcel *parcel) {
    if (parcel->receives) fill((byte_wire *)wire, parcel);
    gp_parcel *then = gp_parcel_end(parcel);
    if (then) gp_wire_post(wire, then);
}

static void halt(gp_wire *wire) {
    (void)wire;
}

/* ---- a process that follows -------------------------------------------------------------------------------------- */

static gp_status take(void *context, bool training, int64_t epoch, int64_t index, int64_t samples, gp_step_input *out,
                      int64_t *counted, gp_error *err) {
    harness *h = context;
    (void)training;
    (void)index;
    FUZZ_PROMISE(samples == BATCH || samples == LAST);
    if (epoch > 3) return gp_fail(err, GP_DATA, "the data have three epochs");
    out->input = h->input;
    out->target = h->target;
    *counted = samples;
    return GP_OK;
}

static gp_status answer(void *context, int question, int64_t number, gp_error *err) {
    (void)context;
    return question == 0 ? GP_OK : gp_fail(err, GP_DATA, "%d, %lld", question, (long long)number);
}

static gp_status follow(harness *h, gp_error *err) {
    const gp_feed feed = {h, take, answer};
    bool goes_on;
    return gp_run_follow(h->run, &feed, &goes_on, err);
}

/* ---- process 0 --------------------------------------------------------------------------------------------------- */

static gp_status diagnose(harness *h, const gp_step_input *input, gp_error *err) {
    gp_finding finding = {0};
    char text[GP_FINDING_TEXT];
    GP_RETURN_IF_FAILED(gp_run_diagnose(h->run, 0, input, &finding, err));
    if (finding.found) FUZZ_PROMISE(strlen(gp_finding_text(text, h->plan, 0, &finding)) > 0);
    return GP_OK;
}

static gp_status ask(harness *h, gp_error *err) {
    gp_error failure = {0};
    GP_RETURN_IF_FAILED(gp_run_ask(h->run, 0, 0, err));
    GP_RETURN_IF_FAILED(gp_run_answers(h->run, &failure, err));
    if (failure.status == GP_INTERNAL) failure.status = GP_DATA; /* another process's */
    fuzz_check(failure.status == GP_OK ? GP_OK : failure.status, &failure);
    return GP_OK;
}

static gp_status count(harness *h, const gp_step_input *input, gp_error *err) {
    int64_t counted = 0;
    GP_RETURN_IF_FAILED(gp_run_count(h->run, 0, input, 0, &counted, err));
    FUZZ_PROMISE(counted >= 0 && counted <= BATCH * h->target_elements);
    return GP_OK;
}

static gp_status step(harness *h, const gp_step_input *input, gp_recorder *recorder, gp_error *err) {
    gp_step_result result;
    if (recorder) GP_RETURN_IF_FAILED(gp_lane_reserve(&recorder->lanes[0], gp_team_spans(h->run, 0, 0), err));
    gp_run_record(h->run, recorder);
    gp_status status = gp_run_step(h->run, 0, input, &result, err);
    gp_run_record(h->run, NULL);
    return status;
}

static gp_status lead(harness *h, const uint8_t *calls, gp_error *err) {
    const gp_step_input input = {.input = h->input, .target = h->target, .step = 1, .rate = 0.1, .divisor = BATCH};
    gp_recorder *recorder = NULL;
    gp_status status = gp_recorder_create(h->plan->workers, &recorder, err);
    for (int c = 0; c < MOST_CALLS && calls[c] && status == GP_OK; c++) {
        switch (calls[c] % 5) {
        case 0: status = ask(h, err); break;
        case 1: status = diagnose(h, &input, err); break;
        case 2: status = step(h, &input, recorder, err); break;
        case 3: status = count(h, &input, err); break;
        default: status = step(h, &input, NULL, err); break;
        }
    }
    gp_recorder_destroy(&recorder);
    return status;
}

/* ---- one input --------------------------------------------------------------------------------------------------- */

/* The plans of the two processes: process 0 has the first stage. */
static void plan(harness processes[2]) {
    static const int64_t layers[] = {3, 1};
    static const int process[] = {0, 1};
    for (int p = 0; p < 2; p++) {
        const harness_options options = {.model = network,
                                         .layers = layers,
                                         .stages = 2,
                                         .kind = &gp_ref_kind,
                                         .real = GP_F32,
                                         .micro_batches = MICRO_BATCHES,
                                         .batch = BATCH,
                                         .last = LAST,
                                         .evaluation = BATCH,
                                         .processes = 2,
                                         .rank = p,
                                         .process = process};
        harness_plan(&processes[p], &options);
        harness_make_data(&processes[p], BATCH, 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static const gp_wire_kind kind = {"bytes", post, halt};
    static harness processes[2];
    gp_error err = {0};
    if (size < 1 + MOST_CALLS) return 0;
    if (!processes[0].plan) plan(processes);
    int rank = bytes[0] & 1;
    harness *h = &processes[rank];
    byte_wire wire = {{&kind, rank, 2, UINT32_MAX}, bytes + 1, size - 1, gp_tags_end(h->plan), 0};
    if (rank == 0) {
        wire.at += MOST_CALLS;
        wire.left -= MOST_CALLS;
    }
    FUZZ_PROMISE(gp_run_create_team(h->plan, NULL, &wire.wire, &h->run, &err) == GP_OK);
    gp_status status = rank > 0 ? follow(h, &err) : lead(h, bytes + 1, &err);
    if (status == GP_INTERNAL) err.status = status = GP_DATA; /* the other process's mistake */
    fuzz_check(status, &err);
    gp_run_destroy(&h->run);
    return 0;
}
