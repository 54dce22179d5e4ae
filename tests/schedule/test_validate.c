#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "schedule/interpreter.h"
#include "schedule/mutate.h"
#include "schedule/toy_graph.h"
#include "schedule/validate.h"

static void assert_valid(const toy *t, const gp_programs *programs) {
    gp_error err = {0};
    if (gp_programs_validate(t->stages, programs, &err) != GP_OK) fail_msg("%s", err.text);
}

static void schedules_are_valid(void **state) {
    (void)state;
    for (int n = 1; n <= 8; n++)
        for (int kind = 0; kind < 4; kind++) {
            toy t;
            toy_init_chain(&t, n, kind & 1);
            if (kind & 2) toy_add_norms(&t);
            for (int m = 1; m <= 16; m++)
                for (int mode = 0; mode < 3; mode++)
                    for (int i = 0; i < 4; i++) {
                        gp_programs *programs = toy_programs(&t, (toy_run){m, (gp_checkpoint_mode)mode, i & 1, i & 2});
                        assert_valid(&t, programs);
                        gp_programs_destroy(&programs);
                    }
            toy_fini(&t);
        }
}

static void several_stages_per_worker_are_valid(void **state) {
    (void)state;
    toy t;
    toy_init_chain(&t, 4, true);
    for (int m = 1; m <= 8; m++) {
        if (m == 5) toy_add_norms(&t);
        gp_programs *programs = toy_interleaved(&t, m);
        assert_valid(&t, programs);
        gp_programs_destroy(&programs);
    }
    toy_fini(&t);
}

/* In time: the test's limit would tell a check that is quadratic in stages or micro-batches. */
static void large_plans_are_valid(void **state) {
    (void)state;
    toy t;
    toy_init_chain(&t, 1024, true);
    toy_add_norms(&t);
    gp_programs *programs = toy_programs(&t, (toy_run){64, GP_CHECKPOINT_EXCEPT_LAST, true, true});
    assert_valid(&t, programs);
    gp_programs_destroy(&programs);
    toy_fini(&t);
}

/* One edit of a program, for the tests of messages. */
typedef struct edit {
    int worker;
    const char *at; /* the start of the instruction's line in the text form */
    const char *to; /* what becomes of it: empty where it goes; lines, where it becomes several */
    const char *message;
} edit;

static char *replace(const char *text, const edit *e) {
    char header[32], at[64];
    snprintf(header, sizeof header, "worker %d:\n", e->worker);
    const char *begin = strstr(text, header);
    assert_non_null(begin);
    snprintf(at, sizeof at, "\n%s", e->at);
    begin = strstr(begin, at);
    if (!begin) fail_msg("no line begins with %s", e->at);
    begin++;
    const char *end = strchr(begin, '\n') + 1;
    char *edited = NULL;
    if (asprintf(&edited, "%.*s%s%s%s", (int)(begin - text), text, e->to, *e->to ? "\n" : "", end) < 0)
        fail_msg("out of memory");
    return edited;
}

/* What is wrong with one instruction is said behind its line. */
static const char *behind_place(const gp_error *err, const char *name) {
    size_t length = strlen(name);
    if (strncmp(err->text, name, length) != 0 || err->text[length] != ':') return err->text;
    const char *at = strstr(err->text, ": ");
    assert_non_null(at);
    return at + 2;
}

static void check_edits(const toy *t, gp_programs *programs, const edit *edits, size_t count) {
    char *text = NULL;
    gp_error err = {0};
    assert_int_equal(gp_programs_write(programs, &text, &err), GP_OK);
    for (size_t i = 0; i < count; i++) {
        char *edited = replace(text, &edits[i]);
        gp_programs *broken = NULL;
        if (gp_programs_read(edited, "edited", &broken, &err) != GP_OK) fail_msg("%s", err.text);
        if (gp_programs_validate(t->stages, broken, &err) == GP_OK) fail_msg("valid, but: %s", edits[i].message);
        assert_int_equal(err.status, GP_PROGRAM);
        assert_string_equal(behind_place(&err, "edited"), edits[i].message);
        gp_programs_destroy(&broken);
        free(edited);
    }
    free(text);
    gp_programs_destroy(&programs);
}

/* Three stages, two micro-batches, all recomputed, a skip from stage 0 to 2. Edges: 0 from 0 to 1, 1 the skip, 2 from
 * 1 to 2; gradients 3 from 2 to 1 (the skip's value), 4 from 2 to 1, 5 from 1 to 0. Collective 0 broadcasts the
 * scalars. */
