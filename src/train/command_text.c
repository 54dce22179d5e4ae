#include "train/command_text.h"

#include <stdbool.h>
#include <string.h>

static bool is_plain(const char *text) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:,+%@-=";
    return text[strspn(text, plain)] == '\0';
}

/* Between quotation marks. */
static void write_escaped(const char *text, FILE *out) {
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", out);
        else
            fputc(*text, out);
}

void gp_command_write_word(const char *word, FILE *out) {
    bool plain = *word && is_plain(word);
    fputs(plain ? " " : " '", out);
    write_escaped(word, out);
    if (!plain) fputs("'", out);
}

void gp_command_write_set(const char *key, const char *value, FILE *out) {
    bool plain = is_plain(key) && is_plain(value);
    fprintf(out, " --set %s", plain ? "" : "'");
    write_escaped(key, out);
    fputs("=", out);
    write_escaped(value, out);
    if (!plain) fputs("'", out);
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

void gp_command_write_config(const gp_command *command, FILE *out) {
    if (command->config[0] == '-') fputs(" --", out);
    gp_command_write_word(command->config, out);
}
