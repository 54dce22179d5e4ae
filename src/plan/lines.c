#include "plan/lines.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "schedule/access.h"

/* The messages from one worker to another, of all mini-batches, in the order of a program. */
typedef struct message {
    int flow, mini;
    uint16_t micro;
} message;

typedef struct messages {
    message *items;
    size_t count, capacity;
} messages;

static const gp_device_spec *device_of(const gp_plan *plan, int stage) {
    return &plan->devices[plan->stage[stage].worker];
}

/* Whether they are on GPUs of one kind. */
static bool are_gpus(const gp_plan *plan, int from, int to) {
    const gp_device_kind *kind = device_of(plan, from)->kind;
    return !kind->on_host && kind == device_of(plan, to)->kind;
}

bool gp_plan_has_line(const gp_plan *plan, int from, int to) {
    if (!plan->lines || !are_gpus(plan, from, to)) return false;
    return plan->process[plan->stage[from].worker] != plan->process[plan->stage[to].worker];
}

uint32_t gp_lines_numbers(const gp_plan *plan) {
    size_t numbers = plan->stages->edge_count;
    if (!plan->lines || plan->processes == 1) return 0;
    for (size_t c = 0; c < plan->stages->collective_count; c++)
        numbers += plan->stages->collectives[c].contributors.count * plan->stages->collectives[c].collectors.count;
    for (int s = 0; s < plan->stages->count; s++) numbers += (size_t)plan->stages->stage[s].group - 1;
    return numbers < UINT32_MAX / 4 ? (uint32_t)numbers : UINT32_MAX / 4;
}

/* ---- flows ------------------------------------------------------------------------------------------------------- */

static int worker_of(const gp_plan *plan, int stage) {
    return plan->stage[stage].worker;
}

static bool concerns(const gp_plan *plan, int process, int from, int to) {
    bool own = plan->process[worker_of(plan, from)] == process || plan->process[worker_of(plan, to)] == process;
    return own && gp_plan_has_line(plan, from, to);
}

/* The messages that an instruction of a worker sends, or receives, of flows between these two workers. */
static gp_status add_messages(const gp_plan *plan, const gp_lines *its, const gp_instr *instr, bool sends, int mini,
                              const gp_line_plan *ends, messages *out, gp_error *err) {
    bool joint = instr->op == (sends ? GP_INSTR_POST : GP_INSTR_COLLECT);
    if (!joint && instr->op != (sends ? GP_INSTR_SEND : GP_INSTR_RECV)) return GP_OK;
    int first = joint ? its->first[instr->collective] : its->of_edge[instr->edge];
    int end = joint ? its->first[instr->collective + 1] : first + 1;
    for (int f = first; f >= 0 && f < end; f++) {
        const gp_flow *flow = &its->flows[f];
        if (instr->stage != (sends ? flow->from : flow->to)) continue;
        if (worker_of(plan, flow->from) != ends->from || worker_of(plan, flow->to) != ends->to) continue;
        GP_RETURN_IF_FAILED(GP_GROW(&out->items, &out->capacity, out->count + 1, err));
        out->items[out->count++] = (message){f, mini, instr->micro};
    }
    return GP_OK;
}

/* What is posted within backwards is sent there (plan/early_posts.h). */
static gp_status list_sent(const gp_plan *plan, const gp_lines *its, int mini, const gp_line_plan *ends, messages *out,
                           gp_error *err) {
    const gp_program *program = &plan->minis[mini].programs->worker[ends->from];
    const gp_worker_posts *posts = plan->minis[mini].early ? &plan->minis[mini].early[ends->from] : NULL;
    for (size_t pc = 0; pc < program->count; pc++) {
        for (size_t i = 0; posts && i < posts->count; i++)
            if (posts->items[i].pc == pc)
                GP_RETURN_IF_FAILED(
                    add_messages(plan, its, &program->instrs[posts->items[i].post], true, mini, ends, out, err));
        if (!posts || !gp_early_posts_have(posts, pc))
            GP_RETURN_IF_FAILED(add_messages(plan, its, &program->instrs[pc], true, mini, ends, out, err));
    }
    return GP_OK;
}

