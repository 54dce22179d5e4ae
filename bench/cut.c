/* How long the partitioner takes: gp_cut_solve on made-up models, with copies and memory, at the size in the argument
 * (layers stages; 2000 64 unless given). For each kind of model: the median and the longest of several, and how far the
 * bottleneck is from an even share. Not a test: run it on an idle machine. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cut/cut.h"
#include "base/philox.h"

enum { SAMPLES = 9 };

typedef struct model_kind {
    const char *name;
    bool skips;    /* values used hundreds of layers later */
    bool giant;    /* one layer as dear as a twentieth of all the others */
    bool unequal;  /* devices of three speeds */
    int memory;    /* per mille of an even share of everything; 0: no limits */
    bool in_turns; /* stages have from `stages` micro-batches alive down to 1, as under 1f1b */
    bool copies;   /* as dear as the layers themselves */
} model_kind;

static const model_kind model_kinds[] = {
    {"chain", false, false, false, 0, false, false},
    {"chain, dear copies", false, false, false, 0, false, true},
    {"skips", true, false, false, 0, false, true},
    {"skips, one giant layer", true, true, false, 0, false, true},
    {"skips, three speeds", true, false, true, 0, false, true},
    {"skips, ample memory", true, false, false, 2000, false, true},
    {"skips, memory just enough", true, false, false, 1240, false, true},
    {"skips, memory just enough, giant layer", true, true, false, 1240, false, true},
    {"skips, too little memory", true, false, false, 1060, false, true},
    {"skips, three speeds, memory in turns", true, false, true, 1800, true, true},
};

typedef struct model {
    int layers, stages, values;
    int64_t *costs[3], *copies[3];
    gp_cut_bytes *bytes;
    gp_cut_value *value;
    int (*users)[2];
    gp_cut_worker *workers;
    gp_cut_stage *stage;
    gp_cut_kind kinds[3];
} model;

static uint32_t counter;

static int64_t draw(int64_t bound) {
    gp_philox out = gp_philox_draw(3, (gp_philox){{counter++, 0, 0, 0}});
    return (int64_t)((uint64_t)out.word[0] * (uint64_t)bound >> 32);
}

static void *block(size_t count, size_t size) {
    void *out = calloc(count, size);
    if (!out) exit(1);
    return out;
}

static model make_model(int layers, int stages) {
    model m = {.layers = layers, .stages = stages};
    size_t n = (size_t)layers, p = (size_t)stages;
    for (int k = 0; k < 3; k++) {
        m.costs[k] = block(n, sizeof *m.costs[k]);
        m.copies[k] = block(n, sizeof *m.copies[k]);
        m.kinds[k] = (gp_cut_kind){m.costs[k], m.copies[k]};
    }
    m.bytes = block(n, sizeof *m.bytes);
    m.value = block(n, sizeof *m.value);
    m.users = block(n, sizeof *m.users);
    m.workers = block(p, sizeof *m.workers);
    m.stage = block(p, sizeof *m.stage);
    return m;
}

static void free_model(model *m) {
    for (int k = 0; k < 3; k++) {
        free(m->costs[k]);
        free(m->copies[k]);
    }
    free(m->bytes);
    free(m->value);
    free(m->users);
    free(m->workers);
    free(m->stage);
}

static void fill_layers(model *m, const model_kind *kind) {
    for (int i = 0; i < m->layers; i++) {
        m->costs[0][i] = 1000000 + draw(30000000);
        if (kind->giant && i == m->layers / 3) m->costs[0][i] = (int64_t)m->layers * 16000000 / 20;
        m->costs[1][i] = m->costs[0][i] / 2;
        m->costs[2][i] = m->costs[0][i] / 3;
        m->bytes[i] = (gp_cut_bytes){1000 + draw(1000000), draw(100000), draw(300000)};
        int64_t copy = draw(kind->copies ? 30000000 : 100000);
        int later = i + 2 + (int)draw(m->layers / 4);
        bool skip = kind->skips && i % 5 == 0 && later < m->layers;
        for (int k = 0; k < 3; k++) m->copies[k][i] = copy;
        m->users[i][0] = i;
        m->users[i][1] = later;
        m->value[i] = (gp_cut_value){i - 1, m->users[i], skip ? 2 : 1, draw(100000), draw(100000)};
    }
}

static void fill_stages(model *m, const model_kind *kind) {
    int64_t sum = 0;
    for (int i = 0; i < m->layers; i++) sum += m->bytes[i].fixed + 2 * m->bytes[i].saved;
    for (int s = 0; s < m->stages; s++) {
        int alive = kind->in_turns ? m->stages - s : 2;
        m->workers[s] = (gp_cut_worker){kind->unequal ? s % 3 : 0, sum / m->stages * kind->memory / 1000, "cpu"};
        m->stage[s] = (gp_cut_stage){s, kind->in_turns ? alive : 8, kind->in_turns ? 1 + alive / 8 : 2, 1, 1};
    }
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void run(const model_kind *kind, int layers, int stages) {
    double seconds[SAMPLES];
    int possible = 0;
    double ratio = 0;
    for (int i = 0; i < SAMPLES; i++) {
        model m = make_model(layers, stages);
        fill_layers(&m, kind);
        fill_stages(&m, kind);
        gp_cut_problem problem = {.layer_count = layers,
                                  .bytes = kind->memory ? m.bytes : NULL,
                                  .values = m.value,
                                  .value_count = layers,
                                  .kinds = m.kinds,
                                  .kind_count = kind->unequal ? 3 : 1,
                                  .workers = m.workers,
                                  .worker_count = stages,
                                  .stages = m.stage,
                                  .stage_count = stages};
        int64_t *cut = block((size_t)stages, sizeof *cut), sum = 0;
        int64_t result = 0;
        gp_error err = {0};
        struct timespec before, after;
        for (int l = 0; l < layers; l++) sum += m.costs[0][l];
        clock_gettime(CLOCK_MONOTONIC, &before);
        gp_status status = gp_cut_solve(&problem, cut, &result, &err);
        clock_gettime(CLOCK_MONOTONIC, &after);
        seconds[i] = (double)(after.tv_sec - before.tv_sec) + 1e-9 * (double)(after.tv_nsec - before.tv_nsec);
        if (status == GP_OK) {
            possible++;
            ratio += (double)result * stages / (double)sum;
        }
        free(cut);
        free_model(&m);
    }
    qsort(seconds, SAMPLES, sizeof *seconds, by_size);
    printf("%-42s %9.4f %9.4f %8d/%d %10.3f\n", kind->name, seconds[SAMPLES / 2], seconds[SAMPLES - 1], possible,
           SAMPLES, possible ? ratio / possible : 0);
}

int main(int count, char **arguments) {
    int layers = count > 2 ? atoi(arguments[1]) : 2000, stages = count > 2 ? atoi(arguments[2]) : 64;
    if (layers < 1 || stages < 1) return 2;
    printf("%d layers on %d stages\n%-42s %9s %9s %10s %10s\n", layers, stages, "model", "median s", "longest s",
           "possible", "dearest");
    for (size_t i = 0; i < sizeof model_kinds / sizeof *model_kinds; i++) run(&model_kinds[i], layers, stages);
    return 0;
}
