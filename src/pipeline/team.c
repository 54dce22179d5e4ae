#include "pipeline/team.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "pipeline/clock_offset.h"
#include "pipeline/follow.h"
#include "pipeline/team_internal.h"
#include "plan/layer_ticks.h"
#include "plan/loads.h"
#include "plan/tags.h"

/* ---- open, close ------------------------------------------------------------------------------------------------- */

gp_status gp_team_open(gp_run *run, gp_error *err) {
    const gp_plan *plan = run->plan;
    if (!run->wire) return GP_OK;
    GP_RETURN_IF_FAILED(GP_NEW(&run->team, 1, err));
    run->team->tags = gp_tags_end(plan);
    if (run->team->tags + GP_TEAM_TAGS > run->wire->tags)
        return gp_fail(err, GP_UNSUPPORTED,
                       "the run has %u kinds of messages between processes, but %s allows only %u; give it fewer "
                       "micro-batches or stages",
                       run->team->tags + GP_TEAM_TAGS, run->wire->kind->name, run->wire->tags);
    size_t processes = (size_t)plan->processes;
    run->team->to = aligned_alloc(_Alignof(gp_outgoing), processes * sizeof(gp_outgoing));
    if (!run->team->to) return gp_fail(err, GP_MEMORY, "out of memory: calls to %d processes", plan->processes);
    memset(run->team->to, 0, processes * sizeof(gp_outgoing));
    for (size_t p = 0; p < processes; p++) {
        gp_parcel_init(&run->team->to[p].head);
        gp_parcel_init(&run->team->to[p].list);
    }
    return GP_NEW(&run->team->entries, gp_team_entries(plan), err);
}

static bool calls(const gp_run *run) {
    return run->team && run->plan->rank == 0;
}

/* The end, if the others do not know it yet, and until all calls have gone. */
void gp_run_dismiss(gp_run *run) {
    gp_error ignored = {0};
    if (!calls(run) || gp_cancelled(&run->cancel)) return;
    if (!run->team->over && gp_team_call(run, GP_CALL_END, 0, NULL, NULL, 0, &ignored) != GP_OK) return;
    run->team->over = true;
    for (int p = 1; p < run->plan->processes; p++)
        if (gp_parcel_wait(&run->team->to[p].head, &run->cancel, &ignored) != GP_OK) return;
}

void gp_team_close(gp_run *run) {
    gp_team *team = run->team;
    if (!team) return;
    if (team->to) gp_run_dismiss(run);
    if (gp_cancelled(&run->cancel)) run->wire->kind->halt(run->wire);
    gp_recorder_destroy(&team->recorder);
    free(team->offsets);
    free(team->entries);
    free(team->to);
    free(team);
    run->team = NULL;
}

/* ---- the clocks of the processes --------------------------------------------------------------------------------- */

static gp_status find_offset(gp_run *run, int process, int64_t *out, gp_error *err) {
    gp_clock_range range = gp_clock_range_open();
    for (int round = 0; round < GP_ALIGN_ROUNDS; round++) {
        uint64_t theirs, began = gp_clock();
        GP_RETURN_IF_FAILED(gp_wire_send_now(run->wire, process, gp_team_tag_of(run, GP_TAG_CLOCK), &began,
                                             sizeof began, &run->cancel, err));
        GP_RETURN_IF_FAILED(gp_wire_receive_now(run->wire, process, gp_team_tag_of(run, GP_TAG_CLOCK), &theirs,
                                                sizeof theirs, &run->cancel, err));
        gp_clock_range_narrow(&range, began, theirs, gp_clock());
    }
    *out = gp_clock_range_offset(&range);
    return GP_OK;
}

gp_status gp_team_tell_clock(gp_run *run, gp_error *err) {
    for (int round = 0; round < GP_ALIGN_ROUNDS; round++) {
        uint64_t now;
        GP_RETURN_IF_FAILED(
            gp_wire_receive_now(run->wire, 0, gp_team_tag_of(run, GP_TAG_CLOCK), &now, sizeof now, &run->cancel, err));
        now = gp_clock();
        GP_RETURN_IF_FAILED(
            gp_wire_send_now(run->wire, 0, gp_team_tag_of(run, GP_TAG_CLOCK), &now, sizeof now, &run->cancel, err));
    }
    return GP_OK;
}