static void broken_training_is_named(void **state) {
    (void)state;
    static const edit edits[] = {
        {0, "F s0 m1", "F s7 m1 last",
         "worker 0, instruction 5 (F s7 m1): stage 7 does not exist: there are 3 stages, counted from 0"},
        {0, "F s0 m1", "F s1 m1 last", "worker 0, instruction 5 (F s1 m1): stage 1 is on worker 1"},
        {0, "F s0 m1", "F s0 m2 last",
         "worker 0, instruction 5 (F s0 m2): micro-batch 2 does not exist: there are 2 micro-batches, counted from 0"},
        {1, "recv s1 m0 e0", "recv s1 m0 e99",
         "worker 1, instruction 0 (recv s1 m0 e99): edge 99 does not exist: there are 6 edges, counted from 0"},
        {1, "collect s1 c0", "recv s1 m1 e7",
         "worker 1, instruction 16 (recv s1 m1 e7): edge 7 does not exist: there are 6 edges, counted from 0; older "
         "programs had edges for flags and norms, now there are post and collect"},
        {1, "recv s1 m0 e0", "recv s1 m0 e1",
         "worker 1, instruction 0 (recv s1 m0 e1): the skip edge 1 ends at stage 2"},
        {1, "send s1 m0 e2", "send s1 m0 e1",
         "worker 1, instruction 2 (send s1 m0 e1): the skip edge 1 begins at stage 0"},
        {1, "send s1 m0 e5", "send s1 m0 e5 keep",
         "worker 1, instruction 15 (send s1 m0 e5): keep is for activations and skips only, and edge 5 is a gradient "
         "edge"},
        {1, "recv s1 m0 e0", "load s1 m0",
         "worker 1, instruction 0 (load s1 m0): the stage uses neither input nor target"},
        {0, "F s0 m0", "", "worker 0, instruction 1 (send s0 m0 e0): is sent before the forward that computes it"},
        {0, "load s0 m0", "", "worker 0, instruction 0 (F s0 m0): the micro-batch must be loaded before"},
        {0, "load s0 m0", "load s0 m0\nload s0 m0",
         "worker 0, instruction 1 (load s0 m0): the micro-batch is loaded a second time"},
        {2, "recv s2 m0 e1", "", "worker 2, instruction 2 (F s2 m0): the skip of edge 1 must be received before"},
        {2, "F s2 m0", "recv s2 m0 e1\nF s2 m0",
         "worker 2, instruction 3 (recv s2 m0 e1): micro-batch 0 is received on edge 1 a second time"},
        {1, "send s1 m0 e2", "send s1 m0 e2\nsend s1 m0 e2",
         "worker 1, instruction 3 (send s1 m0 e2): micro-batch 0 is sent on edge 2 a second time"},
        {1, "F s1 m0", "F s1 m0\nF s1 m0", "worker 1, instruction 2 (F s1 m0): a second forward of the micro-batch"},
        {1, "F s1 m1", "F s1 m1 stash=1",
         "worker 1, instruction 4 (F s1 m1): is the stage's last forward, but has no flag last"},
        {1, "F s1 m0", "F s1 m0 last",
         "worker 1, instruction 1 (F s1 m0): has the flag last, but is not the stage's last forward"},
        {1, "F s1 m0", "F s1 m0 stash=1",
         "worker 1, instruction 1 (F s1 m0): uses stash slot 1, but its micro-batch is in slot 0"},
        {1, "recv s1 m1 e0", "recv s1 m1 e0 slot=0",
         "worker 1, instruction 3 (recv s1 m1 e0): overwrites stash slot 0, which micro-batch 0 still needs"},
        {1, "F s1 m0", "F s1 m0 keep",
         "worker 1, instruction 2 (send s1 m0 e2): needs the flag keep: the forward kept the value in its saved slot"},
        {1, "send s1 m0 e2", "send s1 m0 e2 keep",
         "worker 1, instruction 2 (send s1 m0 e2): must not have the flag keep: the forward has no saved slot"},
        {1, "send s1 m0 e2", "send s1 m0 e2 slot=3",
         "worker 1, instruction 2 (send s1 m0 e2): uses outbox slot 3, but its micro-batch is in slot 0"},
        {1, "R s1 m1", "", "worker 1, instruction 8 (B s1 m1): needs a recompute before it: the forward kept nothing"},
        {1, "R s1 m1", "R s1 m1 stash=1\nR s1 m1 stash=1",
         "worker 1, instruction 7 (R s1 m1): a second recompute of the micro-batch"},
        {1, "F s1 m1", "R s1 m1 stash=1\nF s1 m1 stash=1 last",
         "worker 1, instruction 4 (R s1 m1): a recompute before the forward"},
        {1, "R s1 m1", "R s1 m1 stash=1\nR s1 m0 stash=0",
         "worker 1, instruction 7 (R s1 m0): overwrites saved slot 0, which micro-batch 1 still needs"},
        {1, "B s1 m1", "B s1 m1 stash=1",
         "worker 1, instruction 9 (B s1 m1): is the stage's first backward, but has no flag first"},
        {1, "B s1 m0", "B s1 m0 first",
         "worker 1, instruction 14 (B s1 m0): has the flag first, but is not the stage's first backward"},
        {1, "B s1 m1", "R s1 m0 saved=1\nB s1 m0 saved=1 first",
         "worker 1, instruction 10 (B s1 m0): comes too early: gradients add up in descending order of micro-batches, "
         "and 1 is next"},
        {1, "F s1 m0", "B s1 m1 first\nF s1 m0", "worker 1, instruction 1 (B s1 m1): a backward before the forward"},
        {1, "recv s1 m1 e3", "", "worker 1, instruction 8 (B s1 m1): the gradient of edge 3 must be received before"},
        {1, "B s1 m1", "B s1 m1 stash=1 grad=1 first",
         "worker 1, instruction 9 (B s1 m1): uses gradient slot 1, but its micro-batch is in slot 0"},
        {1, "B s1 m1", "B s1 m1 stash=1 saved=1 first",
         "worker 1, instruction 9 (B s1 m1): uses saved slot 1, but its micro-batch is in slot 0"},
        {1, "B s1 m0", "B s1 m0\nB s1 m0", "worker 1, instruction 15 (B s1 m0): a second backward of the micro-batch"},
        {1, "B s1 m0", "B s1 m0\nR s1 m0", "worker 1, instruction 15 (R s1 m0): a second recompute of the micro-batch"},
        {1, "B s1 m0", "send s1 m0 e5\nB s1 m0",
         "worker 1, instruction 14 (send s1 m0 e5): is sent before the backward that computes it"},
        {1, "collect s1 c0", "", "collective 0 (broadcast of scalars): stage 1 has no collect"},
        {1, "collect s1 c0", "collect s1 c0\ncollect s1 c0",
         "worker 1, instruction 17 (collect s1 c0): a second collect of the stage"},
        {1, "collect s1 c0", "collect s1 c1",
         "worker 1, instruction 16 (collect s1 c1): collective 1 does not exist: there are 1 collectives, counted from "
         "0"},
        {1, "collect s1 c0", "post s1 c0",
         "worker 1, instruction 16 (post s1 c0): stage 1 collects in collective 0, a broadcast of scalars with root 2"},
        {2, "post s2 c0", "collect s2 c0",
         "worker 2, instruction 8 (collect s2 c0): stage 2 posts in collective 0, a broadcast of scalars with root 2"},
        {2, "F s2 m1", "post s2 c0\nF s2 m1 stash=1 last",
         "worker 2, instruction 7 (post s2 c0): comes before the stage's last forward"},
        {2, "post s2 c0", "post s2 c0\npost s2 c0", "worker 2, instruction 9 (post s2 c0): a second post of the stage"},
        {2, "post s2 c0", "", "collective 0 (broadcast of scalars): stage 2 has no post"},
        {1, "step s1", "", "stage 1 has no step"},
        {1, "step s1", "step s1\nstep s1", "worker 1, instruction 18 (step s1): a second step of the stage"},
        {1, "collect s1 c0", "step s1\ncollect s1 c0",
         "worker 1, instruction 17 (collect s1 c0): comes after a step: steps must be the last instructions of a "
         "worker"},
        {1, "B s1 m0", "", "worker 1, instruction 14 (send s1 m0 e5): is sent before the backward that computes it"},
        {2, "step s2", "barrier s2\nstep s2", "worker 2 has 1 barriers, but worker 0 has 0"},
    };
    toy t;
    toy_init_chain(&t, 3, true);
    check_edits(&t, toy_programs(&t, (toy_run){2, GP_CHECKPOINT_ALWAYS, false, true}), edits,
                sizeof edits / sizeof *edits);
    toy_fini(&t);
}

