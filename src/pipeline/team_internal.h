/* What process 0 and the others share of their calls: the messages, and what they are counted by.
 *
 * Of pipeline/team.c, which calls, and pipeline/follow.c, which obeys. The trainer's thread of each process. */
#ifndef GP_PIPELINE_TEAM_INTERNAL_H
#define GP_PIPELINE_TEAM_INTERNAL_H

#include "pipeline/team.h"
#include "pipeline/team_messages.h"

typedef enum gp_team_tag {
    GP_TAG_CALL,
    GP_TAG_LIST,
    GP_TAG_BLOCK,
    GP_TAG_REPORT,
    GP_TAG_FINDING,
    GP_TAG_SPANS,
    GP_TAG_TICKS,
    GP_TAG_CLOCK,
    GP_TAG_ANSWER,
    GP_TAG_COUNT,
    GP_TEAM_TAGS
} gp_team_tag;
enum {
    GP_ALIGN_ROUNDS = 32,             /* messages there and back with each of the others */
    GP_ALIGN_NANOSECONDS = 1000000000 /* between two alignments: clocks drift by some microseconds meanwhile */
};

/* What goes to one of the others. */
typedef struct gp_outgoing {
    gp_parcel head, list;
    gp_call call;
} gp_outgoing;

struct gp_team {
    uint32_t tags; /* the first */
    uint64_t calls;
    gp_outgoing *to; /* [process] */
    gp_call_entry *entries;
    gp_recorder *recorder; /* of a process that follows */
    bool over;             /* process 0 has called for the end */
    int64_t *offsets;      /* [process] its clock less that of process 0; NULL: not known yet */
    uint64_t aligned;      /* when that was found out (gp_clock) */
};

static inline uint32_t gp_team_tag_of(const gp_run *run, gp_team_tag which) {
    return run->team->tags + (uint32_t)which;
}
/* Spans and ticks of a worker in a mini-batch. */
size_t gp_team_spans(const gp_run *run, int mini, int worker);
size_t gp_team_ticks(const gp_run *run, int mini, int worker);
/* Another process: answers process 0, which aligns the clocks. */
GP_MUST_USE gp_status gp_team_tell_clock(gp_run *run, gp_error *err);

#endif
