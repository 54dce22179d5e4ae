#include "base/json_text.h"

#include <string.h>

#include "base/printable.h"

void gp_json_text(FILE *out, const char *text) {
    fputc('"', out);
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        bool printable;
        size_t bytes = gp_printable_next((const char *)at, &printable);
        if (bytes == 1 && *at >= 0x80)
            fputs("\\ufffd", out);
        else if (*at == '"' || *at == '\\')
            fprintf(out, "\\%c", *at);
        else if (bytes == 3 && !memcmp(at, "\xEF\xBB\xBF", 3))
            fputs("\\ufeff",
                  out); /* our reader of JSON is one of YAML, which takes it for a mark of the order of bytes */
        else if (*at < 0x20)
            fprintf(out, "\\u%04x", *at);
        else
            fwrite(at, 1, bytes, out);
        at += bytes;
    }
    fputc('"', out);
}
