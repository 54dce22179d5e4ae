/* A text in memory that is written like a file.
 *
 * gp_text_begin opens the file; gp_text_end closes it in every case, and hands the text to the caller. One thread.
 */
#ifndef GP_BASE_TEXT_STREAM_H
#define GP_BASE_TEXT_STREAM_H

#include <stddef.h>
#include <stdio.h>

#include "base/status.h"

typedef struct gp_text_stream {
    FILE *file; /* to write to */
    char *text;
    size_t bytes;
    const char *what; /* in "out of memory: the balance"; borrowed */
} gp_text_stream;

GP_MUST_USE gp_status gp_text_begin(gp_text_stream *stream, const char *what, gp_error *err);
/* `status`: of what was written. If it is GP_OK and nothing of the text is lost, *out is the text, owned by the caller.
 * Else there is no text, and the first failure is returned. */
GP_MUST_USE gp_status gp_text_end(gp_text_stream *stream, gp_status status, char **out, gp_error *err);

#endif
