#include "report/precision.h"

static bool has_gpu(const gp_session *session) {
    for (int d = 0; d < session->config->pipeline.device_count; d++)
        if (!session->devices[d].kind->on_host) return true;
    return false;
}

/* Weights of convolutions and products have two dimensions or more, those of other layers have one. */
static bool has_products(const gp_graph *graph) {
    for (int p = 0; p < graph->param_count; p++)
        if (graph->params[p].spec.shape.rank >= 2) return true;
    return false;
}

void gp_precision_advise(const gp_session *session, bool report, FILE *out) {
    if (session->config->train.precision_given || !has_gpu(session) || !has_products(session->graph)) return;
    fprintf(out,
            "precision %sf32: TF32 would make convolutions and products on GPUs about 2x faster,%s"
            "but with 10 bits of mantissa instead of 23; set train.precision: tf32 to use it\n",
            report ? "   " : "", report ? "\n             " : " ");
}
