#include "base/write_error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *remedy(int why) {
    switch (why) {
    case ENOSPC: return "; free space on that file system";
    case EDQUOT: return "; free space, or ask for a larger quota";
    case EFBIG: return "; raise the limit on the size of files (ulimit -f)";
    default: return "";
    }
}

const char *gp_write_error(char text[GP_WRITE_ERROR_TEXT], int why) {
    snprintf(text, GP_WRITE_ERROR_TEXT, "%s%s", strerror(why), remedy(why));
    return text;
}
