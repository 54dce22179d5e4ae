/* Arguments of the optimizers' kernels; plain data, made by the thread that launches. A launch updates many parameters:
 * a table says where each one's blocks begin. A block does GP_KERNEL_UPDATE_BLOCK neighbouring elements of one entry.
 */
#ifndef GP_DEVICE_CUDA_KERNELS_UPDATE_H
#define GP_DEVICE_CUDA_KERNELS_UPDATE_H

#include <stdint.h>

enum {
    GP_KERNEL_UPDATE_THREADS = 256,
    GP_KERNEL_UPDATE_BLOCK = 4096,  /* elements */
    GP_KERNEL_UPDATE_ENTRIES = 256, /* 12 KB of arguments: more cost what a second launch costs */
    GP_KERNEL_UPDATE_STATES = 2     /* at most */
};

typedef struct gp_kernel_update_entry {
    float *param;
    const float *grad;
    float *state[GP_KERNEL_UPDATE_STATES]; /* sgd: momentum, or NULL; adam: means of gradients, of their squares */
    int64_t count;                         /* elements, which lie without gaps */
    uint32_t block;                        /* the first of its blocks */
    uint32_t by_four;                      /* all addresses are multiples of 16 bytes */
} gp_kernel_update_entry;

typedef struct gp_kernel_update_args {
    const double *rate, *clip; /* the step's scalars */
    const uint64_t *finite;
    const uint32_t *step;
    double decay;
    double momentum;   /* sgd */
    int64_t nesterov;  /* sgd */
    double beta[2];    /* adam */
    double eps;        /* adam */
    int64_t decoupled; /* adam */
    int64_t entries;
    gp_kernel_update_entry entry[GP_KERNEL_UPDATE_ENTRIES]; /* in order of `block` */
} gp_kernel_update_args;

#endif
