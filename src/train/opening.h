/* The opening of a run of several processes: what process 0 tells the others before the first step.
 *
 * Process 0 has read the configuration and has chosen all that was left to choose. It sends the resolved configuration
 * and the sizes of the data; and for each configuration that comes to hold in the run, its balance and the identity of
 * its plan. The others make the same plan from that. What has come is checked (train/opening_check.h), and the text is
 * read as any other configuration. The main thread of each process. */
#ifndef GP_TRAIN_OPENING_H
#define GP_TRAIN_OPENING_H

#include "profile/profile.h"
#include "train/opening_check.h"
#include "train/trainer_internal.h"

/* Tags of messages before a run. */
enum {
    GP_OPENING_HEAD,
    GP_OPENING_TEXT,
    GP_OPENING_PHASE,
    GP_OPENING_EXPECTED,
    GP_OPENING_LINKS,
    GP_OPENING_FILE,
    GP_OPENING_ADDRESSES
};

/* All processes, before anything else: each looks for the configuration's file. GP_CONFIG, in process 0: another one
 * has a file of that name with other bytes. One that has no such file, or cannot read it, needs none. */
GP_MUST_USE gp_status gp_opening_compare_file(gp_processes *processes, const char *path, gp_error *err);

/* Process 0, after its configuration is resolved. Nothing for a run that is alone. */
GP_MUST_USE gp_status gp_opening_send(gp_trainer *t, gp_error *err);
/* Process 0, in place of an opening: there is nothing to run. */
GP_MUST_USE gp_status gp_opening_decline(gp_processes *processes, gp_error *err);
/* Process 0, before the opening: the others measure links with it (profile/link_times.h), and tell the bus addresses of
 * their GPUs. What was asked once is not asked again. */
typedef struct gp_opening_helpers {
    gp_processes *processes; /* borrowed */
    bool measured;
    gp_profile_link found[GP_LINK_KINDS];
    gp_bus_addresses *addresses; /* [process]; owned; NULL: not asked yet */
} gp_opening_helpers;
/* For a session; as long as `others` is there. */
gp_helpers gp_opening_help(gp_opening_helpers *others);
void gp_opening_helpers_fini(gp_opening_helpers *others);
/* The others; they help before, if process 0 asks that. text NULL: there is nothing to run.
 * GP_UNSUPPORTED: process 0 runs another version of the program. */
GP_MUST_USE gp_status gp_opening_receive(gp_processes *processes, gp_opening *out, gp_error *err);
/* Process 0, when the plan of a configuration is made: after the opening, and after each change. */
GP_MUST_USE gp_status gp_phase_send(gp_trainer *t, gp_error *err);
GP_MUST_USE gp_status gp_phase_receive(gp_processes *processes, gp_phase *out, gp_error *err);
/* GP_INTERNAL: the plans differ. GP_UNSUPPORTED: a stage has replicas, and the processes compute with different
 * libraries or instruction sets, so that replicas could differ in their last bits. */
GP_MUST_USE gp_status gp_phase_check(const gp_phase *phase, const gp_opening *opening, const gp_plan *plan,
                                     gp_error *err);

#endif
