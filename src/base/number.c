#include "base/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double too_long = 1e17;

const char *gp_number_text(char buffer[GP_NUMBER_TEXT], double value) {
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(buffer, GP_NUMBER_TEXT, "%.*g", digits, value);
        if (strtod(buffer, NULL) == value && (fabs(value) >= too_long || !strstr(buffer, "e+"))) break;
    }
    return buffer;
}

const char *gp_rounded_text(char buffer[GP_NUMBER_TEXT], double value, int digits) {
    snprintf(buffer, GP_NUMBER_TEXT, "%.*g", digits, value);
    if (fabs(value) < too_long && strstr(buffer, "e+")) snprintf(buffer, GP_NUMBER_TEXT, "%.0f", value);
    return buffer;
}
