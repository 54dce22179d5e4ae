#include "schedule/toy_graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/philox.h"
#include "schedule/emit.h"
#include "schedule/slots.h"

static void add_use(gp_graph *graph, int value, int node) {
    gp_value *v = &graph->values[value];
    v->uses = realloc(v->uses, (size_t)(v->use_count + 1) * sizeof *v->uses);
    assert_non_null(v->uses);
    v->uses[v->use_count++] = (gp_use){node, 0};
}

void toy_init(toy *t, const int64_t *balance, int stages, const toy_skip *skips, int skip_count) {
    toy_init_replicated(t, balance, NULL, false, stages, skips, skip_count);
}

void toy_init_replicated(toy *t, const int64_t *balance, const int *replicas, bool shards, int stages,
                         const toy_skip *skips, int skip_count) {
    toy_init_shared(t, balance, replicas, shards, stages, skips, skip_count, 12, 12);
}

void toy_init_shared(toy *t, const int64_t *balance, const int *replicas, bool shards, int stages,
                     const toy_skip *skips, int skip_count, int64_t piece, int64_t last) {
    gp_graph *graph = &t->graph;
    int layers = 0;
    for (int s = 0; s < stages; s++) layers += (int)balance[s];
    *t = (toy){.graph = {.node_count = layers + 1, .layer_count = layers, .value_count = layers + 2},
               .piece = piece,
               .last = last};
    graph->values = calloc((size_t)graph->value_count, sizeof *graph->values);
    graph->nodes = calloc((size_t)graph->node_count, sizeof *graph->nodes);
    assert_non_null(graph->values);
    graph->unit_end = calloc((size_t)layers, sizeof *graph->unit_end);
    assert_non_null(graph->nodes);
    assert_non_null(graph->unit_end);
    static gp_layer plain; /* of no type; nothing here asks */
    for (int node = 0; node <= layers; node++) {
        graph->nodes[node].unit = node < layers ? node : layers - 1;
        graph->nodes[node].layer = &plain;
    }
    for (int layer = 0; layer < layers; layer++) graph->unit_end[layer] = layer + 1;
    for (int v = 0; v < graph->value_count; v++) {
        graph->values[v].shape = (gp_shape){1, {4}};
        graph->values[v].producer = v < 2 ? -1 : v - 2;
        graph->values[v].needs_grad = v >= 2;
    }
    for (int node = 0; node < layers; node++) {
        add_use(graph, node == 0 ? GP_VALUE_INPUT : node + 1, node);
        for (int i = 0; i < skip_count; i++)
            if (skips[i].to == node) add_use(graph, 2 + skips[i].from, node);
    }
    add_use(graph, layers + 1, layers);
    add_use(graph, GP_VALUE_TARGET, layers);
    gp_error err = {0};
    const int64_t samples[] = {piece, last};
    const gp_stages_request request = {.graph = graph,
                                       .layers = balance,
                                       .replicas = replicas,
                                       .shards = shards,
                                       .numbers = stages,
                                       .samples = samples,
                                       .sample_count = 2};
    if (gp_stages_create(&request, &t->stages, &err) != GP_OK) fail_msg("%s", err.text);
}

void toy_init_chain(toy *t, int stages, bool skips) {
    toy_skip all[3];
    int count = 0;
    if (skips && stages > 2) all[count++] = (toy_skip){0, 2};
    if (skips && stages > 3) {
        all[count++] = (toy_skip){0, stages - 1};
        all[count++] = (toy_skip){1, stages - 1};
    }
    int64_t *balance = calloc((size_t)stages, sizeof *balance);
    assert_non_null(balance);
    for (int s = 0; s < stages; s++) balance[s] = 1;
    toy_init(t, balance, stages, all, count);
    free(balance);
}

void toy_add_norms(toy *t) {
    gp_error err = {0};
    if (gp_stages_add_norms(t->stages, &err) != GP_OK) fail_msg("%s", err.text);
}

void toy_fini(toy *t) {
    gp_stages_destroy(&t->stages);
    for (int v = 0; v < t->graph.value_count; v++) free(t->graph.values[v].uses);
    free(t->graph.values);
    free(t->graph.nodes);
    free(t->graph.unit_end);
}

static gp_programs *schedule_as(const toy *t, gp_schedule schedule, toy_run run) {
    gp_programs *programs = NULL;
    gp_error err = {0};
    gp_emit_request request = {.stages = t->stages,
                               .pieces = {run.pieces, t->piece, t->last},
                               .checkpoint = run.checkpoint,
                               .lockstep = run.lockstep,
                               .training = run.training,
                               .schedule = schedule};
    if (gp_programs_emit(&request, &programs, &err) != GP_OK) fail_msg("%s", err.text);
    return programs;
}

