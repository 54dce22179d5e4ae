/* The state of a run, tensor by tensor: read through a buffer as large as the largest parameter, for files that are
 * written without a copy of everything. The run's workers rest meanwhile. The thread that calls gp_run_*. */
#ifndef GP_STORE_STATE_STREAM_H
#define GP_STORE_STATE_STREAM_H

#include <stdbool.h>

#include "data/safetensors.h"
#include "store/snapshot.h"

typedef struct gp_state_stream {
    gp_run *run;             /* borrowed */
    gp_state_layout *layout; /* of the run's plan; borrowed. The places of its copies change */
    char *buffer;            /* borrowed; gp_run_largest_param bytes */
    int first, next;         /* the tensors that the buffer has */
    bool failed;             /* the run did: not the file that is written */
} gp_state_stream;

/* The elements of a tensor of the layout, until the next call. */
GP_MUST_USE gp_status gp_state_stream_get(gp_state_stream *stream, int index, const void **data, gp_error *err);
/* Whether the first `count` tensors are finite, as gp_state_check_finite. */
GP_MUST_USE gp_status gp_state_stream_check(gp_state_stream *stream, int count, gp_error *err);
/* For gp_safetensors_write_from; valid as long as the stream. */
gp_safetensors_source gp_state_stream_source(gp_state_stream *stream);

#endif
