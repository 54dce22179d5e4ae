/* Profiles: how long each layer takes on each device, and copies between devices, as measured or as the user says.
 *
 * A profile is plain data; its creator owns it (gp_profile_destroy). Written and read as JSON (docs/profile.md). What
 * it is of, its *identity*, says whether it fits a configuration on this machine. Read-only once it is made, any
 * thread.
 */
#ifndef GP_PROFILE_PROFILE_H
#define GP_PROFILE_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "compile/stage_plan.h"
#include "device/device.h"
#include "model/graph.h"
#include "profile/rates.h"
#include "schedule/links.h"

typedef enum gp_profile_time {
    GP_PROFILE_TIME_FORWARD,         /* of a micro-batch; the loss belongs to the last layer */
    GP_PROFILE_TIME_BACKWARD_INPUT,  /* all of backward but what follows */
    GP_PROFILE_TIME_BACKWARD_WEIGHT, /* ops that only make gradients of parameters */
    GP_PROFILE_TIME_RECOMPUTE,       /* forward again, without what is not repeated */
    GP_PROFILE_TIME_UPDATE,          /* once per mini-batch: statistics, norms, parameters, their copies */
    GP_PROFILE_TIMES
} gp_profile_time;
/* Their keys in a file. */
extern const char *const gp_profile_time_names[GP_PROFILE_TIMES];

typedef struct gp_layer_times {
    double time[GP_PROFILE_TIMES]; /* seconds, medians */
} gp_layer_times;

enum { GP_PROFILE_ANY_INDEX = -1, GP_PROFILE_MAX_DEVICES = 4096 };

typedef struct gp_profile_device {
    char kind[16];
    int index;              /* cuda:1 → 1; GP_PROFILE_ANY_INDEX: every device of the kind */
    int threads;            /* of a CPU device; else 1 */
    gp_layer_times *layers; /* NULL: times are counted, by these rates */
    gp_rates rates;
    /* How many times as long whole rounds took as the medians of their ops add up to. Other programs interrupt few of
     * the ops, but most rounds. Costs and predictions include it. */
    double slowdown;
    double spread; /* half of the 95 % interval of all times together, by their sum; 0: not known, or exact */
} gp_profile_device;

/* Copies take latency + bytes × per_byte seconds. */
typedef struct gp_profile_copy {
    char from[16], to[16]; /* kinds; from "host": what loads into the device take */
    double latency, per_byte;
} gp_profile_copy;

/* A message between two processes takes latency + bytes × per_byte seconds. */
typedef struct gp_profile_link {
    bool known;
    double latency, per_byte; /* per_byte > 0 */
} gp_profile_link;

/* Texts that times depend on. */
typedef enum gp_profile_text_kind {
    GP_PROFILE_TEXT_MACHINE,   /* "AMD EPYC, 2 CPUs" */
    GP_PROFILE_TEXT_LIBRARIES, /* "oneDNN 3.1.1" */
    GP_PROFILE_TEXT_PROGRAM,   /* "0.1.0" */
    GP_PROFILE_TEXT_PRECISION, /* "f32" */
    GP_PROFILE_TEXT_OPTIMIZER, /* "sgd, 1 state" */
    GP_PROFILE_TEXTS
} gp_profile_text_kind;
/* Their keys in a file. */
extern const char *const gp_profile_text_names[GP_PROFILE_TEXTS];

/* What times depend on. A missing text is NULL, a missing number 0: they fit everything. */
typedef struct gp_profile_identity {
    char *text[GP_PROFILE_TEXTS];
    uint64_t model;   /* of layers, their options and shapes (gp_profile_model) */
    int64_t samples;  /* of the micro-batch; ≥ 1 */
    int64_t together; /* devices of the host that worked at the same time */
} gp_profile_identity;

enum { GP_DISTURBANCE_TEXT = 40 };

typedef struct gp_profile {
    gp_profile_identity identity;
    char *path;     /* of the file it came from; NULL: measured now */
    int64_t taken;  /* when it was measured, in seconds since 1970; 0: not known */
    int64_t scaled; /* samples of the micro-batches that it was measured with; 0: its times are not scaled */
    bool named;     /* its user named it: it is used as it is */
    /* What showed that the kept profile in whose place costs are counted was disturbed; "": there was none. */
    char set_aside[GP_DISTURBANCE_TEXT];
    bool other_company; /* it was measured with another number of devices at work than it is used for */
    int layer_count;    /* 0: it has rates only, and times are counted */
    char **names;       /* [layer]; NULL: not known */
    gp_profile_device *devices;
    int device_count;
    gp_profile_copy *copies;
    int copy_count;
    gp_profile_link links[GP_LINK_KINDS]; /* GP_LINK_PROCESS is never known: copies say what that takes */
} gp_profile;

/* Zeroed layers for each of `count` devices. The profile takes over the identity's texts, or leaves them all. */
GP_MUST_USE gp_status gp_profile_create(gp_profile_identity *identity, const gp_graph *graph,
                                        const gp_device_spec *devices, int count, gp_profile **out, gp_error *err);
void gp_profile_destroy(gp_profile **profile);
void gp_profile_identity_fini(gp_profile_identity *identity);

/* Rates in place of times, one row for each of `count` devices, all assumed. */
GP_MUST_USE gp_status gp_profile_create_counted(const gp_device_spec *devices, int count, gp_profile **out,
                                                gp_error *err);
/* Of a device, for counting: those of its row, or assumed ones. `profile` may be NULL. */
gp_rates gp_profile_rates(const gp_profile *profile, const gp_device_spec *spec);
/* The same for what is chosen by time: brief ones count as assumed, so that the first run on a machine has the cut of
 * every other machine. */
gp_rates gp_profile_choosing_rates(const gp_profile *profile, const gp_device_spec *spec);
/* Whether times are counted: there is no profile (NULL), or one that has rates only. */
bool gp_profile_is_counted(const gp_profile *profile);

/* The device's row: its own, or that of its kind; NULL where there is none. */
const gp_profile_device *gp_profile_find(const gp_profile *profile, const gp_device_spec *spec);
/* NULL where there is none. */
const gp_profile_copy *gp_profile_find_copy(const gp_profile *profile, const char *from, const char *to);
/* Whether it has a link of any kind. */
bool gp_profile_has_links(const gp_profile *profile);
/* The name of a layer as `balance` counts: its first node's. */
const char *gp_layer_name(const gp_graph *graph, int layer);
/* "cpu", "cpu, 2 threads", "cuda:1" into buffer, which is returned. */
const char *gp_device_text(char buffer[48], const char *kind, int index, int threads);

/* Devices that differ in what times depend on, in the order in which they stand; how many are returned. `out` has room
 * for `count`. */
int gp_profile_distinct(const gp_device_spec *devices, int count, gp_device_spec *out);

/* Whether it has times for each of the devices. */
bool gp_profile_has_devices(const gp_profile *profile, const gp_device_spec *devices, int count);
/* GP_DATA where the profile cannot be used for this graph on these devices: other layers, a device that it lacks. */
GP_MUST_USE gp_status gp_profile_check(const gp_profile *profile, const gp_graph *graph, const gp_profile_identity *now,
                                       const gp_device_spec *devices, int count, gp_error *err);

#endif
