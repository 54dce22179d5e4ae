/* A layer: options, shapes, parameters and their initial values, and its lowering to ops. It knows no device.
 *
 * Each type of layer is a gp_layer_type in a file of its family, listed in layers/registry.c (one explicit table;
 * nothing registers itself). An instance belongs to the graph node that holds it; after `infer` it is read-only, any
 * thread. Options, defaults and parameter names are PyTorch's (reference: torch.nn), unless the manual says otherwise.
 */
#ifndef GP_LAYERS_LAYER_H
#define GP_LAYERS_LAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/shape.h"
#include "base/status.h"
#include "config/keys.h"
#include "layers/lowering.h"

enum { GP_LAYER_MAX_PARAMS = 4 };
/* gp_layer.sync: all replicas; a number of them. 0: each has its own statistics. */
enum { GP_SYNC_ALL = -1, GP_SYNC_MAX = UINT16_MAX };
/* Bounds of a dimension, and of the elements of a sample's value or of a parameter: what 32 bits can count (in counters
 * of random numbers, element / 4). */
#define GP_LAYER_MAX_DIMENSION INT64_C(0x7FFFFFFF)
#define GP_LAYER_MAX_ELEMENTS  (INT64_C(1) << 34)

typedef enum gp_init_kind {
    GP_INIT_CONSTANT, /* value */
    GP_INIT_UNIFORM,  /* in [−value, value) */
    GP_INIT_NORMAL,   /* mean 0, standard deviation value */
} gp_init_kind;

/* One parameter, or one buffer (a running statistic: saved and loaded, neither trained nor decayed). */
typedef struct gp_param_spec {
    const char *suffix; /* "weight", "bias", "running_mean", "running_var": the name is <layer>.<suffix> */
    gp_shape shape;     /* PyTorch's order */
    gp_init_kind init;
    double value;
    bool buffer;
    bool norm_or_bias; /* what no_decay leaves alone */
} gp_param_spec;

typedef struct gp_layer gp_layer;

typedef struct gp_layer_type {
    const char *name;
    size_t size;           /* of the instance, whose first member is a gp_layer; 0: it is nothing more */
    bool loss;             /* takes prediction and target, makes no value */
    bool target_is_class;  /* of a loss: its target is classes, I64; else numbers, stored as values are */
    bool joins;            /* takes two values or more; else one */
    bool batch_statistics; /* while it trains, statistics over the samples of a micro-batch */

    /* Its own options, up to one without a name, as they fill the zeroed instance; the first may stand alone as its
     * value (max_pool: 2 is kernel). NULL: none. */
    const gp_key *options;
    const char *const *later; /* of a loss: options that a later version will have; NULL: none */
    /* After the options are read: what a row does not say. NULL: nothing. GP_CONFIG with place. */
    gp_status (*check)(gp_layer *layer, const gp_choice *choice, gp_error *err);
    /* Checks layer->inputs (of one sample), and sets layer->output, which has the first input's shape before; NULL:
     * that is all. GP_CONFIG without place and without the layer's name: the caller puts both before it ("kernel 7 is
     * larger than …"). A loss gives the target's shape. */
    gp_status (*infer)(gp_layer *layer, gp_error *err);
    /* Fills specs and returns how many; NULL: none. After infer. */
    int (*params)(const gp_layer *layer, gp_param_spec specs[GP_LAYER_MAX_PARAMS]);
    /* All passes for micro-batches of lowering->samples (FORWARD, EVALUATE, BACKWARD). GP_CONFIG, like infer's, for
     * what only the size shows (batch norm over one value). */
    gp_status (*lower)(const gp_layer *layer, gp_lowering *lowering, gp_error *err);
    /* The passes of a mini-batch (TOTAL, COMMIT); NULL: none. STATS are declared as by `lower`, in the same order. */
    gp_status (*lower_mini_batch)(const gp_layer *layer, gp_lowering *lowering, gp_error *err);
    /* Losses over classes: how many there are, and which target does not count. Those over numbers have neither, and
     * no accuracy. */
    int64_t (*classes)(const gp_layer *layer);
    int64_t (*ignore)(const gp_layer *layer);
    void (*fini)(gp_layer *layer); /* NULL: owns nothing */
} gp_layer_type;

struct gp_layer {
    const gp_layer_type *type;
    int input_count;
    bool frozen;      /* its parameters are not trained, and its running statistics used as they stand */
    bool keeps;       /* `checkpoint: false`: its output is kept where its stage recomputes */
    bool tf32;        /* its convolutions and products may be computed in TF32 where that is faster */
    int sync;         /* batch norm: its statistics are over groups of so many neighbouring replicas; GP_SYNC_ALL */
    gp_shape *inputs; /* owned by the instance; set by gp_layer_infer */
    gp_shape output;
};

/* By name; NULL where there is none. The table ends with NULL: gp_layer_names() for messages. */
const gp_layer_type *gp_layer_type_find(const char *name, bool loss);
const char *const *gp_layer_names(bool loss);
/* Names of the contract that this version does not have yet. */
const char *const *gp_layer_names_later(bool loss);

/* A new instance with its options read, `freeze` and `checkpoint` among them. What else every layer knows (name, from)
 * may stand among choice->options and is left alone. */
GP_MUST_USE gp_status gp_layer_create(const gp_layer_type *type, const gp_choice *choice, gp_layer **out,
                                      gp_error *err);
void gp_layer_destroy(gp_layer **layer);
/* Keeps the shapes in the instance, then calls the type's infer. Refuses a wrong number of inputs, and sizes beyond the
 * bounds above. GP_CONFIG, as the type's infer. */
GP_MUST_USE gp_status gp_layer_infer(gp_layer *layer, const gp_shape *inputs, int count, gp_error *err);
/* How many of a stage's replicas exchange statistics of the layer when they train: 1: none do. */
int gp_layer_group(const gp_layer *layer, int replicas);
/* The option whose value may stand alone; NULL: none. */
const char *gp_layer_main_option(const gp_layer_type *type);
/* What the option `init` says of the layer's parameters, into their specs. GP_CONFIG with place. */
GP_MUST_USE gp_status gp_layer_read_init(const gp_choice *choice, gp_param_spec *specs, int count, gp_error *err);

#endif
