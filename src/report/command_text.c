#include "report/command_text.h"

#include <stdbool.h>
#include <string.h>

#include "base/printable.h"

static bool is_plain(const char *text) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:,+%@-=";
    return text[strspn(text, plain)] == '\0';
}

/* How a shell is to read a text: as it is, within '…', or within $'…', where bytes that are not printed are \xHH. */
typedef enum quotes { NO_QUOTES, PLAIN_QUOTES, ESCAPING_QUOTES } quotes;

static quotes quotes_of(const char *text) {
    return is_plain(text) ? NO_QUOTES : gp_is_printable(text) ? PLAIN_QUOTES : ESCAPING_QUOTES;
}

static void write_plain(const char *text, FILE *out) {
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", out);
        else
            fputc(*text, out);
}

static void write_escaping(const char *text, FILE *out) {
    while (*text) {
        bool printable;
        size_t bytes = gp_printable_next(text, &printable);
        if (*text == '\'' || *text == '\\') fputc('\\', out);
        for (; bytes > 0; bytes--, text++)
            if (printable)
                fputc(*text, out);
            else
                fprintf(out, "\\x%02x", (unsigned)(unsigned char)*text);
    }
}

static void write_quoted(const char *text, quotes how, FILE *out) {
    if (how == ESCAPING_QUOTES)
        write_escaping(text, out);
    else
        write_plain(text, out);
}

static const char *const openings[] = {"", "'", "$'"}, *const endings[] = {"", "'", "'"};

void gp_command_write_word(const char *word, FILE *out) {
    quotes how = *word ? quotes_of(word) : PLAIN_QUOTES;
    fprintf(out, " %s", openings[how]);
    write_quoted(word, how, out);
    fputs(endings[how], out);
}

void gp_command_write_set(const char *key, const char *value, FILE *out) {
    quotes of_key = quotes_of(key), of_value = quotes_of(value), how = of_key > of_value ? of_key : of_value;
    fprintf(out, " --set %s", openings[how]);
    write_quoted(key, how, out);
    fputs("=", out);
    write_quoted(value, how, out);
    fputs(endings[how], out);
}

static bool is_of(const char *override, const char *const *keys) {
    size_t length = strcspn(override, "=");
    while (*keys && (strlen(*keys) != length || strncmp(*keys, override, length) != 0)) keys++;
    return *keys != NULL;
}

void gp_command_write_overrides(const gp_command *command, const char *const *later, FILE *out) {
    for (int i = 0; i < command->override_count; i++) {
        if (is_of(command->overrides[i], later)) continue;
        fputs(" --set", out);
        gp_command_write_word(command->overrides[i], out);
    }
}

void gp_command_write_profile(const gp_command *command, FILE *out) {
    if (!command->profile) return;
    fputs(" --profile", out);
    gp_command_write_word(command->profile, out);
}

void gp_command_write_processors(const gp_command *command, FILE *out) {
    if (command->processors) fprintf(out, " --processors %d", command->processors);
}

void gp_command_write_config(const gp_command *command, FILE *out) {
    if (command->config[0] == '-') fputs(" --", out);
    gp_command_write_word(command->config, out);
}
