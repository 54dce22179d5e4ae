/* The text form of programs:
 *
 *   programs workers=2 stages=2 micro_batches=3 training descending on=0,1
 *   worker 0:
 *   load s0 m0 stash=0 @0
 *   F s0 m0 stash=0 outbox=0 @0
 *   send s0 m0 e0 slot=0 @0
 *   post s0 c0 @3
 *
 * Older texts have pieces= for micro_batches=. `on` is the worker of each stage, @ the clock. What is 0 may be left
 * out, but for stage, micro-batch, edge and collective.
 */
#include "schedule/program.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text_stream.h"
#include "schedule/order.h"

/* X(suffix, text before the number, highest number, what it is, member of gp_instr) */
#define FIELD_MAP(X)                                                                                                   \
    X(STAGE, "s", GP_MAX_STAGES - 1, "the stage", stage)                                                               \
    X(MICRO, "m", GP_MAX_MICRO_BATCHES - 1, "the micro-batch", micro)                                                  \
    X(EDGE, "e", UINT32_MAX, "the edge", edge)                                                                         \
    X(COLLECTIVE, "c", UINT32_MAX, "the collective", collective)                                                       \
    X(STASH, "stash=", UINT16_MAX, "the stash slot", slot)                                                             \
    X(SLOT, "slot=", UINT16_MAX, "the slot", slot)                                                                     \
    X(SAVED, "saved=", UINT16_MAX, "the saved slot", work)                                                             \
    X(OUTBOX, "outbox=", UINT16_MAX, "the outbox slot", work)                                                          \
    X(GRAD, "grad=", UINT16_MAX, "the gradient slot", grad)                                                            \
    X(CLOCK, "@", UINT32_MAX, "the clock", clock)

enum {
#define FIELD_ENUM(suffix, ...) FIELD_##suffix,
    FIELD_MAP(FIELD_ENUM)
#undef FIELD_ENUM
        FIELDS
};

static const struct {
    const char *prefix;
    uint32_t highest;
    const char *what;
    size_t at; /* in gp_instr: 16 bits, or 32 if the number needs them */
} fields[FIELDS] = {
#define FIELD_ROW(suffix, prefix, highest, what, member) {prefix, highest, what, offsetof(gp_instr, member)},
    FIELD_MAP(FIELD_ROW)
#undef FIELD_ROW
};

static const struct {
    const char *name;
    uint8_t flag;
} flag_names[] = {{"keep", GP_INSTR_KEEP}, {"first", GP_INSTR_FIRST}, {"last", GP_INSTR_LAST}};
enum { FLAG_NAMES = sizeof flag_names / sizeof *flag_names };

#define BIT(suffix) (1U << FIELD_##suffix)

/* The field that shows the slot of a frame, if no edge decides which frame it is. */
static const unsigned frame_bits[GP_FRAMES] = {BIT(STASH), BIT(SAVED), BIT(OUTBOX), BIT(GRAD)};
static const unsigned needed_fields = BIT(STAGE) | BIT(MICRO) | BIT(EDGE) | BIT(COLLECTIVE);

/* The fields of an operation, with the flag keep or without it. */
static unsigned fields_with(uint8_t op, bool keep) {
    const gp_instr_row *row = &gp_instr_rows[op];
    unsigned its = BIT(STAGE) | BIT(CLOCK) | (row->traits & GP_HAS_MICRO ? BIT(MICRO) : 0);
    if (row->traits & GP_HAS_EDGE) return its | BIT(EDGE) | BIT(SLOT);
    if (row->traits & GP_HAS_COLLECTIVE) return its | BIT(COLLECTIVE);
    for (int f = 0; f < GP_FRAMES; f++)
        if (row->slots[keep ? GP_ACCESS_KEEP : GP_ACCESS_PLAIN].frame[f].uses) its |= frame_bits[f];
    return its;
}

static unsigned fields_of(const gp_instr *instr) {
    return fields_with(instr->op, instr->flags & GP_INSTR_KEEP);
}

static unsigned fields_of_op(uint8_t op) {
    return fields_with(op, false) | (gp_instr_rows[op].flags & GP_INSTR_KEEP ? fields_with(op, true) : 0);
}

