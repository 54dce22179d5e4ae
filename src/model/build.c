/* From the `model:` subtree to the graph, and to the list of layers that --expand prints: the rules are resolved first.
 */
#include "model/expand.h"
#include "model/graph.h"
#include "model/rules.h"

gp_status gp_graph_build(const gp_yaml *model, gp_graph **out, gp_error *err) {
    gp_layer_list list = {0};
    GP_RETURN_IF_FAILED(gp_model_check(model, err));
    GP_RETURN_IF_FAILED(gp_model_ruled_layers(model, &list, err));
    gp_status status = gp_graph_build_list(model, list.layers, out, err);
    gp_layer_list_fini(&list);
    return status;
}

gp_status gp_model_expand(gp_yaml *model, gp_layer_list *list, gp_error *err) {
    GP_RETURN_IF_FAILED(gp_model_check(model, err));
    GP_RETURN_IF_FAILED(gp_model_ruled_layers(model, list, err));
    if (list->made) gp_model_put_layers(model, list);
    return GP_OK;
}
