/* The report of a plan says what the plan says: to the byte, within its columns, on any device, however long. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "device/ref/ref.h"
#include "plan/memory.h"
#include "report/plan_report.h"
#include "report/text.h"

static const char picture_model[] = "input: {shape: [1, 12, 12]}\n"
                                    "layers:\n"
                                    "  - conv: {out: 4, kernel: 3, pad: 1}\n"
                                    "  - batch_norm\n"
                                    "  - relu: {name: a}\n"
                                    "  - conv: {out: 4, kernel: 3, pad: 1}\n"
                                    "  - add: [a, -1]\n"
                                    "  - max_pool: 2\n"
                                    "  - flatten\n"
                                    "  - linear: {out: 10, name: a rather long name of the last layer}\n"
                                    "loss: cross_entropy\n";

typedef struct setup {
    const gp_device_kind *kind;
    int stages, micro_batches;
    gp_checkpoint_mode checkpoint;
    bool evaluation_only;
    size_t memory;
} setup;

typedef struct planned {
    gp_yaml_document *document;
    gp_graph *graph;
    gp_plan *plan;
    char *report;
} planned;

static void write_report(planned *p, const size_t *memory) {
    gp_error err = {0};
    size_t bytes = 0;
    FILE *out = open_memstream(&p->report, &bytes);
    assert_non_null(out);
    if (gp_plan_report(p->plan, NULL, NULL, memory, out, &err) != GP_OK) fail_msg("%s", err.text);
    assert_int_equal(fclose(out), 0);
}

static planned make(const char *model, setup its) {
    planned p = {0};
    gp_error err = {0};
    gp_status status = gp_yaml_parse(model, strlen(model), "m.yaml", &p.document, &err);
    if (status == GP_OK) status = gp_graph_build(gp_yaml_root(p.document), &p.graph, &err);
    if (status != GP_OK) fail_msg("%s", err.text);
    int64_t *layers = calloc((size_t)its.stages, sizeof *layers);
    gp_device_spec *devices = calloc((size_t)its.stages, sizeof *devices);
    assert_true(layers && devices);
    for (int s = 0; s < its.stages; s++) {
        layers[s] = p.graph->layer_count / its.stages + (s < p.graph->layer_count % its.stages);
        devices[s] = (gp_device_spec){.kind = its.kind, .threads = 1, .memory = its.memory};
    }
    const gp_mini_size sizes[] = {{7, false}, {3, true}, {10, true}};
    gp_plan_request request = {.graph = p.graph,
                               .layers = layers,
                               .stages = its.stages,
                               .devices = devices,
                               .update = {.op = GP_OP_SGD, .states = 1, .sgd = {.momentum = 0.9}},
                               .batch = 10,
                               .micro_batches = its.micro_batches,
                               .checkpoint = its.checkpoint,
                               .lockstep = true,
                               .sizes = sizes,
                               .size_count = its.evaluation_only ? 1 : 3};
    if (gp_plan_create(&request, &p.plan, &err) != GP_OK) fail_msg("%s", err.text);
    free(layers);
    free(devices);
    write_report(&p, NULL);
    return p;
}

static void release(planned *p) {
    free(p->report);
    gp_plan_destroy(&p->plan);
    gp_graph_destroy(&p->graph);
    gp_yaml_destroy(&p->document);
}

static void expect_line(const planned *p, const char *line) {
    const char *at = p->report;
    size_t length = strlen(line);
    while ((at = strstr(at, line))) {
        if ((at == p->report || at[-1] == '\n') && at[length] == '\n') return;
        at++;
    }
    fail_msg("no line \"%s\" in\n%s", line, p->report);
}

/* Fails where a line is wider than a page or ends in spaces; returns how many there are. */
static int check_lines(const char *report) {
    int lines = 0, columns = 0;
    for (const char *at = report; *at; at++) {
        if (*at == '\n') {
            if (at > report && at[-1] == ' ') fail_msg("line %d ends in a space:\n%s", lines, report);
            if (columns > 100) fail_msg("line %d has %d columns:\n%s", lines, columns, report);
            columns = 0;
            lines++;
        } else if (((unsigned char)*at & 0xC0U) != 0x80U)
            columns++;
    }
    return lines;
}

