/* --predict: what a trained model makes of the evaluation data, as a safetensors file.
 *
 * Tensor `y` [samples, …] is what the loss would be given (logits for cross_entropy and bce_logits), in evaluation
 * mode, in the order of the data and in PyTorch's layout. It is written as it comes, so that memory holds one
 * mini-batch, and stands whole or not at all. Called by one thread, which becomes the one that calls gp_run_*.
 */
#ifndef GP_TRAIN_PREDICT_H
#define GP_TRAIN_PREDICT_H

#include <signal.h>
#include <stddef.h>

#include "base/status.h"
#include "session/session.h"
#include "train/progress.h"

typedef struct gp_predict_options {
    const char *path;
    gp_verbosity verbosity;
    const volatile sig_atomic_t *stop; /* not 0: end after the current mini-batch, and write nothing; may be NULL */
} gp_predict_options;

/* The session was opened with weights. GP_USAGE where the file is one that the configuration names, or is there and
 * not such a file as this writes; GP_INTERRUPTED: it was asked to stop. */
GP_MUST_USE gp_status gp_predict(gp_session *session, const gp_predict_options *options, gp_error *err);

#endif
