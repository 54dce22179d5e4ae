#include "fuzz/fuzz.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char *fuzz_file(int file, const void *bytes, size_t size) {
    static int descriptors[FUZZ_FILES];
    static char paths[FUZZ_FILES][32];
    if (descriptors[file] == 0) {
        descriptors[file] = memfd_create("input", MFD_CLOEXEC);
        FUZZ_PROMISE(descriptors[file] > 0);
        snprintf(paths[file], sizeof paths[file], "/proc/self/fd/%d", descriptors[file]);
    }
    FUZZ_PROMISE(ftruncate(descriptors[file], 0) == 0);
    FUZZ_PROMISE(size == 0 || pwrite(descriptors[file], bytes, size, 0) == (ssize_t)size);
    return paths[file];
}

void fuzz_check(gp_status status, gp_error *err) {
    if (status != GP_OK) {
        FUZZ_PROMISE(err->status == status);
        FUZZ_PROMISE(err->text[0] != '\0' && strlen(err->text) < sizeof err->text);
        int lines = 1; /* several only if they are mistakes of one configuration; no text of the input begins one */
        for (const char *at = err->text; *at; at++) {
            FUZZ_PROMISE(((unsigned char)*at >= ' ' && *at != 0x7F) || (*at == '\n' && status == GP_CONFIG));
            lines += *at == '\n';
        }
        FUZZ_PROMISE(lines == (err->lines > 0 ? err->lines : 1) + (err->unsaid > 0) && lines <= 11);
        FUZZ_PROMISE(status != GP_INTERNAL);
    }
    *err = (gp_error){0};
}
