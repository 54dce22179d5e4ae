/* Chooses cuDNN's engine for a convolution: the first one in the list of its heuristics that is fit. An engine is fit
 * if it gives the same bits each time, computes in the precision that the descriptor asks for, is compiled already,
 * and its plan can be built. Internal to device/cuda/toolkit; any thread. */
#ifndef GP_DEVICE_CUDA_TOOLKIT_CUDNN_ENGINE_H
#define GP_DEVICE_CUDA_TOOLKIT_CUDNN_ENGINE_H

#include <stdbool.h>
#include <stddef.h>

#include "device/cuda/toolkit/cudnn_parts.h"
#include "device/op.h"

enum { GP_CUDNN_MAX_KNOBS = 64, GP_CUDNN_MAX_NOTES = 16 };

/* An engine and what is set on it: enough to build the same plan again. */
typedef struct gp_cudnn_engine {
    int64_t id;
    int knobs;
    struct gp_cudnn_knob {
        int64_t type, value;
    } knob[GP_CUDNN_MAX_KNOBS];
} gp_cudnn_engine;

/* A plan, with the parts that it is made of. Zero-initialised: none. */
typedef struct gp_cudnn_built {
    gp_cudnn_parts parts;
    gp_cudnn_part plan;
    size_t workspace;
    int notes;
    cudnnBackendNumericalNote_t note[GP_CUDNN_MAX_NOTES];
} gp_cudnn_built;

/* GP_UNSUPPORTED where no engine will do. */
GP_MUST_USE gp_status gp_cudnn_engine_choose(const gp_op_desc *desc, gp_cudnn_part device, gp_cudnn_engine *out,
                                             gp_error *err);
/* The plan of an engine for a device. GP_UNSUPPORTED where cuDNN refuses it, or where it is none that choose would
 * take. Nothing is left in *out after a failure. */
GP_MUST_USE gp_status gp_cudnn_engine_build(const gp_op_desc *desc, gp_cudnn_part device, const gp_cudnn_engine *engine,
                                            gp_cudnn_built *out, gp_error *err);
void gp_cudnn_built_fini(gp_cudnn_built *built);

#endif