/* Words of the `nth` line that begins with a label; what follows the label, blank-separated. */
static char *row(const planned *p, const char *label, int nth) {
    char start[64];
    snprintf(start, sizeof start, "\n  %s  ", label);
    const char *at = p->report;
    for (int i = 0; i <= nth; i++) {
        at = strstr(at, start);
        if (!at) fail_msg("no row %d \"%s\" in\n%s", i, label, p->report);
        at += strlen(start);
    }
    return strndup(at, strcspn(at, "\n"));
}

/* The next cell: words stand one blank apart, cells more. */
static void next_cell(char **at, char cell[64]) {
    size_t used = 0;
    *at += strspn(*at, " ");
    while (**at && used < 63 && !((*at)[0] == ' ' && ((*at)[1] == ' ' || (*at)[1] == '\0'))) cell[used++] = *(*at)++;
    cell[used] = '\0';
}

static void expect_row(const planned *p, const char *label, int nth, char (*cells)[64], int count) {
    char *text = row(p, label, nth), *at = text, cell[64];
    for (int i = 0; i < count; i++) {
        next_cell(&at, cell);
        assert_string_equal(cell, cells[i]);
    }
    assert_true(at[strspn(at, " ")] == '\0');
    free(text);
}

static void say_size(char cell[64], size_t bytes) {
    char text[32];
    snprintf(cell, 64, "%s", bytes ? gp_bytes_text(text, bytes) : "-");
}

/* Every number of the table of memory, for at most one block of columns. */
static void check_memory(const planned *p) {
    const gp_plan *plan = p->plan;
    int workers = plan->workers, count = workers > 1 ? workers + 1 : 1;
    char cells[8][64];
    for (int k = 0; k < GP_MEMORY_KINDS; k++) {
        size_t sum = 0;
        for (int w = 0; w < workers; w++) {
            say_size(cells[w], plan->stage[w].memory[k]);
            sum += plan->stage[w].memory[k];
        }
        if (workers > 1) say_size(cells[workers], sum);
        expect_row(p, gp_memory_kind_name((gp_memory_kind)k), 0, cells, count);
    }
    size_t sum = 0;
    for (int w = 0; w < workers; w++) {
        size_t kinds = 0;
        for (int k = 0; k < GP_MEMORY_KINDS; k++) kinds += plan->stage[w].memory[k];
        assert_int_equal(kinds, plan->arena[w]);
        snprintf(cells[w], 64, "%zu", plan->arena[w]);
        sum += plan->arena[w];
    }
    snprintf(cells[workers], 64, "%zu", sum);
    expect_row(p, "  in bytes", 0, cells, count);
    char at[8][64], number[8][64], of[8][64];
    for (int w = 0; w < workers; w++) {
        gp_memory_peak peak;
        gp_error err = {0};
        assert_int_equal(gp_memory_find_peak(plan, w, &peak, &err), GP_OK);
        const gp_mini_plan *mini = &plan->minis[peak.mini];
        char text[GP_INSTR_TEXT], op[32];
        gp_instr_text(text, &mini->programs->worker[w].instrs[peak.pc]);
        assert_int_equal(sscanf(text, "%31s", op), 1);
        say_size(cells[w], peak.bytes);
        snprintf(at[w], 64, "%s m%u", op, mini->programs->worker[w].instrs[peak.pc].micro);
        snprintf(number[w], 64, "%zu", peak.pc);
        snprintf(of[w], 64, "%s %" PRId64, mini->training ? "train" : "eval", mini->samples);
    }
    strcpy(cells[workers], "-");
    strcpy(at[workers], "-");
    strcpy(number[workers], "-");
    strcpy(of[workers], "-");
    expect_row(p, "most in use", 0, cells, count);
    expect_row(p, "  at", 0, at, count);
    expect_row(p, "  instruction", 0, number, count);
    expect_row(p, "  of", 0, of, count);
}

