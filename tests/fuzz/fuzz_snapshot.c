/* The reader of snapshots. Where a checksum has its place, the right one is written there, since no mutation finds it;
 * whatever else is in the file then reads as a state that a run can go on from, or is refused. */
#include <stdlib.h>
#include <string.h>

#include "config/tree.h"
#include "fuzz/fuzz.h"
#include "store/snapshot.h"

enum { START = 8, MARK = sizeof GP_SAFETENSORS_SUMMED - 1 };

static void mend_sum(uint8_t *bytes, size_t size) {
    gp_error err = {0};
    gp_checksum *sum = NULL;
    uint8_t *field = bytes + START + MARK;
    if (size < START + MARK + GP_CHECKSUM_DIGITS || memcmp(bytes + START, GP_SAFETENSORS_SUMMED, MARK) != 0) return;
    memset(field, '0', GP_CHECKSUM_DIGITS);
    FUZZ_PROMISE(gp_checksum_create(&sum, &err) == GP_OK);
    gp_checksum_add(sum, bytes, size);
    gp_checksum_digits(sum, (char *)field);
    gp_checksum_destroy(&sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    gp_error err = {0};
    gp_snapshot snapshot = {0};
    gp_yaml_document *config = NULL;
    uint8_t *mended = malloc(size + 1);
    FUZZ_PROMISE(mended);
    if (size > 0) memcpy(mended, bytes, size);
    mend_sum(mended, size);
    gp_status status = gp_snapshot_open(fuzz_file(0, mended, size), &snapshot, &err);
    fuzz_check(status, &err);
    free(mended);
    if (status != GP_OK) return 0;
    FUZZ_PROMISE(snapshot.reached.step >= 0 && snapshot.reached.epoch >= 0 && snapshot.reached.metrics_bytes >= 0);
    status = gp_yaml_parse(snapshot.config, strlen(snapshot.config), "snapshot", &config, &err);
    fuzz_check(status, &err);
    gp_yaml_destroy(&config);
    gp_snapshot_close(&snapshot);
    return 0;
}
