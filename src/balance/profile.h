/* Profiles: how long each layer takes on each device, and copies between devices, as measured or as somebody says.
 *
 * A profile is plain data; its creator owns it (gp_profile_destroy). Written and read as JSON (docs/profile.md). What
 * it is of, its *identity*, says whether it fits a configuration on this machine. Read-only once it is made, any
 * thread.
 */
#ifndef GP_BALANCE_PROFILE_H
#define GP_BALANCE_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "balance/rates.h"
#include "base/status.h"
#include "device/device.h"
#include "model/graph.h"
#include "compile/stage_plan.h"

/* X(suffix, name in the file) */
#define GP_PROFILE_TIME_MAP(X)                                                                                         \
    X(FORWARD, "forward")                 /* of a micro-batch; the loss belongs to the last layer */                   \
    X(BACKWARD_INPUT, "backward_input")   /* all of backward but what follows */                                       \
    X(BACKWARD_WEIGHT, "backward_weight") /* ops that only make gradients of parameters */                             \
    X(RECOMPUTE, "recompute")             /* forward again, without what is not repeated */                            \
    X(UPDATE, "update")                   /* once per mini-batch: statistics, norms, parameters, their copies */

typedef enum gp_profile_time {
#define GP_PROFILE_TIME_ENUM(suffix, name) GP_PROFILE_TIME_##suffix,
    GP_PROFILE_TIME_MAP(GP_PROFILE_TIME_ENUM)
#undef GP_PROFILE_TIME_ENUM
        GP_PROFILE_TIMES
} gp_profile_time;
const char *gp_profile_time_name(gp_profile_time time);

/* Seconds: the median, and an interval about it that holds it 95 times of 100 (all three equal where nobody said). */
typedef struct gp_estimate {
    double median, low, high;
} gp_estimate;

typedef struct gp_layer_times {
    gp_estimate time[GP_PROFILE_TIMES];
} gp_layer_times;

enum { GP_PROFILE_ANY_INDEX = -1, GP_PROFILE_MAX_DEVICES = 4096 };

typedef struct gp_profile_device {
    char kind[16];
    int index;              /* cuda:1 → 1; GP_PROFILE_ANY_INDEX: every device of the kind */
    int threads;            /* of a CPU device; else 1 */
    gp_layer_times *layers; /* NULL: times are counted, by these rates */
    gp_rates rates;
    /* How many times as long whole passes took as the medians of their parts add up to: what interrupts few of the
     * parts, as a busy machine's other programs do. Costs and expectations have it in. */
    double slowdown;
    bool hurried; /* no whole pass was timed, so that the slowdown is not known, and is 1 */
} gp_profile_device;

/* Copies take latency + bytes × per_byte seconds. */
typedef struct gp_profile_copy {
    char from[16], to[16]; /* kinds; from "host": what loads into the device take */
    double latency, per_byte;
} gp_profile_copy;

/* What times depend on. Texts and numbers that are not said are NULL and 0: they fit everything. */
typedef struct gp_profile_identity {
    char *program, *machine, *libraries; /* "0.1.0"; "AMD EPYC, 2 CPUs"; "oneDNN 3.1.1" */
    char *precision, *optimizer;         /* "f32"; "sgd, 1 state" */
    uint64_t model;                      /* of layers, their options and shapes (gp_profile_model) */
    int64_t samples;                     /* of the micro-batch; ≥ 1 */
    int64_t together;                    /* devices of the host that worked at the same time */
} gp_profile_identity;

typedef struct gp_profile {
    gp_profile_identity identity;
    char *path;    /* of the file it came from; NULL: measured now */
    int64_t taken; /* when it was measured, in seconds since 1970; 0: not known */
    double load;   /* processors that other programs kept busy meanwhile; negative: not known */
    int64_t
        scaled; /* samples of the micro-batches that it was measured with, if its times are scaled; 0: they are not */
    bool other_company; /* it was measured with another number of devices at work than it is used for */
    int layer_count;    /* 0: it has rates only, and times are counted */
    char **names;       /* [layer]; NULL where nobody said */
    gp_profile_device *devices;
    int device_count;
    gp_profile_copy *copies;
    int copy_count;
} gp_profile;

/* Zeroed layers for each of `count` devices. The profile takes over the identity's texts, whatever happens. */
GP_MUST_USE gp_status gp_profile_create(gp_profile_identity *identity, const gp_graph *graph,
                                        const gp_device_spec *devices, int count, gp_profile **out, gp_error *err);
void gp_profile_destroy(gp_profile **profile);
void gp_profile_identity_fini(gp_profile_identity *identity);

/* Rates in place of times, one row for each of `count` devices, all assumed. */
GP_MUST_USE gp_status gp_profile_create_counted(const gp_device_spec *devices, int count, gp_profile **out,
                                                gp_error *err);
/* Of a device, for counting: those of its row, or assumed ones. `profile` may be NULL. */
gp_rates gp_profile_rates(const gp_profile *profile, const gp_device_spec *spec);
/* Whether times are counted: there is no profile (NULL), or one that has rates only. */
bool gp_profile_is_counted(const gp_profile *profile);

/* The device's row: its own, or that of its kind; NULL where there is none. */
const gp_profile_device *gp_profile_find(const gp_profile *profile, const gp_device_spec *spec);
/* Rounds all times to what is written, so that a profile that is read again is the same to the bit. */
void gp_profile_round(gp_profile *profile);
/* NULL where there is none. */
const gp_profile_copy *gp_profile_find_copy(const gp_profile *profile, const char *from, const char *to);
/* The name of a layer as `balance` counts: its first node's. */
const char *gp_layer_name(const gp_graph *graph, int layer);
/* "cpu", "cpu, 2 threads", "cuda:1" into buffer, which is returned. */
const char *gp_device_text(char buffer[48], const char *kind, int index, int threads);

/* Devices that differ in what times depend on, in the order in which they stand; how many are returned. `out` has room
 * for `count`. */
int gp_profile_distinct(const gp_device_spec *devices, int count, gp_device_spec *out);

/* Reads a file of any origin. GP_DATA with path:line:column where it is damaged, or no profile. */
GP_MUST_USE gp_status gp_profile_read(const char *path, gp_profile **out, gp_error *err);
/* The same from memory; `path` is for messages. */
GP_MUST_USE gp_status gp_profile_parse(const char *text, size_t bytes, const char *path, gp_profile **out,
                                       gp_error *err);
/* What each profile that is written begins with. */
extern const char gp_profile_head[];
GP_MUST_USE gp_status gp_profile_write(const gp_profile *profile, const char *path, gp_error *err);
/* The same as a text, owned by the caller. */
GP_MUST_USE gp_status gp_profile_text(const gp_profile *profile, char **out, gp_error *err);

/* Whether it has times for each of the devices. */
bool gp_profile_has_devices(const gp_profile *profile, const gp_device_spec *devices, int count);
/* GP_DATA where the profile cannot be used for this graph on these devices: other layers, a device that it lacks. */
GP_MUST_USE gp_status gp_profile_check(const gp_profile *profile, const gp_graph *graph, const gp_profile_identity *now,
                                       const gp_device_spec *devices, int count, gp_error *err);

#endif
