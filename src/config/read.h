/* Typed reading of YAML nodes, with ranges, and messages that point at the node. Pure functions; any thread.
 *
 * `what` names the thing in messages as a user would: "batch", "conv: kernel". All return GP_CONFIG with the node's
 * place.
 */
#ifndef GP_CONFIG_READ_H
#define GP_CONFIG_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "config/names.h"
#include "config/tree.h"

/* GP_CONFIG: "what: …", at the place. */
gp_status gp_refuse(gp_place place, const char *what, gp_error *err, const char *format, ...) GP_PRINTF(4, 5);

/* Plain scalars: an integer is decimal digits with an optional sign (1_000 is not); a number is what C's strtod reads
 * in whole, decimal, finite; a boolean is true or false; quotes make a string. */
GP_MUST_USE gp_status gp_read_integer(const gp_yaml *node, const char *what, int64_t low, int64_t high, int64_t *out,
                                      gp_error *err);
/* low ≤ value ≤ high; infinities open a side; `open` excludes the bounds that bit 0 (low) and bit 1 (high) name. */
GP_MUST_USE gp_status gp_read_number(const gp_yaml *node, const char *what, double low, double high, unsigned open,
                                     double *out, gp_error *err);
GP_MUST_USE gp_status gp_read_boolean(const gp_yaml *node, const char *what, bool *out, gp_error *err);
/* Borrowed from the node; not empty. */
GP_MUST_USE gp_status gp_read_text(const gp_yaml *node, const char *what, const char **out, gp_error *err);
GP_MUST_USE gp_status gp_read_name(const gp_yaml *node, const char *what, gp_placed_name *out, gp_error *err);
/* Bytes: 4096, 512 MiB, 4GiB, 1.5 GiB; KiB, MiB, GiB, TiB. */
GP_MUST_USE gp_status gp_read_bytes(const gp_yaml *node, const char *what, size_t *out, gp_error *err);
/* Index into `choices` (NULL-terminated); a message names the nearest. */
GP_MUST_USE gp_status gp_read_choice(const gp_yaml *node, const char *what, const char *const *choices, int *out,
                                     gp_error *err);
/* One integer for both, or [height, width]. */
GP_MUST_USE gp_status gp_read_pair(const gp_yaml *node, const char *what, int64_t low, int64_t high, int64_t out[2],
                                   gp_error *err);
/* A sequence of 1 … max integers. */
GP_MUST_USE gp_status gp_read_integers(const gp_yaml *node, const char *what, int64_t low, int64_t high, size_t max,
                                       int64_t *out, size_t *count, gp_error *err);

/* A time: `500` is steps, `5 epochs` or `1 epoch`. */
typedef struct gp_time {
    int64_t count;
    bool epochs;
} gp_time;
GP_MUST_USE gp_status gp_read_time(const gp_yaml *node, const char *what, int64_t low, gp_time *out, gp_error *err);

/* How often something happens: every so many steps or epochs, or minutes of the clock. All 0: never. */
typedef struct gp_every {
    gp_time time; /* count 0: by the clock */
    double minutes;
    bool about; /* as far as it costs the run little */
} gp_every;
/* A time, of 1 at least, or `10 minutes`, `1 minute`, `0.5 minutes`, `about 10 minutes`, or `never`. */
GP_MUST_USE gp_status gp_read_every(const gp_yaml *node, const char *what, gp_every *out, gp_error *err);

/* The node must be a mapping. */
GP_MUST_USE gp_status gp_read_mapping(const gp_yaml *node, const char *what, gp_error *err);
/* Every key must be one of `known` (NULL-terminated). The message for another names the nearest known key, by spelling
 * and by what PyTorch, Caffe and others call it (kernel_size → kernel, num_output → out, padding → pad, lr → …), and a
 * name that is reserved for later (`later`, NULL-terminated, may be NULL) says so. All unknown keys of the mapping are
 * in the message, joined. */
GP_MUST_USE gp_status gp_check_keys(const gp_yaml *mapping, const char *what, const char *const *known,
                                    const char *const *later, gp_error *err);
/* Wherever a kind is chosen: `relu`; `max_pool: 2` (its main option); `conv: {out: 3}`. */
typedef struct gp_choice {
    const char *kind;       /* borrowed */
    gp_place place;         /* of the kind's name */
    const gp_yaml *options; /* the mapping of options; NULL where there is none */
    const gp_yaml *main;    /* the main option's value, scalar or sequence; NULL where it was not given so */
} gp_choice;
/* A node that is a scalar, or a mapping of which the first (and, unless `beside` names others, only) key is the kind.
 * `beside`: keys that may stand beside the kind in the same mapping (take, transform, name); may be NULL. An option
 * mapping is told from a main option's value by being a mapping. */
GP_MUST_USE gp_status gp_read_kind(const gp_yaml *node, const char *what, const char *const *beside, gp_choice *out,
                                   gp_error *err);
/* The same in two steps, if the kinds are known. `what` is the node's path. The first finds the kind; the second
 * refuses the keys that may not stand beside it. */
GP_MUST_USE gp_status gp_find_choice(const gp_yaml *node, const char *what, const char *const *kinds,
                                     const char *const *beside, gp_choice *out, gp_error *err);
GP_MUST_USE gp_status gp_check_beside(const gp_yaml *node, const char *what, const char *const *kinds,
                                      const char *const *beside, const gp_choice *choice, gp_error *err);

/* The kind's index in `known`. A kind of `later` is not available yet; another is unknown, with the nearest. */
GP_MUST_USE gp_status gp_find_kind(const gp_choice *choice, const char *what, const char *const *known,
                                   const char *const *later, int *out, gp_error *err);

/* The kind has no value in place of a mapping of its options, which are `known`. */
GP_MUST_USE gp_status gp_check_options(const gp_choice *choice, const char *what, const char *const *known,
                                       gp_error *err);

#endif
