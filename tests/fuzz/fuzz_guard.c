/* Messages of guards. The first byte says in which pieces the rest comes: what is found must not depend on it. */
#include <string.h>

#include "base/printable.h"
#include "fuzz/fuzz.h"
#include "process/guard_messages.h"

enum { MOST = 1024 };

typedef struct findings {
    gp_guard_message message[MOST]; /* texts are not kept */
    int count;
    bool garbage;
} findings;

/* As process 0 of three hears it, which waits for a message of process 1, and has asked. */
static void hear_about_messages(const gp_guard_message *its) {
    gp_deliveries *deliveries = NULL;
    gp_parcel parcel;
    gp_delivery_question question;
    gp_delivery_answer answer;
    gp_error err = {0};
    int to;
    FUZZ_PROMISE(gp_deliveries_create(0, 3, &deliveries, &err) == GP_OK);
    gp_parcel_init(&parcel);
    gp_parcel_fill(&parcel, 1, 1, 5, NULL, 100, true);
    gp_deliveries_begin(deliveries, &parcel);
    (void)gp_deliveries_ask(deliveries, 1, 1, &to, &question);
    FUZZ_PROMISE(gp_deliveries_ask(deliveries, 3, 1, &to, &question) && to == 1);
    if (its->kind == GP_GUARD_ANSWER) {
        memcpy(&answer, its->text, sizeof answer);
        for (int i = 0; i < 5; i++) {
            gp_status status = gp_deliveries_hear(deliveries, its->rank, &answer, 4 + i, 1, &err);
            FUZZ_PROMISE(status == GP_OK || err.text[0]);
            if (gp_deliveries_ask(deliveries, 4 + i, 1, &to, &question)) answer.serial = question.serial;
        }
    } else {
        memcpy(&question, its->text, sizeof question);
        bool good = gp_deliveries_answer(deliveries, its->rank, &question, &answer);
        FUZZ_PROMISE(!good || (question.count >= 1 && question.count <= GP_DELIVERY_ITEMS && its->rank < 3));
        FUZZ_PROMISE(!good || question.count == GP_DELIVERY_ITEMS || answer.begun >> question.count == 0);
    }
    gp_deliveries_destroy(&deliveries);
}

static void take(gp_guard_input *input, findings *out) {
    for (gp_guard_message its;;) {
        gp_guard_found found = gp_guard_next(input, &its);
        out->garbage = found == GP_GUARD_GARBAGE;
        if (found != GP_GUARD_MESSAGE) return;
        FUZZ_PROMISE(its.text == input->bytes + GP_GUARD_HEADER && its.length <= input->filled - GP_GUARD_HEADER);
        if (its.kind == GP_GUARD_FAIL || its.kind == GP_GUARD_LOST) {
            gp_error cause = {0};
            gp_guard_read_cause(&its, &cause);
            FUZZ_PROMISE(cause.status != GP_OK && strlen(cause.text) <= its.length && gp_is_printable(cause.text));
        }
        if (its.kind == GP_GUARD_TIMEOUT) {
            double seconds = gp_guard_read_timeout(&its);
            FUZZ_PROMISE(seconds > 0 && seconds <= GP_GUARD_MOST_SECONDS);
        }
        if (its.kind == GP_GUARD_ASK || its.kind == GP_GUARD_ANSWER) hear_about_messages(&its);
        unsigned char again[GP_GUARD_ROOM];
        FUZZ_PROMISE(gp_guard_write(again, its.kind, (gp_status)its.status, its.rank, its.text, its.length) ==
                     GP_GUARD_HEADER + its.length);
        FUZZ_PROMISE(memcmp(again, input->bytes, GP_GUARD_HEADER + its.length) == 0);
        gp_guard_drop(input, &its);
        its.text = NULL;
        if (out->count < MOST) out->message[out->count++] = its;
    }
}

/* As a guard does: whatever there is room for, until what has come is no message. */
static void hear(const uint8_t *bytes, size_t size, size_t piece, findings *out) {
    gp_guard_input input = {.filled = 0};
    out->count = 0;
    out->garbage = false;
    for (size_t at = 0; at < size && !out->garbage;) {
        size_t room = sizeof input.bytes - input.filled, left = size - at;
        size_t its = piece < left ? piece : left;
        FUZZ_PROMISE(room > 0);
        if (its > room) its = room;
        memcpy(input.bytes + input.filled, bytes + at, its);
        input.filled += its;
        at += its;
        take(&input, out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static findings pieces, whole;
    if (size == 0) return 0;
    hear(bytes + 1, size - 1, 1 + bytes[0], &pieces);
    hear(bytes + 1, size - 1, size, &whole);
    FUZZ_PROMISE(pieces.count == whole.count && pieces.garbage == whole.garbage);
    for (int i = 0; i < pieces.count; i++) {
        const gp_guard_message *a = &pieces.message[i], *b = &whole.message[i];
        FUZZ_PROMISE(a->kind == b->kind && a->status == b->status && a->rank == b->rank && a->length == b->length);
    }
    return 0;
}
