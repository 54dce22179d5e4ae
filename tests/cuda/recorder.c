#include "cuda/recorder.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"
#include "cuda/accesses.h"
#include "cuda/host_api.h"
#include "cuda/host_kernels.h"
#include "device/cuda/cuda_api.h"
#include "device/rows.h"

enum { POISON = 0xA5, MOST_DEVICES = 8, MOST_COMMS = 128 };

typedef enum work_kind { LAUNCH, PLAN, COPY, NOTE, RECORD, WAIT, OUTGOING, INCOMING } work_kind;

enum { MARK = sizeof((recorder_fault *)NULL)->mark };

/* Something that was enqueued and has not happened yet. */
typedef struct work {
    work_kind kind;
    gp_cuda_launch launch;
    char *args; /* of the launch; owned */
    const gp_prepared *prepared;
    void *operands[GP_MAX_OPERANDS], *workspace;
    void *to;
    const void *from;
    size_t bytes;
    size_t record;      /* RECORD: its own; WAIT: that it waits for */
    gp_cuda_comm *comm; /* OUTGOING, INCOMING */
    _Atomic uint32_t *noted;
    uint32_t number;                        /* NOTE */
    const char *fails;                      /* its name, if it is to fail */
    char mark[MARK], label[RECORDER_LABEL]; /* of that */
    struct work *next;
} work;

struct CUstream_st { /* gp_cuda_stream */
    int device, number;
    clock_vector now; /* of what was enqueued last */
    work *first, *last;
    bool open;
    gp_cuda_comm *unsettled; /* its messages do not stand in the stream for sure yet */
};

/* A message that has gone, and has not arrived. */
typedef struct letter {
    char *bytes;
    size_t count;
    struct letter *next;
} letter;

struct ncclComm { /* gp_cuda_comm */
    char id[GP_LINE_ID];
    int rank, blocks, device;
    gp_cuda_comm *peer;
    gp_cuda_stream *stream; /* the only one that it may use */
    letter *letters;        /* to it, the oldest first */
    int under_way;          /* messages that were enqueued and are not over */
    bool unsettled, finishing, gone;
};

struct CUevent_st { /* gp_cuda_event */
    int device;
    bool timed;
    size_t record; /* number of the last one + 1; 0: none */
    clock_vector at;
};

struct gp_cuda_library {
    gp_cuda_stream *stream;
};

/* What a host thread knows to have happened. */
typedef struct host_thread {
    pthread_t thread;
    int device;
    clock_vector knows;
    int groups;                             /* of messages that are open */
    int marks;                              /* that are open: the step's, in that the instruction's */
    char mark[MARK], label[RECORDER_LABEL]; /* of the instruction; "": none */
} host_thread;

static struct {
    pthread_mutex_t lock;
    recorder_options options;
    recorder_counts counts;
    uint64_t draws;
    gp_cuda_stream streams[MOST_STREAMS];
    int stream_count;
    host_thread threads[MOST_THREADS];
    int thread_count;
    clock_vector met; /* known to all threads */
    clock_vector words[RECORDER_WORDS];
    bool told[RECORDER_WORDS];
    bool *happened;  /* [record] */
    uint32_t *times; /* [record]: when, in works that were carried out */
    uint32_t time;
    size_t records, record_capacity, time_capacity;
    char error[1024];
    bool reached[MOST_DEVICES][MOST_DEVICES]; /* [from][to]: was asked */
    bool broken;                              /* something was made to fail: what was under way may stay so */
    bool lost[MOST_DEVICES];
    size_t taken[MOST_DEVICES]; /* by libraries */
    size_t others, others_take; /* bytes of another program; those that it takes while libraries are made */
    bool tells_own;
    long works; /* that may fail */
    gp_cuda_comm comms[MOST_COMMS];
    int comm_count, comm_ids;
    bool comms_fail;
    int aborts;
    recorder_fault fault;
    const gp_cuda_api *before;
} it = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- what all calls do ------------------------------------------------------------------------------------------- */

static gp_status refuse(gp_error *err, const char *format, ...) GP_PRINTF(2, 3);
static gp_status refuse(gp_error *err, const char *format, ...) {
    char text[sizeof it.error];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!it.error[0]) memcpy(it.error, text, sizeof text);
    return gp_fail(err, GP_INTERNAL, "recorder: %s", text);
}

static host_thread *this_thread(void) {
    for (int t = 0; t < it.thread_count; t++)
        if (pthread_equal(it.threads[t].thread, pthread_self())) return &it.threads[t];
    assert(it.thread_count < MOST_THREADS);
    host_thread *thread = &it.threads[it.thread_count++];
    *thread = (host_thread){.thread = pthread_self(), .device = -1};
    return thread;
}

static void note_fault(const char *what, const char *mark, const char *label, int device) {
    it.fault = (recorder_fault){.what = what, .device = device};
    memcpy(it.fault.mark, mark, MARK);
    memcpy(it.fault.label, label, RECORDER_LABEL);
}

