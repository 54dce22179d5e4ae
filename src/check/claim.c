#include "check/claim.h"

#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static const char *const ops[GP_CLAIM_OPS] = {"load",   "F",      "R",       "B",    "I",      "W",
                                              "send",   "recv",   "barrier", "norm", "clip",   "total",
                                              "reduce", "update", "step",    "post", "collect"};
const char *const gp_claim_frames[GP_CLAIM_FRAMES] = {"stash", "saved", "outbox", "gradient"};
static const char *const edge_kinds[GP_CLAIM_EDGE_KINDS] = {"activation", "skip", "gradient"};
static const char *const collective_kinds[GP_CLAIM_COLLECTIVE_KINDS] = {"gather", "broadcast", "scatter", "exchange"};
static const char *const parts[GP_CLAIM_PARTS] = {"squares",   "scalars", "losses",    "statistics",
                                                  "gradients", "blocks",  "parameters"};

#define MOST_BYTES   ((int64_t)1 << 46)
#define MOST_SAMPLES ((int64_t)1 << 40)
enum { MOST_SLOTS = 1 << 16, MOST_LAYERS = 1 << 20 };

/* ---- values of JSON, with a sentence for each that is missing or of another type --------------------------------- */

typedef struct reader {
    const char *path;
    char where[160]; /* "programs[0], worker 1, instruction 17" */
    gp_error *err;
} reader;

static gp_status bad(const reader *r, const char *key, const char *what) {
    return gp_fail(r->err, GP_DATA, "%s: %s%s%s: %s", r->path, r->where, r->where[0] ? ": " : "", key, what);
}

static gp_status read_whole(const reader *r, const json_t *from, const char *key, int64_t least, int64_t most,
                            int64_t *out) {
    const json_t *value = json_object_get(from, key);
    char what[120];
    *out = 0;
    if (!json_is_integer(value)) return bad(r, key, value ? "must be a whole number" : "is missing");
    *out = json_integer_value(value);
    if (*out >= least && *out <= most) return GP_OK;
    snprintf(what, sizeof what, "is %" PRId64 ", but must be from %" PRId64 " to %" PRId64, *out, least, most);
    return bad(r, key, what);
}

/* `missing` if the key is not there. */
static gp_status read_index(const reader *r, const json_t *from, const char *key, int64_t least, int64_t most,
                            int missing, int *out) {
    int64_t value = missing;
    if (json_object_get(from, key)) GP_RETURN_IF_FAILED(read_whole(r, from, key, least, most, &value));
    *out = (int)value;
    return GP_OK;
}

static gp_status read_flag(const reader *r, const json_t *from, const char *key, bool *out) {
    const json_t *value = json_object_get(from, key);
    *out = json_is_true(value);
    return !value || json_is_boolean(value) ? GP_OK : bad(r, key, "must be true or false");
}

static gp_status read_word(const reader *r, const json_t *from, const char *key, const char *const *words, int count,
                           int *out) {
    const char *word = json_string_value(json_object_get(from, key));
    *out = 0;
    if (!word) return bad(r, key, "is missing, or no text");
    for (*out = 0; *out < count; ++*out)
        if (!strcmp(words[*out], word)) return GP_OK;
    char what[100];
    snprintf(what, sizeof what, "\"%.40s\" is not known to this version", word);
    return bad(r, key, what);
}

static gp_status read_list(const reader *r, const json_t *from, const char *key, const json_t **out, size_t *count) {
    *out = json_object_get(from, key);
    *count = json_array_size(*out);
    return json_is_array(*out) ? GP_OK : bad(r, key, *out ? "must be a list" : "is missing");
}

static gp_status read_text(const reader *r, const json_t *from, const char *key, char **out) {
    const char *text = json_string_value(json_object_get(from, key));
    return text ? gp_copy_text(out, text, r->err) : bad(r, key, "is missing, or no text");
}

/* All, if the file does not say. */
static gp_status read_readers(const reader *r, const json_t *from, const char *key, unsigned *out) {
    const json_t *list = json_object_get(from, key);
    *out = list ? 0 : ~0U;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *word = json_string_value(json_array_get(list, i));
        int op = GP_CLAIM_F;
        while (op <= GP_CLAIM_W && word && strcmp(ops[op], word) != 0) op++;
        if (!word || op > GP_CLAIM_W) return bad(r, key, "must be names of passes");
        *out |= 1U << op;
    }
    return GP_OK;
}

