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

typedef struct gp_built_in {
    const char *name; /* key of model: */
    /* Writes the items of the list, a line each. `input`: of one sample. GP_CONFIG with a place for its options. */
    gp_status (*write)(const gp_choice *choice, gp_shape input, FILE *out, gp_error *err);
} gp_built_in;

extern const gp_built_in gp_resnet_model;
extern const gp_built_in gp_vgg_model;

/* NULL where there is none of that name. */
const gp_built_in *gp_built_in_find(const char *name);

/* The two options that these models share: depth, one of `depths`, of which *depth becomes the index; and classes. */
GP_MUST_USE gp_status gp_built_in_read(const gp_choice *choice, const char *const *depths, int *depth, int64_t *classes,
                                       gp_error *err);

#endif