/* The same three stages with norms: collective 0 gathers squares, 1 broadcasts scalars. */
static void broken_norms_are_named(void **state) {
    (void)state;
    static const edit edits[] = {
        {1, "norm s1", "", "worker 1, instruction 16 (post s1 c0): comes before the norm of the stage"},
        {2, "norm s2", "", "worker 2, instruction 17 (clip s2): comes before the stage's own norm"},
        {1, "norm s1", "norm s1\nnorm s1", "worker 1, instruction 17 (norm s1): a second norm of the stage"},
        {1, "B s1 m0", "norm s1\nB s1 m0",
         "worker 1, instruction 14 (norm s1): comes before the stage's last backward"},
        {1, "norm s1", "norm s1\nclip s1",
         "worker 1, instruction 17 (clip s1): only the last stage, 2, may have a clip"},
        {2, "clip s2", "clip s2\nclip s2", "worker 2, instruction 19 (clip s2): a second clip"},
        {2, "norm s2", "clip s2", "worker 2, instruction 16 (clip s2): comes before the stage's own norm"},
        {2, "collect s2 c0", "",
         "worker 2, instruction 17 (clip s2): must come after the collect of the squares of all other stages, "
         "collective 0"},
        {2, "collect s2 c0", "collect s2 c0\ncollect s2 c0",
         "worker 2, instruction 18 (collect s2 c0): a second collect of the stage"},
        {2, "post s2 c1", "collect s2 c0", "worker 2, instruction 19 (collect s2 c0): a second collect of the stage"},
        {1, "post s1 c0", "", "collective 0 (gather of squares): stage 1 has no post"},
        {1, "post s1 c0", "post s1 c0\npost s1 c0",
         "worker 1, instruction 18 (post s1 c0): a second post of the stage"},
        {2, "clip s2", "post s2 c1\nclip s2", "worker 2, instruction 18 (post s2 c1): comes before the clip"},
        {2, "clip s2", "", "worker 2, instruction 18 (post s2 c1): comes before the clip"},
        {0, "norm s0", "step s0\nnorm s0",
         "worker 0, instruction 15 (norm s0): comes after a step: steps must be the last instructions of a worker"},
    };
    toy t;
    toy_init_chain(&t, 3, true);
    toy_add_norms(&t);
    check_edits(&t, toy_programs(&t, (toy_run){2, GP_CHECKPOINT_ALWAYS, false, true}), edits,
                sizeof edits / sizeof *edits);
    toy_fini(&t);
}

/* A plan without norms, and a program that only goes forward, have no place for them; a stage may have none at all. */
static void norms_out_of_place_are_named(void **state) {
    (void)state;
    static const edit unasked[] = {
        {1, "step s1", "norm s1\nstep s1",
         "worker 1, instruction 11 (norm s1): is not allowed: this run computes no norms of gradients"},
        {1, "step s1", "clip s1\nstep s1",
         "worker 1, instruction 11 (clip s1): is not allowed: this run computes no norms of gradients"},
    };
    static const edit forward[] = {
        {1, "F s1 m1", "F s1 m1 last\nnorm s1",
         "worker 1, instruction 6 (norm s1): is not allowed in a forward-only program"},
        {1, "F s1 m1", "F s1 m1 last\nclip s1",
         "worker 1, instruction 6 (clip s1): is not allowed in a forward-only program"},
        {1, "F s1 m1", "F s1 m1 last\ncollect s1 c0",
         "worker 1, instruction 6 (collect s1 c0): is not allowed in a forward-only program"},
    };
    static const char lacking[] = "programs workers=1 stages=1 pieces=1 training ascending on=0\n"
                                  "worker 0:\nload s0 m0\nF s0 m0 keep last\nB s0 m0 first\nstep s0\n";
    toy t;
    toy_init_chain(&t, 2, false);
    check_edits(&t, toy_programs(&t, (toy_run){2, GP_CHECKPOINT_NEVER, false, true}), unasked, 2);
    toy_add_norms(&t);
    check_edits(&t, toy_programs(&t, (toy_run){2, GP_CHECKPOINT_NEVER, false, false}), forward, 3);
    toy_fini(&t);
    toy_init_chain(&t, 1, false);
    toy_add_norms(&t);
    for (int i = 0; i < 2; i++) {
        gp_programs *programs = NULL;
        gp_error err = {0};
        char text[256];
        snprintf(text, sizeof text, i ? "%.*snorm s0\nstep s0\n" : "%.*sstep s0\n",
                 (int)(strstr(lacking, "step") - lacking), lacking);
        assert_int_equal(gp_programs_read(text, "p", &programs, &err), GP_OK);
        assert_int_equal(gp_programs_validate(t.stages, programs, &err), GP_PROGRAM);
        assert_string_equal(err.text, i ? "stage 0 has no clip" : "stage 0 has no norm, which this run needs");
        gp_programs_destroy(&programs);
    }
    toy_fini(&t);
}