gp_programs *toy_schedule(const toy *t, toy_run run) {
    return schedule_as(t, (gp_schedule){.kind = GP_SCHEDULE_GPIPE}, run);
}

gp_programs *toy_programs_of(const toy *t, gp_schedule schedule, toy_run run) {
    gp_programs *programs = schedule_as(t, schedule, run);
    gp_error err = {0};
    if (gp_slots_assign(t->stages, programs, NULL, &err) != GP_OK) fail_msg("%s", err.text);
    return programs;
}

gp_programs *toy_programs(const toy *t, toy_run run) {
    return toy_programs_of(t, (gp_schedule){.kind = GP_SCHEDULE_GPIPE}, run);
}

typedef struct author {
    const toy *t;
    gp_programs *programs;
} author;

static void add(author *a, gp_instr_op op, unsigned flags, int stage, int micro, int edge) {
    gp_instr instr = {.op = (uint8_t)op, .flags = (uint8_t)flags, .stage = (uint16_t)stage, .micro = (uint16_t)micro};
    if (edge >= 0) instr.edge = (uint32_t)edge;
    gp_error err = {0};
    gp_program *program = &a->programs->worker[a->programs->worker_of_stage[stage]];
    if (gp_program_add(program, instr, &err) != GP_OK) fail_msg("%s", err.text);
}

static void add_copies(author *a, gp_instr_op op, unsigned flags, int stage, int micro, const gp_indices *edges) {
    for (size_t i = 0; i < edges->count; i++) add(a, op, flags, stage, micro, edges->items[i]);
}

/* Collectives 0, of squares, and 1, of scalars. The number of a collective stands where that of an edge does. */
static void add_norms(author *a) {
    for (int s = 0; s < 4; s++) {
        add(a, GP_INSTR_NORM, 0, s, 0, -1);
        if (s < 3) add(a, GP_INSTR_POST, 0, s, 0, 0);
    }
    add(a, GP_INSTR_COLLECT, 0, 3, 0, 0);
    add(a, GP_INSTR_CLIP, 0, 3, 0, -1);
    add(a, GP_INSTR_POST, 0, 3, 0, 1);
}

gp_programs *toy_interleaved(const toy *t, int pieces) {
    static const int worker_of_stage[4] = {0, 1, 0, 1};
    author a = {.t = t};
    gp_error err = {0};
    if (gp_programs_create(2, worker_of_stage, 4, pieces, true, false, &a.programs, &err) != GP_OK)
        fail_msg("%s", err.text);
    for (int m = 0; m < pieces; m++) {
        for (int s = 0; s < 4; s++) {
            const gp_stage *stage = &t->stages->stage[s];
            if (stage->loads_input || stage->loads_target) add(&a, GP_INSTR_LOAD, 0, s, m, -1);
            add_copies(&a, GP_INSTR_RECV, 0, s, m, &stage->in);
            add(&a, GP_INSTR_FORWARD, GP_INSTR_KEEP | (m == pieces - 1 ? GP_INSTR_LAST : 0U), s, m, -1);
            add_copies(&a, GP_INSTR_SEND, GP_INSTR_KEEP, s, m, &stage->out);
        }
        if (m == pieces - 1 && !t->stages->norms) add(&a, GP_INSTR_POST, 0, 3, 0, 0);
        for (int s = 3; s >= 0; s--) {
            const gp_stage *stage = &t->stages->stage[s];
            add_copies(&a, GP_INSTR_RECV, 0, s, m, &stage->grad_in);
            add(&a, GP_INSTR_BACKWARD, m == 0 ? GP_INSTR_FIRST : 0, s, m, -1);
            add_copies(&a, GP_INSTR_SEND, 0, s, m, &stage->grad_out);
        }
    }
    if (t->stages->norms) add_norms(&a);
    for (int s = 0; s < 3; s++) add(&a, GP_INSTR_COLLECT, 0, s, 0, t->stages->norms ? 1 : 0);
    for (int s = 0; s < 4; s++) add(&a, GP_INSTR_STEP, 0, s, 0, -1);
    if (gp_slots_assign(t->stages, a.programs, NULL, &err) != GP_OK) fail_msg("%s", err.text);
    return a.programs;
}

uint32_t toy_random(uint64_t *state, uint32_t bound) {
    uint64_t at = (*state)++;
    gp_philox draw = gp_philox_draw(1, (gp_philox){{(uint32_t)at, (uint32_t)(at >> 32), 0, 0}});
    return (uint32_t)(((uint64_t)draw.word[0] * bound) >> 32);
}