static void test_memory(void **state) {
    (void)state;
    const gp_device_kind *const kinds[] = {&gp_ref_kind, &gp_cpu_kind};
    for (int k = 0; k < 2; k++)
        for (int stages = 1; stages <= 5; stages++)
            for (int mode = 0; mode < 3; mode++) {
                planned p = make(picture_model, (setup){kinds[k], stages, 4, (gp_checkpoint_mode)mode, false, 0});
                check_lines(p.report);
                check_memory(&p);
                release(&p);
            }
}

static void test_header_and_stages(void **state) {
    (void)state;
    planned p = make(picture_model, (setup){&gp_ref_kind, 2, 4, GP_CHECKPOINT_EXCEPT_LAST, false, 0});
    expect_line(&p, "model        8 layers and cross_entropy, 1,646 parameters in F32");
    expect_line(&p, "pipeline     2 stages, schedule gpipe, lockstep on, checkpoint except_last");
    expect_line(&p, "mini-batches evaluation 7 samples: 3 micro-batches of 2, one of 1");
    expect_line(&p, "             training   3 samples: 3 micro-batches of 1");
    expect_line(&p, "             training   10 samples: 3 micro-batches of 3, one of 1");
    expect_line(&p, "batch norm   sees 1 to 3 samples at a time");
    expect_line(&p, "warning      batch norm sees 1 sample of a mini-batch of 10 at a time;");
    expect_line(&p,
                "             below 16 its statistics are rough: take fewer micro_batches, or group_norm in its place");
    assert_non_null(
        strstr(p.report, "\n      0  ref                   4  conv 0 … conv 3                         196  "));
    assert_non_null(
        strstr(p.report, "\n      1  ref                   4  add 4 … linear a rather lon…          1,450  "));
    assert_non_null(
        strstr(p.report, "\n    all                        8                                        1,646  "));
    release(&p);
}

static void test_copies(void **state) {
    (void)state;
    planned p = make(picture_model, (setup){&gp_ref_kind, 2, 4, GP_CHECKPOINT_EXCEPT_LAST, false, 0});
    expect_line(&p, "copies between stages, of a micro-batch of 3 samples (broadcast: of a mini-batch)");
    expect_line(&p, "  activation  a                                          0 → 1              6,912    6.75 KiB");
    expect_line(&p, "  gradient    3                                          1 → 0              6,912    6.75 KiB");
    expect_line(&p, "  broadcast   the loss, and whether it is finite         1 → others            40        40 B");
    release(&p);
    p = make(picture_model, (setup){&gp_ref_kind, 2, 4, GP_CHECKPOINT_EXCEPT_LAST, true, 0});
    expect_line(&p, "copies between stages, of a micro-batch of 2 samples");
    assert_null(strstr(p.report, "gradient  "));
    assert_null(strstr(p.report, "broadcast"));
    release(&p);
    p = make(picture_model, (setup){&gp_ref_kind, 1, 4, GP_CHECKPOINT_EXCEPT_LAST, false, 0});
    expect_line(&p, "copies between stages: none");
    release(&p);
}

static void test_schedule(void **state) {
    (void)state;
    planned p = make(picture_model, (setup){&gp_ref_kind, 3, 4, GP_CHECKPOINT_EXCEPT_LAST, false, 0});
    expect_line(&p, "schedule of a mini-batch: 4 micro-batches in 12 clocks");
    expect_line(&p, "  clock   0    1    2    3    4    5    6    7    8    9    10   11");
    expect_line(&p, "  stage 0 F0   F1   F2   F3   ·    ·    ·    ·    B3R2 B2R1 B1R0 B0");
    expect_line(&p, "  stage 1 ·    F0   F1   F2   F3   ·    ·    B3R2 B2R1 B1R0 B0   ·");
    expect_line(&p, "  stage 2 ·    ·    F0   F1   F2   F3   B3R2 B2R1 B1R0 B0   ·    ·");
    release(&p);
    p = make(picture_model, (setup){&gp_ref_kind, 2, 2, GP_CHECKPOINT_NEVER, true, 0});
    expect_line(&p, "schedule of a mini-batch: 2 micro-batches in 3 clocks");
    expect_line(&p, "  stage 1 ·  F0 F1");
    assert_non_null(
        strstr(p.report, "\n  22 instructions; 11 on each worker\n    load 4 F 4 send 4 recv 4 barrier 6\n"));
    release(&p);
}

