/* The addresses of a stream's runs as cuDNN's variant packs. A pack is built when a plan first runs with its addresses,
 * and found again in later runs: a training repeats the same addresses in every step. Internal to device/cuda/toolkit;
 * a collection belongs to one stream's thread. */
#ifndef GP_DEVICE_CUDA_TOOLKIT_CUDNN_PACKS_H
#define GP_DEVICE_CUDA_TOOLKIT_CUDNN_PACKS_H

#include "device/cuda/toolkit/cudnn_parts.h"
#include "device/op.h"

enum {
    GP_CUDNN_OPERANDS = 4, /* of a convolution at most */
    /* cuDNN 9.19 takes 14 KB of the host's memory for each. A step needs one for each convolution, pass and slot of a
     * micro-batch. When more come, all packs are destroyed and built again as they are needed. */
    GP_CUDNN_MOST_PACKS = 2048
};

/* Zero-initialised: empty. */
typedef struct gp_cudnn_packs {
    void *tree; /* search.h's, of gp_cudnn_pack */
    size_t count;
} gp_cudnn_packs;

/* The pack of these addresses; it belongs to the collection until the next call. `desc` is that of the plan. */
GP_MUST_USE gp_status gp_cudnn_packs_find(gp_cudnn_packs *packs, size_t plan, const gp_op_desc *desc,
                                          void *const operands[], void *workspace, gp_cudnn_part *out, gp_error *err);
void gp_cudnn_packs_fini(gp_cudnn_packs *packs);

#endif
