/* One value of a YAML text changed: what comes out says it, and is only there once; a second time changes nothing. A
 * comment after the value keeps the space before it. */
#include <stdlib.h>
#include <string.h>

#include "config/splice.h"
#include "config/tree.h"
#include "fuzz/fuzz.h"

static void check_value(const char *text) {
    gp_error err = {0};
    gp_yaml_document *document = NULL;
    FUZZ_PROMISE(gp_yaml_parse(text, strlen(text), "again", &document, &err) == GP_OK);
    const gp_yaml *value = gp_yaml_find(document, "pipeline.balance");
    FUZZ_PROMISE(value && value->kind == GP_YAML_SEQUENCE && value->count == 2);
    /* A text that says 8.0 says it already. */
    FUZZ_PROMISE(strtod(value->items[0]->text, NULL) == 4 && strtod(value->items[1]->text, NULL) == 8);
    gp_yaml_destroy(&document);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    gp_error err = {0};
    char *changed = NULL, *again = NULL, *text = strndup((const char *)bytes, size);
    FUZZ_PROMISE(text);
    gp_status status = gp_yaml_splice(text, "c.yaml", "pipeline", "balance", "[4, 8]", &changed, &err);
    fuzz_check(status, &err);
    if (status == GP_OK) {
        check_value(changed);
        FUZZ_PROMISE(strstr(text, "]#") || !strstr(changed, "[4, 8]#"));
        FUZZ_PROMISE(gp_yaml_splice(changed, "c.yaml", "pipeline", "balance", "[4, 8]", &again, &err) == GP_OK);
        FUZZ_PROMISE(strcmp(changed, again) == 0);
    }
    free(again);
    free(changed);
    free(text);
    return 0;
}