/* ---- stages, workers, copies ------------------------------------------------------------------------------------- */

static gp_status read_layer(reader *r, const json_t *from, gp_claim *claim, size_t i) {
    gp_claim_layer *to = &claim->layers[i];
    int64_t stage, layer;
    snprintf(r->where, sizeof r->where, "layer %zu", i);
    GP_RETURN_IF_FAILED(read_text(r, from, "name", &to->name));
    GP_RETURN_IF_FAILED(read_whole(r, from, "stage", -MOST_LAYERS, MOST_LAYERS, &stage));
    GP_RETURN_IF_FAILED(read_whole(r, from, "layer", -MOST_LAYERS, MOST_LAYERS, &layer));
    to->stage = (int)stage;
    to->layer = (int)layer;
    return GP_OK;
}

static gp_status read_range(const reader *r, const json_t *from, gp_claim_buffer *to) {
    GP_RETURN_IF_FAILED(read_whole(r, from, "offset", 0, MOST_BYTES, &to->offset));
    return read_whole(r, from, "bytes", 0, MOST_BYTES, &to->bytes);
}

static gp_status read_slots(reader *r, const json_t *from, gp_claim_stage *to, size_t stage) {
    for (int f = 0; f < GP_CLAIM_FRAMES; f++) {
        snprintf(r->where, sizeof r->where, "stage %zu, %s slots", stage, gp_claim_frames[f]);
        const json_t *slots = json_object_get(from, gp_claim_frames[f]);
        gp_claim_buffer range;
        GP_RETURN_IF_FAILED(read_range(r, slots, &range));
        GP_RETURN_IF_FAILED(read_whole(r, slots, "slots", 0, MOST_SLOTS, &to->slots[f].count));
        to->slots[f].offset = range.offset;
        to->slots[f].bytes = range.bytes;
    }
    return GP_OK;
}

static gp_status read_buffers(reader *r, const json_t *from, gp_claim_stage *to, size_t stage) {
    const json_t *list;
    size_t count;
    GP_RETURN_IF_FAILED(read_list(r, from, "buffers", &list, &count));
    GP_RETURN_IF_FAILED(GP_NEW(&to->buffers, count, r->err));
    to->buffer_count = count;
    for (size_t b = 0; b < count; b++) {
        snprintf(r->where, sizeof r->where, "stage %zu, buffer %zu", stage, b);
        GP_RETURN_IF_FAILED(read_text(r, json_array_get(list, b), "name", &to->buffers[b].name));
        GP_RETURN_IF_FAILED(read_range(r, json_array_get(list, b), &to->buffers[b]));
    }
    return GP_OK;
}

static gp_status read_stage(reader *r, const json_t *from, gp_claim *claim, size_t i) {
    gp_claim_stage *to = &claim->stages[i];
    int64_t first, layers, worker;
    snprintf(r->where, sizeof r->where, "stage %zu", i);
    GP_RETURN_IF_FAILED(read_whole(r, from, "worker", -MOST_LAYERS, MOST_LAYERS, &worker));
    GP_RETURN_IF_FAILED(read_whole(r, from, "first_layer", -MOST_LAYERS, MOST_LAYERS, &first));
    GP_RETURN_IF_FAILED(read_whole(r, from, "layers", -MOST_LAYERS, MOST_LAYERS, &layers));
    to->worker = (int)worker;
    to->first_layer = (int)first;
    to->layers = (int)layers;
    GP_RETURN_IF_FAILED(read_index(r, from, "number", 0, MOST_LAYERS, (int)i, &to->number));
    GP_RETURN_IF_FAILED(read_index(r, from, "replicas", 1, MOST_LAYERS, 1, &to->replicas));
    GP_RETURN_IF_FAILED(read_index(r, from, "replica", 0, to->replicas - 1, 0, &to->replica));
    GP_RETURN_IF_FAILED(read_index(r, from, "group", 1, to->replicas, 1, &to->group));
    if (json_object_get(from, "parameters"))
        GP_RETURN_IF_FAILED(read_whole(r, from, "parameters", 0, MOST_SAMPLES, &to->parameters));
    to->loads = json_object_get(from, "loads_read_by") != NULL;
    GP_RETURN_IF_FAILED(read_readers(r, from, "loads_read_by", &to->readers));
    if (!claim->slots) return GP_OK;
    GP_RETURN_IF_FAILED(read_buffers(r, from, to, i));
    return read_slots(r, json_object_get(from, "frames"), to, i);
}

