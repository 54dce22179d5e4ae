/* What the fuzz targets share: inputs as files, and promises that must hold of every input. A target's process has one
 * thread; libFuzzer starts several processes where it is told to. */
#ifndef GP_TESTS_FUZZ_FUZZ_H
#define GP_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { FUZZ_FILES = 2 };

/* The bytes as a file in memory; its path, which stays the same. `file` is below FUZZ_FILES. */
const char *fuzz_file(int file, const void *bytes, size_t size);

/* A promise that every input must leave true; ends the process where it is not. */
#define FUZZ_PROMISE(holds)                                                                                            \
    do {                                                                                                               \
        if (!(holds)) __builtin_trap();                                                                                \
    } while (0)

/* What every call must do: succeed, or fail with a status, a sentence on one line, and exit status 2 unless one of the
 * machine's own. */
void fuzz_check(gp_status status, gp_error *err);

#endif
