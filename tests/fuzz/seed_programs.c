/* Writes seeds for fuzz_program_text into the folder that the argument names: GPipe's programs of small sizes. */
#include <stdio.h>
#include <stdlib.h>

#include "fuzz/fuzz.h"
#include "fuzz/fuzz_stages.h"
#include "schedule/emit.h"
#include "schedule/slots.h"

static void write_seed(const char *folder, const gp_emit_request *request) {
    gp_error err = {0};
    gp_programs *programs = NULL;
    char *text = NULL, path[4096];
    FUZZ_PROMISE(gp_programs_emit(request, &programs, &err) == GP_OK);
    FUZZ_PROMISE(gp_slots_assign(request->stages, programs, NULL, &err) == GP_OK);
    FUZZ_PROMISE(gp_programs_write(programs, &text, &err) == GP_OK);
    snprintf(path, sizeof path, "%s/s%d-m%d-c%d-l%d-t%d", folder, request->stages->count, request->pieces.count,
             request->checkpoint, request->lockstep, request->training);
    FILE *file = fopen(path, "w");
    FUZZ_PROMISE(file && fputs(text, file) >= 0 && fclose(file) == 0);
    gp_programs_destroy(&programs);
    free(text);
}

int main(int argc, char **argv) {
    FUZZ_PROMISE(argc == 2);
    for (int stages = 1; stages <= FUZZ_MOST_STAGES; stages++)
        for (int pieces = 1; pieces <= 3; pieces++)
            for (int i = 0; i < 12; i++) {
                gp_emit_request request = {.stages = fuzz_stages(stages),
                                           .pieces = {.count = pieces},
                                           .checkpoint = (gp_checkpoint_mode)(i % 3),
                                           .lockstep = i / 3 % 2,
                                           .training = i / 6};
                write_seed(argv[1], &request);
            }
    return 0;
}