static gp_status read_worker(reader *r, const json_t *from, gp_claim *claim, size_t i) {
    gp_claim_worker *to = &claim->workers[i];
    const char *device = json_string_value(json_object_get(from, "device"));
    snprintf(r->where, sizeof r->where, "worker %zu", i);
    GP_RETURN_IF_FAILED(read_text(r, from, "name", &to->name));
    if (!device) return bad(r, "device", "is missing, or no text");
    to->queues = strcmp(device, "cpu") != 0 && strcmp(device, "ref") != 0;
    GP_RETURN_IF_FAILED(read_whole(r, from, "arena_bytes", 0, MOST_BYTES, &to->arena));
    if (!claim->slots) return GP_OK;
    GP_RETURN_IF_FAILED(read_range(r, json_object_get(from, "transient"), &to->transient));
    return read_range(r, json_object_get(from, "evaluation"), &to->evaluation);
}

static gp_status read_edge(reader *r, const json_t *from, gp_claim *claim, size_t i) {
    gp_claim_edge *to = &claim->edges[i];
    int64_t most = (int64_t)claim->stage_count - 1, begins, ends;
    int kind;
    snprintf(r->where, sizeof r->where, "edge %zu", i);
    GP_RETURN_IF_FAILED(read_whole(r, from, "from", 0, most, &begins));
    GP_RETURN_IF_FAILED(read_whole(r, from, "to", 0, most, &ends));
    GP_RETURN_IF_FAILED(read_word(r, from, "carries", edge_kinds, GP_CLAIM_EDGE_KINDS, &kind));
    *to = (gp_claim_edge){(gp_claim_edge_kind)kind, (int)begins, (int)ends, 0};
    return read_readers(r, from, "read_by", &to->readers);
}

static gp_status read_members(const reader *r, const json_t *from, const char *key, const gp_claim *claim, int **out,
                              size_t *out_count) {
    const json_t *list;
    size_t count;
    GP_RETURN_IF_FAILED(read_list(r, from, key, &list, &count));
    GP_RETURN_IF_FAILED(GP_NEW(out, count, r->err));
    for (size_t i = 0; i < count; i++) {
        json_int_t stage = json_integer_value(json_array_get(list, i));
        if (!json_is_integer(json_array_get(list, i)) || stage < 0 || stage >= (json_int_t)claim->stage_count)
            return bad(r, key, "must be numbers of stages");
        (*out)[i] = (int)stage;
    }
    *out_count = count;
    return GP_OK;
}

