#include "settings/epochs.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "data/loader.h"

gp_status gp_epochs_add(gp_epochs *epochs, int64_t after, int64_t batch, bool drop_last, gp_error *err) {
    gp_epoch_place from = epochs->count > 0 ? gp_epochs_place(epochs, after) : (gp_epoch_place){1, 0};
    gp_epoch_part *larger = NULL;
    gp_epoch_part part = {.after = after, .batch = batch};
    part.each = gp_loader_batches(epochs->samples, batch, drop_last);
    if (part.each == 0) return gp_fail(err, GP_DATA, "no mini-batch is full, and drop_last leaves them out");
    part.first = gp_loader_batches(epochs->samples - from.taken, batch, drop_last);
    /* What is left is no mini-batch: the epoch has ended. */
    if (part.first == 0) from = (gp_epoch_place){from.epoch + 1, 0};
    if (part.first == 0) part.first = part.each;
    part.epoch = from.epoch;
    part.taken = from.taken;
    GP_RETURN_IF_FAILED(GP_NEW(&larger, epochs->count + 1, err));
    if (epochs->count > 0) memcpy(larger, epochs->part, (size_t)epochs->count * sizeof *larger);
    larger[epochs->count++] = part;
    free(epochs->part);
    epochs->part = larger;
    return GP_OK;
}

void gp_epochs_fini(gp_epochs *epochs) {
    free(epochs->part);
    *epochs = (gp_epochs){0};
}

static const gp_epoch_part *part_of_step(const gp_epochs *epochs, int64_t step) {
    int p = epochs->count - 1;
    while (p > 0 && epochs->part[p].after > step) p--;
    return &epochs->part[p];
}

gp_epoch_place gp_epochs_place(const gp_epochs *epochs, int64_t step) {
    const gp_epoch_part *part = part_of_step(epochs, step);
    int64_t done = step - part->after;
    if (done < part->first) return (gp_epoch_place){part->epoch, part->taken + done * part->batch};
    done -= part->first;
    return (gp_epoch_place){part->epoch + 1 + done / part->each, done % part->each * part->batch};
}

int64_t gp_epochs_ended(const gp_epochs *epochs, int64_t step) {
    return gp_epochs_place(epochs, step).epoch - 1;
}

int64_t gp_epochs_steps(const gp_epochs *epochs, int64_t count) {
    if (count <= 0) return 0;
    int p = epochs->count - 1;
    while (p > 0 && epochs->part[p].epoch > count) p--;
    const gp_epoch_part *part = &epochs->part[p];
    int64_t steps;
    if (!gp_int64_mul(count - part->epoch, part->each, &steps) || !gp_int64_add(steps, part->first, &steps) ||
        !gp_int64_add(steps, part->after, &steps))
        return INT64_MAX;
    /* An epoch of which the next part found no whole mini-batch left ended where that part began. */
    if (p + 1 < epochs->count && steps > part[1].after) steps = part[1].after;
    return steps;
}
