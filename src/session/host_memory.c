#include "session/host_memory.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "layers/types.h"
#include "timeline/steps.h"
#include "plan/layer_ticks.h"
#include "plan/loads.h"
#include "plan/memory.h"
#include "plan/staging.h"
#include "session/loaders.h"
#include "session/session.h"
#include "settings/rate.h"
#include "store/snapshot.h"

enum {
    STACK_USED = 64 << 10, /* of a thread's stack, its heap and its control block; measured with 64 workers */
    LIBRARIES = 8 << 20,   /* kernels that oneDNN makes once in a process, when it first multiplies; 5.6 MiB measured */
    HEADER_ENTRY = 1 << 10, /* of a tensor in a file's header, as text and as jansson's objects */
};

static const struct {
    const char *name, *key;
} kinds[GP_HOST_KINDS] = {
#define HOST_NAME(suffix, name, key) {name, key},
    GP_HOST_MAP(HOST_NAME)
#undef HOST_NAME
};

const char *gp_host_kind_name(gp_host_kind kind) {
    return kinds[kind].name;
}

const char *gp_host_kind_key(gp_host_kind kind) {
    return kinds[kind].key;
}

/* ---- kind by kind ------------------------------------------------------------------------------------------------ */

static void add(gp_host_memory *out, gp_host_kind kind, size_t bytes) {
    out->bytes[kind] = gp_size_plus(out->bytes[kind], bytes);
}

/* Of this process. */
static void plan_devices(const gp_plan *plan, gp_host_memory *out) {
    for (int w = 0; w < plan->workers; w++) {
        if (gp_plan_worker_is_far(plan, w)) continue;
        const gp_device_kind *kind = plan->devices[w].kind;
        add(out, GP_HOST_BOUND, plan->bound[w]);
        if (kind->on_host)
            add(out, GP_HOST_ARENAS, plan->arena[w]);
        else
            add(out, GP_HOST_PINNED, gp_memory_pinned(plan, w));
        if (kind->on_host && kind->libraries) out->bytes[GP_HOST_LIBRARIES] = LIBRARIES;
    }
}

/* Of the run's other processes on this machine: their largest part, and known here. */
static size_t neighbour_bytes(const gp_session *session) {
    const gp_plan *plan = session->plan;
    const int *machines = session->options.machines;
    size_t bytes = 0;
    for (int w = 0; w < plan->workers && machines; w++)
        if (gp_plan_worker_is_far(plan, w) && plan->devices[w].kind->on_host &&
            machines[plan->process[w]] == machines[plan->rank])
            bytes = gp_size_plus(bytes, plan->arena[w]);
    return bytes;
}

static void plan_loader(const gp_session *session, const gp_dataset *data, const gp_loader_options *options,
                        gp_host_kind kind, gp_loader_memory *loader, gp_host_memory *out) {
    gp_loader_memory_plan(data, &session->spec, options, loader);
    add(out, kind, loader->batches);
    add(out, GP_HOST_ORDER, loader->order);
    add(out, GP_HOST_READING, loader->scratch);
    add(out, GP_HOST_RECORDS, loader->records);
}

static void plan_data(const gp_session *session, const gp_trace_options *trace, gp_host_memory *out) {
    if (session->steps > 0 && session->train) {
        const gp_loader_options options = gp_loaders_training(session, session->after, trace);
        plan_loader(session, session->train, &options, GP_HOST_TRAINING, &out->training, out);
    }
    if (session->eval) {
        const gp_loader_options options = gp_loaders_evaluation(session, trace);
        plan_loader(session, session->eval, &options, GP_HOST_EVALUATION, &out->evaluation, out);
    }
    if (session->train) add(out, GP_HOST_SOURCES, gp_dataset_held(session->train));
    if (session->eval) add(out, GP_HOST_SOURCES, gp_dataset_held(session->eval));
}

gp_shape gp_prediction_shape(const gp_session *session) {
    const gp_graph *graph = session->graph;
    return graph->nodes[graph->node_count - 1].layer->inputs[GP_LOSS_PREDICTION];
}

static size_t prediction_bytes(const gp_session *session) {
    gp_shape shape = gp_prediction_shape(session);
    int64_t elements;
    if (!gp_shape_elements(shape, &elements)) return SIZE_MAX;
    size_t bytes = gp_size_times((size_t)elements * sizeof(float), (size_t)session->config->data.batch);
    return gp_size_times(bytes, shape.rank < 3 ? 1 : 2);
}

/* Whether a copy of the state is taken: for a snapshot that the configuration asks for and that is written beside the
 * run, or for a change of the configuration that comes in this process. All other files are written parameter by
 * parameter. */
