/* What process 0 sends before the first step, and whether it could have sent that.
 *
 * Pure functions of bytes that have come: train/opening.h sends and receives them. No size, text or number in them is
 * used before it is checked here. The main thread. */
#ifndef GP_TRAIN_OPENING_CHECK_H
#define GP_TRAIN_OPENING_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"
#include "plan/identity.h"
#include "schedule/order.h"
#include "settings/config.h"
#include "store/folder.h"

/* What process 0 asks before the run. */
typedef enum gp_opening_question {
    GP_OPENING_ASKS_LINKS = 1, /* measures them */
    GP_OPENING_ASKS_ADDRESSES, /* of GPUs */
    GP_OPENING_QUESTIONS
} gp_opening_question;

/* The first message. Machines of one run have one order of bytes, since they run the same program. */
typedef struct gp_opening_head {
    char version[32];
    uint64_t bytes;  /* of the text; 0: there is nothing to run */
    uint64_t asks;   /* a gp_opening_question: process 0 asks that now, and sends another head afterwards; 0: nothing */
    uint64_t shares; /* gp_session_options.shares */
    int64_t samples[2], phase, step;
    uint64_t norms;
    double timeout;
    char libraries[GP_LIBRARIES_TEXT];
    gp_path folder;
} gp_opening_head;

/* What the others got. */
typedef struct gp_opening {
    char *text;         /* the configuration as it runs, YAML; owned */
    gp_path folder;     /* the run's, of process 0 */
    int64_t samples[2]; /* of training and evaluation data */
    int64_t phase;      /* a step of the configuration that holds; 0: the first one */
    int64_t step;       /* that the run has reached */
    bool norms, shares;
    char libraries[GP_LIBRARIES_TEXT]; /* of process 0 */
    double timeout;
} gp_opening;

/* The plan of one configuration. */
typedef struct gp_phase {
    uint64_t identity, parts[GP_IDENTITY_PARTS];
    int count;
    int64_t layers[GP_MAX_STAGES]; /* per stage */
} gp_phase;

/* The version of this program, into the head. */
void gp_opening_set_version(gp_opening_head *head);
/* Ends its texts. GP_UNSUPPORTED: process 0 runs another version of the program. GP_INTERNAL: no process 0 sends that.
 */
GP_MUST_USE gp_status gp_opening_check(gp_opening_head *head, gp_error *err);
/* Of a head that was checked, and its text, which the opening owns from now on; NULL: there is nothing to run. */
void gp_opening_fill(gp_opening *out, const gp_opening_head *head, char *text);
void gp_opening_fini(gp_opening *opening);
/* GP_INTERNAL: no process 0 sends that. */
GP_MUST_USE gp_status gp_phase_check_layers(const gp_phase *phase, gp_error *err);
/* Seconds that instructions should take at the most, as gp_expect_longest has them. GP_INTERNAL: no process 0 sends
 * that.
 */
GP_MUST_USE gp_status gp_expected_check(const double *expected, size_t count, gp_error *err);
/* Gives its balance to the configuration that it is of. GP_MEMORY. */
GP_MUST_USE gp_status gp_phase_apply(const gp_phase *phase, gp_config *config, gp_error *err);

#endif