static void broken_keeping_is_named(void **state) {
    (void)state;
    static const edit edits[] = {
        {1, "B s1 m1", "R s1 m1 stash=1 saved=1\nB s1 m1 stash=1 saved=1 first",
         "worker 1, instruction 7 (R s1 m1): recomputes what the forward has kept"},
        {0, "send s0 m1 e0", "recv s0 m1 e1\nB s0 m1 stash=1 saved=1 first\nsend s0 m1 e0 slot=1 keep",
         "worker 0, instruction 7 (send s0 m1 e0): is sent after the backward that frees the saved slot"},
        {0, "F s0 m0", "F s0 m0 saved=1 keep\nB s0 m0 first",
         "worker 0, instruction 2 (B s0 m0): comes too early: gradients add up in descending order of micro-batches, "
         "and 1 is next"},
        {0, "F s0 m1", "F s0 m1 stash=1 saved=0 keep last",
         "worker 0, instruction 4 (F s0 m1): overwrites saved slot 0, which micro-batch 0 still needs"},
    };
    toy t;
    toy_init_chain(&t, 2, false);
    check_edits(&t, toy_programs(&t, (toy_run){2, GP_CHECKPOINT_NEVER, false, true}), edits,
                sizeof edits / sizeof *edits);
    toy_fini(&t);
}

/* Between the two halves of a backward its slots are still needed, also if its gradients have been sent. */
static void broken_halves_are_named(void **state) {
    (void)state;
    static const edit edits[] = {
        {1, "F s1 m1", "F s1 m1 stash=1 saved=0 keep",
         "worker 1, instruction 7 (F s1 m1): overwrites saved slot 0, which micro-batch 0 still needs"},
        {1, "I s1 m1", "I s1 m1 stash=1 saved=1 grad=0",
         "worker 1, instruction 8 (I s1 m1): overwrites gradient slot 0, which micro-batch 0 still needs"},
    };
    toy t;
    toy_init_chain(&t, 2, false);
    check_edits(
        &t,
        toy_programs_of(&t, (gp_schedule){.kind = GP_SCHEDULE_ZB_H1}, (toy_run){3, GP_CHECKPOINT_NEVER, false, true}),
        edits, sizeof edits / sizeof *edits);
    toy_fini(&t);
}

/* Stage 0, and two replicas of another one, stages 1 and 2. Collectives: 0 gathers the losses of stage 2 on stage 1, 1
 * broadcasts the scalars, 2 scatters gradients, 3 exchanges their sums, 4 exchanges statistics. */
static void broken_replicas_are_named(void **state) {
    (void)state;
    static const edit edits[] = {
        {1, "total s1", "", "worker 1, instruction 7 (post s1 c1): comes before the total"},
        {1, "total s1", "total s1\ntotal s1", "worker 1, instruction 8 (total s1): a second total"},
        {2, "post s2 c0", "post s2 c0\ntotal s2", "worker 2, instruction 7 (total s2): only stage 1 may have a total"},
        {1, "collect s1 c0", "",
         "worker 1, instruction 6 (total s1): must come after the collect of the losses of the other replicas"},
        {2, "post s2 c0", "", "collective 0 (gather of losses): stage 2 has no post"},
        {1, "reduce s1", "", "worker 1, instruction 15 (post s1 c3): comes before the reduce of its bucket"},
        {1, "post s1 c3", "collect s1 c3",
         "worker 1, instruction 16 (collect s1 c3): comes before the stage's own post"},
        {1, "reduce s1", "reduce s1 c2\nreduce s1 c2",
         "worker 1, instruction 16 (reduce s1 c2): a second reduce of the bucket"},
        {1, "reduce s1", "reduce s1 c3",
         "worker 1, instruction 15 (reduce s1 c3): collective 3 is no scatter of the stage's gradients"},
        {1, "reduce s1", "reduce s1 c9",
         "worker 1, instruction 15 (reduce s1 c9): collective 9 does not exist: there are 5 collectives, counted from "
         "0"},
        {1, "collect s1 c2", "",
         "worker 1, instruction 14 (reduce s1 c2): must come after the collect of the gradients of the other replicas"},
        {1, "post s1 c3", "post s1 c4\npost s1 c3",
         "worker 1, instruction 17 (post s1 c3): comes after collective 4: all workers must have posts in rising "
         "order"},
        {1, "collect s1 c3", "collect s1 c4\ncollect s1 c3",
         "worker 1, instruction 18 (collect s1 c3): comes after collective 4: all workers must have collects in rising "
         "order"},
        {1, "post s1 c2", "", "worker 1, instruction 13 (collect s1 c2): comes before the stage's own post"},
        {1, "collect s1 c3", "", "collective 3 (exchange of gradients): stage 1 has no collect"},
        {1, "post s1 c3", "post s1 c3\npost s1 c3",
         "worker 1, instruction 17 (post s1 c3): a second post of the stage"},
        {0, "collect s0 c1", "collect s0 c1\npost s0 c2",
         "worker 0, instruction 15 (post s0 c2): stage 0 takes no part in collective 2, a scatter of gradients"},
        {0, "step s0", "reduce s0 c2\nstep s0",
         "worker 0, instruction 15 (reduce s0 c2): is not allowed: the stage has no replicas"},
        {0, "step s0", "total s0\nstep s0",
         "worker 0, instruction 15 (total s0): is not allowed: the stage has no replicas"},
        {2, "F s2 m1", "post s2 c0\nF s2 m1 stash=1 saved=1 keep last",
         "worker 2, instruction 5 (post s2 c0): comes before the stage's last forward"},
    };
    static const edit with_norms[] = {
        {1, "collect s1 c2", "",
         "worker 1, instruction 18 (norm s1): must come after the collect of the gradients of the other replicas"},
        {2, "step s2", "norm s2\nstep s2",
         "worker 2, instruction 19 (norm s2): is not allowed: the first replica finds the norm"},
    };
    toy t;
    toy_init_replicated(&t, (const int64_t[]){1, 1}, (const int[]){1, 2}, false, 2, NULL, 0);
    check_edits(&t, toy_programs(&t, (toy_run){2, GP_CHECKPOINT_NEVER, false, true}), edits,
                sizeof edits / sizeof *edits);
    toy_add_norms(&t);
    check_edits(&t, toy_programs(&t, (toy_run){2, GP_CHECKPOINT_NEVER, false, true}), with_norms,
                sizeof with_norms / sizeof *with_norms);
    toy_fini(&t);
}

