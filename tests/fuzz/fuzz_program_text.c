/* The text form of programs: what reads writes to a text that reads to the same; validator, slots and player take
 * whatever the text says. As a schedule's file: an order that is accepted makes programs that are right. */
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "fuzz/fuzz_stages.h"
#include "schedule/emit.h"
#include "schedule/schedule_file.h"
#include "schedule/slots.h"
#include "schedule/validate.h"

static void check_round_trip(const gp_programs *programs) {
    gp_error err = {0};
    gp_programs *again = NULL;
    char *first = NULL, *second = NULL;
    FUZZ_PROMISE(gp_programs_write(programs, &first, &err) == GP_OK);
    FUZZ_PROMISE(gp_programs_read(first, "again", &again, &err) == GP_OK);
    FUZZ_PROMISE(gp_programs_write(again, &second, &err) == GP_OK);
    FUZZ_PROMISE(strcmp(first, second) == 0);
    for (int w = 0; w < programs->workers; w++) {
        const gp_program *one = &programs->worker[w], *other = &again->worker[w];
        FUZZ_PROMISE(one->count == other->count);
        FUZZ_PROMISE(one->count == 0 || memcmp(one->instrs, other->instrs, one->count * sizeof *one->instrs) == 0);
    }
    gp_programs_destroy(&again);
    free(first);
    free(second);
}

static void check_schedule(const char *text) {
    gp_error err = {0};
    gp_schedule_file *file = NULL;
    gp_status status = gp_schedule_file_parse(text, "text", NULL, &file, &err);
    fuzz_check(status, &err);
    if (status != GP_OK) return;
    gp_emit_request request = {.stages = fuzz_stages(file->order->stages),
                               .pieces = {.count = file->order->pieces},
                               .checkpoint = GP_CHECKPOINT_EXCEPT_LAST,
                               .training = true,
                               .schedule = {.kind = GP_SCHEDULE_FILE, .file = file}};
    gp_programs *programs = NULL;
    if (request.stages) status = gp_programs_emit(&request, &programs, &err);
    if (programs && status == GP_OK) status = gp_slots_assign(request.stages, programs, NULL, &err);
    if (programs && status == GP_OK) status = gp_programs_validate(request.stages, programs, &err);
    fuzz_check(status, &err);
    if (!file->programs) FUZZ_PROMISE(status == GP_OK);
    gp_programs_destroy(&programs);
    gp_schedule_file_destroy(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    gp_error err = {0};
    gp_programs *programs = NULL;
    char *text = strndup((const char *)bytes, size);
    FUZZ_PROMISE(text);
    check_schedule(text);
    gp_status status = gp_programs_read(text, "text", &programs, &err);
    free(text);
    fuzz_check(status, &err);
    if (status != GP_OK) return 0;
    check_round_trip(programs);
    const gp_stages *stages = fuzz_stages(programs->stages);
    if (stages) {
        status = gp_programs_validate(stages, programs, &err);
        fuzz_check(status, &err);
        if (status == GP_OK) FUZZ_PROMISE(gp_slots_assign(stages, programs, NULL, &err) == GP_OK);
        if (status == GP_OK) FUZZ_PROMISE(gp_programs_validate(stages, programs, &err) == GP_OK);
    }
    gp_programs_destroy(&programs);
    return 0;
}