static void set_fault(const char *what, const char *mark, const char *label, int device) {
    it.broken = true;
    note_fault(what, mark, label, device);
}

static bool is_lost(int device) {
    return device >= 0 && it.lost[device];
}

/* Takes the lock; false where this is the call that is to fail, or of a device that is lost. */
static bool enter_for(const char *call, int device, gp_error *err) {
    pthread_mutex_lock(&it.lock);
    bool fails = it.counts.calls++ == it.options.failing_call, lost = is_lost(device);
    if (!fails && !lost) return true;
    if (fails) set_fault(call, this_thread()->mark, this_thread()->label, device);
    pthread_mutex_unlock(&it.lock);
    gp_fail(err, GP_DEVICE, lost ? "%s: earlier work failed" : "%s: made to fail", call);
    return false;
}

static int device_in_use(void) {
    pthread_mutex_lock(&it.lock);
    int device = this_thread()->device;
    pthread_mutex_unlock(&it.lock);
    return device;
}

static bool enter(const char *call, gp_error *err) {
    return enter_for(call, device_in_use(), err);
}

static gp_status leave(gp_status status) {
    pthread_mutex_unlock(&it.lock);
    return status;
}

static uint32_t draw(uint32_t below) {
    return gp_philox_draw(it.options.seed, (gp_philox){{(uint32_t)it.draws++}}).word[0] % below;
}

/* ---- execution --------------------------------------------------------------------------------------------------- */

/* The stream in which the other end of a message comes next. */
static gp_cuda_stream *stream_of_peer(const work *w) {
    for (int s = 0; s < it.stream_count && !w->comm->peer->gone; s++) {
        const work *first = it.streams[s].first;
        if (first && first->comm == w->comm->peer && first->kind == (w->kind == OUTGOING ? INCOMING : OUTGOING) &&
            !it.lost[it.streams[s].device])
            return &it.streams[s];
    }
    return NULL;
}

/* A message goes when both ends have come to it; with an odd seed, it may go before the receiver has. */
static bool message_may_go(const work *w) {
    if (w->comm->gone || (w->kind == OUTGOING && it.options.seed % 2)) return true;
    return (w->kind == INCOMING && w->comm->letters) || stream_of_peer(w);
}

static bool may_go(const gp_cuda_stream *stream) {
    const work *w = stream->first;
    if (!w || it.lost[stream->device]) return false;
    if (w->kind == OUTGOING || w->kind == INCOMING) return message_may_go(w);
    return w->kind != WAIT || it.happened[w->record];
}

static void drop_first(gp_cuda_stream *stream) {
    work *w = stream->first;
    stream->first = w->next;
    if (!stream->first) stream->last = NULL;
    free(w->args);
    free(w);
}

static void add_letter(gp_cuda_comm *to, const work *w) {
    letter **at = &to->letters, *its = calloc(1, sizeof *its);
    assert(its);
    while (*at) at = &(*at)->next;
    *at = its;
    its->bytes = malloc(w->bytes);
    assert(its->bytes);
    its->count = w->bytes;
    memcpy(its->bytes, w->from, w->bytes);
}

static void take_letter(const work *w) {
    letter *its = w->comm->letters;
    w->comm->letters = its->next;
    if (its->count == w->bytes)
        memcpy(w->to, its->bytes, w->bytes);
    else
        refuse(NULL, "a message of %zu bytes is received as %zu", its->count, w->bytes);
    free(its->bytes);
    free(its);
}

/* Of a group that was left there is nothing to carry. */
static void carry_message(const work *w) {
    w->comm->under_way--;
    if (w->comm->gone) return;
    if (w->kind == OUTGOING) {
        if (!w->comm->peer->gone) add_letter(w->comm->peer, w);
        return;
    }
    gp_cuda_stream *peer = w->comm->letters ? NULL : stream_of_peer(w);
    if (peer) carry_message(peer->first);
    take_letter(w);
    if (peer) drop_first(peer);
}

static void carry_out(gp_cuda_stream *stream) {
    const gp_host_order order = {GP_FIBERS_ASCENDING, 0, POISON};
    gp_error err = {0};
    work *w = stream->first;
    it.time++;
    if (w->fails) {
        set_fault(w->fails, w->mark, w->label, stream->device);
        it.lost[stream->device] = true;
        return;
    }
    switch (w->kind) {
    case LAUNCH:
        w->launch.args = w->args;
        if (gp_host_kernel_run(&w->launch, order, &err) != GP_OK) refuse(&err, "%s", err.text);
        break;
    case PLAN:
        if (gp_host_plan_run(w->prepared, w->operands, w->workspace, &err) != GP_OK) refuse(&err, "%s", err.text);
        break;
    case COPY: memcpy(w->to, w->from, w->bytes); break;
    case NOTE: atomic_store(w->noted, w->number); break;
    case RECORD:
        it.happened[w->record] = true;
        it.times[w->record] = it.time;
        break;
    case OUTGOING:
    case INCOMING: carry_message(w); break;
    case WAIT: break;
    }
    drop_first(stream);
}

