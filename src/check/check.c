#include "check/check.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/printable.h"
#include "check/facts.h"

/* ---- one program ------------------------------------------------------------------------------------------------ */

static void count(const gp_claim *claim, const gp_claim_program *program, gp_certificate *out) {
    for (size_t w = 0; w < claim->worker_count; w++)
        for (size_t pc = 0; pc < program->worker[w].count; pc++) {
            gp_claim_op op = program->worker[w].instrs[pc].op;
            out->instructions++;
            out->passes += op >= GP_CLAIM_F && op <= GP_CLAIM_W;
            out->copies += op == GP_CLAIM_SEND;
            out->sums += op == GP_CLAIM_B || op == GP_CLAIM_W;
        }
}

static gp_status check_program(const gp_claim *claim, const gp_claim_program *program, gp_certificate *out,
                               gp_error *err) {
    gp_facts facts;
    gp_freed freed = {0};
    char name[64];
    gp_status status = gp_facts_init(&facts, claim, program, err);
    if (status == GP_OK) status = gp_check_presence(&facts);
    if (status == GP_OK) {
        status = gp_happens_create(claim, program, NULL, 0, true, &facts.order, err);
        if (status == GP_PROGRAM) status = gp_error_context(err, "%s: ", gp_program_name(program, name));
    }
    if (status == GP_OK) status = gp_check_order(&facts);
    if (status == GP_OK && claim->slots) status = gp_check_lives(&facts, &freed, &out->lives);
    if (status == GP_OK) status = gp_check_memory(&facts, out->peak);
    if (status == GP_OK) status = gp_check_links(&facts, &freed, out->queued, out->blocking);
    if (status == GP_OK) count(claim, program, out);
    free(freed.items);
    gp_facts_fini(&facts);
    return status;
}

gp_status gp_check(const gp_claim *claim, gp_certificate *out, gp_error *err) {
    *out = (gp_certificate){.peak = NULL};
    gp_status status = GP_NEW(&out->peak, claim->worker_count, err);
    for (size_t w = 0; w < claim->worker_count && status == GP_OK; w++) out->peak[w] = -1;
    if (status == GP_OK) status = gp_check_layers(claim, err);
    if (status == GP_OK && claim->members) status = gp_check_members(claim, err);
    if (status == GP_OK && claim->slots) status = gp_check_regions(claim, err);
    for (size_t p = 0; p < claim->program_count && status == GP_OK; p++)
        status = check_program(claim, &claim->programs[p], out, err);
    if (status == GP_PROGRAM) gp_error_context(err, "%s: ", claim->path);
    if (status != GP_OK) gp_certificate_fini(out);
    return status;
}

void gp_certificate_fini(gp_certificate *certificate) {
    free(certificate->peak);
    certificate->peak = NULL;
}

/* ---- the certificate -------------------------------------------------------------------------------------------- */

static const char *of_many(size_t count, const char *one, char text[64]) {
    snprintf(text, 64, "%zu %s%s", count, one, count == 1 ? "" : "s");
    return text;
}

static void write_deadlock(const char *why, const char *condition, FILE *out) {
    fprintf(out, "             %s if %s\n", why[0] ? "one" : "none", condition);
    if (why[0]) gp_print(out, "             (%s)\n", why);
}

static bool has_replicas(const gp_claim *claim) {
    for (size_t s = 0; s < claim->stage_count; s++)
        if (claim->stages[s].replicas > 1) return true;
    return false;
}

void gp_certificate_write(const gp_claim *claim, const gp_certificate *certificate, FILE *out) {
    char a[64], b[64], c[64], bytes[32];
    size_t train = 0;
    for (size_t p = 0; p < claim->program_count; p++) train += claim->programs[p].training;
    gp_print(out, "checked      %s: %s, of which %zu train%s; %s, %s\n", claim->name,
             of_many(claim->program_count, "program", a), train, train == 1 ? "s" : "",
             of_many(claim->worker_count, "worker", b), of_many(certificate->instructions, "instruction", c));
    fprintf(out, "layers       %d, each on one of %d stages\n", claim->layers[claim->layer_count - 1].layer + 1,
            claim->stages[claim->stage_count - 1].number + 1);
    fprintf(out, "passes       %zu: each F, and in training each B, or I and W, once for each micro-batch and stage\n",
            certificate->passes);
    fprintf(out, "copies       %zu, each sent once and received once\n", certificate->copies);
    fprintf(out, "order        nothing is read before it is written\n");
    fprintf(out,
            "gradients    %s: each micro-batch once on each stage, in one order; the micro-batches add up to the "
            "mini-batch%s\n",
            of_many(certificate->sums, "sum", a),
            claim->members && has_replicas(claim) ? "; each bucket once of each replica" : "");
    if (claim->slots)
        fprintf(out,
                "slots        %zu lives: no two in one slot at a time\nmemory       no buffer lies over another one\n",
                certificate->lives);
    for (size_t w = 0; w < claim->worker_count; w++)
        if (certificate->peak[w] >= 0)
            gp_print(out, "%s%zu has at most %s (%" PRId64 " bytes) in use\n",
                     w ? "             worker " : "peak         worker ", w,
                     gp_bytes_text(bytes, (size_t)certificate->peak[w]), certificate->peak[w]);
    fprintf(out, "deadlock     none\n");
    if (claim->slots)
        write_deadlock(certificate->queued,
                       "links are first in, first out, and hold each message until the receiver's slot is free", out);
    write_deadlock(certificate->blocking, "each send blocks its worker until the receive begins", out);
    if (!claim->slots || !claim->members)
        fprintf(out, "not shown    %s%s%s: the file is of an older version\n",
                claim->slots ? "" : "flags, slots and buffers", claim->slots || claim->members ? "" : ", and ",
                claim->members ? "" : "who takes part in collectives");
}
