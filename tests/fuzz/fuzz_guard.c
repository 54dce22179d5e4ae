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
