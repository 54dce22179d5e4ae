/* A device kind that stands before another one and shows its calls to the test: which may look at them, change the
 * arena, or make them fail. One at a time in a process.
 *
 * `before` and `after` are called by the thread that calls the device: a worker's. Blocks of device memory are the
 * wrapper's own: their last byte is followed by a page that nobody may touch, and so is their first one preceded, but
 * for what is left of a page, which is filled with a pattern and looked at when the block is given back. */
#ifndef GP_TESTS_PIPELINE_WRAPPER_H
#define GP_TESTS_PIPELINE_WRAPPER_H

#include "device/device.h"

typedef enum wrapper_call_kind {
    WRAPPER_OPEN,
    WRAPPER_STREAM,
    WRAPPER_RESERVE,
    WRAPPER_EVENT,
    WRAPPER_COPY_IN,
    WRAPPER_COPY_OUT,
    WRAPPER_PULL,
    WRAPPER_RUN,
    WRAPPER_CALLS
} wrapper_call_kind;

typedef struct wrapper_call {
    wrapper_call_kind kind;
    unsigned char *arena; /* the device's block; NULL: none yet */
    size_t arena_bytes;
    unsigned char *to;           /* copies: where in the arena; NULL: to the host */
    size_t bytes;                /* copies, RESERVE */
    const gp_prepared *prepared; /* RUN */
    void *const *operands;
    unsigned char *workspace;
} wrapper_call;

typedef struct wrapper_hooks {
    void *context;
    /* A failure is the call's, which is then not made. */
    gp_status (*before)(void *context, const wrapper_call *call, gp_error *err);
    gp_status (*after)(void *context, const wrapper_call *call, gp_error *err);
} wrapper_hooks;

/* The wrapper of `inner` from now on; hooks are copied. */
const gp_device_kind *wrapper_kind(const gp_device_kind *inner, const wrapper_hooks *hooks);

/* The stretches of memory that an operand of a prepared op covers, from its address: exactly, gaps between the rows of
 * a slice left out. Calls `each` for every one, in order. */
void wrapper_stretches(const gp_prepared *prepared, int operand,
                       void (*each)(void *context, size_t offset, size_t bytes), void *context);

#endif
