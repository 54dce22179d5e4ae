#include "process/guard_messages.h"

#include <string.h>

#include "base/printable.h"

/* A message has room for each of them. */
_Static_assert(sizeof(gp_guard_hello) < GP_ERROR_TEXT, "the text of HELLO is too long");
_Static_assert(sizeof(gp_delivery_question) < GP_ERROR_TEXT, "the text of ASK is too long");
_Static_assert(sizeof(gp_delivery_answer) < GP_ERROR_TEXT, "the text of ANSWER is too long");

size_t gp_guard_write(unsigned char *out, gp_guard_kind kind, gp_status status, int rank, const void *text,
                      size_t length) {
    out[0] = (unsigned char)kind;
    out[1] = (unsigned char)status;
    out[2] = (unsigned char)(rank & 255);
    out[3] = (unsigned char)(rank >> 8 & 255);
    for (int i = 0; i < 4; i++) out[4 + i] = (unsigned char)(length >> (8 * i) & 255);
    if (length > 0) memcpy(out + GP_GUARD_HEADER, text, length);
    return GP_GUARD_HEADER + length;
}

/* What a header says is possible only if this program could have sent it. */
static bool is_possible(gp_guard_kind kind, int status, size_t length) {
    switch (kind) {
    case GP_GUARD_HELLO: return length == sizeof(gp_guard_hello);
    case GP_GUARD_FAIL:
    case GP_GUARD_LOST: return status > GP_OK && status <= GP_INTERRUPTED && length < GP_ERROR_TEXT;
    case GP_GUARD_BEAT:
    case GP_GUARD_STOP:
    case GP_GUARD_BYE:
    case GP_GUARD_READY: return length == 0;
    case GP_GUARD_SAVED: return (status == GP_OK || status == GP_INTERRUPTED) && length == 0;
    case GP_GUARD_ASK: return length == sizeof(gp_delivery_question);
    case GP_GUARD_ANSWER: return length == sizeof(gp_delivery_answer);
    case GP_GUARD_TIMEOUT: return length == sizeof(double);
    case GP_GUARD_KINDS: break;
    }
    return false;
}

gp_guard_found gp_guard_next(const gp_guard_input *input, gp_guard_message *out) {
    const unsigned char *at = input->bytes;
    if (input->filled < GP_GUARD_HEADER) return GP_GUARD_NOTHING;
    size_t length = (size_t)at[4] | (size_t)at[5] << 8 | (size_t)at[6] << 16 | (size_t)at[7] << 24;
    if (!is_possible((gp_guard_kind)at[0], at[1], length)) return GP_GUARD_GARBAGE;
    if (input->filled < GP_GUARD_HEADER + length) return GP_GUARD_NOTHING;
    *out = (gp_guard_message){.kind = (gp_guard_kind)at[0],
                              .status = at[1],
                              .rank = at[2] | at[3] << 8,
                              .length = length,
                              .text = at + GP_GUARD_HEADER};
    if (out->kind != GP_GUARD_TIMEOUT) return GP_GUARD_MESSAGE;
    double seconds = gp_guard_read_timeout(out);
    return seconds > 0 && seconds <= GP_GUARD_MOST_SECONDS ? GP_GUARD_MESSAGE : GP_GUARD_GARBAGE; /* or a NaN */
}

double gp_guard_read_timeout(const gp_guard_message *message) {
    double seconds;
    memcpy(&seconds, message->text, sizeof seconds);
    return seconds;
}

void gp_guard_drop(gp_guard_input *input, const gp_guard_message *message) {
    input->filled -= GP_GUARD_HEADER + message->length;
    memmove(input->bytes, input->bytes + GP_GUARD_HEADER + message->length, input->filled);
}

void gp_guard_read_cause(const gp_guard_message *message, gp_error *out) {
    out->status = (gp_status)message->status;
    memcpy(out->text, message->text, message->length);
    out->text[message->length] = '\0';
    gp_make_printable(out->text);
}