/* The same stages, whose replicas share out the optimizer. Collectives: 0 gathers the losses, 1 broadcasts the scalars,
 * 2 scatters gradients, 3 exchanges statistics, 4 exchanges parameters. With norms: 1 scatters gradients, 2 gathers
 * sums of blocks, 3 exchanges statistics, 4 gathers squares, 5 broadcasts the scalars, 6 exchanges parameters. */
static void broken_shards_are_named(void **state) {
    (void)state;
    static const edit edits[] = {
        {1, "update s1", "", "worker 1, instruction 18 (post s1 c4): comes before the update"},
        {1, "update s1", "update s1\nupdate s1", "worker 1, instruction 19 (update s1): a second update of the stage"},
        {2, "reduce s2", "update s2\nreduce s2 c2",
         "worker 2, instruction 14 (update s2): comes before the last reduce"},
        {2, "collect s2 c1", "", "worker 2, instruction 16 (update s2): must come after the collect of the scalars"},
        {1, "post s1 c4", "", "worker 1, instruction 19 (collect s1 c4): comes before the stage's own post"},
        {2, "collect s2 c4", "", "collective 4 (exchange of parameters): stage 2 has no collect"},
        {0, "step s0", "update s0\nstep s0",
         "worker 0, instruction 15 (update s0): is not allowed: the stage shares its parameters with no other replica"},
        {2, "step s2", "step s2\nupdate s2",
         "worker 2, instruction 21 (update s2): comes after a step: steps must be the last instructions of a worker"},
        {1, "step s1", "norm s1\nstep s1",
         "worker 1, instruction 21 (norm s1): is not allowed: this run computes no norms of gradients"},
    };
    static const edit with_norms[] = {
        {1, "collect s1 c2", "",
         "worker 1, instruction 17 (norm s1): must come after the collect of the squares of the other replicas"},
        {2, "post s2 c2", "", "collective 2 (gather of blocks): stage 2 has no post"},
        {2, "reduce s2", "post s2 c2\nreduce s2 c1",
         "worker 2, instruction 13 (post s2 c2): comes before the last reduce"},
        {1, "reduce s1", "norm s1\nreduce s1 c1", "worker 1, instruction 14 (norm s1): comes before the last reduce"},
        {2, "collect s2 c5", "", "worker 2, instruction 17 (update s2): must come after the collect of the scalars"},
        {1, "clip s1", "update s1\nclip s1", "worker 1, instruction 20 (update s1): comes before the clip"},
    };
    toy t;
    toy_init_replicated(&t, (const int64_t[]){1, 1}, (const int[]){1, 2}, true, 2, NULL, 0);
    check_edits(&t, toy_programs(&t, (toy_run){2, GP_CHECKPOINT_NEVER, false, true}), edits,
                sizeof edits / sizeof *edits);
    toy_add_norms(&t);
    check_edits(&t, toy_programs(&t, (toy_run){2, GP_CHECKPOINT_NEVER, false, true}), with_norms,
                sizeof with_norms / sizeof *with_norms);
    toy_fini(&t);
}

/* Stages 0 and 1, which are replicas, and three of another one, stages 2 to 4. Of micro-batch 0, with 4 samples, stage
 * 4 has none; of micro-batch 1, with 3, all have some. Edges: 0 from 0 to 2, 1 from 0 to 3 (for micro-batch 1 only), 2
 * from 1 to 3 (for micro-batch 0 only), 3 from 1 to 4 (for micro-batch 1 only); gradients 4 to 7 likewise. */
static void broken_empty_shares_are_named(void **state) {
    (void)state;
    static const edit edits[] = {
        {4, "load s4 m1", "load s4 m0\nload s4 m1",
         "worker 4, instruction 0 (load s4 m0): the share of replica 2 of 3 is empty"},
        {4, "B s4 m1", "B s4 m1 first\nB s4 m0",
         "worker 4, instruction 5 (B s4 m0): the share of replica 2 of 3 is empty"},
        {4, "recv s4 m1 e3", "recv s4 m0 e3\nrecv s4 m1 e3",
         "worker 4, instruction 1 (recv s4 m0 e3): the share of replica 2 of 3 is empty"},
        {1, "send s1 m0 e2", "send s1 m0 e2 keep\nsend s1 m0 e3 keep",
         "worker 1, instruction 3 (send s1 m0 e3): the activation edge 3 does not carry it: its ends have no sample in "
         "common"},
        {3, "recv s3 m1 e1", "recv s3 m1 e1\nrecv s3 m1 e2",
         "worker 3, instruction 5 (recv s3 m1 e2): the activation edge 2 does not carry it: its ends have no sample in "
         "common"},
        {3, "send s3 m0 e6", "send s3 m0 e5",
         "worker 3, instruction 10 (send s3 m0 e5): the gradient edge 5 does not carry it: its ends have no sample in "
         "common"},
        {3, "recv s3 m1 e1", "", "worker 3, instruction 4 (F s3 m1): the activation of edge 1 must be received before"},
        {0, "recv s0 m1 e5", "", "worker 0, instruction 8 (B s0 m1): the gradient of edge 5 must be received before"},
        {4, "F s4 m1", "F s4 m1 saved=0 keep",
         "worker 4, instruction 2 (F s4 m1): is the stage's last forward, but has no flag last"},
        {4, "B s4 m1", "B s4 m1",
         "worker 4, instruction 4 (B s4 m1): is the stage's first backward, but has no flag first"},
        {4, "B s4 m1", "", "worker 4, instruction 4 (send s4 m1 e7): is sent before the backward that computes it"},
        {4, "F s4 m1", "post s4 c0\nF s4 m1 saved=0 keep last",
         "worker 4, instruction 2 (post s4 c0): comes before the stage's last forward"},
        {4, "post s4 c2", "", "worker 4, instruction 7 (collect s4 c2): comes before the stage's own post"},
        {1, "send s1 m1 e3", "", "edge 3 (activation from stage 1 to stage 4): micro-batch 1 is never sent"},
    };
    toy t;
    toy_init_shared(&t, (const int64_t[]){1, 1}, (const int[]){2, 3}, false, 2, NULL, 0, 4, 3);
    check_edits(&t, toy_programs(&t, (toy_run){2, GP_CHECKPOINT_NEVER, false, true}), edits,
                sizeof edits / sizeof *edits);
    toy_fini(&t);
}