static uint32_t get_field(const gp_instr *instr, int field) {
    const void *at = (const char *)instr + fields[field].at;
    return fields[field].highest > UINT16_MAX ? *(const uint32_t *)at : *(const uint16_t *)at;
}

static void set_field(gp_instr *instr, int field, uint32_t value) {
    void *at = (char *)instr + fields[field].at;
    if (fields[field].highest > UINT16_MAX)
        *(uint32_t *)at = value;
    else
        *(uint16_t *)at = (uint16_t)value;
}

/* Whether the text would read back to the same bytes: no field is used that the operation does not have. */
static bool has_text(const gp_instr *instr) {
    if (instr->op >= GP_INSTR_OPS || (instr->flags & ~gp_instr_rows[instr->op].flags)) return false;
    gp_instr shown = {.op = instr->op, .flags = instr->flags};
    for (int f = 0; f < FIELDS; f++) {
        if (!(fields_of(instr) & 1U << f)) continue;
        if (get_field(instr, f) > fields[f].highest) return false;
        set_field(&shown, f, get_field(instr, f));
    }
    return memcmp(&shown, instr, sizeof shown) == 0;
}

static void write_instr(FILE *file, const gp_instr *instr) {
    fputs(gp_instr_op_name(instr->op), file);
    for (int f = 0; f < FIELDS; f++) {
        if (f == FIELD_CLOCK)
            for (int i = 0; i < FLAG_NAMES; i++)
                if (instr->flags & flag_names[i].flag) fprintf(file, " %s", flag_names[i].name);
        if (fields_of(instr) & 1U << f) fprintf(file, " %s%" PRIu32, fields[f].prefix, get_field(instr, f));
    }
    fputc('\n', file);
}

static gp_status write_all(FILE *file, const gp_programs *programs, gp_error *err) {
    fprintf(file, "programs workers=%d stages=%d micro_batches=%d", programs->workers, programs->stages,
            programs->pieces);
    if (programs->piece > 0) fprintf(file, " samples=%" PRId64 " last=%" PRId64, programs->piece, programs->last);
    fprintf(file, " %s %s on=", programs->training ? "training" : "evaluation",
            programs->descending ? "descending" : "ascending");
    for (int s = 0; s < programs->stages; s++) fprintf(file, "%s%d", s ? "," : "", gp_programs_worker(programs, s));
    fputc('\n', file);
    for (int w = 0; w < programs->workers; w++) {
        const gp_program *program = &programs->worker[w];
        fprintf(file, "worker %d:\n", w);
        for (size_t pc = 0; pc < program->count; pc++) {
            const gp_instr *instr = &program->instrs[pc];
            char text[GP_INSTR_TEXT];
            if (!has_text(instr))
                return gp_fail(err, GP_PROGRAM,
                               "worker %d, instruction %zu (%s): has a flag or a field that its operation does not use",
                               w, pc, gp_instr_text(text, instr));
            write_instr(file, instr);
        }
    }
    return GP_OK;
}

gp_status gp_programs_write(const gp_programs *programs, char **out, gp_error *err) {
    gp_text_stream stream;
    GP_RETURN_IF_FAILED(gp_text_begin(&stream, "the text of the programs", err));
    return gp_text_end(&stream, write_all(stream.file, programs, err), out, err);
}

typedef struct reader {
    const char *at, *line_start;
    gp_place place; /* of the current token */
    gp_programs *programs;
    int workers_seen;
} reader;

typedef struct token {
    const char *text;
    size_t length;
} token;

/* For messages: no control characters, and not more of it than a person reads. */
enum { SHOWN_BYTES = 40 };
typedef struct shown {
    char text[SHOWN_BYTES + 1];
} shown;

static shown show(token t) {
    shown it = {{0}};
    for (size_t i = 0; i < t.length && i < SHOWN_BYTES; i++)
        it.text[i] = isprint((unsigned char)t.text[i]) ? t.text[i] : '?';
    return it;
}

static bool token_is(token t, const char *text) {
    return t.length == strlen(text) && memcmp(t.text, text, t.length) == 0;
}

