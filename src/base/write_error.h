/* What the system says when it refuses a write, and what a user can do about it.
 *
 * Owns nothing: the caller has the memory of the text. Any thread. */
#ifndef GP_BASE_WRITE_ERROR_H
#define GP_BASE_WRITE_ERROR_H

enum { GP_WRITE_ERROR_TEXT = 160 };

/* The text of errno `why`; for a full disk, a quota and a limit on file sizes, the remedy too. Returns `text`. */
const char *gp_write_error(char text[GP_WRITE_ERROR_TEXT], int why);

#endif
