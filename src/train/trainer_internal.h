/* Inside the trainer: what its files share.
 *
 * It lives on gp_train's stack, which frees what it owns; the trainer's thread only. */
#ifndef GP_TRAIN_TRAINER_INTERNAL_H
#define GP_TRAIN_TRAINER_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "data/loader.h"
#include "pipeline/diagnose.h"
#include "report/account.h"
#include "settings/rate.h"
#include "store/folder.h"
#include "store/held.h"
#include "store/saver.h"
#include "train/lookout.h"
#include "train/trainer.h"

/* A step with what it was begun with; the batch is the loader's. */
typedef struct gp_trainer_work {
    int64_t step; /* 0: none */
    int mini;
    gp_batch batch;
    gp_step_input input;
    double began;        /* seconds of a monotonic clock */
    double data_seconds; /* that the trainer waited for the mini-batch before */
} gp_trainer_work;

typedef struct gp_trainer {
    gp_session *session;
    const gp_train_options *options;
    gp_run *run;
    gp_batch taken; /* the last mini-batch */
    gp_train_lookout lookout;
    gp_loader *training;   /* NULL: nothing is trained */
    gp_loader *evaluation; /* rests between evaluations; NULL: no evaluation data */
    gp_metrics *metrics;
    gp_tracing *tracing; /* NULL: no timeline */
    gp_capture capture;
    gp_account *account; /* NULL: nothing is trained */
    gp_progress progress;
    gp_trainer_work under_way; /* the step after reached.step */
    double ended;              /* when the last step was found to have */
    double data_seconds;       /* that the last gp_trainer_take waited */
    gp_run_length length;
    gp_reached reached; /* samples, steps, due, file_text and libraries are set when a snapshot is taken */
    bool best_differs;  /* best.safetensors was found to be another evaluation's, or gone, when the run was resumed */
    char libraries[GP_LIBRARIES_TEXT]; /* of the run's devices */
    gp_folder_held folder;             /* the run's */
    gp_saver *saver;
    gp_held *held;      /* of a run of several processes, between two configurations */
    int64_t saved;      /* step of the snapshot of where the run is; −1: none */
    double saved_at;    /* when; seconds of a monotonic clock */
    double pause;       /* seconds that the last snapshot held the run up */
    bool short_of_disk; /* for snapshots at about a time: the run takes none, but when it is interrupted */
    bool shared;        /* all processes see the run folder */
    bool weights;       /* the run holds weights worth saving */
    bool interrupted;
    bool told;         /* the run's error names a tensor that cannot be saved */
    bool metrics_told; /* that metrics.jsonl is gone, and cannot be made again */
    bool save_due;     /* the snapshots that stand name the length of a metrics.jsonl that is gone */
} gp_trainer;

/* The run is asked to end. */
bool gp_trainer_stopping(const gp_trainer *t);
/* What a mini-batch of step `step` is run with. */
gp_step_input gp_trainer_input(const gp_trainer *t, const gp_batch *batch, int64_t step);
/* Runs mini-batch plan `mini`. */
GP_MUST_USE gp_status gp_trainer_batch(gp_trainer *t, int mini, const gp_step_input *input, gp_step_result *result,
                                       gp_error *err);

/* The next mini-batch of a loader; blocks until it is read, and the targets that count are known. It stays until the
 * next one is taken. Sets data_seconds, and tells the timeline. */
GP_MUST_USE gp_status gp_trainer_take(gp_trainer *t, gp_loader *loader, const gp_batch **out, gp_error *err);
/* What a second pass of a mini-batch found, as a text: the tensor; if it is of the data, the sample and where that
 * stands in its file. "" if nothing was found. */
enum { GP_ORIGIN_TEXT = GP_FINDING_TEXT + GP_FLAW_TEXT };
const char *gp_trainer_origin(char buffer[GP_ORIGIN_TEXT], const gp_trainer *t, const gp_loader *loader,
                              const gp_batch *batch, int mini, const gp_finding *finding);