static bool carry_out_all(gp_cuda_stream *stream) {
    bool any = false;
    for (; may_go(stream); any = true) carry_out(stream);
    return any;
}

static void carry_out_everything(void) {
    for (bool any = true; any;) {
        any = false;
        for (int s = 0; s < it.stream_count; s++) any = carry_out_all(&it.streams[s]) || any;
    }
}

/* Where one waits for another process, whatever may go there. */
static bool go_on_anywhere(void) {
    for (int s = 0; s < it.stream_count; s++) {
        if (!may_go(&it.streams[s])) continue;
        carry_out(&it.streams[s]);
        return true;
    }
    return false;
}

static gp_cuda_stream *stream_of_record(size_t record) {
    for (int s = 0; s < it.stream_count; s++)
        for (const work *w = it.streams[s].first; w; w = w->next)
            if (w->kind == RECORD && w->record == record) return &it.streams[s];
    return NULL;
}

/* No more than that record takes; less where its device, or one that it waits for, is lost. */
static void carry_out_until(size_t record) {
    while (!it.happened[record]) {
        gp_cuda_stream *stream = stream_of_record(record);
        assert(stream);
        if (!may_go(stream) && stream->first->comm) {
            if (!go_on_anywhere()) return;
            continue;
        }
        if (!may_go(stream) && !it.lost[stream->device]) carry_out_until(stream->first->record);
        if (!may_go(stream)) return;
        carry_out(stream);
    }
}

static void go_on_at_random(uint32_t turns) {
    for (; turns > 0 && it.stream_count > 0; turns--) {
        gp_cuda_stream *stream = &it.streams[draw((uint32_t)it.stream_count)];
        if (may_go(stream)) carry_out(stream);
    }
}

static void after_enqueueing(void) {
    if (it.options.policy == RECORDER_RANDOM) go_on_at_random(draw(4));
    if (it.options.policy == RECORDER_EAGER) carry_out_everything();
}

static void somebody_asks(size_t record) {
    switch (it.options.policy) {
    case RECORDER_LAZY: carry_out_until(record); break;
    case RECORDER_RANDOM: go_on_at_random(1 + draw(8)); break;
    case RECORDER_LAST_FIRST:
        for (int s = it.stream_count - 1; s >= 0 && !it.happened[record]; s--) (void)carry_out_all(&it.streams[s]);
        break;
    case RECORDER_EAGER:
    case RECORDER_POLICIES: carry_out_everything(); break;
    }
}

/* ---- enqueueing -------------------------------------------------------------------------------------------------- */

static gp_status enqueue(gp_cuda_stream *stream, const char *name, const work *what, gp_error *err) {
    work *w;
    if (stream->device != this_thread()->device)
        return refuse(err, "a stream of device %d is used while device %d is", stream->device, this_thread()->device);
    if (stream->unsettled && what->comm != stream->unsettled)
        return refuse(err, "%s is enqueued while messages before it are not yet", name);
    GP_RETURN_IF_FAILED(GP_NEW(&w, 1, err));
    *w = *what;
    if ((w->kind == LAUNCH || w->kind == PLAN || w->kind == COPY || w->comm) && ++it.works == it.options.failing_work) {
        w->fails = name;
        memcpy(w->mark, this_thread()->mark, MARK);
        memcpy(w->label, this_thread()->label, RECORDER_LABEL);
    }
    if (stream->last)
        stream->last->next = w;
    else
        stream->first = w;
    stream->last = w;
    return GP_OK;
}

/* The clock of the next access of this stream. */
static moment tick(gp_cuda_stream *stream, const char *name) {
    clock_join(&stream->now, &this_thread()->knows);
    clock_join(&stream->now, &it.met);
    stream->now.of[stream->number]++;
    return (moment){.stream = stream->number, .name = name, .device = stream->device, .clock = stream->now};
}

static gp_status note(const moment *when, const gp_cuda_range *range, bool write, gp_error *err) {
    char text[512];
    if (accesses_note(when, range, write, text, sizeof text)) return GP_OK;
    return refuse(err, "%s", text);
}

static gp_status note_bytes(const moment *when, const void *at, size_t bytes, bool write, gp_error *err) {
    if (bytes == 0) return GP_OK;
    return note(when, &(gp_cuda_range){at, bytes, bytes, 1}, write, err);
}

