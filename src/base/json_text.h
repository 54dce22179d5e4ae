/* A text as a JSON string.
 *
 * Names and paths may hold anything. Quotes, backslashes and control characters are escaped; each byte that is no part
 * of valid UTF-8 becomes U+FFFD, so that the file stays valid JSON. Any thread; one thread per stream. */
#ifndef GP_BASE_JSON_TEXT_H
#define GP_BASE_JSON_TEXT_H

#include <stdio.h>

/* With its quotes. */
void gp_json_text(FILE *out, const char *text);

#endif