static gp_status align_clocks(gp_run *run, gp_error *err) {
    gp_team *team = run->team;
    if (!team->offsets) GP_RETURN_IF_FAILED(GP_NEW(&team->offsets, run->plan->processes, err));
    for (int p = 1; p < run->plan->processes; p++) GP_RETURN_IF_FAILED(find_offset(run, p, &team->offsets[p], err));
    team->aligned = gp_clock();
    return GP_OK;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static uint32_t flags_of(const gp_run *run, gp_call_kind kind) {
    if (!run->recorder || (kind != GP_CALL_STEP && kind != GP_CALL_DIAGNOSE)) return 0;
    bool aligned = run->team->offsets && gp_clock() - run->team->aligned < GP_ALIGN_NANOSECONDS;
    return GP_CALL_RECORDS | (run->recorder->ticks ? GP_CALL_TICKS : 0) | (aligned ? 0 : GP_CALL_ALIGNS);
}

static gp_status list_entries(gp_run *run, const gp_tensor_copy *copies, int count, gp_error *err) {
    if (count > gp_team_entries(run->plan)) return gp_fail(err, GP_INTERNAL, "%d tensors are too many", count);
    for (int i = 0; i < count; i++) run->team->entries[i] = (gp_call_entry){copies[i].param, copies[i].state};
    return GP_OK;
}

gp_status gp_team_call(gp_run *run, gp_call_kind kind, int mini, const gp_step_input *input,
                       const gp_tensor_copy *copies, int count, gp_error *err) {
    gp_team *team = run->team;
    if (!calls(run)) return GP_OK;
    gp_call its = {.kind = kind, .flags = flags_of(run, kind), .mini = mini, .count = count};
    if (input) {
        its.seed = input->seed;
        its.step = input->step;
        its.epoch = input->epoch;
        its.index = input->index;
        its.rate = input->rate;
        its.divisor = input->divisor;
    }
    for (int p = 1; p < run->plan->processes; p++) { /* of the call before */
        GP_RETURN_IF_FAILED(gp_parcel_wait(&team->to[p].head, &run->cancel, err));
        GP_RETURN_IF_FAILED(gp_parcel_wait(&team->to[p].list, &run->cancel, err));
    }
    GP_RETURN_IF_FAILED(list_entries(run, copies, count, err));
    team->calls++;
    for (int p = 1; p < run->plan->processes; p++) {
        team->to[p].call = its;
        gp_wire_send(run->wire, &team->to[p].head, team->calls, p, gp_team_tag_of(run, GP_TAG_CALL), &team->to[p].call,
                     sizeof its);
        gp_wire_send(run->wire, &team->to[p].list, team->calls, p, gp_team_tag_of(run, GP_TAG_LIST), team->entries,
                     (size_t)count * sizeof(gp_call_entry));
    }
    return its.flags & GP_CALL_ALIGNS ? align_clocks(run, err) : GP_OK;
}

gp_status gp_team_settle(gp_run *run, gp_status status, const gp_error *err) {
    const gp_error unsaid = {.status = status};
    if (status != GP_OK && run->team) (void)gp_cancel_raise(&run->cancel, err ? err : &unsaid);
    return status;
}

/* ---- before a step ----------------------------------------------------------------------------------------------- */

static bool another_counts(const gp_plan *plan) {
    for (int p = 1; p < plan->processes; p++)
        if (gp_plan_loads(plan, p, GP_VALUE_TARGET)) return true;
    return false;
}

/* Together they can count as many targets as the mini-batch has. */
static gp_status receive_count(gp_run *run, int mini, int process, int64_t *sum, gp_error *err) {
    const gp_plan *plan = run->plan;
    int64_t elements, counted;
    if (!gp_shape_elements(plan->graph->values[GP_VALUE_TARGET].shape, &elements)) elements = 0;
    GP_RETURN_IF_FAILED(gp_wire_receive_now(run->wire, process, gp_team_tag_of(run, GP_TAG_COUNT), &counted,
                                            sizeof counted, &run->cancel, err));
    if (counted < 0 || counted > plan->minis[mini].samples * elements - *sum)
        return gp_fail(err, GP_INTERNAL, "process %d has counted more targets than there are", process);
    *sum += counted;
    return GP_OK;
}

gp_status gp_run_count(gp_run *run, int mini, const gp_step_input *input, int64_t own, int64_t *out, gp_error *err) {
    *out = own;
    if (!calls(run) || !another_counts(run->plan)) return GP_OK;
    GP_RETURN_IF_FAILED(gp_team_call(run, GP_CALL_COUNT, mini, input, NULL, 0, err));
    gp_status status = GP_OK;
    for (int p = 1; p < run->plan->processes && status == GP_OK; p++)
        if (gp_plan_loads(run->plan, p, GP_VALUE_TARGET)) status = receive_count(run, mini, p, out, err);
    return gp_team_settle(run, status, err);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

/* Moves a block between process `home` and the process of its worker. */
static void move_block(gp_run *run, bool in, const gp_block *block, int home, gp_parcel *parcel) {
    bool at_home = run->plan->rank == home;
    int other = at_home ? run->plan->process[block->worker] : home;
    bool receives = in != at_home;
    if (receives)
        gp_wire_receive(run->wire, parcel, 1, other, gp_team_tag_of(run, GP_TAG_BLOCK), block->host, block->bytes);
    else
        gp_wire_send(run->wire, parcel, 1, other, gp_team_tag_of(run, GP_TAG_BLOCK), block->host, block->bytes);
}

static gp_status wait_for_blocks(gp_run *run, gp_parcel *parcels, size_t count, gp_error *err) {
    for (size_t i = 0; i < count; i++) {
        gp_status status = gp_parcel_wait(&parcels[i], &run->cancel, err);
        if (status == GP_OK) continue;
        run->wire->kind->halt(run->wire); /* the parcels end with this command */
        return status;
    }
    return GP_OK;
}

/* Another process than `home` has its own blocks only, each with memory of its own. */
static gp_status make_own(gp_run *run, const gp_block *blocks, size_t count, gp_block *own, size_t *used, char **memory,
                          gp_error *err) {
    size_t bytes = 0;
    *used = 0;
    for (size_t i = 0; i < count; i++) {
        if (gp_run_is_far(run, blocks[i].worker)) continue;
        own[*used] = blocks[i];
        own[(*used)++].host = (void *)(uintptr_t)bytes; /* its place, for now */
        bytes += gp_align_up(blocks[i].bytes, GP_ALIGNMENT);
    }
    GP_RETURN_IF_FAILED(gp_new_array((void **)memory, bytes, 1, err));
    for (size_t i = 0; i < *used; i++) own[i].host = *memory + (uintptr_t)own[i].host;
    return GP_OK;
}

static gp_status copy_own(gp_run *run, bool in, const gp_block *blocks, size_t count, gp_error *err) {
    const gp_command command = {
        .kind = in ? GP_COMMAND_WRITE : GP_COMMAND_READ, .blocks = blocks, .block_count = count};
    return gp_run_post(run, &command, err);
}

static gp_status copy_at_home(gp_run *run, bool in, const gp_block *blocks, size_t count, gp_parcel *parcels,
                              gp_error *err) {
    size_t under_way = 0;
    for (size_t i = 0; i < count; i++)
        if (gp_run_is_far(run, blocks[i].worker))
            move_block(run, in, &blocks[i], run->plan->rank, &parcels[under_way++]);
    gp_status status = copy_own(run, in, blocks, count, err);
    if (status != GP_OK) run->wire->kind->halt(run->wire);
    return status == GP_OK ? wait_for_blocks(run, parcels, under_way, err) : status;
}

static gp_status copy_away(gp_run *run, bool in, const gp_block *blocks, size_t count, int home, gp_block *own,
                           gp_parcel *parcels, gp_error *err) {
    char *memory = NULL;
    size_t used = 0;
    GP_RETURN_IF_FAILED(make_own(run, blocks, count, own, &used, &memory, err));
    if (used == 0) {
        free(memory);
        return GP_OK;
    }
    gp_status status = in ? GP_OK : copy_own(run, false, own, used, err);
    if (status == GP_OK) {
        for (size_t i = 0; i < used; i++) move_block(run, in, &own[i], home, &parcels[i]);
        status = wait_for_blocks(run, parcels, used, err);
    }
    if (status == GP_OK && in) status = copy_own(run, true, own, used, err);
    free(memory);
    return status;
}

gp_status gp_team_copy(gp_run *run, bool in, const gp_block *blocks, size_t count, int home, gp_error *err) {
    gp_block *own = NULL;
    if (!run->team) return copy_own(run, in, blocks, count, err);
    gp_parcel *parcels = aligned_alloc(_Alignof(gp_parcel), (count ? count : 1) * sizeof *parcels);
    if (!parcels) return gp_fail(err, GP_MEMORY, "out of memory: %zu messages", count);
    for (size_t i = 0; i < count; i++) gp_parcel_init(&parcels[i]);
    gp_status status = GP_NEW(&own, count, err);
    if (status == GP_OK)
        status = run->plan->rank == home ? copy_at_home(run, in, blocks, count, parcels, err)
                                         : copy_away(run, in, blocks, count, home, own, parcels, err);
    free(own);
    free(parcels);
    return status;
}

/* ---- after a step ------------------------------------------------------------------------------------------------ */

gp_status gp_team_report(gp_run *run, gp_step_scalars *report, gp_error *err) {
    const gp_plan *plan = run->plan;
    int root = run->team ? plan->process[plan->stage[gp_stages_root(plan->stages)].worker] : 0;
    if (root == 0) return GP_OK;
    if (plan->rank == root)
        return gp_wire_send_now(run->wire, 0, gp_team_tag_of(run, GP_TAG_REPORT), report, sizeof *report, &run->cancel,
                                err);
    if (plan->rank > 0) return GP_OK;
    return gp_wire_receive_now(run->wire, root, gp_team_tag_of(run, GP_TAG_REPORT), report, sizeof *report,
                               &run->cancel, err);
}

size_t gp_team_spans(const gp_run *run, int mini, int worker) {
    return run->plan->minis[mini].programs->worker[worker].count;
}

size_t gp_team_ticks(const gp_run *run, int mini, int worker) {
    return run->recorder->ticks ? gp_mini_ticks(run->plan, &run->plan->minis[mini], worker) : 0;
}

static gp_status send_spans(gp_run *run, int mini, int worker, gp_error *err) {
    const gp_recorder *recorder = run->recorder;
    GP_RETURN_IF_FAILED(gp_wire_send_now(run->wire, 0, gp_team_tag_of(run, GP_TAG_SPANS), recorder->lanes[worker].spans,
                                         gp_team_spans(run, mini, worker) * sizeof(gp_span), &run->cancel, err));
    size_t ticks = gp_team_ticks(run, mini, worker);
    return ticks == 0 ? GP_OK
                      : gp_wire_send_now(run->wire, 0, gp_team_tag_of(run, GP_TAG_TICKS), recorder->ticks[worker].times,
                                         ticks * sizeof(uint64_t), &run->cancel, err);
}

/* Only times are taken over; which instruction a span is of follows from the program. */
static void place_spans(const gp_run *run, int mini, int worker, gp_span *spans, size_t count) {
    uint64_t offset = (uint64_t)run->team->offsets[run->plan->process[worker]];
    for (size_t i = 0; i < count; i++) {
        spans[i].issued -= offset;
        spans[i].started -= offset;
        spans[i].ended -= offset;
        if (spans[i].early > 0) spans[i].early -= offset;
        spans[i].step = run->command.input ? run->command.input->step : 0;
        spans[i].group = mini;
        spans[i].index = i;
    }
}

static gp_status receive_spans(gp_run *run, int mini, int worker, gp_error *err) {
    gp_lane *lane = &run->recorder->lanes[worker];
    size_t count = gp_team_spans(run, mini, worker), ticks = gp_team_ticks(run, mini, worker);
    int from = run->plan->process[worker];
    GP_RETURN_IF_FAILED(gp_lane_reserve(lane, count, err));
    GP_RETURN_IF_FAILED(gp_wire_receive_now(run->wire, from, gp_team_tag_of(run, GP_TAG_SPANS),
                                            lane->spans + lane->count, count * sizeof(gp_span), &run->cancel, err));
    place_spans(run, mini, worker, lane->spans + lane->count, count);
    lane->count += count;
    if (ticks == 0) return GP_OK;
    gp_ticks *its = &run->recorder->ticks[worker];
    GP_RETURN_IF_FAILED(gp_ticks_reserve(its, ticks, err));
    GP_RETURN_IF_FAILED(gp_wire_receive_now(run->wire, from, gp_team_tag_of(run, GP_TAG_TICKS), its->times + its->count,
                                            ticks * sizeof(uint64_t), &run->cancel, err));
    for (size_t i = 0; i < ticks; i++) its->times[its->count + i] -= (uint64_t)run->team->offsets[from];
    its->count += ticks;
    return GP_OK;
}

gp_status gp_team_gather_spans(gp_run *run, int mini, gp_error *err) {
    for (int w = 0; w < run->plan->workers && run->team && run->recorder; w++) {
        bool far = gp_run_is_far(run, w);
        if (run->plan->rank == 0 && far) GP_RETURN_IF_FAILED(receive_spans(run, mini, w, err));
        if (run->plan->rank > 0 && !far) GP_RETURN_IF_FAILED(send_spans(run, mini, w, err));
    }
    return GP_OK;
}

gp_status gp_team_gather_finding(gp_run *run, gp_finding *finding, gp_error *err) {
    if (!run->team) return GP_OK;
    if (run->plan->rank > 0) {
        const gp_finding_message own = gp_finding_pack(finding);
        return gp_wire_send_now(run->wire, 0, gp_team_tag_of(run, GP_TAG_FINDING), &own, sizeof own, &run->cancel, err);
    }
    for (int p = 1; p < run->plan->processes; p++) {
        gp_finding_message said;
        gp_finding theirs;
        GP_RETURN_IF_FAILED(gp_wire_receive_now(run->wire, p, gp_team_tag_of(run, GP_TAG_FINDING), &said, sizeof said,
                                                &run->cancel, err));
        if (gp_finding_unpack(run->plan, &said, &theirs) && gp_finding_is_before(&theirs, finding)) *finding = theirs;
    }
    return GP_OK;
}

/* ---- questions --------------------------------------------------------------------------------------------------- */

gp_status gp_run_ask(gp_run *run, int question, int64_t number, gp_error *err) {
    const gp_step_input input = {.step = (uint32_t)question, .index = number};
    return gp_team_call(run, GP_CALL_ASK, 0, &input, NULL, 0, err);
}

gp_status gp_run_answers(gp_run *run, gp_error *failure, gp_error *err) {
    failure->status = GP_OK;
    for (int p = 1; p < run->plan->processes; p++) {
        gp_answer its;
        GP_RETURN_IF_FAILED(
            gp_wire_receive_now(run->wire, p, gp_team_tag_of(run, GP_TAG_ANSWER), &its, sizeof its, &run->cancel, err));
        if (failure->status == GP_OK) gp_answer_unpack(&its, p, failure);
    }
    return GP_OK;
}

gp_status gp_run_announce_next(gp_run *run, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_team_call(run, GP_CALL_NEXT, 0, NULL, NULL, 0, err));
    if (run->team) run->team->over = true;
    return GP_OK;
}
