#include "store/state_stream.h"

#include "store/params.h"

gp_status gp_state_stream_get(gp_state_stream *stream, int index, const void **data, gp_error *err) {
    const gp_state_layout *layout = stream->layout;
    if (index < stream->first || index >= stream->next) {
        stream->first = index;
        stream->next = gp_params_group(layout->plan, layout->copies, index, layout->count, stream->buffer);
        gp_status status = gp_run_read(stream->run, &layout->copies[index], stream->next - index, err);
        if (status != GP_OK) {
            stream->next = index;
            stream->failed = true;
            return status;
        }
    }
    *data = layout->copies[index].host;
    return GP_OK;
}

gp_status gp_state_stream_check(gp_state_stream *stream, int count, gp_error *err) {
    const void *data = NULL;
    for (int i = 0; i < count; i++) {
        GP_RETURN_IF_FAILED(gp_state_stream_get(stream, i, &data, err));
        GP_RETURN_IF_FAILED(gp_state_check_tensor(stream->layout, i, data, err));
    }
    return GP_OK;
}

static gp_status get(void *context, size_t index, const void **data, gp_error *err) {
    return gp_state_stream_get(context, (int)index, data, err);
}

gp_safetensors_source gp_state_stream_source(gp_state_stream *stream) {
    return (gp_safetensors_source){get, stream};
}