static gp_status do_launch(const gp_cuda_launch *launch, gp_cuda_stream *stream, gp_error *err) {
    moment when = tick(stream, gp_host_kernel_name(launch->kernel));
    work w = {.kind = LAUNCH, .launch = *launch};
    for (int i = 0; i < launch->reads; i++) GP_RETURN_IF_FAILED(note(&when, &launch->read[i], false, err));
    for (int i = 0; i < launch->writes; i++) GP_RETURN_IF_FAILED(note(&when, &launch->write[i], true, err));
    it.counts.launches++;
    w.launch.reads = w.launch.writes = 0;
    GP_RETURN_IF_FAILED(GP_NEW(&w.args, launch->args_bytes, err));
    memcpy(w.args, launch->args, launch->args_bytes);
    GP_RETURN_IF_FAILED(enqueue(stream, when.name, &w, err));
    after_enqueueing();
    return GP_OK;
}

static gp_status launch(const gp_cuda_launch *what, gp_cuda_stream *stream, gp_error *err) {
    return enter("launch", err) ? leave(do_launch(what, stream, err)) : GP_DEVICE;
}

static gp_cuda_range operand_range(const gp_prepared *prepared, int operand, const void *at) {
    const gp_tensor *tensor = &prepared->desc.operand[operand];
    size_t bytes = prepared->operand[operand].bytes, element = gp_dtype_size(tensor->dtype);
    gp_rows rows;
    if (tensor->format != GP_FORMAT_PLAIN || !gp_rows_find(tensor, &rows) || gp_rows_dense(rows))
        return (gp_cuda_range){at, bytes, bytes, 1};
    return (gp_cuda_range){at, (size_t)rows.width * element, (size_t)rows.pitch * element, (size_t)rows.count};
}

static gp_status do_plan_run(gp_cuda_stream *stream, const gp_prepared *prepared, void *const operands[],
                             void *workspace, gp_error *err) {
    gp_op_kind kind = prepared->desc.kind;
    moment when = tick(stream, gp_op_name(kind));
    work w = {.kind = PLAN, .prepared = prepared, .workspace = workspace};
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < (int)prepared->desc.operands; i++) {
            bool adds = prepared->desc.flags & GP_OP_ACCUMULATE && gp_op_writes(kind, i);
            if (!operands[i] || !(pass ? gp_op_writes(kind, i) : gp_op_reads(kind, i) || adds)) continue;
            gp_cuda_range range = operand_range(prepared, i, operands[i]);
            GP_RETURN_IF_FAILED(note(&when, &range, pass == 1, err));
        }
    GP_RETURN_IF_FAILED(note_bytes(&when, workspace, prepared->workspace, true, err));
    memcpy(w.operands, operands, sizeof w.operands[0] * prepared->desc.operands);
    it.counts.plans++;
    GP_RETURN_IF_FAILED(enqueue(stream, when.name, &w, err));
    after_enqueueing();
    return GP_OK;
}

static gp_status plan_run(gp_cuda_library *library, const gp_prepared *prepared, void *const operands[],
                          void *workspace, gp_error *err) {
    if (!enter("plan_run", err)) return GP_DEVICE;
    return leave(do_plan_run(library->stream, prepared, operands, workspace, err));
}

static gp_status do_copy(void *to, const void *from, size_t bytes, bool out, gp_cuda_stream *stream, gp_error *err) {
    moment when = tick(stream, "copy");
    work w = {.kind = COPY, .to = to, .from = from, .bytes = bytes};
    GP_RETURN_IF_FAILED(note_bytes(&when, from, bytes, false, err));
    GP_RETURN_IF_FAILED(note_bytes(&when, to, bytes, true, err));
    /* A host that reads it now reads this. */
    if (out) memset(to, POISON, bytes);
    it.counts.copies++;
    GP_RETURN_IF_FAILED(enqueue(stream, when.name, &w, err));
    after_enqueueing();
    return GP_OK;
}

static gp_status copy(void *to, const void *from, size_t bytes, gp_cuda_direction direction, gp_cuda_stream *stream,
                      gp_error *err) {
    if (!enter("copy", err)) return GP_DEVICE;
    return leave(do_copy(to, from, bytes, direction == GP_CUDA_OUT, stream, err));
}

static gp_status copy_peer(void *to, int to_index, const void *from, int from_index, size_t bytes,
                           gp_cuda_stream *stream, gp_error *err) {
    if (!enter("copy_peer", err)) return GP_DEVICE;
    if (to_index != stream->device) return leave(refuse(err, "a peer's copy goes to another device than its stream's"));
    if (!it.reached[to_index][from_index])
        return leave(refuse(err, "device %d copies from device %d before it has reached for it", to_index, from_index));
    accesses_allow(from_index);
    gp_status status = do_copy(to, from, bytes, false, stream, err);
    accesses_allow(-1);
    return leave(status);
}