/* Of 9 samples the last of four replicas, stage 4, has none: it computes nothing, and takes part in collectives. */
static void broken_idle_replicas_are_named(void **state) {
    (void)state;
    static const edit edits[] = {
        {4, "post s4 c0", "F s4 m0 saved=0 keep\npost s4 c0",
         "worker 4, instruction 0 (F s4 m0): the share of replica 3 of 4 is empty"},
        {4, "post s4 c0", "", "collective 0 (gather of losses): stage 4 has no post"},
        {4, "collect s4 c1", "", "collective 1 (broadcast of scalars): stage 4 has no collect"},
        {4, "post s4 c2", "", "worker 4, instruction 2 (collect s4 c2): comes before the stage's own post"},
        {4, "reduce s4", "", "worker 4, instruction 4 (post s4 c3): comes before the reduce of its bucket"},
        {4, "step s4", "", "stage 4 has no step"},
    };
    static const edit evaluation[] = {
        {4, "post s4 c0", "", "collective 0 (gather of losses): stage 4 has no post"},
        {4, "post s4 c0", "load s4 m1\npost s4 c0",
         "worker 4, instruction 0 (load s4 m1): the share of replica 3 of 4 is empty"},
    };
    toy t;
    toy_init_shared(&t, (const int64_t[]){1, 1}, (const int[]){1, 4}, false, 2, NULL, 0, 9, 9);
    check_edits(&t, toy_programs(&t, (toy_run){2, GP_CHECKPOINT_NEVER, false, true}), edits,
                sizeof edits / sizeof *edits);
    check_edits(&t, toy_programs(&t, (toy_run){2, GP_CHECKPOINT_NEVER, false, false}), evaluation,
                sizeof evaluation / sizeof *evaluation);
    toy_fini(&t);
}

/* The replicas of all stages synchronise. */
static void set_groups(toy *t, int group) {
    for (int s = 0; s < t->stages->count; s++) t->stages->stage[s].group = group;
}

static size_t find_instr(const gp_program *program, gp_instr_op op, int stage, int micro) {
    for (size_t pc = 0; pc < program->count; pc++) {
        const gp_instr *its = &program->instrs[pc];
        if (its->op == op && its->stage == stage && its->micro == micro) return pc;
    }
    fail_msg("no such instruction");
    return 0;
}

/* The instruction at `from` stands before the one at `to` < from then. */
static void move_up(gp_program *program, size_t from, size_t to) {
    const gp_instr moved = program->instrs[from];
    memmove(&program->instrs[to + 1], &program->instrs[to], (from - to) * sizeof moved);
    program->instrs[to] = moved;
}

/* Two replicas, of which the second has its forwards in the other order: right, but not if they synchronise. */
static void other_orders_do_not_synchronise(void **state) {
    (void)state;
    toy t;
    gp_error err = {0};
    toy_init_replicated(&t, (const int64_t[]){1}, (const int[]){2}, false, 1, NULL, 0);
    gp_programs *programs = toy_programs(&t, (toy_run){2, GP_CHECKPOINT_NEVER, false, true});
    gp_program *second = &programs->worker[1];
    move_up(second, find_instr(second, GP_INSTR_LOAD, 1, 1), 0);
    move_up(second, find_instr(second, GP_INSTR_FORWARD, 1, 1), 1);
    second->instrs[1].flags = GP_INSTR_KEEP;
    second->instrs[find_instr(second, GP_INSTR_FORWARD, 1, 0)].flags = GP_INSTR_KEEP | GP_INSTR_LAST;
    assert_valid(&t, programs);
    set_groups(&t, 2);
    assert_int_equal(gp_programs_validate(t.stages, programs, &err), GP_PROGRAM);
    assert_string_equal(err.text, "worker 1, instruction 1 (F s1 m1): comes where stage 0, with which it synchronises "
                                  "batch norm, has F s0 m0: replicas that synchronise must have forwards and backwards "
                                  "in the same order");
    gp_programs_destroy(&programs);
    toy_fini(&t);
}

/* Two workers with two stages each, whose replicas have each stage's passes in one order, but not those of both: each
 * waits for the other one. */
static void crossed_stages_deadlock(void **state) {
    (void)state;
    toy t;
    gp_error err = {0};
    toy_init_replicated(&t, (const int64_t[]){1, 1}, (const int[]){2, 2}, false, 2, NULL, 0);
    gp_programs *programs = toy_programs_of(&t, (gp_schedule){.kind = GP_SCHEDULE_INTERLEAVED, .chunks = 2},
                                            (toy_run){2, GP_CHECKPOINT_NEVER, false, true});
    gp_program *second = &programs->worker[1];
    size_t to = find_instr(second, GP_INSTR_LOAD, 3, 0);
    move_up(second, find_instr(second, GP_INSTR_LOAD, 1, 1), to);
    move_up(second, find_instr(second, GP_INSTR_FORWARD, 1, 1), to + 1);
    assert_valid(&t, programs);
    set_groups(&t, 2);
    assert_int_equal(gp_programs_validate(t.stages, programs, &err), GP_PROGRAM);
    assert_string_equal(err.text, "worker 0, instruction 5 (F s2 m0): deadlock: the other replicas with which it "
                                  "synchronises batch norm never come here");
    gp_programs_destroy(&programs);
    toy_fini(&t);
}

