#include "device/cuda/toolkit/cudnn_packs.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"
#include "device/cuda/toolkit/cudnn_graph.h"

static gp_cudnn_pack key_of(size_t plan, const gp_op_desc *desc, void *const operands[], void *workspace) {
    gp_cudnn_pack key = {.plan = plan};
    assert(desc->operands <= GP_CUDNN_OPERANDS);
    for (int i = 0; i < (int)desc->operands; i++)
        if (desc->operand[i].present) key.address[i] = operands[i];
    key.address[GP_CUDNN_OPERANDS] = workspace;
    return key;
}

static bool is_same(const gp_cudnn_pack *a, const gp_cudnn_pack *b) {
    return a->plan == b->plan && memcmp(a->address, b->address, sizeof a->address) == 0;
}

/* Where the key lies, or the free place where it may be put. There is a free place. */
static gp_cudnn_pack *place_of(const gp_cudnn_packs *packs, const gp_cudnn_pack *key) {
    size_t mask = packs->places - 1;
    size_t at = (size_t)gp_hash_bytes(key->plan, key->address, sizeof key->address) & mask;
    while (packs->place[at].pack && !is_same(&packs->place[at], key)) at = (at + 1) & mask;
    return &packs->place[at];
}

/* Makes a free place for one more pack. */
static gp_status make_room(gp_cudnn_packs *packs, gp_error *err) {
    enum { FEWEST = 8 };
    if (packs->count == GP_CUDNN_MOST_PACKS) gp_cudnn_packs_fini(packs);
    if (2 * (packs->count + 1) <= packs->places) return GP_OK;
    gp_cudnn_packs more = {.count = packs->count, .places = packs->places ? 2 * packs->places : FEWEST};
    GP_RETURN_IF_FAILED(GP_NEW(&more.place, more.places, err));
    for (size_t i = 0; i < packs->places; i++)
        if (packs->place[i].pack) *place_of(&more, &packs->place[i]) = packs->place[i];
    free(packs->place);
    *packs = more;
    return GP_OK;
}

static gp_status build(const gp_op_desc *desc, gp_cudnn_pack *key, gp_error *err) {
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
        key->pack = part;
        parts.count = 0; /* kept */
    }
    gp_cudnn_parts_fini(&parts);
    return status;
}

gp_status gp_cudnn_packs_find(gp_cudnn_packs *packs, size_t plan, const gp_op_desc *desc, void *const operands[],
                              void *workspace, gp_cudnn_part *out, gp_error *err) {
    gp_cudnn_pack key = key_of(plan, desc, operands, workspace);
    if (packs->places > 0) {
        const gp_cudnn_pack *found = place_of(packs, &key);
        *out = found->pack;
        if (found->pack) return GP_OK;
    }
    GP_RETURN_IF_FAILED(make_room(packs, err));
    GP_RETURN_IF_FAILED(build(desc, &key, err));
    *place_of(packs, &key) = key;
    packs->count++;
    *out = key.pack;
    return GP_OK;
}

void gp_cudnn_packs_fini(gp_cudnn_packs *packs) {
    for (size_t i = 0; i < packs->places; i++)
        if (packs->place[i].pack) (void)gp_cudnn.cudnnBackendDestroyDescriptor(packs->place[i].pack);
    free(packs->place);
    *packs = (gp_cudnn_packs){0};
}
