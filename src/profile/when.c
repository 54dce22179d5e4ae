#include "profile/when.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

const char *gp_when_text(char buffer[GP_WHEN_TEXT], int64_t when) {
    const time_t seconds = (time_t)when;
    struct tm parts;
    if (!gmtime_r(&seconds, &parts)) parts = (struct tm){.tm_mday = 1, .tm_year = 70};
    strftime(buffer, GP_WHEN_TEXT, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return buffer;
}

const char *gp_when_date(char buffer[GP_WHEN_TEXT], int64_t when) {
    gp_when_text(buffer, when);
    *strchr(buffer, 'T') = '\0';
    return buffer;
}

/* The same text comes out again only if every number is in its range, and nothing follows. */
bool gp_when_parse(const char *text, int64_t *out) {
    struct tm parts = {0};
    char again[GP_WHEN_TEXT];
    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2dZ", &parts.tm_year, &parts.tm_mon, &parts.tm_mday, &parts.tm_hour,
               &parts.tm_min, &parts.tm_sec) != 6)
        return false;
    parts.tm_year -= 1900;
    parts.tm_mon -= 1;
    int64_t when = (int64_t)timegm(&parts);
    if (when <= 0 || strcmp(gp_when_text(again, when), text) != 0) return false;
    *out = when;
    return true;
}

const char *gp_when_age(char buffer[GP_WHEN_TEXT], int64_t when, int64_t now) {
    static const struct {
        int64_t seconds;
        const char *name;
    } units[] = {{86400, "day"}, {3600, "hour"}, {60, "minute"}};
    int64_t age = now - when;
    snprintf(buffer, GP_WHEN_TEXT, age < 0 ? "in the future" : "just now");
    for (size_t u = 0; u < sizeof units / sizeof *units; u++) {
        int64_t count = age / units[u].seconds;
        if (count < 1) continue;
        snprintf(buffer, GP_WHEN_TEXT, "%" PRId64 " %s%s ago", count, units[u].name, count == 1 ? "" : "s");
        break;
    }
    return buffer;
}