/* Runs a step, or begins it and ends the one before. */
GP_MUST_USE gp_status gp_trainer_step(gp_trainer *t, const gp_batch *batch, gp_error *err);
/* Ends the step that is under way if an evaluation or a snapshot waits for it, or the next mini-batch is not read yet.
 */
GP_MUST_USE gp_status gp_trainer_catch_up(gp_trainer *t, gp_loader *loader, gp_error *err);
/* Where the loop has failed for the reason in *err: what is under way is ended, so that the run can be saved. Where
 * that fails it is the reason, since it came first. Returns which. */
GP_MUST_USE gp_status gp_trainer_abandon(gp_trainer *t, gp_error *err);
/* Whether an evaluation follows the step; a snapshot does. */
bool gp_trainer_evaluates(const gp_trainer *t, int64_t step);
bool gp_trainer_saves(const gp_trainer *t, int64_t step);
/* Whether it takes any, and one of its end. */
bool gp_trainer_takes_snapshots(const gp_trainer *t);
/* Seconds between two snapshots by the clock. About so many minutes: as much longer as keeps the pauses, of which the
 * last one took `pause` seconds, below a hundredth of the time. */
double gp_save_interval(const gp_every *every, double pause);

/* Everything before the first step: workers, initial values, the run folder's files. */
GP_MUST_USE gp_status gp_trainer_start(gp_trainer *t, gp_error *err);
/* plan.json of the run folder: the plan of the configuration that holds. */
GP_MUST_USE gp_status gp_trainer_write_plan(gp_trainer *t, gp_error *err);
/* What belongs to one configuration: workers, loaders, saver. The saver of the configuration before (NULL: there was
 * none) gives its copy of the state to the workers. It and the copy are gone before the next saver takes its buffer. */
GP_MUST_USE gp_status gp_trainer_open(gp_trainer *t, gp_error *err);
/* Ends the run of a configuration. */
void gp_trainer_end_run(gp_trainer *t);
/* Takes the state out of the run, and gives it to the next one. Only gp_trainer_change and gp_trainer_open. */
GP_MUST_USE gp_status gp_trainer_take_state(gp_trainer *t, gp_error *err);
GP_MUST_USE gp_status gp_trainer_give_state(gp_trainer *t, gp_error *err);
/* After the last step of a configuration: everything is opened again with the next one, and goes on from the same
 * state. A snapshot of that step stands first. */
GP_MUST_USE gp_status gp_trainer_change(gp_trainer *t, gp_error *err);
/* After each step and its evaluation: a snapshot where one is due, and what became of the one before. Fails where the
 * run does. */
GP_MUST_USE gp_status gp_trainer_save(gp_trainer *t, gp_error *err);
/* Before the first best model is written: a snapshot, where none stands. So --resume finds no model that it cannot go
 * on from. */
GP_MUST_USE gp_status gp_trainer_save_before_best(gp_trainer *t, gp_error *err);
/* Before a file is written: where the run folder is. Where it was moved to the run goes on, and says so once. GP_IO: it
 * is gone. */
GP_MUST_USE gp_status gp_trainer_find_folder(gp_trainer *t, gp_error *err);
/* *err: GP_NUMERIC of the saver. Completes its sentence, which becomes the run's error; returns its status. */
GP_MUST_USE gp_status gp_trainer_refuse_state(gp_trainer *t, gp_error *err);
/* A snapshot of where the run is, which stands when this returns. */
GP_MUST_USE gp_status gp_trainer_save_now(gp_trainer *t, gp_error *err);
/* The model that the run has, as that of the best evaluation. */
GP_MUST_USE gp_status gp_trainer_save_best(gp_trainer *t, gp_error *err);
/* One pass over the evaluation data, if there are any: metrics, progress, the best model. `interrupted` where it was
 * given up. */
GP_MUST_USE gp_status gp_trainer_evaluate(gp_trainer *t, gp_error *err);
/* Saves what the run reached also where a step was refused or a file broke; where workers failed there is nothing to
 * read it from. The first cause stays the error. GP_INTERRUPTED: the run was asked to end, and is saved. */
GP_MUST_USE gp_status gp_trainer_finish(gp_trainer *t, gp_status status, gp_error *err);

#endif
