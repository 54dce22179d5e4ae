/* What process 0 and the others send one another, and whether it can be of this plan.
 *
 * Pure functions of bytes that have come: nothing that another process says is used before it is checked here. Any
 * thread. */
#ifndef GP_PIPELINE_TEAM_MESSAGES_H
#define GP_PIPELINE_TEAM_MESSAGES_H

#include "pipeline/diagnose.h"
#include "plan/plan.h"

typedef enum gp_call_kind {
    GP_CALL_STEP,
    GP_CALL_DIAGNOSE,
    GP_CALL_READ,
    GP_CALL_WRITE,
    GP_CALL_SQUARES,
    GP_CALL_REFRESH,
    GP_CALL_ASK,   /* gp_run_ask */
    GP_CALL_END,   /* the run is over */
    GP_CALL_NEXT,  /* it goes on with the next configuration */
    GP_CALL_COUNT, /* gp_run_count */
    GP_CALLS
} gp_call_kind;

enum { GP_CALL_RECORDS = 1, GP_CALL_TICKS = 2, GP_CALL_ALIGNS = 4 }; /* flags of a call */

/* A message. Machines of one run have one order of bytes, since they run the same program. */
typedef struct gp_call {
    uint32_t kind, flags;
    int32_t mini, count;
    uint64_t seed;
    uint32_t step, unused;
    int64_t epoch, index;
    double rate, divisor;
} gp_call;

/* One entry of READ and WRITE. */
typedef struct gp_call_entry {
    int32_t param, state;
} gp_call_entry;

/* The first tensor that is not finite, as a message: gp_finding without types that some bytes are not of. */
typedef struct gp_finding_message {
    int32_t found, backward, turn, micro, node, role, index, first;
    int64_t bad, elements;
} gp_finding_message;

/* How an answer went. */
typedef struct gp_answer {
    int32_t status;
    char text[GP_ERROR_TEXT];
} gp_answer;

/* The most tensors that a call can list. */
int gp_team_entries(const gp_plan *plan);
/* GP_INTERNAL: no process 0 with this plan calls for that. */
GP_MUST_USE gp_status gp_call_check(const gp_plan *plan, const gp_call *call, gp_error *err);
GP_MUST_USE gp_status gp_call_entry_check(const gp_plan *plan, const gp_call_entry *entry, gp_error *err);
gp_finding_message gp_finding_pack(const gp_finding *finding);
/* False: nothing was found, or nothing that this plan has. */
bool gp_finding_unpack(const gp_plan *plan, const gp_finding_message *from, gp_finding *out);
gp_answer gp_answer_pack(const gp_error *how);
/* What process `from` says of itself; GP_OK: it has done what it was asked for. */
void gp_answer_unpack(const gp_answer *its, int from, gp_error *out);

#endif
