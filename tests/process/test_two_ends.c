/* The wire of MPI between two processes: what one end holds back holds up nothing else.
 *
 * PyTorch's issue 188833: a receive that is posted ahead holds up a later send on the same link. Both ends of that
 * link then wait, or a pipeline has a bubble in its warm-up. Messages are longer than what MPI sends by itself (its
 * eager limit), so that each needs its receive. The program starts itself again with mpirun. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "process/mpi_wire.h"

enum { BYTES = 256 << 10, STREAM = 4 };
enum { TAG_AHEAD, TAG_LATER, TAG_HELD, TAG_FREE, TAG_ALL };

static void fails(void *context, const gp_error *err) {
    (void)context;
    fail_msg("%s", err->text);
}

/* A message, and its side here. */
typedef struct letter {
    gp_parcel parcel;
    char *bytes;
} letter;

static letter make(char fill) {
    letter its = {.bytes = malloc(BYTES)};
    assert_non_null(its.bytes);
    memset(its.bytes, fill, BYTES);
    return its;
}

static void end(letter *its) {
    gp_error err = {0};
    gp_cancel never;
    assert_int_equal(gp_cancel_init(&never, &err), GP_OK);
    if (gp_parcel_wait(&its->parcel, &never, &err) != GP_OK) fail_msg("%s", err.text);
    gp_cancel_fini(&never);
}

static void expect(letter *its, char fill) {
    end(its);
    for (size_t i = 0; i < BYTES; i++)
        if (its->bytes[i] != fill) fail_msg("byte %zu is %d, not %d", i, its->bytes[i], fill);
    free(its->bytes);
}

static void begin(gp_wire *wire, letter *its, bool receives, uint32_t tag) {
    gp_parcel_init(&its->parcel);
    if (receives)
        gp_wire_receive(wire, &its->parcel, 1, 1 - wire->rank, tag, its->bytes, BYTES);
    else
        gp_wire_send(wire, &its->parcel, 1, 1 - wire->rank, tag, its->bytes, BYTES);
}

/* Both ends post their receive first. Neither sends what the other one waits for before it has got the later message.
 */
static void a_receive_ahead_holds_up_no_later_send(void **state) {
    gp_wire *wire = *state;
    letter ahead = make(0), later = make(0), sent = make((char)('a' + wire->rank)),
           answer = make((char)('A' + wire->rank));
    begin(wire, &ahead, true, TAG_AHEAD);
    begin(wire, &sent, false, TAG_LATER);
    begin(wire, &later, true, TAG_LATER);
    expect(&later, (char)('b' - wire->rank));
    end(&sent);
    /* Process 1 sends now what process 0 waits for, and then the other way round. */
    if (wire->rank == 1) assert_false(gp_signal_reached(&ahead.parcel.done, 1));
    if (wire->rank == 0) expect(&ahead, 'B');
    begin(wire, &answer, false, TAG_AHEAD);
    if (wire->rank == 1) expect(&ahead, 'A');
    end(&answer);
    free(sent.bytes);
    free(answer.bytes);
}

/* Process 0 sends two streams of messages. The receives of the first are posted only when the second is through. */
static void a_stream_that_is_held_back_holds_up_no_other(void **state) {
    gp_wire *wire = *state;
    letter held[STREAM], others[STREAM];
    bool receives = wire->rank == 1;
    for (int i = 0; i < STREAM; i++) {
        held[i] = make(receives ? 0 : (char)('a' + i));
        others[i] = make(receives ? 0 : (char)('A' + i));
    }
    for (int i = 0; i < STREAM && !receives; i++) {
        begin(wire, &held[i], false, TAG_HELD);
        begin(wire, &others[i], false, TAG_FREE);
    }
    for (int i = 0; i < STREAM && receives; i++) begin(wire, &others[i], true, TAG_FREE);
    for (int i = 0; i < STREAM; i++) expect(&others[i], (char)('A' + i));
    for (int i = 0; i < STREAM && !receives; i++) assert_false(gp_signal_reached(&held[i].parcel.done, 1));
    letter done = make(0); /* process 0 has looked */
    begin(wire, &done, receives, TAG_ALL);
    expect(&done, 0);
    for (int i = 0; i < STREAM && receives; i++) begin(wire, &held[i], true, TAG_HELD);
    for (int i = 0; i < STREAM; i++) expect(&held[i], (char)('a' + i));
}

static int open_wire(void **state) {
    gp_error err = {0};
    gp_wire *wire = NULL;
    if (gp_mpi_open(fails, NULL, &wire, &err) != GP_OK || gp_mpi_start(wire, &err) != GP_OK) fail_msg("%s", err.text);
    assert_int_equal(wire->processes, 2);
    *state = wire;
    return 0;
}

static int close_wire(void **state) {
    gp_wire *wire = *state;
    gp_mpi_close(&wire, true);
    return 0;
}

/* 77: there is no mpirun. */
static int launch(char *program) {
    char *arguments[] = {"mpirun", "--bind-to", "none", "-np", "2", program, "launched", NULL};
    (void)setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    (void)setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    (void)setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 1);
    execvp(arguments[0], arguments);
    puts("skipped: there is no mpirun");
    return 77;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_receive_ahead_holds_up_no_later_send),
        cmocka_unit_test(a_stream_that_is_held_back_holds_up_no_other),
    };
    if (!gp_mpi_is_built()) {
        puts("skipped: this program was built without MPI");
        return 77;
    }
    return argc < 2 ? launch(argv[0]) : cmocka_run_group_tests(tests, open_wire, close_wire);
}