static void test_expected(void **state) {
    (void)state;
    planned p = make(picture_model, (setup){&gp_ref_kind, 2, 4, GP_CHECKPOINT_EXCEPT_LAST, false, 0});
    assert_non_null(strstr(p.report, "\npredicted    a step of 10 samples: "));
    expect_line(&p, "             counted, with assumed rates; no profile fits; gpipe-balance measures one");
    release(&p);
    p = make(picture_model, (setup){&gp_ref_kind, 2, 4, GP_CHECKPOINT_EXCEPT_LAST, true, 0});
    assert_non_null(strstr(p.report, "\npredicted    an evaluation of 7 samples: "));
    release(&p);
}

static void test_allowed(void **state) {
    (void)state;
    planned p = make(picture_model, (setup){&gp_ref_kind, 2, 4, GP_CHECKPOINT_NEVER, false, 3 << 20});
    char cells[3][64] = {"3.00 MiB", "3.00 MiB", "-"};
    expect_row(&p, "  allowed", 0, cells, 3);
    release(&p);
    p = make(picture_model, (setup){&gp_ref_kind, 2, 4, GP_CHECKPOINT_NEVER, false, 0});
    assert_null(strstr(p.report, "allowed"));
    release(&p);
}

static size_t pin(size_t staged) {
    return staged > 0 ? (size_t)1 << 20 : 0;
}

/* What a device takes beside its arena has lines of its own. */
static void test_beside(void **state) {
    (void)state;
    static gp_device_kind kind;
    kind = gp_ref_kind;
    kind.beside = 256 << 20;
    kind.pinned = pin;
    planned p = make(picture_model, (setup){&kind, 2, 4, GP_CHECKPOINT_NEVER, false, 0});
    char libraries[3][64] = {"256.0 MiB", "256.0 MiB", "512.0 MiB"};
    char pinned[3][64] = {"2.00 MiB", "2.00 MiB", "4.00 MiB"}; /* loads; parameters */
    expect_row(&p, "  libraries, est.", 0, libraries, 3);
    expect_row(&p, "  pinned, est.", 0, pinned, 3);
    release(&p);
    p = make(picture_model, (setup){&gp_ref_kind, 2, 4, GP_CHECKPOINT_NEVER, false, 0});
    assert_null(strstr(p.report, ", est."));
    release(&p);
}

static char *chain(int layers) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    fputs("input: {shape: [8]}\nlayers:\n", out);
    for (int i = 0; i < layers; i++) fputs(i % 2 ? "  - relu\n" : "  - linear: {out: 8}\n", out);
    fputs("loss: cross_entropy\n", out);
    assert_int_equal(fclose(out), 0);
    return text;
}

/* As many columns as need several blocks. */
static void test_all_stages(void **state) {
    (void)state;
    char *text = chain(16);
    planned p = make(text, (setup){&gp_ref_kind, 16, 4, GP_CHECKPOINT_ALWAYS, false, 0});
    check_lines(p.report);
    for (int block = 0, w = 0; block < 3; block++) {
        char cells[6][64];
        int count = 0;
        for (; count < 6 && w <= 16; count++, w++) {
            size_t sum = 0;
            for (int i = 0; i < 16; i++) sum += w == 16 || i == w ? p.plan->arena[i] : 0;
            snprintf(cells[count], 64, "%zu", sum);
        }
        expect_row(&p, "  in bytes", block, cells, count);
    }
    assert_null(strstr(p.report, "  clock "));
    release(&p);
    free(text);
}