static bool copies_state(const gp_session *session) {
    const gp_every *every = &session->config->train.save_every;
    int came_before = gp_config_changes_until(session->whole, session->options.step);
    if (session->options.processes > 1) return session->whole->change_count > came_before;
    bool asked = every->time.count > 0 || (every->minutes > 0 && !every->about);
    return asked || session->whole->change_count > came_before;
}

static size_t snapshot_bytes(const gp_session *session) {
    bool about = session->config->train.save_every.about;
    return about && session->options.processes <= 1 && session->steps > 0 ? gp_state_bytes(session->plan) : 0;
}

/* A prediction reads a file of weights and writes one tensor; a run writes all that it is. */
static void plan_state(const gp_session *session, gp_host_memory *out) {
    const gp_plan *plan = session->plan;
    size_t tensors = (size_t)plan->graph->param_count;
    out->bytes[GP_HOST_PARAMETER] = gp_run_largest_param(plan); /* store/params.h */
    if (session->options.weights) {
        out->bytes[GP_HOST_PREDICTION] = prediction_bytes(session);
    } else {
        if (copies_state(session))
            out->bytes[GP_HOST_STATE] = plan->processes > 1 ? gp_state_own_bytes(plan) : gp_state_bytes(plan);
        if (out->bytes[GP_HOST_STATE] == 0) out->snapshot = snapshot_bytes(session);
        tensors *= 1 + (size_t)plan->update.states;
    }
    out->bytes[GP_HOST_HEADERS] = gp_size_times(tensors, HEADER_ENTRY);
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

/* The most that worker w has in a mini-batch that trains, or in one that does not: instructions, or times of layers. */
static size_t most_of(const gp_plan *plan, int w, bool training, bool ticks) {
    size_t most = 0;
    for (int m = 0; m < plan->mini_count; m++) {
        if (plan->minis[m].training != training) continue;
        size_t count = ticks ? gp_mini_ticks(plan, &plan->minis[m], w) : plan->minis[m].programs->worker[w].count;
        if (count > most) most = count;
    }
    return most;
}

static size_t plan_timeline(const gp_session *session, const gp_trace_options *trace) {
    int64_t steps, evaluated;
    gp_loaders_count_traced(session, trace, &steps, &evaluated);
    if (steps + evaluated == 0) return 0;
    size_t bytes = gp_lane_bytes((size_t)(steps + 2 * evaluated)); /* waits for data; the end of each evaluation, too */
    bytes = gp_size_plus(bytes, gp_tracing_steps_bytes((size_t)(steps + evaluated)));
    for (int w = 0; w < session->plan->workers; w++)
        for (int ticks = 0; ticks <= trace->layers; ticks++) {
            size_t training = gp_size_times((size_t)steps, most_of(session->plan, w, true, ticks));
            size_t all =
                gp_size_plus(training, gp_size_times((size_t)evaluated, most_of(session->plan, w, false, ticks)));
            bytes = gp_size_plus(bytes, ticks ? gp_ticks_bytes(all) : gp_lane_bytes(all));
        }
    return bytes;
}

static size_t account_bytes(const gp_plan *plan) {
    const gp_programs *programs = plan->minis[gp_plan_largest_mini(plan)].programs;
    size_t bytes = GP_ACCOUNT_BYTES + GP_ACCOUNT_TIMES * sizeof(double);
    for (int w = 0; w < programs->workers; w++) {
        size_t count = programs->worker[w].count;
        bytes += gp_lane_bytes(count) + count * sizeof(double);
    }
    return bytes;
}

/* The account's recorder, and what each worker writes a step's spans into. */
static void plan_records(const gp_session *session, const gp_trace_options *trace, gp_host_memory *out) {
    const gp_plan *plan = session->plan;
    size_t timeline = plan_timeline(session, trace);
    add(out, GP_HOST_RECORDS, timeline);
    if (session->steps > 0) add(out, GP_HOST_RECORDS, account_bytes(plan));
    for (int w = 0; w < plan->workers && (timeline > 0 || session->steps > 0); w++) {
        size_t train = most_of(plan, w, true, false), other = most_of(plan, w, false, false);
        add(out, GP_HOST_RECORDS, gp_lane_bytes(timeline > 0 && other > train ? other : train));
    }
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

/* A CPU worker of n threads has n − 1 of our own beside it, and libgomp gives it as many. */
static int count_threads(const gp_session *session, const gp_host_memory *host) {
    int threads = host->training.slots > 0 ? host->training.threads : 0;
    if (host->evaluation.slots > 0) threads += host->evaluation.threads;
    for (int w = 0; w < session->plan->workers; w++) {
        const gp_device_spec *device = &session->plan->devices[w];
        if (gp_plan_worker_is_far(session->plan, w)) continue;
        threads += 1 + (device->kind->on_host ? 2 * (device->threads - 1) : 0);
    }
    return threads + (session->options.weights ? 0 : 1); /* the saver's */
}

static size_t stack_bytes(void) {
    pthread_attr_t attributes;
    size_t bytes = 0, guard = 0;
    if (pthread_attr_init(&attributes) != 0) return 0;
    pthread_attr_getstacksize(&attributes, &bytes);
    pthread_attr_getguardsize(&attributes, &guard);
    pthread_attr_destroy(&attributes);
    return bytes + guard;
}

static void plan_threads(const gp_session *session, gp_host_memory *out) {
    out->threads = count_threads(session, out);
    out->stacks = gp_size_times((size_t)out->threads, stack_bytes());
    out->bytes[GP_HOST_THREADS] = gp_size_times((size_t)out->threads, STACK_USED);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

gp_status gp_host_memory_plan(const gp_session *session, const gp_trace_options *trace, gp_host_memory *out,
                              gp_error *err) {
    *out = (gp_host_memory){0};
    GP_RETURN_IF_FAILED(gp_run_bytes(session->plan, &out->bytes[GP_HOST_RUN], err));
    GP_RETURN_IF_FAILED(gp_staging_bytes(session->plan, &out->bytes[GP_HOST_STAGING], err));
    plan_devices(session->plan, out);
    plan_data(session, trace, out);
    plan_state(session, out);
    plan_records(session, trace, out);
    plan_threads(session, out);
    for (int k = 0; k < GP_HOST_KINDS; k++) out->planned = gp_size_plus(out->planned, out->bytes[k]);
    out->neighbours = neighbour_bytes(session);
    return GP_OK;
}

/* As if this were the session of another process: that has the same plan, but for the rank, opens no data that it does
 * not load, and writes no timeline. */
static gp_status plan_process(const gp_session *session, int rank, const gp_trace_options *trace, size_t *out,
                              gp_error *err) {
    gp_plan plan = *session->plan;
    gp_session its = *session;
    gp_host_memory host;
    plan.rank = rank;
    its.plan = &plan;
    if (rank > 0 && !gp_plan_loads_any(&plan, rank)) its.train = its.eval = NULL;
    GP_RETURN_IF_FAILED(gp_host_memory_plan(&its, rank == 0 ? trace : NULL, &host, err));
    *out = host.planned;
    return GP_OK;
}

gp_status gp_host_memory_processes(const gp_session *session, const gp_trace_options *trace, size_t **out,
                                   gp_error *err) {
    size_t *bytes = NULL;
    gp_status status = GP_NEW(&bytes, session->plan->processes, err);
    for (int p = 0; p < session->plan->processes && status == GP_OK; p++)
        status = plan_process(session, p, trace, &bytes[p], err);
    *out = status == GP_OK ? bytes : NULL;
    if (status != GP_OK) free(bytes);
    return status;
}

void gp_host_memory_measure(gp_host_memory *host) {
    gp_machine_memory machine;
    gp_machine_memory_read("", &machine);
    size_t resident = machine.taken[GP_LIMIT_PHYSICAL], held = host->bytes[GP_HOST_SOURCES];
    host->program = resident > held ? resident - held : 0;
    gp_process_peak_reset();
}

/* ---- whether it fits --------------------------------------------------------------------------------------------- */

/* What of a kind is still to be taken: the sources are there already, and a thread takes its whole stack of the address
 * space. */
static size_t kind_to_come(const gp_host_memory *host, gp_memory_limit limit, int kind) {
    if (kind == GP_HOST_SOURCES) return 0;
    if (kind == GP_HOST_THREADS && limit == GP_LIMIT_ADDRESS_SPACE) return host->stacks;
    return host->bytes[kind];
}

/* Each process has an address space of its own. */
static size_t neighbours_to_come(const gp_host_memory *host, gp_memory_limit limit) {
    return limit == GP_LIMIT_ADDRESS_SPACE ? 0 : host->neighbours;
}

static size_t to_come(const gp_host_memory *host, gp_memory_limit limit) {
    size_t bytes = neighbours_to_come(host, limit);
    for (int k = 0; k < GP_HOST_KINDS; k++) bytes = gp_size_plus(bytes, kind_to_come(host, limit, k));
    return bytes;
}

bool gp_host_memory_has_room(const gp_host_memory *host, const gp_machine_memory *machine) {
    size_t resident = machine->taken[GP_LIMIT_PHYSICAL];
    size_t held = resident > host->program ? resident - host->program : 0;
    size_t all = gp_size_plus(host->planned, host->snapshot), needed = all > held ? all - held : 0;
    if (needed < host->snapshot) needed = host->snapshot;
    for (int i = 0; i < GP_MEMORY_LIMITS; i++)
        if (needed > gp_machine_memory_left(machine, (gp_memory_limit)i)) return false;
    return needed <= machine->available && needed <= machine->group_left;
}

enum { MOST_NAMED = 3 };

/* The kind of which most is to come after those of `named`, which it joins; −1: none is. */
static int next_largest(const gp_host_memory *host, gp_memory_limit limit, bool named[GP_HOST_KINDS]) {
    int most = -1;
    for (int k = 0; k < GP_HOST_KINDS; k++) {
        size_t bytes = kind_to_come(host, limit, k);
        if (!named[k] && bytes > 0 && (most < 0 || bytes > kind_to_come(host, limit, most))) most = k;
    }
    if (most >= 0) named[most] = true;
    return most;
}

/* "arenas of CPU workers: 62.1 MiB; data, training: …": the largest ones. Returns the first. */
static int name_largest(const gp_host_memory *host, gp_memory_limit limit, char *text, size_t size) {
    bool named[GP_HOST_KINDS] = {false};
    int first = next_largest(host, limit, named), kind = first;
    size_t used = 0;
    for (int i = 0; i < MOST_NAMED && kind >= 0 && used < size; i++) {
        char bytes[32];
        int wrote = snprintf(text + used, size - used, "%s%s: %s", used ? "; " : "", kinds[kind].name,
                             gp_bytes_text(bytes, kind_to_come(host, limit, kind)));
        used += wrote > 0 ? (size_t)wrote : 0;
        kind = next_largest(host, limit, named);
    }
    return first;
}

/* What makes the kind smaller. */
static const char *advice_for(int kind) {
    switch (kind) {
    case GP_HOST_ORDER: return "set data.shuffle: false, which needs none of it";
    case GP_HOST_READING: return "lower data.threads";
    case GP_HOST_RECORDS: return "trace fewer steps (--trace-steps), or lower pipeline.micro_batches";
    case GP_HOST_RUN: return "lower pipeline.micro_batches";
    case GP_HOST_STATE: return "leave out train.save_every and changes";
    case GP_HOST_PARAMETER:
    case GP_HOST_BOUND:
    case GP_HOST_LIBRARIES:
    case GP_HOST_HEADERS: return "use a smaller model";
    case GP_HOST_THREADS: return "use fewer threads or smaller stacks (ulimit -s)";
    default: return "lower data.batch";
    }
}

/* The kind to advise on: one that a run can do without, if that is enough; else the largest. */
static int advised(const gp_host_memory *host, gp_memory_limit limit, size_t missing, int largest) {
    static const int spare[] = {GP_HOST_STATE, GP_HOST_RECORDS};
    for (size_t i = 0; i < sizeof spare / sizeof *spare; i++)
        if (kind_to_come(host, limit, spare[i]) >= missing) return spare[i];
    return largest;
}

/* Of the limits that the run exceeds, the one that leaves least; GP_MEMORY_LIMITS: it exceeds none. */
static gp_memory_limit exceeded(const gp_host_memory *host, const gp_machine_memory *machine) {
    int least = GP_MEMORY_LIMITS;
    for (int i = 0; i < GP_MEMORY_LIMITS; i++) {
        size_t left = gp_machine_memory_left(machine, (gp_memory_limit)i);
        if (to_come(host, (gp_memory_limit)i) <= left) continue;
        if (least == GP_MEMORY_LIMITS || left < gp_machine_memory_left(machine, (gp_memory_limit)least)) least = i;
    }
    return (gp_memory_limit)least;
}

gp_status gp_host_memory_check(const gp_host_memory *host, const gp_machine_memory *machine, gp_error *err) {
    char needed[32], all[32], left[32], theirs[32], names[256] = "", neighbours[96] = "";
    gp_memory_limit limit = exceeded(host, machine);
    if (limit == GP_MEMORY_LIMITS) return GP_OK;
    size_t left_bytes = gp_machine_memory_left(machine, limit), missing = to_come(host, limit) - left_bytes;
    int kind = advised(host, limit, missing, name_largest(host, limit, names, sizeof names));
    if (neighbours_to_come(host, limit) > 0)
        snprintf(neighbours, sizeof neighbours, "; its other processes on this machine: %s",
                 gp_bytes_text(theirs, neighbours_to_come(host, limit)));
    return gp_fail(err, GP_MEMORY, "the run needs %s more memory (%s%s), but %s, %s in all, has %s left; %s",
                   gp_bytes_text(needed, to_come(host, limit)), names, neighbours, gp_memory_limit_name(limit),
                   gp_bytes_text(all, machine->limit[limit]), gp_bytes_text(left, left_bytes), advice_for(kind));
}
