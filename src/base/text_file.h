/* Files that people write: read whole, into memory.
 *
 * Any thread. What is wrong with them is the configuration's fault. */
#ifndef GP_BASE_TEXT_FILE_H
#define GP_BASE_TEXT_FILE_H

#include <stddef.h>

#include "base/status.h"

/* All of a regular file of at most `most` bytes; *text, which the caller frees, has a 0 behind it. `what` it is, for
 * messages: "a configuration". Never waits for a pipe's writer. GP_CONFIG where it cannot be read, or is no such file.
 */
GP_MUST_USE gp_status gp_text_file_read(const char *path, size_t most, const char *what, char **text, size_t *bytes,
                                        gp_error *err);

#endif
