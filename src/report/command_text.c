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

static void write_quoted(const char *text, quotes how, FILE *out) {
    bool printable;
    for (size_t bytes; *text; text += bytes) {
        bytes = gp_printable_next(text, &printable);
        if (how == ESCAPING_QUOTES && (*text == '\'' || *text == '\\')) fputc('\\', out);
        if (how == PLAIN_QUOTES && *text == '\'') fputs("'\\'", out);
        for (size_t i = 0; i < bytes; i++)
            if (printable)
                fputc(text[i], out);
            else
                fprintf(out, "\\x%02x", (unsigned)(unsigned char)text[i]);
    }
}

/* With a space before it. */
static void write_word(const char *key, const char *joint, const char *value, FILE *out) {
    static const char *const openings[] = {"", "'", "$'"}, *const endings[] = {"", "'", "'"};
    quotes of_key = quotes_of(key), of_value = quotes_of(value), how = of_key > of_value ? of_key : of_value;
    if (!*key && !*value) how = PLAIN_QUOTES;
    fprintf(out, " %s", openings[how]);
    write_quoted(key, how, out);
    fputs(joint, out);
    write_quoted(value, how, out);
    fputs(endings[how], out);
}

static bool is_of(const char *override, const gp_command_set *sets, int count) {
    size_t length = strcspn(override, "=");
    for (int i = 0; i < count; i++)
        if (strlen(sets[i].key) == length && strncmp(sets[i].key, override, length) == 0) return true;
    return false;
}

/* But for those of the keys that the line sets after them. */
static void write_overrides(const gp_command *command, const gp_command_set *sets, int count, FILE *out) {
    for (int i = 0; i < command->override_count; i++) {
        if (is_of(command->overrides[i], sets, count)) continue;
        fputs(" --set", out);
        write_word(command->overrides[i], "", "", out);
    }
}

static void write_config(const gp_command *command, FILE *out) {
    if (command->config[0] == '-') fputs(" --", out);
    write_word(command->config, "", "", out);
    fputs("\n", out);
}

gp_status gp_command_write_again(const gp_command *command, const char *option, gp_status checked, FILE *out,
                                 gp_error *err) {
    bool refused = checked == GP_USAGE || checked == GP_CONFIG;
    if (refused) *err = (gp_error){0};
    if (checked != GP_OK) return refused ? GP_OK : checked;
    fprintf(out, "to write it  gpipe-balance%s --write", option);
    if (command->profile) {
        fputs(" --profile", out);
        write_word(command->profile, "", "", out);
    }
    if (command->processors) fprintf(out, " --processors %d", command->processors);
    write_overrides(command, NULL, 0, out);
    write_config(command, out);
    return GP_OK;
}

void gp_command_train(const gp_command *command, const gp_command_set *sets, int count, int first, FILE *out) {
    fputs("to train     gpipe-train", out);
    write_overrides(command, sets, count, out);
    for (int i = 0; i < count; i++) {
        fputs(i > 0 && i == first ? " \\\n               --set" : " --set", out);
        write_word(sets[i].key, "=", sets[i].value, out);
    }
    write_config(command, out);
}
