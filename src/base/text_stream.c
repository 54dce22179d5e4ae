#include "base/text_stream.h"

#include <stdbool.h>
#include <stdlib.h>

gp_status gp_text_begin(gp_text_stream *stream, const char *what, gp_error *err) {
    *stream = (gp_text_stream){.what = what};
    stream->file = open_memstream(&stream->text, &stream->bytes);
    return stream->file ? GP_OK : gp_fail(err, GP_MEMORY, "out of memory: %s", what);
}

gp_status gp_text_end(gp_text_stream *stream, gp_status status, char **out, gp_error *err) {
    bool failed = ferror(stream->file) != 0;
    if ((fclose(stream->file) != 0 || failed) && status == GP_OK)
        status = gp_fail(err, GP_MEMORY, "out of memory: %s", stream->what);
    if (status == GP_OK)
        *out = stream->text;
    else
        free(stream->text);
    stream->file = NULL;
    stream->text = NULL;
    return status;
}
