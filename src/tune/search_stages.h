/* A checkpoint mode for each stage, and outputs that are kept, such that a cut fits its devices' memory.
 *
 * Part of the search: works on a candidate's session, whose stages all recompute. One thread. */
#ifndef GP_TUNE_SEARCH_STAGES_H
#define GP_TUNE_SEARCH_STAGES_H

#include "session/session.h"

typedef struct gp_stage_policy {
    gp_checkpoint_mode *modes; /* [stage], which replicas have in common; owned */
    bool *keeps;               /* [node] more outputs kept than the layers say; owned */
    gp_plan *plan;             /* NULL: none was found that is another than the session's; owned */
} gp_stage_policy;

/* Each stage gets the cheapest mode for which there is room on its worker: `never`, else `except_last`; what room is
 * left goes to outputs that spare most time (checkpoint/keep.h). Plans decide, to the byte, and what they are over is
 * left free at the next try. A worker's stages are taken in their order. The caller calls gp_stage_policy_fini. */
GP_MUST_USE gp_status gp_search_stages(const gp_session *session, gp_stage_policy *out, gp_error *err);
void gp_stage_policy_fini(gp_stage_policy *policy);
/* As pipeline.checkpoint says it; owned by the caller. */
GP_MUST_USE gp_status gp_stage_policy_text(const gp_session *session, const gp_stage_policy *policy, char **out,
                                           gp_error *err);

#endif
