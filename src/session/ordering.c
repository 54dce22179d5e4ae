#include "session/ordering.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static gp_status permute(void *items, size_t size, const int *order, int count, gp_error *err) {
    char *placed = NULL, *given = items;
    GP_RETURN_IF_FAILED(GP_NEW(&placed, size * (size_t)count, err));
    for (int d = 0; d < count; d++) memcpy(placed + size * (size_t)d, given + size * (size_t)order[d], size);
    memcpy(items, placed, size * (size_t)count);
    free(placed);
    return GP_OK;
}

gp_status gp_ordering_apply(gp_session *session, const gp_balance_request *request, gp_error *err) {
    gp_pipeline_config *pipeline = &session->config->pipeline;
    int count = pipeline->device_count;
    GP_RETURN_IF_FAILED(GP_NEW(&session->order, count, err));
    GP_RETURN_IF_FAILED(gp_device_order_find(request, session->order, &session->orders, err));
    GP_RETURN_IF_FAILED(permute(session->devices, sizeof *session->devices, session->order, count, err));
    return permute(pipeline->devices, sizeof *pipeline->devices, session->order, count, err);
}

bool gp_ordering_is_as_given(const gp_session *session) {
    for (int d = 0; d < session->config->pipeline.device_count; d++)
        if (session->order[d] != d) return false;
    return true;
}
