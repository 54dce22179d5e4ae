#include "base/roots.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

char root[64];

void give(const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s%s", root, name);
    for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(path, 0777);
        *at = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

int make_root(void **state) {
    (void)state;
    strcpy(root, "/tmp/gpipe-root-XXXXXX");
    assert_non_null(mkdtemp(root));
    return 0;
}

int remove_root(void **state) {
    char command[96];
    (void)state;
    snprintf(command, sizeof command, "rm -r '%s'", root);
    return system(command);
}
