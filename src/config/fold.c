#include "config/fold.h"

#include <ctype.h>
#include <string.h>

bool gp_fold_name(const char *name, char out[GP_LONGEST_NAME + 1]) {
    size_t used = 0;
    for (; *name; name++) {
        if (strchr("_-. ", *name)) continue;
        if (used == GP_LONGEST_NAME) return false;
        out[used++] = (char)tolower((unsigned char)*name);
    }
    out[used] = '\0';
    return true;
}

bool gp_same_name(const char *a, const char *b) {
    char folded[GP_LONGEST_NAME + 1] = "", other[GP_LONGEST_NAME + 1] = "";
    return gp_fold_name(a, folded) && gp_fold_name(b, other) && folded[0] && strcmp(folded, other) == 0;
}

int gp_index_of(const char *name, const char *const *names) {
    for (int i = 0; names && names[i]; i++)
        if (strcmp(names[i], name) == 0) return i;
    return -1;
}