static gp_status read_collective(reader *r, const json_t *from, gp_claim *claim, size_t i) {
    gp_claim_collective *to = &claim->collectives[i];
    int kind, part;
    snprintf(r->where, sizeof r->where, "collective %zu", i);
    GP_RETURN_IF_FAILED(read_word(r, from, "kind", collective_kinds, GP_CLAIM_COLLECTIVE_KINDS, &kind));
    GP_RETURN_IF_FAILED(read_word(r, from, "carries", parts, GP_CLAIM_PARTS, &part));
    to->kind = (gp_claim_collective_kind)kind;
    to->part = (gp_claim_part)part;
    if (to->part == GP_CLAIM_PART_SQUARES) claim->norms = true;
    if (to->part == GP_CLAIM_PART_PARAMETERS) claim->shards = true;
    GP_RETURN_IF_FAILED(read_index(r, from, "root", 0, (int64_t)claim->stage_count - 1, -1, &to->root));
    GP_RETURN_IF_FAILED(read_index(r, from, "buckets", 1, 1 << 20, 1, &to->buckets));
    GP_RETURN_IF_FAILED(read_index(r, from, "bucket", 0, to->buckets - 1, 0, &to->bucket));
    if (!claim->members) return GP_OK;
    GP_RETURN_IF_FAILED(read_members(r, from, "contributors", claim, &to->contributors, &to->contributor_count));
    return read_members(r, from, "collectors", claim, &to->collectors, &to->collector_count);
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

static gp_status read_waits(const reader *r, const json_t *from, const char *key, gp_claim_program *program,
                            size_t *first, size_t *count) {
    const json_t *list = json_object_get(from, key);
    *first = program->wait_count;
    *count = json_array_size(list);
    GP_RETURN_IF_FAILED(GP_GROW(&program->waits, &program->wait_capacity, program->wait_count + *count, r->err));
    for (size_t i = 0; i < *count; i++) {
        const json_t *pair = json_array_get(list, i), *worker = json_array_get(pair, 0), *pc = json_array_get(pair, 1);
        if (!json_is_integer(worker) || !json_is_integer(pc) || json_integer_value(worker) < 0 ||
            json_integer_value(pc) < 0 || json_integer_value(worker) > INT_MAX)
            return bad(r, key, "must be pairs [worker, instruction]");
        program->waits[program->wait_count++] =
            (gp_claim_wait){(int)json_integer_value(worker), (size_t)json_integer_value(pc)};
    }
    return GP_OK;
}

static gp_status read_used_slots(const reader *r, const json_t *from, gp_claim_instr *to) {
    const json_t *slots = json_object_get(from, "slots");
    for (int f = 0; f < GP_CLAIM_FRAMES; f++)
        GP_RETURN_IF_FAILED(read_index(r, slots, gp_claim_frames[f], 0, MOST_SLOTS, -1, &to->slot[f]));
    return GP_OK;
}

static gp_status read_instr(const reader *r, const json_t *from, gp_claim *claim, gp_claim_program *program,
                            gp_claim_instr *to) {
    const char *name = json_string_value(json_object_get(from, "name"));
    int op;
    snprintf(to->name, sizeof to->name, "%s", name ? name : "");
    GP_RETURN_IF_FAILED(read_word(r, from, "op", ops, GP_CLAIM_OPS, &op));
    to->op = (gp_claim_op)op;
    claim->norms = claim->norms || op == GP_CLAIM_NORM || op == GP_CLAIM_CLIP;
    GP_RETURN_IF_FAILED(read_index(r, from, "stage", 0, (int64_t)claim->stage_count - 1, -1, &to->stage));
    if (to->stage < 0) return bad(r, "stage", "is missing");
    GP_RETURN_IF_FAILED(read_index(r, from, "micro", 0, program->micro_batches - 1, -1, &to->micro));
    bool has_micro = op <= GP_CLAIM_RECV, has_edge = op == GP_CLAIM_SEND || op == GP_CLAIM_RECV;
    if (has_micro != (to->micro >= 0))
        return bad(r, "micro", has_micro ? "is missing" : "belongs to no such instruction");
    GP_RETURN_IF_FAILED(read_index(r, from, "edge", 0, (int64_t)claim->edge_count - 1, -1, &to->edge));
    if (has_edge != (to->edge >= 0)) return bad(r, "edge", has_edge ? "is missing" : "belongs to no such instruction");
    bool joins = op == GP_CLAIM_POST || op == GP_CLAIM_COLLECT || op == GP_CLAIM_REDUCE;
    GP_RETURN_IF_FAILED(
        read_index(r, from, "collective", 0, (int64_t)claim->collective_count - 1, -1, &to->collective));
    if (joins != (to->collective >= 0))
        return bad(r, "collective", joins ? "is missing" : "belongs to no such instruction");
    GP_RETURN_IF_FAILED(read_index(r, from, "queue", 0, 3, 0, &to->queue));
    GP_RETURN_IF_FAILED(read_flag(r, from, "keep", &to->keep));
    GP_RETURN_IF_FAILED(read_flag(r, from, "first", &to->first));
    to->bytes = to->alive = -1;
    if (json_object_get(from, "bytes")) GP_RETURN_IF_FAILED(read_whole(r, from, "bytes", 0, MOST_BYTES, &to->bytes));
    if (json_object_get(from, "bytes_alive"))
        GP_RETURN_IF_FAILED(read_whole(r, from, "bytes_alive", 0, MOST_BYTES, &to->alive));
    GP_RETURN_IF_FAILED(read_used_slots(r, from, to));
    GP_RETURN_IF_FAILED(read_waits(r, from, "waits", program, &to->waits, &to->wait_count));
    return read_waits(r, from, "host_waits", program, &to->host, &to->host_count);
}

static gp_status read_worker_program(reader *r, const json_t *from, gp_claim *claim, size_t p, size_t w) {
    gp_claim_program *program = &claim->programs[p];
    const json_t *list;
    size_t count;
    snprintf(r->where, sizeof r->where, "program %zu, worker %zu", p, w);
    GP_RETURN_IF_FAILED(read_list(r, from, "instructions", &list, &count));
    GP_RETURN_IF_FAILED(GP_NEW(&program->worker[w].instrs, count, r->err));
    program->worker[w].count = count;
    for (size_t i = 0; i < count; i++) {
        snprintf(r->where, sizeof r->where, "program %zu, worker %zu, instruction %zu", p, w, i);
        GP_RETURN_IF_FAILED(read_instr(r, json_array_get(list, i), claim, program, &program->worker[w].instrs[i]));
    }
    return GP_OK;
}

/* Each wait names an instruction that there is. */
static gp_status check_waits(const reader *r, const gp_claim *claim, size_t p) {
    const gp_claim_program *program = &claim->programs[p];
    for (size_t i = 0; i < program->wait_count; i++) {
        const gp_claim_wait *it = &program->waits[i];
        if ((size_t)it->worker >= claim->worker_count || it->pc >= program->worker[it->worker].count)
            return gp_fail(r->err, GP_DATA, "%s: program %zu: a wait names instruction %zu of worker %d: there is none",
                           r->path, p, it->pc, it->worker);
    }
    return GP_OK;
}

static gp_status read_program(reader *r, const json_t *from, gp_claim *claim, size_t p) {
    static const char *const passes[] = {"evaluation", "training"};
    gp_claim_program *to = &claim->programs[p];
    const json_t *list;
    size_t count;
    int pass;
    int64_t micro_batches;
    snprintf(r->where, sizeof r->where, "program %zu", p);
    GP_RETURN_IF_FAILED(read_word(r, from, "pass", passes, 2, &pass));
    to->training = pass;
    GP_RETURN_IF_FAILED(read_whole(r, from, "samples", 1, MOST_SAMPLES, &to->samples));
    GP_RETURN_IF_FAILED(read_whole(r, from, "micro_batches", 1, 1 << 16, &micro_batches));
    to->micro_batches = (int)micro_batches;
    GP_RETURN_IF_FAILED(read_flag(r, from, "descending", &to->descending));
    /* torch.chunk: all of ⌈n/m⌉ samples but the last. */
    to->piece = (to->samples + micro_batches - 1) / micro_batches;
    to->last = to->samples - to->piece * (micro_batches - 1);
    if (claim->slots) {
        GP_RETURN_IF_FAILED(read_whole(r, from, "micro_batch_samples", 0, to->samples, &to->piece));
        GP_RETURN_IF_FAILED(read_whole(r, from, "last_samples", 0, to->samples, &to->last));
    }
    GP_RETURN_IF_FAILED(read_list(r, from, "workers", &list, &count));
    if (count != claim->worker_count) return bad(r, "workers", "is a list of another length than that of the plan");
    GP_RETURN_IF_FAILED(GP_NEW(&to->worker, count, r->err));
    for (size_t w = 0; w < count; w++)
        GP_RETURN_IF_FAILED(read_worker_program(r, json_array_get(list, w), claim, p, w));
    return check_waits(r, claim, p);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

typedef gp_status read_item(reader *r, const json_t *from, gp_claim *claim, size_t i);

static gp_status read_items(reader *r, const json_t *root, const char *key, size_t *count, size_t size, void **items,
                            gp_claim *claim, read_item *read) {
    const json_t *list;
    r->where[0] = '\0';
    size_t all;
    GP_RETURN_IF_FAILED(read_list(r, root, key, &list, &all));
    GP_RETURN_IF_FAILED(gp_new_array(items, all, size, r->err));
    *count = all;
    for (size_t i = 0; i < all; i++) GP_RETURN_IF_FAILED(read(r, json_array_get(list, i), claim, i));
    return GP_OK;
}
#define READ_ITEMS(key, field, read)                                                                                   \
    GP_RETURN_IF_FAILED(read_items(r, root, key, &claim->field##_count, sizeof *claim->field##s,                       \
                                   (void **)&claim->field##s, claim, read))

static bool some_has(const json_t *root, const char *list, const char *key) {
    const json_t *items = json_object_get(root, list);
    for (size_t i = 0; i < json_array_size(items); i++)
        if (json_object_get(json_array_get(items, i), key)) return true;
    return false;
}

static gp_status read_all(reader *r, const json_t *root, gp_claim *claim) {
    const char *format = json_string_value(json_object_get(root, "format"));
    const char *kind = json_string_value(json_object_get(root, "kind"));
    const char *left_out = json_string_value(json_object_get(root, "left_out"));
    if (!format || strcmp(format, "gpipe-plan") != 0)
        return gp_fail(r->err, GP_DATA, "%s: is not the plan of a run: the key format is not \"gpipe-plan\"", r->path);
    if (json_integer_value(json_object_get(root, "version")) != 1)
        return gp_fail(r->err, GP_DATA, "%s: version: this version of the program reads plans of version 1", r->path);
    if (!kind || strcmp(kind, "plan") != 0)
        return gp_fail(r->err, GP_DATA,
                       "%s: is the plan of a simulation, which has no memory: only plans of runs can be checked",
                       r->path);
    if (left_out) return gp_fail(r->err, GP_DATA, "%s: the file leaves out its instructions: %s", r->path, left_out);
    claim->slots = some_has(root, "stages", "frames");
    claim->members =
        json_array_size(json_object_get(root, "collectives")) == 0 || some_has(root, "collectives", "contributors");
    GP_RETURN_IF_FAILED(read_text(r, root, "name", &claim->name));
    READ_ITEMS("layers", layer, read_layer);
    READ_ITEMS("stages", stage, read_stage);
    READ_ITEMS("workers", worker, read_worker);
    READ_ITEMS("edges", edge, read_edge);
    READ_ITEMS("collectives", collective, read_collective);
    READ_ITEMS("programs", program, read_program);
    if (claim->layer_count == 0 || claim->stage_count == 0 || claim->worker_count == 0 || claim->program_count == 0)
        return gp_fail(r->err, GP_DATA, "%s: has no layers, stages, workers or programs: there is nothing to check",
                       r->path);
    return GP_OK;
}

gp_status gp_claim_read(const char *text, size_t bytes, const char *path, gp_claim **out, gp_error *err) {
    json_error_t error;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!root) return gp_fail(err, GP_DATA, "%s:%d:%d: is no JSON: %s", path, error.line, error.column, error.text);
    reader r = {.path = path, .err = err};
    gp_claim *claim = NULL;
    gp_status status = GP_NEW(&claim, 1, err);
    if (status == GP_OK) status = gp_copy_text(&claim->path, path, err);
    if (status == GP_OK) status = read_all(&r, root, claim);
    json_decref(root);
    if (status != GP_OK)
        gp_claim_destroy(&claim);
    else
        *out = claim;
    return status;
}

void gp_claim_destroy(gp_claim **claim) {
    gp_claim *it = *claim;
    if (!it) return;
    for (size_t p = 0; p < it->program_count; p++) {
        for (size_t w = 0; it->programs[p].worker && w < it->worker_count; w++) free(it->programs[p].worker[w].instrs);
        free(it->programs[p].worker);
        free(it->programs[p].waits);
    }
    for (size_t s = 0; s < it->stage_count; s++) {
        for (size_t b = 0; b < it->stages[s].buffer_count; b++) free(it->stages[s].buffers[b].name);
        free(it->stages[s].buffers);
    }
    for (size_t c = 0; c < it->collective_count; c++) {
        free(it->collectives[c].contributors);
        free(it->collectives[c].collectors);
    }
    for (size_t l = 0; l < it->layer_count; l++) free(it->layers[l].name);
    for (size_t w = 0; w < it->worker_count; w++) free(it->workers[w].name);
    free(it->programs);
    free(it->stages);
    free(it->collectives);
    free(it->layers);
    free(it->workers);
    free(it->edges);
    free(it->path);
    free(it->name);
    free(it);
    *claim = NULL;
}

/* ---- which micro-batches a stage has ---------------------------------------------------------------------------- */

/* Samples first … end − 1 of a micro-batch: replica i of n has the i-th stretch of ⌈samples/n⌉. */
static void find_share(const gp_claim_program *program, const gp_claim_stage *stage, int micro, int64_t *first,
                       int64_t *end) {
    int64_t samples = micro + 1 < program->micro_batches ? program->piece : program->last;
    int64_t each = (samples + stage->replicas - 1) / stage->replicas;
    *first = each * stage->replica < samples ? each * stage->replica : samples;
    *end = *first + each < samples ? *first + each : samples;
}

bool gp_claim_stage_has(const gp_claim *claim, const gp_claim_program *program, int stage, int micro) {
    int64_t first, end;
    find_share(program, &claim->stages[stage], micro, &first, &end);
    return end > first;
}

bool gp_claim_edge_carries(const gp_claim *claim, const gp_claim_program *program, int edge, int micro) {
    int64_t first, end, other_first, other_end;
    find_share(program, &claim->stages[claim->edges[edge].from], micro, &first, &end);
    find_share(program, &claim->stages[claim->edges[edge].to], micro, &other_first, &other_end);
    return (first > other_first ? first : other_first) < (end < other_end ? end : other_end);
}
