/* The convolutions and products of whole networks, as the planner lowers them. Main thread only: what goes wrong fails
 * the cmocka test, or ends a program that prints tables. */
#ifndef GP_TESTS_TOOLKIT_LOWERED_OPS_H
#define GP_TESTS_TOOLKIT_LOWERED_OPS_H

#include <stddef.h>

#include "device/op.h"

typedef struct lowered_op {
    char layer[64];
    gp_op_desc desc;
    int uses; /* of this descriptor in the network; the first one's layer is named */
} lowered_op;

typedef struct lowered_ops {
    lowered_op *item; /* different descriptors, in the order of their first use */
    size_t count, capacity;
    int total; /* uses of them all */
} lowered_ops;

typedef struct network {
    const char *name, *model; /* YAML */
    int64_t samples;          /* of a micro-batch */
} network;

/* ResNet-50 at 224x224, batches of 32; a U-Net at 256x256, four levels, batches of 8. */
enum { NETWORK_RESNET, NETWORK_UNET, NETWORKS };
extern const network networks[NETWORKS];

/* Of every layer that has them, in this order: forward, backward to the weights, the same with GP_OP_ACCUMULATE,
 * backward to the input. The gradients of biases are left out: they are sums, and no library's. */
void lowered_ops_collect(const network *its, lowered_ops *out);
void lowered_ops_release(lowered_ops *ops);

#endif
