#include "report/expand.h"

#include <stdlib.h>

#include "model/expand.h"
#include "model/graph.h"
#include "report/text.h"

static gp_status print_expanded(gp_config *config, gp_layer_list *list, FILE *out, gp_error *err) {
    gp_graph *graph = NULL;
    GP_RETURN_IF_FAILED(gp_graph_build(config->model, &graph, err));
    gp_graph_destroy(&graph);
    GP_RETURN_IF_FAILED(gp_model_expand(gp_yaml_find(config->document, "model"), list, err));
    GP_RETURN_IF_FAILED(gp_config_resolve(config, NULL, 0, err));
    char *text = NULL;
    GP_RETURN_IF_FAILED(gp_yaml_text(
        config->document, "gpipe-train " GP_VERSION ": the configuration with its model as a list", &text, err));
    fputs(text, out);
    free(text);
    return gp_report_end(out, "the configuration", err);
}

gp_status gp_expand(gp_config **config, FILE *out, gp_error *err) {
    gp_layer_list list = {0};
    gp_status status = print_expanded(*config, &list, out, err);
    gp_config_destroy(config);
    gp_layer_list_fini(&list);
    return status;
}
