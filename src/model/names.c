#include "model/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/philox.h"

gp_status gp_names_init(gp_names *names, size_t count, gp_error *err) {
    size_t size = 16;
    while (size / 2 < count) size *= 2;
    gp_name_slot *slots = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&slots, size, err));
    *names = (gp_names){slots, size};
    return GP_OK;
}

void gp_names_fini(gp_names *names) {
    free(names->slots);
    *names = (gp_names){0};
}

static gp_name_slot *slot_of(const gp_names *names, const char *name) {
    uint64_t hash = gp_hash_text(name);
    for (size_t i = hash & (names->size - 1);; i = (i + 1) & (names->size - 1)) {
        gp_name_slot *slot = &names->slots[i];
        if (!slot->name || strcmp(slot->name, name) == 0) return slot;
    }
}

int gp_names_enter(gp_names *names, const char *name, int number) {
    gp_name_slot *slot = slot_of(names, name);
    if (!slot->name) *slot = (gp_name_slot){name, number};
    return slot->number;
}

int gp_names_find(const gp_names *names, const char *name) {
    if (!names->slots) return -1;
    const gp_name_slot *slot = slot_of(names, name);
    return slot->name ? slot->number : -1;
}