/* The next token of the line; false at the end of it. The place moves there either way. */
static bool next_token(reader *r, token *out) {
    while (*r->at == ' ' || *r->at == '\t' || *r->at == '\r') r->at++;
    r->place.column = (int)(r->at - r->line_start) + 1;
    size_t length = strcspn(r->at, " \t\r\n#");
    *out = (token){r->at, length};
    r->at += length;
    return length > 0;
}

/* Whether the next token of the line begins with the text; reads nothing. */
static bool next_begins(const reader *r, const char *text) {
    return strncmp(r->at + strspn(r->at, " \t\r"), text, strlen(text)) == 0;
}

static void next_line(reader *r) {
    r->at += strcspn(r->at, "\n");
    if (*r->at == '\n') r->at++;
    r->line_start = r->at;
    r->place.line++;
}

static gp_status end_line(reader *r, const char *after, gp_error *err) {
    token t;
    if (!next_token(r, &t)) return GP_OK;
    return gp_fail_at(err, GP_CONFIG, r->place, "unexpected \"%s\" after %s", show(t).text, after);
}

/* Digits from *at to `end`; stops behind them. */
static bool read_number(const char **at, const char *end, uint32_t highest, uint32_t *out) {
    const char *begin = *at;
    uint64_t value = 0;
    for (; *at < end && **at >= '0' && **at <= '9'; ++*at) {
        value = value * 10 + (uint64_t)(**at - '0');
        if (value > highest) return false;
    }
    *out = (uint32_t)value;
    return *at > begin;
}

/* "workers=2" → 2, from lowest to highest. */
static gp_status read_setting(reader *r, const char *prefix, uint32_t highest, int *out, gp_error *err) {
    token t;
    next_token(r, &t);
    size_t length = strlen(prefix);
    uint32_t value = 0;
    const char *digits = t.text + length, *end = t.text + t.length;
    /* Before the first setting, this may be any file that begins with "programs": its text is not shown. */
    if (t.length <= length || memcmp(t.text, prefix, length) != 0 || !read_number(&digits, end, highest, &value) ||
        digits != end || value < 1) {
        bool shows = strcmp(prefix, "workers=") != 0;
        return gp_fail_at(err, GP_CONFIG, r->place, "expected %s and a number from 1 to %" PRIu32 "%s%s%s", prefix,
                          highest, shows ? ", not \"" : "", shows ? show(t).text : "", shows ? "\"" : "");
    }
    *out = (int)value;
    return GP_OK;
}

static gp_status read_choice(reader *r, const char *yes, const char *no, bool *out, gp_error *err) {
    token t;
    next_token(r, &t);
    *out = token_is(t, yes);
    if (*out || token_is(t, no)) return GP_OK;
    return gp_fail_at(err, GP_CONFIG, r->place, "expected %s or %s, not \"%s\"", yes, no, show(t).text);
}

/* "on=0,1,1": as many workers as there are stages. */
static gp_status read_map(reader *r, int workers, int stages, int *worker_of_stage, gp_error *err) {
    token t;
    next_token(r, &t);
    if (t.length < 3 || memcmp(t.text, "on=", 3) != 0)
        return gp_fail_at(err, GP_CONFIG, r->place, "expected on= and the worker of each stage, not \"%s\"",
                          show(t).text);
    const char *at = t.text + 3, *end = t.text + t.length;
    for (int s = 0; s < stages; s++) {
        uint32_t worker;
        r->place.column = (int)(at - r->line_start) + 1;
        if (!read_number(&at, end, (uint32_t)workers - 1, &worker))
            return gp_fail_at(err, GP_CONFIG, r->place, "expected the worker of stage %d, a number from 0 to %d", s,
                              workers - 1);
        worker_of_stage[s] = (int)worker;
        if (s + 1 < stages && at < end && *at == ',') at++;
    }
    r->place.column = (int)(at - r->line_start) + 1;
    if (at != end)
        return gp_fail_at(err, GP_CONFIG, r->place, "on= has more than %d workers: one for each stage", stages);
    for (int w = 0, s; w < workers; w++) {
        for (s = 0; s < stages && worker_of_stage[s] != w; s++) {}
        if (s == stages)
            return gp_fail_at(err, GP_CONFIG, r->place, "worker %d has no stage: each worker needs at least one", w);
    }
    return end_line(r, "on=", err);
}

