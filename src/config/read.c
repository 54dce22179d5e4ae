#include "config/read.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

gp_status gp_refuse(gp_place place, const char *what, gp_error *err, const char *format, ...) {
    char text[GP_ERROR_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return gp_fail_at(err, GP_CONFIG, place, "%s: %s", what, text);
}

static bool is_nothing(const gp_yaml *node) {
    return node->kind == GP_YAML_SCALAR && !node->quoted && node->text[0] == '\0';
}

/* `needed`: "an integer". */
static gp_status need_scalar(const gp_yaml *node, const char *what, const char *needed, gp_error *err) {
    if (node->kind == GP_YAML_SCALAR && !is_nothing(node)) return GP_OK;
    return gp_refuse(node->place, what, err, "needs %s, not %s", needed, gp_show_node(node).text);
}

/* A scalar that is not in quotes. */
static gp_status need_plain(const gp_yaml *node, const char *what, const char *needed, gp_error *err) {
    GP_RETURN_IF_FAILED(need_scalar(node, what, needed, err));
    if (node->quoted)
        return gp_refuse(node->place, what, err, "needs %s, and %s in quotes is a text", needed,
                         gp_show(node->text).text);
    return GP_OK;
}

/* Python's None, and YAML's null. */
static bool is_none(const gp_yaml *node) {
    static const char *const names[] = {"None", "none", "null", "Null", "NULL", "nil", "~", NULL};
    return gp_index_of(node->text, names) >= 0;
}

static gp_status refuse_text(const gp_yaml *node, const char *what, const char *rule, gp_error *err) {
    return gp_refuse(node->place, what, err, "%s is not %s%s", gp_show(node->text).text, rule,
                     is_none(node) ? "; write a value, or leave the key out" : "");
}

static size_t digits_at(const char *text) {
    return strspn(text, "0123456789");
}

/* With a unit it is a text anyway, and programs that write YAML or JSON quote it. */
static gp_status need_measure(const gp_yaml *node, const char *what, const char *needed, gp_error *err) {
    bool united = node->kind == GP_YAML_SCALAR && node->text[digits_at(node->text)] != '\0';
    return united ? need_scalar(node, what, needed, err) : need_plain(node, what, needed, err);
}

/* What strtod reads, less hexadecimal, infinities and not-a-number. */
static bool is_decimal(const char *text) {
    text += *text == '+' || *text == '-';
    size_t whole = digits_at(text);
    text += whole;
    size_t fraction = 0;
    if (*text == '.') {
        fraction = digits_at(text + 1);
        text += 1 + fraction;
    }
    if (whole + fraction == 0) return false;
    if (*text == 'e' || *text == 'E') {
        text++;
        text += *text == '+' || *text == '-';
        size_t exponent = digits_at(text);
        if (exponent == 0) return false;
        text += exponent;
    }
    return *text == '\0';
}

/* A number without a fraction, as 64.0, 1e3 and 1,000: with how to write it. */
static gp_status refuse_integer(const gp_yaml *node, const char *what, gp_error *err) {
    const double most = 1e15; /* all integers up to here are numbers */
    char digits[20] = "";
    size_t used = 0, length = strspn(node->text, "_,0123456789");
    for (size_t i = 0; i < length && used < sizeof digits - 1; i++)
        if (isdigit((unsigned char)node->text[i])) digits[used++] = node->text[i];
    const char *text = node->text[length] == '\0' ? digits : node->text;
    double value = is_decimal(text) ? strtod(text, NULL) : 0.5;
    if (fabs(value) > most || value != floor(value)) return refuse_text(node, what, "an integer", err);
    return gp_refuse(node->place, what, err, "%s is not an integer; write %.0f", gp_show(node->text).text, value);
}

/* Other programs, and other versions of YAML, have more words for both. */
static gp_status refuse_boolean(const gp_yaml *node, const char *what, gp_error *err) {
    static const char *const words[2][6] = {{"false", "no", "off", "n", "0", NULL},
                                            {"true", "yes", "on", "y", "1", NULL}};
    char folded[GP_LONGEST_NAME + 1];
    for (int yes = 0; yes < 2; yes++)
        if (gp_fold_name(node->text, folded) && gp_index_of(folded, words[yes]) >= 0)
            return gp_refuse(node->place, what, err, "%s is not true or false; write %s", gp_show(node->text).text,
                             words[yes][0]);
    return refuse_text(node, what, "true or false", err);
}

/* Programs for YAML 1.1 read 010 as the octal number 8, those for YAML 1.2 as 10. `text`: digits after a sign. */
static gp_status check_leading_zero(const gp_yaml *node, const char *what, const char *text, gp_error *err) {
    size_t digits = digits_at(text), zeros = strspn(text, "0");
    if (zeros == 0 || digits == 1) return GP_OK;
    if (zeros == digits) zeros--;
    return gp_refuse(node->place, what, err,
                     "%.40s begins with 0, so that some programs read it as an octal number; write %s%.40s", node->text,
                     *node->text == '-' ? "-" : "", text + zeros);
}

gp_status gp_read_integer(const gp_yaml *node, const char *what, int64_t low, int64_t high, int64_t *out,
                          gp_error *err) {
    GP_RETURN_IF_FAILED(need_plain(node, what, "an integer", err));
    const char *text = node->text;
    size_t sign = *text == '+' || *text == '-';
    size_t digits = digits_at(text + sign);
    if (digits == 0 || text[sign + digits] != '\0') return refuse_integer(node, what, err);
    GP_RETURN_IF_FAILED(check_leading_zero(node, what, text + sign, err));
    errno = 0;
    long long value = strtoll(text, NULL, 10);
    if (value < low || (errno == ERANGE && value < 0))
        return gp_refuse(node->place, what, err, "%.40s is too small; it must be at least %lld", text, (long long)low);
    if (value > high || errno == ERANGE)
        return gp_refuse(node->place, what, err, "%.40s is too large; it may be at most %lld", text, (long long)high);
    *out = value;
    return GP_OK;
}

gp_status gp_read_number(const gp_yaml *node, const char *what, double low, double high, unsigned open, double *out,
                         gp_error *err) {
    GP_RETURN_IF_FAILED(need_plain(node, what, "a number", err));
    if (!is_decimal(node->text)) return refuse_text(node, what, "a number", err);
    const char *unsigned_text = node->text + (*node->text == '+' || *node->text == '-');
    if (unsigned_text[digits_at(unsigned_text)] == '\0')
        GP_RETURN_IF_FAILED(check_leading_zero(node, what, unsigned_text, err));
    errno = 0;
    char bound[GP_NUMBER_TEXT];
    double value = strtod(node->text, NULL);
    /* Everything is computed in f32. */
    if (fabs(value) > (double)FLT_MAX || (errno == ERANGE && value == 0))
        return gp_refuse(node->place, what, err, "%.40s is too %s for a number", node->text,
                         value == 0 ? "near 0" : "large");
    if (value < low || ((open & 1U) && value <= low))
        return gp_refuse(node->place, what, err, "%.40s is too small; it must be %s %s", node->text,
                         open & 1U ? "more than" : "at least", gp_number_text(bound, low));
    if (value > high || ((open & 2U) && value >= high))
        return gp_refuse(node->place, what, err, "%.40s is too large; it must be %s %s", node->text,
                         open & 2U ? "less than" : "at most", gp_number_text(bound, high));
    *out = value;
    return GP_OK;
}

gp_status gp_read_boolean(const gp_yaml *node, const char *what, bool *out, gp_error *err) {
    GP_RETURN_IF_FAILED(need_plain(node, what, "true or false", err));
    bool yes = strcmp(node->text, "true") == 0;
    if (!yes && strcmp(node->text, "false") != 0) return refuse_boolean(node, what, err);
    *out = yes;
    return GP_OK;
}

gp_status gp_read_bytes(const gp_yaml *node, const char *what, size_t *out, gp_error *err) {
    static const char *const units[] = {"", "KiB", "MiB", "GiB", "TiB", NULL};
    static const char rule[] = "a size: bytes, or a number with KiB, MiB, GiB or TiB";
    GP_RETURN_IF_FAILED(need_measure(node, what, "a size", err));
    const char *text = node->text;
    size_t whole = digits_at(text);
    size_t fraction = whole && text[whole] == '.' ? digits_at(text + whole + 1) : 0;
    size_t number = whole + (fraction ? 1 + fraction : 0);
    const char *its = text + number + strspn(text + number, " ");
    int unit = gp_index_of(its, units);
    if (whole > 0 && unit < 0 && *its && strchr("kKmMgGtT", *its) && (strcmp(its + 1, "B") == 0 || !its[1]))
        return gp_refuse(node->place, what, err, "%s is not %s; write %.*s%ciB", gp_show(text).text, rule,
                         (int)(number < 20 ? number : 20), text, toupper((unsigned char)*its));
    if (whole == 0 || unit < 0 || (unit == 0 && fraction)) return refuse_text(node, what, rule, err);
    if (!fraction) GP_RETURN_IF_FAILED(check_leading_zero(node, what, text, err));
    errno = 0;
    unsigned long long count = strtoull(text, NULL, 10);
    unsigned long long bytes = 0;
    /* 2^62 bounds sums of sizes too. */
    if (errno == ERANGE || __builtin_mul_overflow(count, 1ULL << (10 * unit), &bytes) || bytes > 1ULL << 62)
        return gp_refuse(node->place, what, err, "%.40s is too large for a size", text);
    if (fraction) {
        double part = strtod(text + whole, NULL); /* ".5 GiB" */
        bytes += (unsigned long long)(part * (double)(1ULL << (10 * unit)));
    }
    *out = (size_t)bytes;
    return GP_OK;
}

/* `rule`: what the message for another text says. */
static gp_status read_time(const gp_yaml *node, const char *what, int64_t low, const char *rule, gp_time *out,
                           gp_error *err) {
    GP_RETURN_IF_FAILED(need_measure(node, what, "a time", err));
    const char *text = node->text;
    size_t digits = digits_at(text);
    const char *unit = text + digits + strspn(text + digits, " ");
    bool epochs = strcmp(unit, "epochs") == 0 || strcmp(unit, "epoch") == 0;
    if (digits == 0 || (!epochs && *unit) || (*unit && unit == text + digits))
        return refuse_text(node, what, rule, err);
    GP_RETURN_IF_FAILED(check_leading_zero(node, what, text, err));
    errno = 0;
    long long count = strtoll(text, NULL, 10);
    if (errno == ERANGE || count > (1LL << 53)) return gp_refuse(node->place, what, err, "%.40s is too long", text);
    if (count < low)
        return gp_refuse(node->place, what, err, "%.40s is too short; it must be at least %lld", text, (long long)low);
    *out = (gp_time){.count = count, .epochs = epochs};
    return GP_OK;
}

gp_status gp_read_time(const gp_yaml *node, const char *what, int64_t low, gp_time *out, gp_error *err) {
    return read_time(node, what, low, "a number of steps (500) or of epochs (5 epochs)", out, err);
}

gp_status gp_read_every(const gp_yaml *node, const char *what, gp_every *out, gp_error *err) {
    enum { LONGEST = 40, ABOUT = 6 };
    static const char rule[] =
        "a number of steps (500), of epochs (5 epochs) or of minutes (10 minutes, about 10 minutes), or never";
    gp_every every = {{0, false}, 0, false};
    char number[LONGEST + 1];
    const char *text = node->text;
    bool plain = node->kind == GP_YAML_SCALAR && !node->quoted;
    if (plain && strcmp(text, "never") == 0) {
        *out = every;
        return GP_OK;
    }
    every.about = plain && strncmp(text, "about ", ABOUT) == 0;
    if (every.about) text += ABOUT;
    size_t length = plain ? strcspn(text, " ") : 0;
    const char *unit = plain ? text + length + strspn(text + length, " ") : "";
    bool minutes = strcmp(unit, "minutes") == 0 || strcmp(unit, "minute") == 0;
    if (!minutes) {
        GP_RETURN_IF_FAILED(read_time(node, what, 1, rule, &every.time, err));
        *out = every;
        return GP_OK;
    }
    if (length > LONGEST) return refuse_text(node, what, rule, err);
    memcpy(number, text, length);
    number[length] = '\0';
    if (!is_decimal(number) || *number == '-' || *number == '+') return refuse_text(node, what, rule, err);
    every.minutes = strtod(number, NULL);
    if (isinf(every.minutes)) return gp_refuse(node->place, what, err, "%.60s is too long", text);
    if (!(every.minutes > 0)) return gp_refuse(node->place, what, err, "%.60s is too short", text);
    *out = every;
    return GP_OK;
}

gp_status gp_read_text(const gp_yaml *node, const char *what, const char **out, gp_error *err) {
    if (node->kind != GP_YAML_SCALAR || node->text[0] == '\0')
        return gp_refuse(node->place, what, err, "needs a text, not %s", gp_show_node(node).text);
    *out = node->text;
    return GP_OK;
}

gp_status gp_read_name(const gp_yaml *node, const char *what, gp_placed_name *out, gp_error *err) {
    out->place = node->place;
    return gp_read_text(node, what, &out->text, err);
}

gp_status gp_read_choice(const gp_yaml *node, const char *what, const char *const *choices, int *out, gp_error *err) {
    if (node->kind != GP_YAML_SCALAR || is_nothing(node))
        return gp_refuse(node->place, what, err, "needs one of %s, not %s", gp_list_names(choices).text,
                         gp_show_node(node).text);
    int index = gp_index_of(node->text, choices);
    gp_suggestion suggestion = gp_suggest(node->text, choices);
    if (index < 0)
        return gp_refuse(node->place, what, err, "%s is none of %s%s", gp_show(node->text).text,
                         gp_list_names(choices).text,
                         suggestion.text[0] ? suggestion.text
                         : is_none(node)    ? "; write a value, or leave the key out"
                                            : "");
    *out = index;
    return GP_OK;
}

gp_status gp_read_pair(const gp_yaml *node, const char *what, int64_t low, int64_t high, int64_t out[2],
                       gp_error *err) {
    int64_t pair[2];
    if (node->kind == GP_YAML_SCALAR) {
        GP_RETURN_IF_FAILED(gp_read_integer(node, what, low, high, &pair[0], err));
        pair[1] = pair[0];
    } else {
        if (node->kind != GP_YAML_SEQUENCE || node->count != 2)
            return gp_refuse(node->place, what, err, "needs an integer, or two in a list: [height, width]");
        for (int i = 0; i < 2; i++)
            GP_RETURN_IF_FAILED(gp_read_integer(node->items[i], what, low, high, &pair[i], err));
    }
    out[0] = pair[0];
    out[1] = pair[1];
    return GP_OK;
}

gp_status gp_read_integers(const gp_yaml *node, const char *what, int64_t low, int64_t high, size_t max, int64_t *out,
                           size_t *count, gp_error *err) {
    if (node->kind != GP_YAML_SEQUENCE)
        return gp_refuse(node->place, what, err, "needs a list of integers, not %s", gp_show_node(node).text);
    if (node->count == 0) return gp_refuse(node->place, what, err, "the list is empty");
    if (node->count > max)
        return gp_refuse(node->place, what, err, "the list has %zu entries; it may have at most %zu", node->count, max);
    for (size_t i = 0; i < node->count; i++)
        GP_RETURN_IF_FAILED(gp_read_integer(node->items[i], what, low, high, &out[i], err));
    *count = node->count;
    return GP_OK;
}

gp_status gp_read_mapping(const gp_yaml *node, const char *what, gp_error *err) {
    if (node->kind == GP_YAML_MAPPING) return GP_OK;
    return gp_refuse(node->place, what, err, "needs a mapping (key: value), not %s", gp_show_node(node).text);
}

/* (3, 3) and 0,1 in braces: what follows the comma is a key. */
static bool is_after_comma(const char *text) {
    size_t length = strspn(text, "+-.0123456789eE");
    return isdigit((unsigned char)text[text[0] == '-']) && (text[length] == '\0' || strcmp(text + length, ")") == 0);
}

static gp_status refuse_key(const gp_yaml *key, const char *what, const char *const *known, const char *const *later,
                            gp_error *err) {
    gp_shown shown = gp_show(key->text);
    if (gp_is_later(key->text, later))
        return gp_refuse(key->place, what, err, "%s is not available yet%s", shown.text,
                         gp_advise(key->text, known).text);
    gp_suggestion suggestion = gp_suggest(key->text, known);
    if (!suggestion.text[0] && is_after_comma(key->text))
        return gp_refuse(key->place, what, err,
                         "unknown key %s: the comma before it begins a key; write a list as [3, 3], a fraction as 0.1",
                         shown.text);
    if (suggestion.text[0] || !known[0])
        return gp_refuse(key->place, what, err, "unknown key %s%s", shown.text,
                         known[0] ? suggestion.text : "; it has no options");
    return gp_refuse(key->place, what, err, "unknown key %s; known are %s", shown.text, gp_list_names(known).text);
}

gp_status gp_check_keys(const gp_yaml *mapping, const char *what, const char *const *known, const char *const *later,
                        gp_error *err) {
    gp_status status = GP_OK;
    for (size_t i = 0; i < mapping->count; i++) {
        gp_error next = {0};
        if (gp_index_of(mapping->pairs[i].key->text, known) >= 0) continue;
        (void)refuse_key(mapping->pairs[i].key, what, known, later, &next);
        status = gp_error_join(err, status, &next);
    }
    return status;
}

/* The kind is the first key that may be one. */
static const gp_yaml_pair *find_kind_pair(const gp_yaml *node, const char *const *kinds, const char *const *beside) {
    const gp_yaml_pair *first = NULL;
    for (size_t i = 0; i < node->count; i++) {
        const gp_yaml_pair *pair = &node->pairs[i];
        if (gp_index_of(pair->key->text, beside) >= 0) continue;
        if (gp_index_of(pair->key->text, kinds) >= 0) return pair;
        if (!first) first = pair;
    }
    return first;
}

/* Two kinds: one of them was added by --set, or both stand in the file. */
static gp_status refuse_second_kind(const gp_yaml_pair *kind, const gp_yaml_pair *other, const char *what,
                                    gp_error *err) {
    gp_place place = other->key->place;
    gp_shown first = gp_show(kind->key->text), second = gp_show(other->key->text);
    if (place.line > 0 || kind->key->place.line == 0)
        return gp_refuse(place, what, err, "%s stands beside %s; only one of them can be chosen", second.text,
                         first.text);
    return gp_refuse(place, what, err,
                     "adds %s, but the configuration has %s; to replace it, set the whole value: "
                     "--set '%s={%.60s: …}'",
                     second.text, first.text, what, other->key->text);
}

/* `other` is neither a kind nor a key that may stand beside one. */
static gp_status refuse_beside(const gp_yaml_pair *kind, const gp_yaml_pair *other, const char *what,
                               const char *const *kinds, const char *const *beside, gp_error *err) {
    gp_place place = other->key->place;
    gp_shown key = gp_show(other->key->text), name = gp_show(kind->key->text);
    const char *near = beside ? gp_nearest_name(other->key->text, beside) : NULL;
    const char *home = beside && !near ? gp_home_of(other->key->text, beside) : NULL;
    size_t length = strlen(what);
    if (near) return gp_refuse(place, what, err, "%s stands beside %s; did you mean %s?", key.text, name.text, near);
    if (home && strncmp(home, what, length) == 0 && home[length] == '.')
        return gp_refuse(place, what, err, "%s stands beside %s; did you mean %s.%.60s.%s?", key.text, name.text, what,
                         kind->key->text, strrchr(home, '.') + 1);
    gp_suggestion suggestion = {""};
    if (kinds) suggestion = gp_suggest(other->key->text, kinds);
    if (suggestion.text[0]) return gp_refuse(place, what, err, "unknown %s%s", key.text, suggestion.text);
    return gp_refuse(place, what, err, "%s stands beside %s; the options of a kind go below it, in %.60s: {…}",
                     key.text, name.text, kind->key->text);
}

/* {name: sgd, lr: 0.05}, as other programs have it; NULL: not so. `kind`: the one that it names. */
static const gp_yaml_pair *find_named_kind(const gp_yaml *node, const char *const *kinds, const char **kind) {
    static const char *const namers[] = {"name", "type", "kind", "class", "class_name", "cls", "_target_", "id", NULL};
    for (size_t i = 0; kinds && i < node->count; i++) {
        const gp_yaml_pair *pair = &node->pairs[i];
        if (pair->value->kind != GP_YAML_SCALAR || gp_index_of(pair->key->text, namers) < 0) continue;
        *kind = gp_nearest_name(pair->value->text, kinds);
        if (*kind) return pair;
    }
    return NULL;
}

static gp_status refuse_named_kind(const gp_yaml *node, const char *what, const gp_yaml_pair *named, const char *kind,
                                   gp_error *err) {
    const gp_yaml_pair *other = NULL;
    for (size_t i = 0; i < node->count && !other; i++)
        if (&node->pairs[i] != named && node->pairs[i].value->kind == GP_YAML_SCALAR) other = &node->pairs[i];
    return gp_refuse(named->key->place, what, err, "the kind is the key: write %s: {%s: {%.60s%s%.60s}}", what, kind,
                     other ? other->key->text : "…", other ? ": " : "", other ? other->value->text : "");
}

gp_status gp_find_choice(const gp_yaml *node, const char *what, const char *const *kinds, const char *const *beside,
                         gp_choice *out, gp_error *err) {
    gp_choice choice = {.place = node->place};
    if (node->kind == GP_YAML_SEQUENCE || (node->kind == GP_YAML_SCALAR && node->text[0] == '\0'))
        return gp_refuse(node->place, what, err, "needs a name, or a name with options, not %s",
                         gp_show_node(node).text);
    if (node->kind == GP_YAML_SCALAR) {
        choice.kind = node->text;
    } else {
        const gp_yaml_pair *pair = find_kind_pair(node, kinds, beside);
        if (!pair) return gp_refuse(node->place, what, err, "the mapping has no key that is a kind");
        const char *kind = NULL;
        const gp_yaml_pair *named =
            gp_index_of(pair->key->text, kinds) < 0 ? find_named_kind(node, kinds, &kind) : NULL;
        if (named) return refuse_named_kind(node, what, named, kind, err);
        choice.kind = pair->key->text;
        choice.place = pair->key->place;
        if (pair->value->kind == GP_YAML_MAPPING)
            choice.options = pair->value;
        else if (!is_nothing(pair->value))
            choice.main = pair->value;
    }
    *out = choice;
    return GP_OK;
}

gp_status gp_check_beside(const gp_yaml *node, const char *what, const char *const *kinds, const char *const *beside,
                          const gp_choice *choice, gp_error *err) {
    gp_status status = GP_OK;
    const gp_yaml_pair *kind = NULL;
    if (node->kind != GP_YAML_MAPPING) return GP_OK;
    for (size_t i = 0; i < node->count && !kind; i++)
        if (node->pairs[i].key->text == choice->kind) kind = &node->pairs[i];
    /* What is no kind has no options: the caller refuses it. */
    if (!kind || (kinds && gp_index_of(choice->kind, kinds) < 0)) return GP_OK;
    for (size_t i = 0; i < node->count; i++) {
        const gp_yaml_pair *other = &node->pairs[i];
        gp_error next = {0};
        if (other == kind || gp_index_of(other->key->text, beside) >= 0) continue;
        if (gp_index_of(other->key->text, kinds) >= 0)
            (void)refuse_second_kind(kind, other, what, &next);
        else
            (void)refuse_beside(kind, other, what, kinds, beside, &next);
        status = gp_error_join(err, status, &next);
    }
    return status;
}

gp_status gp_read_kind(const gp_yaml *node, const char *what, const char *const *beside, gp_choice *out,
                       gp_error *err) {
    gp_choice choice = {0};
    GP_RETURN_IF_FAILED(gp_find_choice(node, what, NULL, beside, &choice, err));
    GP_RETURN_IF_FAILED(gp_check_beside(node, what, NULL, beside, &choice, err));
    *out = choice;
    return GP_OK;
}

gp_status gp_find_kind(const gp_choice *choice, const char *what, const char *const *known, const char *const *later,
                       int *out, gp_error *err) {
    int index = gp_index_of(choice->kind, known);
    gp_shown kind = gp_show(choice->kind);
    gp_suggestion suggestion = gp_suggest(choice->kind, known);
    if (index < 0 && gp_is_later(choice->kind, later)) {
        gp_suggestion advice = gp_advise(choice->kind, known);
        if (!advice.text[0]) advice = gp_advise(choice->kind, later);
        return gp_refuse(choice->place, what, err, "%s is not available yet; this version has %s%s", kind.text,
                         gp_list_names(known).text, advice.text);
    }
    if (index < 0 && suggestion.text[0])
        return gp_refuse(choice->place, what, err, "unknown %s%s", kind.text, suggestion.text);
    if (index < 0)
        return gp_refuse(choice->place, what, err, "unknown %s; this version has %s", kind.text,
                         gp_list_names(known).text);
    *out = index;
    return GP_OK;
}

gp_status gp_check_options(const gp_choice *choice, const char *what, const char *const *known, gp_error *err) {
    if (!choice->main) return GP_OK;
    if (!known[0]) return gp_refuse(choice->main->place, what, err, "has no options");
    return gp_refuse(choice->main->place, what, err, "needs a mapping of its options (%s), not %s",
                     gp_list_names(known).text, gp_show_node(choice->main).text);
}
