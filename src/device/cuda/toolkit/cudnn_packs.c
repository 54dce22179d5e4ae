#include "device/cuda/toolkit/cudnn_packs.h"

#include <assert.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/cuda/toolkit/cudnn_graph.h"

typedef struct pack {
    size_t plan;                          /* number */
    void *address[GP_CUDNN_OPERANDS + 1]; /* the last is the workspace's */
    gp_cudnn_part part;
} pack;

static pack key_of(size_t plan, const gp_op_desc *desc, void *const operands[], void *workspace) {
    pack key = {.plan = plan};
    assert(desc->operands <= GP_CUDNN_OPERANDS);
    for (int i = 0; i < (int)desc->operands; i++)
        if (desc->operand[i].present) key.address[i] = operands[i];
    key.address[GP_CUDNN_OPERANDS] = workspace;
    return key;
}

/* By plan and addresses. */
static int compare(const void *a, const void *b) {
    return memcmp(a, b, offsetof(pack, part));
}

static gp_status build(const gp_op_desc *desc, pack *key, gp_error *err) {
    gp_cudnn_parts parts = {0};
    int64_t id[GP_CUDNN_OPERANDS];
    void *address[GP_CUDNN_OPERANDS];
    int count = 0;
    for (int i = 0; i < (int)desc->operands; i++) {
        if (!desc->operand[i].present) continue;
        id[count] = gp_cudnn_operand_id(i);
        address[count++] = key->address[i];
    }
    gp_cudnn_part part = gp_cudnn_part_new(&parts, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    gp_cudnn_part_set(&parts, part, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, id);
    gp_cudnn_part_set(&parts, part, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count,
                      (const void *)address);
    gp_cudnn_part_set(&parts, part, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                      (const void *)&key->address[GP_CUDNN_OPERANDS]);
    gp_cudnn_part_finish(&parts, part, "addresses");
    gp_status status = gp_cudnn_parts_status(&parts, err);
    if (status == GP_OK) {
        key->part = part;
        parts.count = 0; /* kept */
    }
    gp_cudnn_parts_fini(&parts);
    return status;
}

static void destroy(void *its) {
    const pack *old = its;
    if (old->part) (void)gp_cudnn.cudnnBackendDestroyDescriptor(old->part);
    free(its);
}

/* Puts the key into the tree, with its pack. */
static gp_status add(gp_cudnn_packs *packs, const gp_op_desc *desc, const pack *key, gp_cudnn_part *out,
                     gp_error *err) {
    pack *made;
    GP_RETURN_IF_FAILED(GP_NEW(&made, 1, err));
    *made = *key;
    gp_status status = build(desc, made, err);
    if (status == GP_OK && !tsearch(made, &packs->tree, compare))
        status = gp_fail(err, GP_MEMORY, "out of memory: a place for addresses");
    if (status != GP_OK) {
        destroy(made);
        return status;
    }
    packs->count++;
    *out = made->part;
    return GP_OK;
}

gp_status gp_cudnn_packs_find(gp_cudnn_packs *packs, size_t plan, const gp_op_desc *desc, void *const operands[],
                              void *workspace, gp_cudnn_part *out, gp_error *err) {
    const pack key = key_of(plan, desc, operands, workspace);
    pack *const *found = tfind(&key, &packs->tree, compare);
    if (found) {
        *out = (*found)->part;
        return GP_OK;
    }
    if (packs->count == GP_CUDNN_MOST_PACKS) gp_cudnn_packs_fini(packs);
    return add(packs, desc, &key, out, err);
}

void gp_cudnn_packs_fini(gp_cudnn_packs *packs) {
    tdestroy(packs->tree, destroy);
    *packs = (gp_cudnn_packs){0};
}
