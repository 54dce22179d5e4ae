#include "model/builtin.h"

#include <stdio.h>

#include "layers/layer.h"

enum { DEFAULT_CLASSES = 1000 };

gp_status gp_built_in_read(const gp_choice *choice, const char *const *depths, int *depth, int64_t *classes,
                           gp_error *err) {
    const gp_yaml *options = choice->options;
    const gp_yaml *depth_node = choice->main ? choice->main : options ? gp_yaml_get(options, "depth") : NULL;
    const gp_yaml *classes_node = options ? gp_yaml_get(options, "classes") : NULL;
    char what[48];
    if (!depth_node)
        return gp_fail_at(err, GP_CONFIG, choice->place, "%s: depth is missing: %s: {depth: %s, classes: 10}",
                          choice->kind, choice->kind, depths[0]);
    snprintf(what, sizeof what, "%s: depth", choice->kind);
    GP_RETURN_IF_FAILED(gp_read_choice(depth_node, what, depths, depth, err));
    *classes = DEFAULT_CLASSES;
    snprintf(what, sizeof what, "%s: classes", choice->kind);
    return classes_node ? gp_read_integer(classes_node, what, 1, GP_LAYER_MAX_DIMENSION, classes, err) : GP_OK;
}
