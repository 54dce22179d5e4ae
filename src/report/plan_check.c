#include "report/plan_check.h"

#include <stdlib.h>
#include <string.h>

#include "base/text_file.h"
#include "check/check.h"
#include "report/plan_json.h"
#include "report/text.h"

#define MOST ((size_t)1 << 32) /* bytes of a file */

static gp_status check_text(const char *text, size_t bytes, const char *path, FILE *out, gp_error *err) {
    gp_certificate certificate;
    gp_claim *claim = NULL;
    GP_RETURN_IF_FAILED(gp_claim_read(text, bytes, path, &claim, err));
    gp_status status = gp_check(claim, &certificate, err);
    if (status == GP_OK) {
        gp_certificate_write(claim, &certificate, out);
        gp_certificate_fini(&certificate);
        status = gp_report_end(out, "the certificate", err);
    }
    gp_claim_destroy(&claim);
    return status;
}

gp_status gp_plan_check(const gp_session *session, FILE *out, gp_error *err) {
    char *text = NULL;
    size_t bytes = 0;
    gp_plan_json json = gp_plan_json_of(session);
    json.all = true;
    FILE *stream = open_memstream(&text, &bytes);
    if (!stream) return gp_fail(err, GP_MEMORY, "no memory for the plan as JSON");
    gp_status status = gp_plan_json_write(&json, stream, err);
    bool failed = ferror(stream) || fclose(stream) != 0;
    if (status == GP_OK && failed) status = gp_fail(err, GP_MEMORY, "no memory for the plan as JSON");
    if (status == GP_OK) status = check_text(text, bytes, session->whole->path, out, err);
    free(text);
    return status;
}

/* Keys may stand in any order. */
bool gp_is_plan_file(const char *path) {
    char *text = NULL;
    size_t bytes;
    gp_error none = {0};
    if (gp_text_file_read(path, MOST, "a plan", &text, &bytes, &none) != GP_OK) return false;
    const char *begin = strncmp(text, "\xEF\xBB\xBF", 3) ? text : text + 3;
    bool is = begin[strspn(begin, " \t\r\n")] == '{' && strstr(begin, "\"gpipe-plan\"") != NULL;
    free(text);
    return is;
}

gp_status gp_plan_file_check(const char *path, FILE *out, gp_error *err) {
    char *text = NULL;
    size_t bytes;
    GP_RETURN_IF_FAILED(gp_text_file_read(path, MOST, "a plan", &text, &bytes, err));
    size_t mark = strncmp(text, "\xEF\xBB\xBF", 3) ? 0 : 3; /* of the order of bytes */
    gp_status status = check_text(text + mark, bytes - mark, path, out, err);
    free(text);
    return status;
}
