/* gpipe-balance --simulate: a schedule played on given times, without a model and without devices.
 *
 * A YAML file says how many devices, how many micro-batches, and how long everything takes; programs are made as for a
 * run, and played with buffers that never lack and transfers that need no worker. Owned by the caller; one thread.
 */
#ifndef GP_TUNE_WHAT_IF_H
#define GP_TUNE_WHAT_IF_H

#include <stdbool.h>
#include <stdio.h>

#include "base/status.h"
#include "config/tree.h"
#include "schedule/issue.h"
#include "schedule/play.h"
#include "settings/config.h"

/* What is asked. Times in milliseconds for one micro-batch, of a stage, of which a device has `chunks`. */
typedef struct gp_what_if {
    gp_schedule_kind schedule;
    int devices, chunks, micro_batches;
    double *forward, *input, *weight, *recompute, *update; /* [stage] */
    double *copy; /* [stage] latency between it and the stage before, either way, where that is on another device */
    double wire;  /* for which a copy holds the channel between two devices, besides */
    gp_checkpoint_mode checkpoint;
    bool lockstep;
    int processors; /* that the devices share, each with one thread; 0: each computes by itself */
    bool issued;    /* by host threads, to devices as in `model`; else nothing needs to be issued */
    gp_issue_model model;
} gp_what_if;

/* Words of `device` in the file: [gp_issue_copies] and [one_host], NULL at the end. */
extern const char *const gp_what_if_copies[], *const gp_what_if_hosts[];

/* GP_CONFIG with its place for what it does not say or says wrong. */
GP_MUST_USE gp_status gp_what_if_read(const gp_yaml *root, const char *path, gp_what_if *out, gp_error *err);
void gp_what_if_fini(gp_what_if *question);

/* Of a device. */
typedef struct gp_what_if_device {
    double span, busy, waiting; /* from its first start to its last end; computing in it, and not */
    double in_flight;           /* most micro-batches between forward and backward for inputs at once; of several
                                   stages, the mean of those */
} gp_what_if_device;

typedef struct gp_what_if_answer {
    double step;   /* from the first start to the last end of all */
    double cost;   /* the longest span */
    int longest;   /* whose */
    double bubble; /* (cost − busy) / cost, of that one */
    size_t copies; /* between devices; only where instructions are issued */
    double delay;  /* of a copy, on average: from the end of the computation that made its value to its start */
    gp_what_if_device *device;
    /* What was played. The play has times of instructions, if these programs are not too long to list. */
    gp_stages *stages;
    gp_programs *programs;
    gp_waits *waits;
    gp_play_copies *posted; /* [device] GP_PLAY_POSTED */
    gp_play *play;
} gp_what_if_answer;

/* The caller calls gp_what_if_answer_fini in any case. */
GP_MUST_USE gp_status gp_what_if_play(const gp_what_if *question, gp_what_if_answer *out, gp_error *err);
void gp_what_if_answer_fini(gp_what_if_answer *answer);
/* Whether the instructions of programs are listed: of long programs they are left out. */
bool gp_what_if_lists(const gp_programs *programs);

/* For people. */
void gp_what_if_table(const gp_what_if *question, const gp_what_if_answer *answer, FILE *out);
/* As one line: the answer, and the plan as JSON has it (docs/timelines.md). `path`: of the file with the times. The
 * caller checks the stream. */
GP_MUST_USE gp_status gp_what_if_json(const gp_what_if *question, const gp_what_if_answer *answer, const char *path,
                                      FILE *out, gp_error *err);
/* Reads the file, plays it, and writes the answer as a table, or as JSON. */
GP_MUST_USE gp_status gp_what_if_answer_file(const char *path, bool json, FILE *out, gp_error *err);

#endif