static gp_status do_note(_Atomic uint32_t *at, uint32_t number, gp_cuda_stream *stream, gp_error *err) {
    moment when = tick(stream, "note");
    work w = {.kind = NOTE, .noted = at, .number = number};
    GP_RETURN_IF_FAILED(note_bytes(&when, at, sizeof *at, true, err));
    GP_RETURN_IF_FAILED(enqueue(stream, when.name, &w, err));
    after_enqueueing();
    return GP_OK;
}

static gp_status note_number(_Atomic uint32_t *host_at, uint32_t number, gp_cuda_stream *stream, gp_error *err) {
    return enter("note", err) ? leave(do_note(host_at, number, stream, err)) : GP_DEVICE;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static gp_status event_create(bool timed, gp_cuda_event **out, gp_error *err) {
    gp_cuda_event *event;
    if (!enter("event_create", err)) return GP_DEVICE;
    gp_status status = GP_NEW(&event, 1, err);
    if (status == GP_OK) {
        event->device = this_thread()->device;
        event->timed = timed;
        *out = event;
    }
    return leave(status);
}

static void event_destroy(gp_cuda_event *event) {
    free(event);
}

static gp_status do_record(gp_cuda_event *event, gp_cuda_stream *stream, gp_error *err) {
    if (event->device != stream->device)
        return refuse(err, "an event of device %d is recorded on device %d", event->device, stream->device);
    GP_RETURN_IF_FAILED(GP_GROW(&it.happened, &it.record_capacity, it.records + 1, err));
    GP_RETURN_IF_FAILED(GP_GROW(&it.times, &it.time_capacity, it.records + 1, err));
    work w = {.kind = RECORD, .record = it.records++};
    it.happened[w.record] = false;
    event->record = w.record + 1;
    clock_join(&stream->now, &this_thread()->knows);
    event->at = stream->now;
    GP_RETURN_IF_FAILED(enqueue(stream, "record", &w, err));
    after_enqueueing();
    return GP_OK;
}

static gp_status event_record(gp_cuda_event *event, gp_cuda_stream *stream, gp_error *err) {
    return enter("event_record", err) ? leave(do_record(event, stream, err)) : GP_DEVICE;
}

static gp_status do_wait(gp_cuda_stream *stream, const gp_cuda_event *event, gp_error *err) {
    if (event->record == 0) return refuse(err, "a stream waits for an event that nobody has recorded");
    if (it.counts.waits++ == it.options.without_wait) {
        note_fault("wait", this_thread()->mark, this_thread()->label, stream->device);
        return GP_OK;
    }
    clock_join(&stream->now, &event->at);
    work w = {.kind = WAIT, .record = event->record - 1};
    GP_RETURN_IF_FAILED(enqueue(stream, "wait", &w, err));
    after_enqueueing();
    return GP_OK;
}

static gp_status event_wait(gp_cuda_stream *stream, gp_cuda_event *event, gp_error *err) {
    return enter("event_wait", err) ? leave(do_wait(stream, event, err)) : GP_DEVICE;
}

static gp_status event_done(gp_cuda_event *event, bool *out, gp_error *err) {
    if (!enter("event_done", err)) return GP_DEVICE;
    if (event->record == 0) return leave(refuse(err, "an event is asked for that nobody has recorded"));
    if (this_thread()->device != event->device)
        return leave(
            refuse(err, "an event of device %d is asked for on device %d", event->device, this_thread()->device));
    somebody_asks(event->record - 1);
    if (is_lost(event->device)) return leave(gp_fail(err, GP_DEVICE, "event_done: earlier work failed"));
    *out = it.happened[event->record - 1];
    if (*out) clock_join(&this_thread()->knows, &event->at);
    return leave(GP_OK);
}

static gp_status event_elapsed(gp_cuda_event *from, gp_cuda_event *to, float *out, gp_error *err) {
    if (!enter("event_elapsed", err)) return GP_DEVICE;
    if (!from->timed || !to->timed) return leave(refuse(err, "an event without a time is asked for it"));
    if (!from->record || !to->record || !it.happened[from->record - 1] || !it.happened[to->record - 1])
        return leave(refuse(err, "the time of an event is asked for that has not happened"));
    *out = (float)((double)it.times[to->record - 1] - (double)it.times[from->record - 1]);
    return leave(GP_OK);
}

/* ---- devices, memory, streams ------------------------------------------------------------------------------------ */

static gp_status count(int *out, gp_error *err) {
    if (!enter_for("count", -1, err)) return GP_DEVICE;
    *out = it.options.devices;
    return leave(GP_OK);
}

static gp_status use(int index, gp_error *err) {
    if (!enter_for("use", index, err)) return GP_DEVICE;
    if (index < 0 || index >= it.options.devices) return leave(refuse(err, "device %d is used", index));
    this_thread()->device = index;
    return leave(GP_OK);
}

static gp_status memory(gp_cuda_memory *out, gp_error *err) {
    if (!enter("memory", err)) return GP_DEVICE;
    size_t total = it.options.memory ? it.options.memory : (size_t)1 << 30;
    size_t own = it.taken[this_thread()->device];
    *out = (gp_cuda_memory){total - own - it.others, total, it.tells_own ? RECORDER_CONTEXT + own : 0};
    return leave(GP_OK);
}

static gp_status reach(int other, bool *out, gp_error *err) {
    if (!enter("reach", err)) return GP_DEVICE;
    int device = this_thread()->device;
    if (device < 0 || other < 0 || other >= it.options.devices)
        return leave(refuse(err, "device %d reaches for device %d", device, other));
    it.reached[device][other] = true;
    *out = true;
    return leave(GP_OK);
}

static gp_status reserve(const char *call, size_t bytes, bool host, void **out, gp_error *err) {
    if (!enter(call, err)) return GP_DEVICE;
    void *block = accesses_reserve(bytes, host ? -1 : this_thread()->device, POISON);
    if (!block) return leave(gp_fail(err, GP_MEMORY, "%s: out of memory", call));
    *out = block;
    return leave(GP_OK);
}

static gp_status allocate(size_t bytes, void **out, gp_error *err) {
    return reserve("allocate", bytes, false, out, err);
}

static gp_status host_allocate(size_t bytes, void **out, gp_error *err) {
    return reserve("host_allocate", bytes, true, out, err);
}

static void release(void *block) {
    char text[512];
    clock_vector known;
    pthread_mutex_lock(&it.lock);
    known = this_thread()->knows;
    clock_join(&known, &it.met);
    if (!accesses_release(block, &known, text, sizeof text) && !it.broken) refuse(NULL, "%s", text);
    pthread_mutex_unlock(&it.lock);
}

static gp_status stream_create(bool urgent, gp_cuda_stream **out, gp_error *err) {
    (void)urgent;
    if (!enter("stream_create", err)) return GP_DEVICE;
    assert(it.stream_count < MOST_STREAMS);
    gp_cuda_stream *stream = &it.streams[it.stream_count];
    *stream = (gp_cuda_stream){.device = this_thread()->device, .number = it.stream_count++, .open = true};
    *out = stream;
    return leave(GP_OK);
}

static void drop_work(gp_cuda_stream *stream) {
    while (stream->first) {
        work *next = stream->first->next;
        if (stream->first->kind == RECORD) it.happened[stream->first->record] = true;
        free(stream->first->args);
        free(stream->first);
        stream->first = next;
    }
    stream->last = NULL;
}

static void stream_destroy(gp_cuda_stream *stream) {
    pthread_mutex_lock(&it.lock);
    if (stream->first && !it.broken) refuse(NULL, "a stream is destroyed with work under way");
    drop_work(stream);
    stream->open = false;
    pthread_mutex_unlock(&it.lock);
}

static gp_status library_open(gp_cuda_stream *stream, gp_cuda_library **out, gp_error *err) {
    gp_cuda_library *library;
    if (!enter("library_open", err)) return GP_DEVICE;
    GP_RETURN_IF_FAILED(leave(GP_NEW(&library, 1, err)));
    library->stream = stream;
    pthread_mutex_lock(&it.lock);
    it.taken[stream->device] += it.options.library;
    it.others += it.others_take;
    pthread_mutex_unlock(&it.lock);
    *out = library;
    return GP_OK;
}

static void library_close(gp_cuda_library *library) {
    free(library);
}

static void set_thread_mark(const char *name, int more) {
    pthread_mutex_lock(&it.lock);
    host_thread *mine = this_thread();
    mine->marks += more;
    snprintf(mine->mark, MARK, "%s", mine->marks == 2 ? name : "");
    pthread_mutex_unlock(&it.lock);
}

/* ---- messages between processes ---------------------------------------------------------------------------------- */

static gp_status comm_id(char id[GP_LINE_ID], gp_error *err) {
    if (!enter("comm_id", err)) return GP_DEVICE;
    memset(id, 0, GP_LINE_ID);
    snprintf(id, GP_LINE_ID, "line %d", it.comm_ids++);
    return leave(GP_OK);
}

static gp_status comm_create(const char id[GP_LINE_ID], int rank, int ranks, int blocks, gp_cuda_comm **out,
                             gp_error *err) {
    if (!enter("comm_create", err)) return GP_DEVICE;
    assert(it.comm_count < MOST_COMMS);
    if (ranks != 2) return leave(refuse(err, "a line has %d ends", ranks));
    if (blocks < 1 || blocks > GP_LINE_BLOCKS) return leave(refuse(err, "a line takes %d blocks", blocks));
    gp_cuda_comm *comm = &it.comms[it.comm_count];
    *comm = (gp_cuda_comm){.rank = rank, .blocks = blocks, .device = this_thread()->device, .unsettled = true};
    memcpy(comm->id, id, GP_LINE_ID);
    for (int c = 0; c < it.comm_count; c++) {
        gp_cuda_comm *other = &it.comms[c];
        if (memcmp(other->id, id, GP_LINE_ID) != 0) continue;
        if (other->peer || other->rank == rank) return leave(refuse(err, "a line has too many ends, or equal ones"));
        if (other->device == comm->device) return leave(refuse(err, "both ends of a line are on one device"));
        if (other->blocks != blocks) return leave(refuse(err, "the ends of a line take different blocks"));
        other->peer = comm;
        comm->peer = other;
    }
    it.comm_count++;
    *out = comm;
    return leave(GP_OK);
}

static gp_status comm_busy(gp_cuda_comm *comm, bool *out, gp_error *err) {
    if (!enter_for("comm_busy", comm->device, err)) return GP_DEVICE;
    if (it.comms_fail) return leave(gp_fail(err, GP_DEVICE, "the other process: made to fail"));
    if (comm->gone) return leave(refuse(err, "a line is asked for after its end"));
    if (this_thread()->groups) return leave(refuse(err, "a line is asked for within a group"));
    if (comm->finishing) {
        carry_out_everything();
        *out = comm->under_way > 0 || (!comm->peer->finishing && !comm->peer->gone);
        return leave(GP_OK);
    }
    *out = comm->unsettled || !comm->peer;
    if (comm->peer) comm->unsettled = false;
    if (!*out && comm->stream && comm->stream->unsettled == comm) comm->stream->unsettled = NULL;
    return leave(GP_OK);
}

static gp_status group_begin(gp_error *err) {
    if (!enter("group_begin", err)) return GP_DEVICE;
    if (this_thread()->groups++) return leave(refuse(err, "a group of messages within a group"));
    return leave(GP_OK);
}

static gp_status group_end(gp_error *err) {
    pthread_mutex_lock(&it.lock);
    host_thread *mine = this_thread();
    if (!mine->groups--) return leave(refuse(err, "a group of messages ends that has not begun"));
    pthread_mutex_unlock(&it.lock);
    return enter("group_end", err) ? leave(GP_OK) : GP_DEVICE;
}

static gp_status do_message(gp_cuda_comm *comm, int other, bool sends, void *address, size_t bytes,
                            gp_cuda_stream *stream, gp_error *err) {
    moment when = tick(stream, sends ? "send" : "receive");
    work w = {.kind = sends ? OUTGOING : INCOMING, .comm = comm, .to = address, .from = address, .bytes = bytes};
    if (comm->gone || comm->finishing || !comm->peer)
        return refuse(err, "a line carries a message before or after its time");
    if (!this_thread()->groups) return refuse(err, "a message stands in no group");
    if (other == comm->rank || other != comm->peer->rank) return refuse(err, "a message goes to member %d", other);
    if (comm->stream && comm->stream != stream) return refuse(err, "a line is used in two streams");
    comm->stream = stream;
    GP_RETURN_IF_FAILED(note_bytes(&when, address, bytes, !sends, err));
    it.counts.messages++;
    GP_RETURN_IF_FAILED(enqueue(stream, when.name, &w, err));
    stream->unsettled = comm;
    comm->unsettled = true;
    comm->under_way++;
    after_enqueueing();
    return GP_OK;
}

static gp_status comm_send(gp_cuda_comm *comm, int to, const void *address, size_t bytes, gp_cuda_stream *stream,
                           gp_error *err) {
    if (!enter("comm_send", err)) return GP_DEVICE;
    return leave(do_message(comm, to, true, (void *)(uintptr_t)address, bytes, stream, err));
}

static gp_status comm_receive(gp_cuda_comm *comm, int from, void *address, size_t bytes, gp_cuda_stream *stream,
                              gp_error *err) {
    if (!enter("comm_receive", err)) return GP_DEVICE;
    return leave(do_message(comm, from, false, address, bytes, stream, err));
}

static gp_status comm_finish(gp_cuda_comm *comm, gp_error *err) {
    if (!enter_for("comm_finish", comm->device, err)) return GP_DEVICE;
    comm->finishing = true;
    return leave(GP_OK);
}

static void leave_group(gp_cuda_comm *comm, bool orderly) {
    pthread_mutex_lock(&it.lock);
    if (comm->gone) refuse(NULL, "a line is closed twice");
    if (orderly && (!comm->finishing || comm->under_way > 0)) refuse(NULL, "a line is closed with messages under way");
    comm->gone = true;
    if (comm->stream && comm->stream->unsettled == comm) comm->stream->unsettled = NULL;
    for (letter *next; comm->letters; comm->letters = next) {
        next = comm->letters->next;
        free(comm->letters->bytes);
        free(comm->letters);
    }
    if (!orderly) it.aborts++;
    pthread_mutex_unlock(&it.lock);
}

static void comm_destroy(gp_cuda_comm *comm) {
    leave_group(comm, true);
}

static void comm_abort(gp_cuda_comm *comm) {
    leave_group(comm, false);
}

void recorder_fail_lines(void) {
    pthread_mutex_lock(&it.lock);
    it.comms_fail = true;
    pthread_mutex_unlock(&it.lock);
}

int recorder_aborted_lines(void) {
    return it.aborts;
}

static bool mark_begin(const char *name) {
    set_thread_mark(name, 1);
    return true;
}

static void mark_end(void) {
    set_thread_mark("", -1);
}

static gp_status capture(bool begins, gp_error *err) {
    (void)begins;
    (void)err;
    return GP_OK;
}

static const gp_cuda_api table = {
    .count = count,
    .use = use,
    .memory = memory,
    .reach = reach,
    .allocate = allocate,
    .release = release,
    .host_allocate = host_allocate,
    .host_release = release,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_done = event_done,
    .event_elapsed = event_elapsed,
    .copy = copy,
    .copy_peer = copy_peer,
    .note = note_number,
    .launch = launch,
    .plan_create = gp_host_plan_create,
    .plan_destroy = gp_host_plan_destroy,
    .library_open = library_open,
    .library_close = library_close,
    .plan_run = plan_run,
    .mark_begin = mark_begin,
    .mark_end = mark_end,
    .capture = capture,
    .comm_id = comm_id,
    .comm_create = comm_create,
    .comm_busy = comm_busy,
    .group_begin = group_begin,
    .group_end = group_end,
    .comm_send = comm_send,
    .comm_receive = comm_receive,
    .comm_finish = comm_finish,
    .comm_destroy = comm_destroy,
    .comm_abort = comm_abort,
};

void recorder_begin(const recorder_options *options) {
    assert(!it.before);
    it.options = *options;
    it.counts = (recorder_counts){0};
    it.draws = 0;
    it.stream_count = it.thread_count = 0;
    it.comm_count = it.comm_ids = it.aborts = 0;
    it.comms_fail = false;
    it.records = 0;
    it.error[0] = 0;
    it.broken = false;
    memset(it.lost, 0, sizeof it.lost);
    memset(it.taken, 0, sizeof it.taken);
    it.others = it.others_take = 0;
    it.tells_own = false;
    it.works = 0;
    it.fault = (recorder_fault){0};
    memset(it.reached, 0, sizeof it.reached);
    assert(options->devices <= MOST_DEVICES);
    clock_clear(&it.met);
    memset(it.told, 0, sizeof it.told);
    it.before = gp_cuda;
    gp_cuda = &table;
}

void recorder_share(size_t others_take, bool tells_own) {
    it.others_take = others_take;
    it.tells_own = tells_own;
}

void recorder_meet(void) {
    pthread_mutex_lock(&it.lock);
    for (int t = 0; t < it.thread_count; t++) clock_join(&it.met, &it.threads[t].knows);
    accesses_forget(&it.met);
    memset(it.told, 0, sizeof it.told);
    pthread_mutex_unlock(&it.lock);
}

void recorder_tell(size_t word) {
    assert(word < RECORDER_WORDS);
    pthread_mutex_lock(&it.lock);
    it.words[word] = this_thread()->knows;
    it.told[word] = true;
    pthread_mutex_unlock(&it.lock);
}

void recorder_hear(size_t word) {
    assert(word < RECORDER_WORDS);
    pthread_mutex_lock(&it.lock);
    while (!it.told[word] && !it.broken && !it.error[0]) {
        pthread_mutex_unlock(&it.lock);
        sched_yield();
        pthread_mutex_lock(&it.lock);
    }
    if (it.told[word]) clock_join(&this_thread()->knows, &it.words[word]);
    pthread_mutex_unlock(&it.lock);
}

void recorder_label(const char *label) {
    pthread_mutex_lock(&it.lock);
    snprintf(this_thread()->label, RECORDER_LABEL, "%s", label);
    pthread_mutex_unlock(&it.lock);
}

const recorder_fault *recorder_failed(void) {
    return &it.fault;
}

const char *recorder_end(recorder_counts *counts) {
    bool lost = false; /* then what waits for the device stays */
    for (int d = 0; d < MOST_DEVICES; d++) lost |= it.lost[d];
    if (accesses_end() > 0 && !lost) refuse(NULL, "memory was not given back");
    for (int s = 0; s < it.stream_count; s++) {
        if (it.streams[s].open && !lost) refuse(NULL, "a stream was not destroyed");
        drop_work(&it.streams[s]);
    }
    for (int c = 0; c < it.comm_count; c++)
        if (!it.comms[c].gone) refuse(NULL, "a line was not closed");
    free(it.happened);
    free(it.times);
    it.happened = NULL;
    it.times = NULL;
    it.record_capacity = it.time_capacity = 0;
    gp_cuda = it.before;
    it.before = NULL;
    if (counts) *counts = it.counts;
    return it.error[0] ? it.error : NULL;
}