/* Of micro-batches, if stages have replicas. */
static gp_status read_samples(reader *r, int *samples, int *last, gp_error *err) {
    if (!next_begins(r, "samples=")) return GP_OK;
    GP_RETURN_IF_FAILED(read_setting(r, "samples=", INT32_MAX, samples, err));
    return read_setting(r, "last=", (uint32_t)*samples, last, err);
}

static gp_status read_header(reader *r, gp_error *err) {
    int workers = 0, stages = 0, pieces = 0, samples = 0, last = 0;
    bool training = false, descending = false;
    GP_RETURN_IF_FAILED(read_setting(r, "workers=", GP_MAX_STAGES, &workers, err));
    GP_RETURN_IF_FAILED(read_setting(r, "stages=", GP_MAX_STAGES, &stages, err));
    if (workers > stages)
        return gp_fail_at(err, GP_CONFIG, r->place,
                          "%d workers are too many for %d stages: each worker needs at least one", workers, stages);
    const char *name = next_begins(r, "pieces=") ? "pieces=" : "micro_batches=";
    GP_RETURN_IF_FAILED(read_setting(r, name, GP_MAX_MICRO_BATCHES, &pieces, err));
    GP_RETURN_IF_FAILED(read_samples(r, &samples, &last, err));
    GP_RETURN_IF_FAILED(read_choice(r, "training", "evaluation", &training, err));
    GP_RETURN_IF_FAILED(read_choice(r, "descending", "ascending", &descending, err));
    int *worker_of_stage = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&worker_of_stage, stages, err));
    gp_status status = read_map(r, workers, stages, worker_of_stage, err);
    if (status == GP_OK)
        status = gp_programs_create(workers, worker_of_stage, stages, pieces, training, descending, &r->programs, err);
    free(worker_of_stage);
    if (status != GP_OK) return status;
    r->programs->piece = samples;
    r->programs->last = last;
    return GP_OK;
}

static gp_status read_worker(reader *r, gp_error *err) {
    token t;
    next_token(r, &t);
    uint32_t number;
    const char *at = t.text, *end = t.text + t.length;
    bool known = read_number(&at, end, GP_MAX_STAGES, &number) && at + 1 == end && *at == ':';
    if (r->workers_seen == r->programs->workers)
        return gp_fail_at(err, GP_CONFIG, r->place, "there are only %d workers", r->programs->workers);
    if (!known || number != (uint32_t)r->workers_seen)
        return gp_fail_at(err, GP_CONFIG, r->place, "expected \"%d:\", not \"%s\": workers must be in order",
                          r->workers_seen, show(t).text);
    r->workers_seen++;
    return end_line(r, "a worker's number", err);
}

/* One "s1", "stash=2" or "@3"; fields seen so far are in *seen. False: it is none. */
static bool find_field(token t, int *field, const char **digits) {
    for (int f = 0; f < FIELDS; f++) {
        size_t length = strlen(fields[f].prefix);
        if (t.length <= length || memcmp(t.text, fields[f].prefix, length) != 0) continue;
        if (!isdigit((unsigned char)t.text[length])) continue;
        *field = f;
        *digits = t.text + length;
        return true;
    }
    return false;
}

static gp_status read_field(reader *r, token t, gp_instr *instr, unsigned *seen, gp_error *err) {
    int field = 0;
    const char *digits = NULL, *end = t.text + t.length;
    if (!find_field(t, &field, &digits) || !(fields_of_op(instr->op) & 1U << field))
        return gp_fail_at(err, GP_CONFIG, r->place, "\"%s\" is not a field or flag of %s", show(t).text,
                          gp_instr_op_name(instr->op));
    if (*seen & 1U << field)
        return gp_fail_at(err, GP_CONFIG, r->place, "\"%s\" sets %s a second time", show(t).text, fields[field].what);
    uint32_t value;
    if (!read_number(&digits, end, fields[field].highest, &value) || digits != end)
        return gp_fail_at(err, GP_CONFIG, r->place, "\"%s\": %s must be a number from 0 to %" PRIu32, show(t).text,
                          fields[field].what, fields[field].highest);
    set_field(instr, field, value);
    *seen |= 1U << field;
    return GP_OK;
}