static void test_long_pipelines(void **state) {
    (void)state;
    char *text = chain(200);
    planned p = make(text, (setup){&gp_ref_kind, 100, 4, GP_CHECKPOINT_EXCEPT_LAST, false, 0});
    assert_true(check_lines(p.report) < 50);
    size_t sum = 0;
    for (int w = 0; w < 100; w++) sum += p.plan->arena[w];
    char *bytes = row(&p, "  in bytes", 0), all[64];
    snprintf(all, sizeof all, " %zu", sum);
    assert_string_equal(bytes + strlen(bytes) - strlen(all), all);
    free(bytes);
    assert_non_null(strstr(p.report, "\n      0  ref"));
    assert_non_null(strstr(p.report, "\n     99  ref"));
    assert_non_null(strstr(p.report, " largest"));
    assert_non_null(strstr(p.report, " busiest"));
    assert_non_null(strstr(p.report, "\n      …\n"));
    assert_non_null(strstr(p.report, "\n  activation          99      9.28 KiB  96 B: "));
    assert_non_null(strstr(
        p.report, "\n  broadcast   the loss, and whether it is finite        99 → others            40        40 B\n"));
    release(&p);
    free(text);
}

static void test_full_disk(void **state) {
    (void)state;
    FILE *full = fopen("/dev/full", "w");
    if (!full) skip();
    planned p = make(picture_model, (setup){&gp_ref_kind, 2, 4, GP_CHECKPOINT_NEVER, false, 0});
    gp_error err = {0};
    assert_int_equal(gp_plan_report(p.plan, NULL, NULL, NULL, full, &err), GP_IO);
    assert_string_equal(err.text, "the report of the plan could not be written");
    fclose(full);
    release(&p);
}

/* The workers of a plan, each in the process that `processes` says, and a report of it. */
static planned deal_to(const gp_device_kind *kind, int workers, const int *process, int processes,
                       const size_t *memory) {
    char *text = chain(2 * workers);
    planned p = make(text, (setup){kind, workers, 2, GP_CHECKPOINT_NEVER, false, 0});
    free(text);
    memcpy(p.plan->process, process, (size_t)workers * sizeof *process);
    p.plan->processes = processes;
    free(p.report);
    write_report(&p, memory);
    check_lines(p.report);
    return p;
}

static planned deal(int workers, const int *process, int processes, const size_t *memory) {
    return deal_to(&gp_ref_kind, workers, process, processes, memory);
}

static void expect_process(const planned *p, int process, const char *workers, const char *host) {
    char arenas[32], wanted[256];
    size_t bytes = 0;
    for (int w = 0; w < p->plan->workers; w++) bytes += p->plan->process[w] == process ? p->plan->arena[w] : 0;
    int wide = (int)(strlen(workers) - strspn(workers, "0123456789, none") > 2 ? 2 : 0); /* "…" is three bytes */
    snprintf(wanted, sizeof wanted, "  %7d  %-*s%14s%s", process, 40 + wide, workers, gp_bytes_text(arenas, bytes),
             host);
    expect_line(p, wanted);
}

static void test_processes(void **state) {
    (void)state;
    const int two[] = {1, 1, 1, 0};
    const size_t memory[] = {3 << 20, 5 << 20};
    planned p = deal(4, two, 2, NULL);
    expect_line(&p, "  process  workers                                         arenas");
    expect_process(&p, 0, "3", "");
    expect_process(&p, 1, "0 … 2", "");
    release(&p);
    p = deal(4, two, 2, memory);
    expect_line(&p, "  process  workers                                         arenas   host memory");
    expect_process(&p, 0, "3", "      3.00 MiB");
    expect_process(&p, 1, "0 … 2", "      5.00 MiB");
    assert_null(strstr(p.report, "\nwarning "));
    assert_null(strstr(p.report, "messages of GPUs"));
    release(&p);
    const int apart[] = {0, 2, 0, 2, 2, 0, 0, 0};
    p = deal(8, apart, 4, NULL);
    expect_process(&p, 0, "0, 2, 5 … 7", "");
    expect_process(&p, 1, "none", "");
    expect_process(&p, 2, "1, 3, 4", "");
    expect_line(&p, "warning      process 1 and 1 other have no worker; start fewer, or give devices other ranks");
    release(&p);
    p = deal(8, (int[8]){0}, 1, NULL);
    assert_null(strstr(p.report, "\nprocesses"));
    release(&p);
}

