/* Status codes and errors.
 *
 * Every function that can fail returns a gp_status and fills a gp_error that its caller owns (usually on the stack of
 * the thread that began the work). The function that finds out writes the sentence; those above may put context before
 * it and never replace the cause. Outputs are set only on success. Any thread, each with its own gp_error.
 */
#ifndef GP_BASE_STATUS_H
#define GP_BASE_STATUS_H

#include <stdarg.h>
#include <stddef.h>

/* X(enumerator suffix, exit status of a program that ends with it) */
#define GP_STATUS_MAP(X)                                                                                               \
    X(OK, 0)                                                                                                           \
    X(USAGE, 2)                                                                                                        \
    X(CONFIG, 2)                                                                                                       \
    X(DATA, 1)                                                                                                         \
    X(IO, 1)                                                                                                           \
    X(MEMORY, 1)                                                                                                       \
    X(DEVICE, 1)                                                                                                       \
    X(UNSUPPORTED, 1)                                                                                                  \
    X(PROGRAM, 1)                                                                                                      \
    X(NUMERIC, 1)                                                                                                      \
    X(CANCELLED, 1)                                                                                                    \
    X(INJECTED, 1)                                                                                                     \
    X(INTERNAL, 1)                                                                                                     \
    X(LOST, 1)                                                                                                         \
    X(INTERRUPTED, 130)
typedef enum gp_status {
#define GP_STATUS_ENUM(suffix, exit_status) GP_##suffix,
    GP_STATUS_MAP(GP_STATUS_ENUM)
#undef GP_STATUS_ENUM
} gp_status;

enum { GP_ERROR_TEXT = 2048 };

/* The first cause, as one sentence on one line. A longer sentence is cut, with "…" at its end. Characters of quoted
 * texts that are not printable become "?" (base/printable.h). Only independent mistakes of a configuration are several
 * lines (gp_error_join). Zero-initialise before use. */
typedef struct gp_error {
    gp_status status;
    int lines, unsaid; /* joined: lines of the text; mistakes that only its last line counts. 0: not joined */
    char text[GP_ERROR_TEXT];
} gp_error;

/* Where in a file something was said. line and column count from 1; line 0: no place known; column 0: line only. */
typedef struct gp_place {
    const char *path; /* borrowed: as long as the document that it came from; NULL: no place */
    int line;
    int column;
} gp_place;

#define GP_MUST_USE                   __attribute__((warn_unused_result))
#define GP_PRINTF(format_at, args_at) __attribute__((format(printf, format_at, args_at)))

/* What main returns for it: 0, 1, 2, or 130. Any thread, and signal handlers. */
int gp_status_exit(gp_status status);

/* Writes the sentence into err (which may be NULL) and returns status, so that `return gp_fail(...)` reads well. */
gp_status gp_fail(gp_error *err, gp_status status, const char *format, ...) GP_PRINTF(3, 4);
/* The same with "path:line:column: " before it. */
gp_status gp_fail_at(gp_error *err, gp_status status, gp_place place, const char *format, ...) GP_PRINTF(4, 5);
/* Puts context before what err says ("stage 2, micro-batch 5: …") and returns err's status. */
gp_status gp_error_context(gp_error *err, const char *format, ...) GP_PRINTF(2, 3);
/* For who reads on after a mistake of a configuration (GP_CONFIG) and finds another: adds the lines of `next` to what
 * `err` says, ten in all, and then counts them ("and 3 more mistakes"). Returns the status of both; a failure of
 * another kind stands alone. `before`: the status of what `err` says, GP_OK if it says nothing. `err` may be NULL. */
gp_status gp_error_join(gp_error *err, gp_status before, const gp_error *next);

/* Hands a failure on: the one hidden jump of the code base, and its name says so. */
#define GP_RETURN_IF_FAILED(expression)                                                                                \
    do {                                                                                                               \
        gp_status gp_status_ = (expression);                                                                           \
        if (gp_status_ != GP_OK) return gp_status_;                                                                    \
    } while (0)

#endif
