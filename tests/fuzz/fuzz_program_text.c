/* The text form of programs: what reads writes to a text that reads to the same; validator, slots and player take
 * whatever the text says. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "model/graph.h"
#include "pipeline/slots.h"
#include "pipeline/validate.h"

enum { MOST_STAGES = 4 };

static const char model[] = "input: {shape: [3]}\n"
                            "layers: [{linear: {out: 3, name: a}}, relu, {add: [-1, a]}, {linear: 3}, {add: [-1, a]}]\n"
                            "loss: cross_entropy\n";

/* One layer per stage, the rest on the last one. */
static const gp_stages *stages_of(int count) {
    static gp_graph *graph;
    static gp_yaml_document *document;
    static gp_stages *stages[MOST_STAGES + 1];
    gp_error err = {0};
    if (!graph) {
        FUZZ_PROMISE(gp_yaml_parse(model, strlen(model), "model", &document, &err) == GP_OK);
        FUZZ_PROMISE(gp_graph_build(gp_yaml_root(document), &graph, &err) == GP_OK);
        for (int n = 1; n <= MOST_STAGES; n++) {
            int64_t layers[MOST_STAGES] = {1, 1, 1, 1};
            layers[n - 1] = graph->layer_count - (n - 1);
            FUZZ_PROMISE(gp_stages_create(graph, layers, n, &stages[n], &err) == GP_OK);
        }
    }
    return count >= 1 && count <= MOST_STAGES ? stages[count] : NULL;
}

static void check_round_trip(const gp_programs *programs) {
    gp_error err = {0};
    gp_programs *again = NULL;
    char *first = NULL, *second = NULL;
    FUZZ_PROMISE(gp_programs_write(programs, &first, &err) == GP_OK);
    FUZZ_PROMISE(gp_programs_read(first, "again", &again, &err) == GP_OK);
    FUZZ_PROMISE(gp_programs_write(again, &second, &err) == GP_OK);
    FUZZ_PROMISE(strcmp(first, second) == 0);
    for (int w = 0; w < programs->workers; w++) {
        const gp_program *one = &programs->worker[w], *other = &again->worker[w];
        FUZZ_PROMISE(one->count == other->count);
        FUZZ_PROMISE(one->count == 0 || memcmp(one->instrs, other->instrs, one->count * sizeof *one->instrs) == 0);
    }
    gp_programs_destroy(&again);
    free(first);
    free(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    gp_error err = {0};
    gp_programs *programs = NULL;
    char *text = strndup((const char *)bytes, size);
    FUZZ_PROMISE(text);
    gp_status status = gp_programs_read(text, "text", &programs, &err);
    free(text);
    fuzz_check(status, &err);
    if (status != GP_OK) return 0;
    check_round_trip(programs);
    const gp_stages *stages = stages_of(programs->stages);
    if (stages) {
        status = gp_programs_validate(stages, programs, &err);
        fuzz_check(status, &err);
        /* Slots are given to what a schedule made; a valid program has at least that form. */
        if (status == GP_OK) FUZZ_PROMISE(gp_slots_assign(stages, programs, &err) == GP_OK);
        if (status == GP_OK) FUZZ_PROMISE(gp_programs_validate(stages, programs, &err) == GP_OK);
    }
    gp_programs_destroy(&programs);
    return 0;
}