/* Groups of replicas, whatever the schedule. */
static void groups_are_valid(void **state) {
    (void)state;
    static const gp_schedule schedules[] = {
        {.kind = GP_SCHEDULE_GPIPE}, {.kind = GP_SCHEDULE_1F1B},  {.kind = GP_SCHEDULE_INTERLEAVED, .chunks = 2},
        {.kind = GP_SCHEDULE_ZB_H1}, {.kind = GP_SCHEDULE_ZB_H2}, {.kind = GP_SCHEDULE_ZB_V}};
    for (int group = 2; group <= 4; group += 2)
        for (size_t s = 0; s < sizeof schedules / sizeof *schedules; s++)
            for (int pieces = 2; pieces <= 8; pieces += 2)
                for (int lockstep = 0; lockstep < (s == 0 ? 2 : 1); lockstep++) {
                    toy t;
                    toy_init_replicated(&t, (const int64_t[]){1, 2, 1, 1}, (const int[]){4, 4, 4, 4}, false, 4,
                                        (const toy_skip[]){{0, 3}}, 1);
                    set_groups(&t, group);
                    gp_checkpoint_mode mode = s == 0 ? GP_CHECKPOINT_EXCEPT_LAST : GP_CHECKPOINT_NEVER;
                    gp_programs *programs = toy_programs_of(&t, schedules[s], (toy_run){pieces, mode, lockstep, true});
                    assert_valid(&t, programs);
                    gp_programs_destroy(&programs);
                    toy_fini(&t);
                }
}

static void broken_evaluation_is_named(void **state) {
    (void)state;
    static const edit edits[] = {
        {1, "F s1 m0", "F s1 m0 keep",
         "worker 1, instruction 4 (F s1 m0): keep is not allowed in a forward-only program"},
        {1, "F s1 m0", "F s1 m0\nR s1 m0",
         "worker 1, instruction 5 (R s1 m0): is not allowed in a forward-only program"},
        {1, "F s1 m0", "F s1 m0\nB s1 m0",
         "worker 1, instruction 5 (B s1 m0): is not allowed in a forward-only program"},
        {1, "F s1 m1", "F s1 m1 last\nstep s1",
         "worker 1, instruction 9 (step s1): is not allowed in a forward-only program"},
        {1, "F s1 m1", "F s1 m1 last\nsend s1 m1 e1",
         "worker 1, instruction 9 (send s1 m1 e1): a forward-only program has no gradient copies"},
        {1, "F s1 m1", "F s1 m1 last\npost s1 c0",
         "worker 1, instruction 9 (post s1 c0): is not allowed in a forward-only program"},
        {1, "barrier s1 @1", "", "worker 1 has 2 barriers, but worker 0 has 3"},
        {1, "F s1 m1", "", "stage 1: micro-batch 1 has no forward"},
        {0, "send s0 m1", "", "edge 0 (activation from stage 0 to stage 1): micro-batch 1 is never sent"},
        {0, "barrier s0 @0", "recv s0 m0 e1\nbarrier s0",
         "worker 0, instruction 1 (recv s0 m0 e1): a forward-only program has no gradient copies"},
    };
    toy t;
    toy_init_chain(&t, 2, false);
    check_edits(&t, toy_programs(&t, (toy_run){2, GP_CHECKPOINT_ALWAYS, true, false}), edits,
                sizeof edits / sizeof *edits);
    toy_fini(&t);
}

/* A receive from a stage of the same worker that sends only later. */
static void deadlocks_are_found(void **state) {
    (void)state;
    static const char text[] = "programs workers=1 stages=2 pieces=1 evaluation ascending on=0,0\n"
                               "worker 0:\n"
                               "load s0 m0\nload s1 m0\nrecv s1 m0 e0\nF s0 m0 last\nsend s0 m0 e0\nF s1 m0 last\n";
    toy t;
    gp_programs *programs = NULL;
    gp_error err = {0};
    toy_init_chain(&t, 2, false);
    assert_int_equal(gp_programs_read(text, "p", &programs, &err), GP_OK);
    assert_int_equal(gp_programs_validate(t.stages, programs, &err), GP_PROGRAM);
    assert_string_equal(err.text, "p:5:1: worker 0, instruction 2 (recv s1 m0 e0): deadlock: waits until micro-batch 0 "
                                  "is sent on edge 0, which never happens");
    gp_programs_destroy(&programs);
    toy_fini(&t);
}