static void test_messages_of_gpus(void **state) {
    (void)state;
    gp_device_kind gpu = gp_ref_kind;
    gpu.on_host = false;
    planned p = deal_to(&gpu, 2, (const int[]){0, 1}, 2, NULL);
    expect_line(&p, "  messages of GPUs to and from other processes: over mpi");
    p.plan->lines = true;
    free(p.report);
    write_report(&p, NULL);
    expect_line(&p, "  messages of GPUs to and from other processes: over nccl");
    release(&p);
}

/* Of many processes the first two, the last, and the one that takes most. */
static void test_many_processes(void **state) {
    (void)state;
    int process[40];
    size_t memory[20] = {[13] = 7 << 20};
    for (int w = 0; w < 40; w++) process[w] = w % 20;
    planned p = deal(40, process, 20, memory);
    const char *at = strstr(p.report, "\nprocesses\n"), *end = at ? strstr(at, "\n\n") : NULL;
    assert_non_null(end);
    int lines = 0;
    for (; at < end; at++) lines += *at == '\n';
    assert_int_equal(lines, 8); /* two of the head, four processes, two gaps */
    expect_process(&p, 0, "0, 20", "           0 B");
    expect_process(&p, 1, "1, 21", "           0 B");
    expect_process(&p, 13, "13, 33", "      7.00 MiB");
    expect_process(&p, 19, "19, 39", "           0 B");
    release(&p);
}

static void test_times(void **state) {
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {{0, "0 µs"},      {1.234e-6, "1.23 µs"}, {0.0123, "12.3 ms"}, {0.99964, "1000 ms"},
                 {999.4, "999 s"}, {999.6, "1000 s"},     {12345.6, "12346 s"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(gp_report_seconds(cases[i].seconds).text, cases[i].text);
    assert_string_equal(gp_report_predicted(0.36449, 0).text, "364 ms");
    assert_string_equal(gp_report_predicted(0.36449, 0.02).text, "364 ms");
    assert_string_equal(gp_report_predicted(0.14849, 0.03).text, "148 ms");
    assert_string_equal(gp_report_predicted(0.36449, 0.03).text, "360 ms");
    assert_string_equal(gp_report_predicted(0.0078712, 0.05).text, "7.9 ms");
    assert_string_equal(gp_report_predicted(0.36449, 0.3).text, "360 ms"); /* two digits at least */
    assert_string_equal(gp_report_predicted(0, 0.1).text, "0 µs");
    assert_true(gp_report_keep_within(3772, 0.1) == 3800);
}

/* One stage on a CPU with one micro-batch: no gradient stays, and the report says where they are. */
static void test_gradients_that_do_not_stay(void **state) {
    (void)state;
    static const char where[] =
        "\n  (gradients: used by the backward pass as each is complete, within the transients)\n";
    for (int micro_batches = 1; micro_batches <= 2; micro_batches++) {
        planned p = make(picture_model, (setup){&gp_ref_kind, 1, micro_batches, GP_CHECKPOINT_NEVER, false, 0});
        assert_int_equal(strstr(p.report, where) != NULL, micro_batches == 1);
        assert_int_equal(strstr(p.report, "\n  gradients                    -\n") != NULL, micro_batches == 1);
        release(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_that_do_not_stay),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_header_and_stages),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_schedule),
        cmocka_unit_test(test_expected),
        cmocka_unit_test(test_allowed),
        cmocka_unit_test(test_beside),
        cmocka_unit_test(test_all_stages),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_processes),
        cmocka_unit_test(test_messages_of_gpus),
        cmocka_unit_test(test_many_processes),
        cmocka_unit_test(test_long_pipelines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
