/* What a source of samples is told: the kind of its files, which samples it takes, and its transforms.
 *
 * Plain data; src/settings/data.c reads it from a configuration, and the configuration owns the texts. Any thread. */
#ifndef GP_DATA_OPTIONS_H
#define GP_DATA_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum { GP_MAX_TRANSFORMS = 64 };

/* A number for each channel of a picture, or one for all. */
typedef struct gp_channel_values {
    double *value; /* owned */
    int count;     /* ≥ 1 */
} gp_channel_values;

/* Entries of `transform`, torchvision's. X(enumerator suffix, name) */
#define GP_TRANSFORM_MAP(X)                                                                                            \
    X(RANDOM_CROP, "random_crop")                                                                                      \
    X(CENTER_CROP, "center_crop")                                                                                      \
    X(PAD, "pad")                                                                                                      \
    X(RANDOM_HORIZONTAL_FLIP, "random_horizontal_flip")                                                                \
    X(RANDOM_VERTICAL_FLIP, "random_vertical_flip")                                                                    \
    X(NORMALIZE, "normalize")                                                                                          \
    X(RANDOM_ERASING, "random_erasing")
typedef enum gp_transform_kind {
#define GP_TRANSFORM_ENUM(suffix, name) GP_TRANSFORM_##suffix,
    GP_TRANSFORM_MAP(GP_TRANSFORM_ENUM)
#undef GP_TRANSFORM_ENUM
} gp_transform_kind;
const char *gp_transform_name(gp_transform_kind kind);

typedef struct gp_transform_config {
    gp_transform_kind kind;
    gp_place place;
    int64_t size[2];             /* crops: height, width */
    int64_t pad[4];              /* random_crop, pad: left, top, right, bottom */
    double p;                    /* flips, random_erasing: 0 … 1 */
    double scale[2];             /* random_erasing: least and most share of the picture */
    double ratio[2];             /* random_erasing: least and most height/width */
    gp_channel_values fill;      /* random_crop, pad; random_erasing: its value */
    gp_channel_values mean, std; /* normalize */
} gp_transform_config;

/* One source of samples: data.train or data.eval. */
typedef enum gp_source_kind { GP_SOURCE_NONE, GP_SOURCE_IDX, GP_SOURCE_TENSORS, GP_SOURCE_SYNTHETIC } gp_source_kind;
typedef struct gp_source_config {
    gp_source_kind kind;
    gp_place place;
    char *images; /* idx: absolute paths, owned */
    char *labels;
    bool normalise; /* idx: (value/255 − mean)/std */
    double mean, std;
    char *file;      /* tensors */
    int64_t samples; /* synthetic */
    uint64_t seed;   /* synthetic */
    bool take;       /* samples [take_from, take_to) only */
    int64_t take_from, take_to;
    gp_place take_place;
    gp_transform_config *transforms; /* in order; owned */
    int transform_count;
} gp_source_config;

#endif
