/* Built-in models: each writes the list of layers that it stands for, as YAML, so that everything after it treats a
 * built-in model as it does a list.
 *
 * Names and layouts of parameters, and the initial values, are torchvision's. Pure functions; any thread.
 */
#ifndef GP_MODEL_BUILTIN_H
#define GP_MODEL_BUILTIN_H

#include <stdio.h>

#include "base/shape.h"
#include "base/status.h"
#include "config/read.h"

typedef struct gp_built_in_options {
    int depth; /* index of its name */
    int64_t classes;
    bool batch_norm;
} gp_built_in_options;

typedef struct gp_built_in {
    const char *name; /* key of model: */
    const char *const *depths;
    const char *example;
    bool may_have_batch_norm;
    /* Writes the items of the list, a line each. `input`: of one sample. GP_CONFIG at `place`. */
    gp_status (*write)(const gp_built_in_options *options, gp_place place, gp_shape input, FILE *out, gp_error *err);
} gp_built_in;

extern const gp_built_in gp_resnet_model;
extern const gp_built_in gp_vgg_model;

#endif