static gp_status list_received(const gp_plan *plan, const gp_lines *its, int mini, const gp_line_plan *ends,
                               messages *out, gp_error *err) {
    const gp_program *program = &plan->minis[mini].programs->worker[ends->to];
    for (size_t pc = 0; pc < program->count; pc++)
        GP_RETURN_IF_FAILED(add_messages(plan, its, &program->instrs[pc], false, mini, ends, out, err));
    return GP_OK;
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

/* Messages of this flow, or of the line. */
static size_t skip_others(const gp_lines *its, const messages *list, size_t at, int line, int flow) {
    while (at < list->count && list->items[at].flow != flow && its->flows[list->items[at].flow].line != line) at++;
    return at;
}

/* Whether both programs have the messages of the line and of the flow in one order. */
static bool go_together(const gp_lines *its, const messages *sent, const messages *received, int line, int flow) {
    size_t s = 0, r = 0;
    for (;; s++, r++) {
        s = skip_others(its, sent, s, line, flow);
        r = skip_others(its, received, r, line, flow);
        if (s == sent->count || r == received->count) return s == sent->count && r == received->count;
        const message *a = &sent->items[s], *b = &received->items[r];
        if (a->flow != b->flow || a->mini != b->mini || a->micro != b->micro) return false;
    }
}

enum { NO_LINE = -2 }; /* no flow has it */

static gp_status add_line(gp_lines *its, const gp_line_plan *line, int flow, gp_error *err) {
    GP_RETURN_IF_FAILED(GP_GROW(&its->lines, &its->line_capacity, its->line_count + 1, err));
    its->flows[flow].line = its->line_count;
    its->lines[its->line_count++] = *line;
    return GP_OK;
}

static gp_status choose_line(gp_lines *its, const gp_line_plan *ends, const messages *sent, const messages *received,
                             int flow, gp_error *err) {
    if (!go_together(its, sent, received, NO_LINE, flow))
        return gp_fail(err, GP_UNSUPPORTED,
                       "stage %d receives micro-batches from stage %d, which is on a GPU of another process, in "
                       "another order than they are sent: let the programs have one order, or use "
                       "pipeline.transport: mpi",
                       its->flows[flow].to, its->flows[flow].from);
    for (int l = 0; l < its->line_count; l++) {
        if (its->lines[l].from != ends->from || its->lines[l].to != ends->to) continue;
        if (its->lines[l].queue != ends->queue) continue;
        if (!go_together(its, sent, received, l, flow)) continue;
        its->flows[flow].line = l;
        if (its->lines[l].blocks < ends->blocks) its->lines[l].blocks = ends->blocks;
        return GP_OK;
    }
    return add_line(its, ends, flow, err);
}

/* `numbers`: of all flows. Flows of the same two workers, beginning with the first of them. */
static gp_status divide_pair(const gp_plan *plan, gp_lines *its, const uint32_t *numbers, int first, gp_error *err) {
    gp_line_plan ends = {.from = worker_of(plan, its->flows[first].from), .to = worker_of(plan, its->flows[first].to)};
    messages sent = {0}, received = {0};
    gp_status status = GP_OK;
    for (int m = 0; m < plan->mini_count && status == GP_OK; m++) {
        status = list_sent(plan, its, m, &ends, &sent, err);
        if (status == GP_OK) status = list_received(plan, its, m, &ends, &received, err);
    }
    for (int f = first; f < its->exchanges && status == GP_OK; f++) {
        const gp_flow *flow = &its->flows[f];
        if (worker_of(plan, flow->from) != ends.from || worker_of(plan, flow->to) != ends.to) continue;
        ends.number = numbers[f];
        ends.queue = flow->queue;
        ends.blocks = flow->blocks;
        status = choose_line(its, &ends, &sent, &received, f, err);
    }
    free(sent.items);
    free(received.items);
    return status;
}

static int by_number(const void *a, const void *b) {
    const gp_line_plan *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

/* Lines were made pair after pair. */
static gp_status sort_lines(gp_lines *its, gp_error *err) {
    gp_line_plan *before = NULL;
    size_t count = (size_t)its->line_count;
    if (count == 0) return GP_OK;
    GP_RETURN_IF_FAILED(GP_NEW(&before, count, err));
    memcpy(before, its->lines, count * sizeof *before);
    qsort(its->lines, count, sizeof *its->lines, by_number);
    for (int f = 0; f < its->flow_count; f++) {
        const gp_line_plan *found =
            bsearch(&before[its->flows[f].line], its->lines, count, sizeof *its->lines, by_number);
        its->flows[f].line = (int)(found - its->lines);
    }
    free(before);
    return GP_OK;
}

/* What may wait at the same time: each sending line in a queue of its own, receives in the queues of their worker. All
 * of these queues count, since none may hold up another one. */
typedef struct waiting {
    int ends, blocks;
} waiting;

static waiting count_waiting(const gp_lines *its, int worker) {
    waiting out = {0};
    int receiving[GP_QUEUES] = {0};
    for (int l = 0; l < its->line_count; l++) {
        const gp_line_plan *line = &its->lines[l];
        if (line->to == worker && line->blocks > receiving[line->queue]) receiving[line->queue] = line->blocks;
        if (line->from != worker) continue;
        out.ends++;
        out.blocks += line->blocks;
    }
    for (int q = 0; q < GP_QUEUES; q++) out.blocks += receiving[q];
    out.ends += GP_QUEUES;
    return out;
}

static gp_status check_worker(const gp_plan *plan, const gp_lines *its, int worker, gp_error *err) {
    const gp_device_spec *device = &plan->devices[worker];
    waiting all = count_waiting(its, worker);
    int ends = all.ends;
    if (ends > GP_LINE_ENDS || all.blocks > GP_LINE_BLOCKS)
        return gp_fail(err, GP_UNSUPPORTED,
                       "worker %d: %s:%d would need %d queues for messages of other processes, and %d of its "
                       "multiprocessors; %d and %d are possible. Connect it with fewer "
                       "stages and replicas of other processes, or use pipeline.transport: mpi",
                       worker, device->kind->name, device->index, ends, all.blocks, GP_LINE_ENDS, GP_LINE_BLOCKS);
    return GP_OK;
}

static gp_status check_workers(const gp_plan *plan, const gp_lines *its, gp_error *err) {
    for (int w = 0; w < plan->workers; w++)
        if (plan->process[w] == its->process) GP_RETURN_IF_FAILED(check_worker(plan, its, w, err));
    return GP_OK;
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

/* Processes are those of the run, or of a plan for other machines. */
static bool are_apart(const gp_plan *plan, int from, int to) {
    return gp_plan_process_of(plan, worker_of(plan, from)) != gp_plan_process_of(plan, worker_of(plan, to));
}

static bool are_gpus_apart(const gp_plan *plan, int from, int to) {
    return are_gpus(plan, from, to) && are_apart(plan, from, to);
}

typedef bool (*pair_check)(const gp_plan *plan, int from, int to);

/* The first stage with an edge or a collective to another one for which `check` holds; −1: none. */
static int find_pair(const gp_plan *plan, pair_check check, int *other) {
    const gp_stages *stages = plan->stages;
    for (size_t e = 0; e < stages->edge_count; e++) {
        *other = stages->edges[e].to;
        if (check(plan, stages->edges[e].from, *other)) return stages->edges[e].from;
    }
    for (size_t c = 0; c < stages->collective_count; c++) {
        const gp_collective *its = &stages->collectives[c];
        for (size_t i = 0; i < its->contributors.count * its->collectors.count; i++) {
            int from = its->contributors.items[i / its->collectors.count];
            *other = its->collectors.items[i % its->collectors.count];
            if (check(plan, from, *other)) return from;
        }
    }
    return -1;
}

static int find_sharer(const gp_plan *plan, int worker) {
    const gp_device_spec *device = &plan->devices[worker];
    for (int w = 0; w < plan->workers; w++)
        if (w != worker && gp_plan_process_of(plan, w) == gp_plan_process_of(plan, worker) &&
            plan->devices[w].kind == device->kind && plan->devices[w].index == device->index)
            return w;
    return -1;
}

static bool has_sharer(const gp_plan *plan, int from, int to) {
    if (!are_gpus_apart(plan, from, to)) return false;
    return find_sharer(plan, worker_of(plan, from)) >= 0 || find_sharer(plan, worker_of(plan, to)) >= 0;
}

static gp_status refuse_sharers(const gp_plan *plan, int from, int to, gp_error *err) {
    int worker = worker_of(plan, from);
    if (find_sharer(plan, worker) < 0) worker = worker_of(plan, to);
    int other = find_sharer(plan, worker);
    return gp_fail(err, GP_UNSUPPORTED,
                   "workers %d and %d share %s:%d, and exchange messages with other processes: give each of them a GPU "
                   "of its own, or use pipeline.transport: mpi",
                   worker < other ? worker : other, worker < other ? other : worker, plan->devices[worker].kind->name,
                   plan->devices[worker].index);
}

gp_status gp_lines_choose(gp_plan *plan, gp_carrier carrier, gp_error *err) {
    int to = 0, from = gp_plan_processes(plan) > 1 ? find_pair(plan, are_gpus_apart, &to) : -1;
    bool asked = carrier == GP_CARRIER_LINES;
    char names[2][GP_STAGE_NAME];
    if (from < 0 || carrier == GP_CARRIER_WIRE) return GP_OK;
    const gp_device_kind *kind = device_of(plan, from)->kind;
    bool built = kind->has_lines && kind->has_lines();
    if (!built && asked && plan->processes > 1)
        return gp_fail(err, GP_UNSUPPORTED,
                       "%s and %s are on GPUs of different processes, but this program was built without NCCL: install "
                       "NCCL, and build again, or use pipeline.transport: mpi",
                       gp_stage_name(plan->stages, from, names[0]), gp_stage_name(plan->stages, to, names[1]));
    from = built || asked ? find_pair(plan, has_sharer, &to) : -1;
    if (from >= 0 && asked) return refuse_sharers(plan, from, to, err);
    plan->lines = (built || asked) && from < 0;
    return GP_OK;
}

/* Whether the wire carries what a GPU sends or receives. */
static bool is_staged(const gp_plan *plan, int from, int to) {
    if (device_of(plan, from)->kind->on_host && device_of(plan, to)->kind->on_host) return false;
    return are_apart(plan, from, to) && !(plan->lines && are_gpus(plan, from, to));
}

const char *gp_plan_gpu_messages(const gp_plan *plan) {
    int to;
    bool wire = gp_plan_processes(plan) > 1 && find_pair(plan, is_staged, &to) >= 0;
    return plan->lines && wire ? "nccl and mpi" : plan->lines ? "nccl" : wire ? "mpi" : NULL;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

typedef struct numbering {
    uint32_t *items; /* [flow] */
    size_t capacity;
} numbering;

/* If it concerns this process. */
static gp_status number_flow(const gp_plan *plan, gp_lines *its, gp_flow flow, uint32_t number, numbering *numbers,
                             gp_error *err) {
    if (!concerns(plan, its->process, flow.from, flow.to)) return GP_OK;
    GP_RETURN_IF_FAILED(GP_GROW(&numbers->items, &numbers->capacity, its->flow_count + 1, err));
    GP_RETURN_IF_FAILED(GP_GROW(&its->flows, &its->flow_capacity, its->flow_count + 1, err));
    numbers->items[its->flow_count] = number;
    flow.line = -1;
    its->flows[its->flow_count++] = flow;
    return GP_OK;
}

/* Of messages that are long. The more replicas, the more of these go at the same time. */
static int blocks_for(int replicas) {
    return replicas <= 2 ? 4 : replicas <= 8 ? 2 : 1;
}

static int blocks_of_part(const gp_plan *plan, const gp_collective *its, int stage) {
    bool is_long = its->part == GP_PART_GRADIENTS || its->part == GP_PART_PARAMETERS;
    return is_long ? blocks_for(plan->stages->stage[stage].replicas) : 1;
}

/* From the stage to the other replicas that it synchronises batch norm with. */
static gp_status number_exchanges(const gp_plan *plan, gp_lines *its, int stage, uint32_t *number, numbering *numbers,
                                  gp_error *err) {
    int first = gp_stages_group(plan->stages, stage);
    for (int other = first; other < first + plan->stages->stage[stage].group; other++) {
        const gp_flow flow = {.from = stage, .to = other, .queue = GP_QUEUE_COMPUTE, .blocks = 1};
        if (other != stage) GP_RETURN_IF_FAILED(number_flow(plan, its, flow, (*number)++, numbers, err));
    }
    return GP_OK;
}

static gp_status find_flows(const gp_plan *plan, gp_lines *its, numbering *numbers, gp_error *err) {
    const gp_stages *stages = plan->stages;
    uint32_t number = 0;
    GP_RETURN_IF_FAILED(GP_NEW(&its->of_edge, stages->edge_count, err));
    GP_RETURN_IF_FAILED(GP_NEW(&its->first, stages->collective_count + 1, err));
    for (size_t e = 0; e < stages->edge_count; e++) {
        int before = its->flow_count;
        const gp_edge *edge = &stages->edges[e];
        const gp_instr receive = {.op = GP_INSTR_RECV, .stage = (uint16_t)edge->to, .edge = (uint32_t)e};
        const gp_flow flow = {edge->from, edge->to, gp_instr_queue(stages, &receive), .blocks = blocks_for(1)};
        GP_RETURN_IF_FAILED(number_flow(plan, its, flow, number++, numbers, err));
        its->of_edge[e] = its->flow_count > before ? before : -1;
    }
    for (size_t c = 0; c < stages->collective_count; c++) {
        const gp_collective *all = &stages->collectives[c];
        its->first[c] = its->flow_count;
        for (size_t i = 0; i < all->contributors.count * all->collectors.count; i++) {
            int from = all->contributors.items[i / all->collectors.count];
            int to = all->collectors.items[i % all->collectors.count];
            const gp_instr collect = {.op = GP_INSTR_COLLECT, .stage = (uint16_t)to, .collective = (uint32_t)c};
            const gp_flow flow = {from, to, gp_instr_queue(stages, &collect),
                                  .blocks = blocks_of_part(plan, all, from)};
            GP_RETURN_IF_FAILED(number_flow(plan, its, flow, number++, numbers, err));
        }
    }
    its->first[stages->collective_count] = its->exchanges = its->flow_count;
    for (int s = 0; s < stages->count; s++) GP_RETURN_IF_FAILED(number_exchanges(plan, its, s, &number, numbers, err));
    return GP_OK;
}

static gp_status find_lines(const gp_plan *plan, gp_lines *its, gp_error *err) {
    numbering numbers = {0};
    gp_status status = find_flows(plan, its, &numbers, err);
    for (int f = 0; status == GP_OK && f < its->exchanges; f++)
        if (its->flows[f].line < 0) status = divide_pair(plan, its, numbers.items, f, err);
    for (int f = its->exchanges; status == GP_OK && f < its->flow_count; f++) {
        const gp_flow *flow = &its->flows[f];
        const gp_line_plan line = {worker_of(plan, flow->from), worker_of(plan, flow->to), flow->queue,
                                   numbers.items[f], flow->blocks};
        status = add_line(its, &line, f, err);
    }
    free(numbers.items);
    if (status == GP_OK) status = sort_lines(its, err);
    return status == GP_OK ? check_workers(plan, its, err) : status;
}

gp_status gp_lines_create(const gp_plan *plan, int process, gp_lines **out, gp_error *err) {
    gp_lines *its = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&its, 1, err));
    its->process = process;
    gp_status status = find_lines(plan, its, err);
    if (status != GP_OK) {
        gp_lines_destroy(&its);
        return status;
    }
    *out = its;
    return GP_OK;
}

int gp_lines_exchange(const gp_lines *lines, int from, int to) {
    for (int f = lines->exchanges; f < lines->flow_count; f++)
        if (lines->flows[f].from == from && lines->flows[f].to == to) return f;
    return -1;
}

void gp_lines_destroy(gp_lines **lines) {
    gp_lines *it = *lines;
    if (!it) return;
    free(it->of_edge);
    free(it->first);
    free(it->flows);
    free(it->lines);
    free(it);
    *lines = NULL;
}