static gp_status read_flag(reader *r, token t, gp_instr *instr, bool *found, gp_error *err) {
    *found = false;
    for (int i = 0; i < FLAG_NAMES; i++) {
        if (!token_is(t, flag_names[i].name) || !(gp_instr_rows[instr->op].flags & flag_names[i].flag)) continue;
        if (instr->flags & flag_names[i].flag)
            return gp_fail_at(err, GP_CONFIG, r->place, "\"%s\" occurs twice", flag_names[i].name);
        instr->flags = (uint8_t)(instr->flags | flag_names[i].flag);
        *found = true;
    }
    return GP_OK;
}

static gp_status read_instr(reader *r, token name, gp_error *err) {
    gp_instr instr = {0};
    while (instr.op < GP_INSTR_OPS && !token_is(name, gp_instr_op_name(instr.op))) instr.op++;
    if (instr.op == GP_INSTR_OPS)
        return gp_fail_at(err, GP_CONFIG, r->place, "unknown instruction \"%s\"", show(name).text);
    if (r->workers_seen == 0)
        return gp_fail_at(err, GP_CONFIG, r->place, "expected \"worker 0:\" before the first instruction");
    unsigned seen = 0;
    gp_place place = r->place;
    for (token t; next_token(r, &t);) {
        bool flag;
        GP_RETURN_IF_FAILED(read_flag(r, t, &instr, &flag, err));
        if (!flag) GP_RETURN_IF_FAILED(read_field(r, t, &instr, &seen, err));
    }
    unsigned missing = fields_of_op(instr.op) & needed_fields & ~seen;
    for (int f = 0; f < FIELDS; f++)
        if (missing & 1U << f)
            return gp_fail_at(err, GP_CONFIG, place, "%s needs %s, such as \"%s0\"", gp_instr_op_name(instr.op),
                              fields[f].what, fields[f].prefix);
    if (seen & ~fields_of(&instr))
        return gp_fail_at(err, GP_CONFIG, place, "F with keep has a saved slot, F without keep has an outbox slot");
    gp_program *program = &r->programs->worker[r->workers_seen - 1];
    GP_RETURN_IF_FAILED(GP_GROW(&program->lines, &program->lines_capacity, program->count + 1, err));
    program->lines[program->count] = (uint32_t)place.line;
    return gp_program_add(program, instr, err);
}

static gp_status read_line(reader *r, gp_error *err) {
    token t;
    if (!next_token(r, &t)) return GP_OK;
    if (!r->programs) {
        if (token_is(t, "programs")) return read_header(r, err);
        return gp_fail_at(err, GP_CONFIG, r->place, "expected a header that begins with \"programs\"");
    }
    return token_is(t, "worker") ? read_worker(r, err) : read_instr(r, t, err);
}

gp_status gp_programs_read(const char *text, const char *name, gp_programs **out, gp_error *err) {
    reader r = {.at = text, .line_start = text, .place = {name, 1, 1}};
    if (strlen(text) > INT_MAX - 1)
        return gp_fail_at(err, GP_CONFIG, (gp_place){name, 0, 0}, "the programs are larger than 2 GiB");
    gp_status status = GP_OK;
    while (status == GP_OK && *r.at) {
        status = read_line(&r, err);
        if (status == GP_OK) next_line(&r);
    }
    if (status == GP_OK) r.place.column = (int)(r.at - r.line_start) + 1;
    if (status == GP_OK && r.programs) status = gp_copy_text(&r.programs->source, name, err);
    if (status == GP_OK && !r.programs)
        status = gp_fail_at(err, GP_CONFIG, r.place, "there are no programs: the text is empty");
    else if (status == GP_OK && r.workers_seen < r.programs->workers)
        status = gp_fail_at(err, GP_CONFIG, r.place, "the text ends before worker %d", r.workers_seen);
    if (status != GP_OK) {
        gp_programs_destroy(&r.programs);
        return status;
    }
    *out = r.programs;
    return GP_OK;
}
