/* Plans as JSON: what is read gives a certificate, or a sentence. */
#include <stdlib.h>
#include <string.h>

#include "check/check.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    gp_error err = {0};
    gp_claim *claim = NULL;
    gp_certificate certificate = {.peak = NULL};
    gp_status status = gp_claim_read((const char *)bytes, size, "p.json", &claim, &err);
    if (status == GP_OK) status = gp_check(claim, &certificate, &err);
    FUZZ_PROMISE((status == GP_OK) == (err.text[0] == '\0') && !strchr(err.text, '\n'));
    if (status == GP_OK) {
        char *text = NULL;
        size_t written = 0;
        FILE *out = open_memstream(&text, &written);
        FUZZ_PROMISE(out != NULL);
        gp_certificate_write(claim, &certificate, out);
        fclose(out);
        free(text);
        gp_certificate_fini(&certificate);
    }
    gp_claim_destroy(&claim);
    return 0;
}
