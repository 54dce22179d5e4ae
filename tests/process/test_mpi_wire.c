/* Bulk messages over MPI, of a process to itself: they begin one after another, and others pass them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "process/mpi_wire.h"

enum { MESSAGES = 5, BYTES = 3 << 20, SMALL = 64 };

static void fails(void *context, const gp_error *err) {
    (void)context;
    fail_msg("%s", err->text);
}

static void wait_for(gp_parcel *parcel, const gp_cancel *cancel) {
    gp_error err = {0};
    if (gp_parcel_wait(parcel, cancel, &err) != GP_OK) fail_msg("%s", err.text);
}

/* Of 3 MiB each, the first two begin. The third has its receive, but begins only when one of these has gone. A message
 * that is sent later is there before. */
static void bulk_messages_go_one_after_another(void **state) {
    gp_wire *wire = *state;
    gp_error err = {0};
    gp_cancel cancel;
    gp_parcel sent[MESSAGES], received[MESSAGES], small[2];
    char *from = malloc(MESSAGES * (size_t)BYTES), *to = calloc(MESSAGES, BYTES), word[SMALL] = "small",
         read[SMALL] = "";
    assert_true(from && to && gp_cancel_init(&cancel, &err) == GP_OK);
    for (int i = 0; i < 2; i++) gp_parcel_init(&small[i]);
    for (int i = 0; i < MESSAGES; i++) {
        memset(from + (size_t)i * BYTES, 'a' + i, BYTES);
        gp_parcel_init(&sent[i]);
        gp_parcel_init(&received[i]);
        gp_wire_send_bulk(wire, &sent[i], 1, 0, (uint32_t)i, from + (size_t)i * BYTES, BYTES, NULL);
    }
    gp_wire_receive(wire, &received[2], 1, 0, 2, to + 2 * (size_t)BYTES, BYTES);
    gp_wire_send(wire, &small[0], 1, 0, MESSAGES, word, SMALL);
    gp_wire_receive(wire, &small[1], 1, 0, MESSAGES, read, SMALL);
    wait_for(&small[0], &cancel);
    wait_for(&small[1], &cancel);
    assert_string_equal(read, "small");
    usleep(200000); /* enough for the third, if it could begin */
    assert_false(gp_signal_reached(&received[2].done, 1));
    for (int i = 0; i < MESSAGES; i++)
        if (i != 2) gp_wire_receive(wire, &received[i], 1, 0, (uint32_t)i, to + (size_t)i * BYTES, BYTES);
    for (int i = 0; i < MESSAGES; i++) {
        wait_for(&received[i], &cancel);
        wait_for(&sent[i], &cancel);
    }
    assert_memory_equal(from, to, MESSAGES * (size_t)BYTES);
    gp_cancel_fini(&cancel);
    free(from);
    free(to);
}

/* What may write over a message is received when it has gone: here it brings what the message was. */
static void a_receive_follows_a_message(void **state) {
    gp_wire *wire = *state;
    gp_error err = {0};
    gp_cancel cancel;
    gp_parcel sent, read, back, then;
    char memory[SMALL] = "there", copy[SMALL] = "", answer[SMALL] = "and back";
    assert_int_equal(gp_cancel_init(&cancel, &err), GP_OK);
    gp_parcel *all[] = {&sent, &read, &back, &then};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) gp_parcel_init(all[i]);
    gp_wire_send(wire, &back, 1, 0, 21, answer, SMALL);
    gp_parcel_fill(&then, 1, 0, 21, memory, SMALL, true);
    gp_wire_send_bulk(wire, &sent, 1, 0, 20, memory, SMALL, &then);
    gp_wire_receive(wire, &read, 1, 0, 20, copy, SMALL);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) wait_for(all[i], &cancel);
    assert_string_equal(copy, "there");
    assert_string_equal(memory, "and back");
    gp_cancel_fini(&cancel);
}

static int open_wire(void **state) {
    gp_error err = {0};
    gp_wire *wire = NULL;
    if (gp_mpi_open(fails, NULL, &wire, &err) != GP_OK || gp_mpi_start(wire, &err) != GP_OK) fail_msg("%s", err.text);
    *state = wire;
    return 0;
}

static int close_wire(void **state) {
    gp_wire *wire = *state;
    gp_mpi_close(&wire, true);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bulk_messages_go_one_after_another),
        cmocka_unit_test(a_receive_follows_a_message),
    };
    if (!gp_mpi_is_built()) {
        puts("skipped: this program was built without MPI");
        return 77;
    }
    return cmocka_run_group_tests(tests, open_wire, close_wire);
}