/* Sizes that do not fit the stages, and much said with few instructions. */
static void wrong_sizes_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"programs workers=1 stages=1 pieces=1 training descending on=0\nworker 0:\n",
         "the programs are for 1 stages, but the model is cut into 2"},
        {"programs workers=1 stages=2 pieces=4096 training descending on=0,0\nworker 0:\nload s0 m0\n",
         "1 instructions are too few for 4096 micro-batches, 2 stages and the 2 edges between them"},
        {"programs workers=2 stages=2 pieces=2 evaluation descending on=0,1\nworker 0:\nworker 1:\nstep s0\n",
         "worker 1, instruction 0 (step s0): stage 0 is on worker 0"},
        {"programs workers=1 stages=2 pieces=2 evaluation descending on=0,0\nworker 0:\nload s0 m0\nload s0 m0\n"
         "load s0 m1\nload s1 m1\n",
         "worker 0, instruction 1 (load s0 m0): the micro-batch is loaded a second time"},
        {"programs workers=1 stages=2 pieces=2 evaluation descending on=0,0\nworker 0:\nload s1 m0\nload s1 m1\n"
         "load s1 m1\nload s0 m1\n",
         "stage 0 has 1 instructions, too few for 2 micro-batches"},
    };
    toy t;
    toy_init_chain(&t, 2, false);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gp_programs *programs = NULL;
        gp_error err = {0};
        if (gp_programs_read(bad[i].text, "p", &programs, &err) != GP_OK) fail_msg("%s", err.text);
        assert_int_equal(gp_programs_validate(t.stages, programs, &err), GP_PROGRAM);
        assert_string_equal(behind_place(&err, "p"), bad[i].message);
        gp_programs_destroy(&programs);
    }
    /* What no text says: built in memory. */
    gp_programs *programs = toy_programs(&t, (toy_run){1, GP_CHECKPOINT_ALWAYS, false, true});
    gp_error err = {0};
    programs->worker[0].instrs[0].op = GP_INSTR_OPS;
    assert_int_equal(gp_programs_validate(t.stages, programs, &err), GP_PROGRAM);
    assert_string_equal(err.text, "worker 0, instruction 0 (? s0 m0): operation 17 does not exist");
    programs->worker[0].instrs[0].op = GP_INSTR_LOAD;
    programs->worker[0].instrs[0].flags = 9;
    assert_int_equal(gp_programs_validate(t.stages, programs, &err), GP_PROGRAM);
    assert_string_equal(err.text,
                        "worker 0, instruction 0 (load s0 m0): has flags (0x9) that this instruction cannot have");
    programs->worker_of_stage[1] = 2;
    assert_int_equal(gp_programs_validate(t.stages, programs, &err), GP_PROGRAM);
    assert_string_equal(err.text, "stage 1 is on worker 2: there are 2 workers, counted from 0");
    programs->pieces = 70000;
    assert_int_equal(gp_programs_validate(t.stages, programs, &err), GP_PROGRAM);
    assert_string_equal(err.text, "programs for 70000 micro-batches: there must be 1 to 4096");
    programs->workers = 3;
    programs->pieces = 1;
    assert_int_equal(gp_programs_validate(t.stages, programs, &err), GP_PROGRAM);
    assert_string_equal(err.text, "programs for 3 workers, but 2 stages: each worker needs at least one");
    programs->workers = 2;
    gp_programs_destroy(&programs);
    toy_fini(&t);
    toy_init_chain(&t, 4097, false);
    programs = toy_schedule(&t, (toy_run){1, GP_CHECKPOINT_ALWAYS, false, false});
    assert_int_equal(gp_programs_validate(t.stages, programs, &err), GP_PROGRAM);
    assert_string_equal(err.text, "programs for 4097 stages: there must be 1 to 4096");
    gp_programs_destroy(&programs);
    toy_fini(&t);
}

typedef struct mutant_tally {
    int accepted, refused, refused_rightly;
} mutant_tally;

/* The interpreter's word, over several interleavings. */
static bool is_harmless(const toy *t, const gp_programs *programs, uint64_t *random, gp_error *err) {
    for (int i = 0; i < 5; i++) {
        interleaving how = i < 2 ? (interleaving)i : RANDOM_WORKER;
        if (interpret(t->stages, programs, how, random, err) != GP_OK) return false;
    }
    return true;
}

static void check_mutants(const toy *t, gp_programs *programs, int count, uint64_t *random, mutant_tally *tally) {
    gp_error err = {0}, harm = {0};
    assert_valid(t, programs);
    if (!is_harmless(t, programs, random, &harm)) fail_msg("interpreter: %s", harm.text);
    for (int i = 0; i < count; i++) {
        uint64_t seed = *random;
        gp_programs *mutant = mutate_copy(programs);
        for (uint32_t edits = 1 + toy_random(random, 4) / 3; edits > 0; edits--) mutate(mutant, t->stages, random);
        bool accepted = gp_programs_validate(t->stages, mutant, &err) == GP_OK;
        bool harmless = is_harmless(t, mutant, random, &harm);
        if (accepted && !harmless)
            fail_msg("mutant of seed %llu is valid, but %s", (unsigned long long)seed, harm.text);
        tally->accepted += accepted;
        tally->refused += !accepted;
        tally->refused_rightly += !accepted && !harmless;
        gp_programs_destroy(&mutant);
    }
    gp_programs_destroy(&programs);
}

/* Every mutant is refused, or harmless. The tallies show that both sides have teeth: most refused mutants do harm, and
 * harmless changes (of clocks, of the order of independent neighbours) pass. */
static void mutants_are_refused_or_harmless(void **state) {
    (void)state;
    uint64_t random = 1;
    mutant_tally tally = {0};
    for (int n = 1; n <= 5; n++) {
        for (int norms = 0; norms < 2; norms++) {
            toy t;
            toy_init_chain(&t, n, true);
            if (norms) toy_add_norms(&t);
            for (int i = 0; i < 12; i++) {
                toy_run run = {1 + i % 4, (gp_checkpoint_mode)(i % 3), i / 3 % 2, i % 5 != 4};
                check_mutants(&t, toy_programs(&t, run), 75, &random, &tally);
            }
            if (n == 4) check_mutants(&t, toy_interleaved(&t, 3), 500, &random, &tally);
            toy_fini(&t);
        }
    }
    print_message("mutants: %d accepted, %d refused, of which %d do harm\n", tally.accepted, tally.refused,
                  tally.refused_rightly);
    assert_int_equal(tally.accepted + tally.refused, 10000);
    assert_true(tally.accepted > 1000);
    assert_true(tally.refused_rightly > tally.refused / 10 * 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_are_valid),
        cmocka_unit_test(several_stages_per_worker_are_valid),
        cmocka_unit_test(large_plans_are_valid),
        cmocka_unit_test(broken_training_is_named),
        cmocka_unit_test(broken_norms_are_named),
        cmocka_unit_test(norms_out_of_place_are_named),
        cmocka_unit_test(broken_keeping_is_named),
        cmocka_unit_test(broken_halves_are_named),
        cmocka_unit_test(broken_replicas_are_named),
        cmocka_unit_test(broken_shards_are_named),
        cmocka_unit_test(broken_empty_shares_are_named),
        cmocka_unit_test(broken_idle_replicas_are_named),
        cmocka_unit_test(other_orders_do_not_synchronise),
        cmocka_unit_test(crossed_stages_deadlock),
        cmocka_unit_test(groups_are_valid),
        cmocka_unit_test(broken_evaluation_is_named),
        cmocka_unit_test(deadlocks_are_found),
        cmocka_unit_test(wrong_sizes_are_refused),
        cmocka_unit_test(mutants_are_refused_or_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
