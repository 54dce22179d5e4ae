/* The configuration that a run goes on with. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text_stream.h"
#include "session/session_internal.h"

enum { SHOWN = 120 };

/* Keys that two configurations say differently. The paths are owned. */
typedef struct differences {
    gp_yaml_difference *item;
    int count;
    size_t capacity;
} differences;

typedef struct merge {
    const gp_snapshot *snapshot;
    const char *path;
    int64_t step;      /* of the snapshot */
    gp_config *run;    /* its configuration, with changes */
    gp_config *user;   /* the file's and the command line's, with changes; borrowed */
    int held;          /* changes of the run that hold in the next step */
    gp_config *wanted; /* the user's for the next step; `user`, or owned */
    gp_yaml_document *asked;
    gp_yaml_document **phase; /* [held + 1] the run's configurations, resolved */
    gp_yaml_document *next;   /* the one to go on with, resolved */
    differences edits;        /* of the file since the snapshot was written */
    bool edits_known;
    gp_settings added; /* what `changes` gets for the next step */
} merge;

/* ---- differences ------------------------------------------------------------------------------------------------- */

static gp_status add_difference(void *context, const gp_yaml_difference *found, gp_error *err) {
    differences *all = context;
    GP_RETURN_IF_FAILED(GP_GROW(&all->item, &all->capacity, all->count + 1, err));
    gp_yaml_difference *item = &all->item[all->count];
    *item = *found;
    item->path = NULL;
    GP_RETURN_IF_FAILED(gp_copy_text(&item->path, found->path, err));
    all->count++;
    return GP_OK;
}

static void free_differences(differences *all) {
    for (int i = 0; i < all->count; i++) free(all->item[i].path);
    free(all->item);
    *all = (differences){0};
}

/* Keys that change no number. They hold for the whole run. */
static bool is_of_machine(const char *path) {
    static const char checkpoint[] = ".checkpoint";
    size_t length = strlen(path), end = sizeof checkpoint - 1;
    if (gp_change_rule(path) == GP_CHANGE_MACHINE) return true;
    return gp_path_is_below(path, "model.layers") && length > end && strcmp(path + length - end, checkpoint) == 0;
}

static bool is_end(const char *path) {
    return strcmp(path, "train.epochs") == 0 || strcmp(path, "train.steps") == 0;
}

static bool is_cut(const char *path) {
    return gp_path_is_below(path, "pipeline") && !gp_path_is_below(path, "pipeline.micro_batches");
}

/* Keys that make a new cut, so that the rest of the old one does not suit it. */
static bool makes_cut(const char *key) {
    static const char *const keys[] = {"pipeline.devices", "pipeline.replicas", "pipeline.balance",
                                       "pipeline.schedule"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (gp_path_is_below(key, keys[i])) return true;
    return false;
}

/* Whether --set names the key, a part of it, or what it is a part of. A cut changes as a whole. */
static bool is_set(const merge *m, const char *path) {
    for (int i = 0; i < m->user->override_count; i++) {
        const char *text = m->user->override[i];
        char key[256];
        snprintf(key, sizeof key, "%.*s", (int)strcspn(text, "="), text);
        if (gp_paths_meet(key, path) || (is_cut(path) && makes_cut(key))) return true;
    }
    return false;
}

static bool is_edited(const merge *m, const char *path) {
    if (!m->edits_known) return true;
    for (int i = 0; i < m->edits.count; i++)
        if (gp_paths_meet(m->edits.item[i].path, path) || (is_cut(path) && makes_cut(m->edits.item[i].path)))
            return true;
    return false;
}

static gp_status find_edits(merge *m, gp_error *err) {
    const char *then = m->snapshot->reached.file_text, *now = m->user->file_text;
    gp_yaml_document *before = NULL, *after = NULL;
    if (!then || !*then) return GP_OK;
    GP_RETURN_IF_FAILED(gp_yaml_parse(then, strlen(then), m->path, &before, err));
    gp_status status = gp_yaml_parse(now, strlen(now), m->user->path, &after, err);
    if (status == GP_OK)
        status = gp_yaml_each_difference("", gp_yaml_root(before), gp_yaml_root(after), add_difference, &m->edits, err);
    for (int i = 0; i < m->edits.count; i++) m->edits.item[i].before = m->edits.item[i].now = NULL;
    gp_yaml_destroy(&after);
    gp_yaml_destroy(&before);
    m->edits_known = status == GP_OK;
    return status;
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

/* "is 0.1", "is a list", "is not said". */
static const char *show(char text[SHOWN], const gp_yaml *node) {
    if (!node)
        snprintf(text, SHOWN, "is not said");
    else if (node->kind == GP_YAML_SCALAR)
        snprintf(text, SHOWN, "is %.100s", node->text);
    else
        snprintf(text, SHOWN, "is %s", node->kind == GP_YAML_SEQUENCE ? "a list" : "a mapping");
    return text;
}

static gp_status refuse(const merge *m, const gp_yaml_difference *its, gp_error *err) {
    char now[SHOWN], before[SHOWN];
    const char *reason = gp_change_refusal(its->path);
    show(now, its->now);
    show(before, its->before);
    if (!reason && gp_yaml_is_whole(its->path))
        return gp_fail(err, GP_CONFIG,
                       "--resume: %s is not as in the run of %s; to change it from step %" PRId64
                       " on, give all of it with --set, as in --set '%s={…}'",
                       its->path, m->path, m->step + 1, its->path);
    if (reason)
        return gp_fail(err, GP_CONFIG, "--resume: %s %s, but in the run of %s it %s; it cannot change within a run: %s",
                       its->path, now, m->path, before, reason);
    return gp_fail(err, GP_CONFIG,
                   "--resume: %s %s, but in the run of %s it %s; to change it from step %" PRId64
                   " on, give it with --set, as in --set %s=%s",
                   its->path, now, m->path, before, m->step + 1, its->path,
                   its->now && its->now->kind == GP_YAML_SCALAR ? its->now->text : "…");
}

static bool same_settings(const gp_settings *a, const gp_settings *b) {
    bool same = a->count == b->count;
    for (int i = 0; same && i < a->count; i++)
        same = strcmp(a->item[i].path, b->item[i].path) == 0 && strcmp(a->item[i].value, b->item[i].value) == 0;
    return same;
}

/* The run's own changes stand. The file may repeat them. */
static gp_status check_changes(const merge *m, gp_error *err) {
    const gp_config *user = m->user, *run = m->run;
    bool same = user->change_count == run->change_count;
    for (int i = 0; same && i < user->change_count; i++)
        same = user->changes[i].step == run->changes[i].step &&
               same_settings(&user->changes[i].settings, &run->changes[i].settings);
    if (is_set(m, "changes"))
        return gp_fail(err, GP_CONFIG,
                       "--resume: --set changes cannot be used with --resume; name the key that changes, as in "
                       "--set optimizer.sgd.lr=0.01");
    if (same || (m->edits_known ? !is_edited(m, "changes") : user->change_count == 0)) return GP_OK;
    return gp_fail(err, GP_CONFIG,
                   "--resume: changes is not as in the run of %s; write it as it was, or remove it from the file",
                   m->path);
}

/* ---- what changes ------------------------------------------------------------------------------------------------ */

static gp_status decide(const merge *m, const gp_yaml_difference *its, bool *takes, gp_error *err) {
    bool set = is_set(m, its->path), edited = is_edited(m, its->path);
    *takes = set || edited; /* else it was said when the run began, or on an earlier --resume */
    if (!*takes || is_of_machine(its->path) || gp_change_rule(its->path) == GP_CHANGE_FREELY) return GP_OK;
    return set && !gp_change_refusal(its->path) ? GP_OK : refuse(m, its, err);
}

static gp_status put(gp_yaml_document *to, const char *path, const gp_yaml *value, gp_error *err) {
    if (value) return gp_yaml_put_node(to, path, (gp_place){0}, value, err);
    gp_yaml_remove(to, path);
    return GP_OK;
}

/* Length of the path of the outermost list that is replaced as a whole: one that is not the model's, or that has
 * another length now. The whole path if there is none. */
static size_t whole_length(const merge *m, const char *path) {
    const gp_yaml *before, *now;
    bool model = gp_path_is_below(path, "model");
    for (const char *segment = path; *segment;) {
        size_t length = strcspn(segment, ".");
        char key[256];
        snprintf(key, sizeof key, "%.*s", (int)(segment + length - path), path);
        before = gp_yaml_find(m->phase[m->held], key);
        now = gp_yaml_find(m->asked, key);
        bool list = now && now->kind == GP_YAML_SEQUENCE && before && before->kind == GP_YAML_SEQUENCE;
        if (list && (!model || before->count != now->count)) return strlen(key);
        segment += length + (segment[length] == '.');
    }
    return strlen(path);
}

static gp_status take(const merge *m, const gp_yaml_difference *its, gp_error *err) {
    char *path = NULL;
    GP_RETURN_IF_FAILED(gp_format_text(&path, err, "%.*s", (int)whole_length(m, its->path), its->path));
    gp_status status = put(m->next, path, gp_yaml_find(m->asked, path), err);
    free(path);
    return status;
}

static gp_status take_differences(const merge *m, const differences *all, gp_error *err) {
    for (int i = 0; i < all->count; i++) {
        const gp_yaml_difference *its = &all->item[i];
        bool takes;
        if (gp_path_is_below(its->path, "changes")) continue;
        GP_RETURN_IF_FAILED(decide(m, its, &takes, err));
        if (takes) GP_RETURN_IF_FAILED(take(m, its, err));
    }
    return GP_OK;
}

/* ---- what holds for the whole run -------------------------------------------------------------------------------- */

static gp_status carry_machine(const merge *m, const differences *all, gp_error *err) {
    for (int i = 0; i < all->count; i++) {
        const gp_yaml_difference *its = &all->item[i];
        if (!is_of_machine(its->path) || !(is_set(m, its->path) || is_edited(m, its->path))) continue;
        for (int p = 0; p <= m->held; p++) GP_RETURN_IF_FAILED(put(m->phase[p], its->path, its->now, err));
    }
    return GP_OK;
}

/* All devices are alike, and all stages have as many replicas. */
static bool are_alike(const gp_pipeline_config *a, const gp_pipeline_config *b) {
    const gp_device_config *first = &a->devices[0];
    for (int e = 0; e < a->entry_count + b->entry_count; e++)
        if ((e < a->entry_count ? a->replicas[e] : b->replicas[e - a->entry_count]) != a->replicas[0]) return false;
    for (int d = 0; d < a->device_count + b->device_count; d++) {
        const gp_device_config *it = d < a->device_count ? &a->devices[d] : &b->devices[d - a->device_count];
        if (strcmp(it->kind, first->kind) != 0 || it->threads != first->threads) return false;
    }
    return true;
}

/* Where all devices compute alike the cut changes no number: the newest holds for all steps, but for micro_batches. */
static gp_status carry_cut(const merge *m, const gp_config *next, gp_error *err) {
    for (int p = m->held; p >= 0; p--) {
        const gp_yaml *own = gp_yaml_find(m->phase[p], "pipeline.micro_batches");
        if (!are_alike(&gp_config_phase(m->run, p)->pipeline, &next->pipeline)) break;
        GP_RETURN_IF_FAILED(put(m->phase[p], "pipeline", gp_yaml_find(m->next, "pipeline"), err));
        GP_RETURN_IF_FAILED(put(m->phase[p], "pipeline.micro_batches", own, err));
    }
    return GP_OK;
}

/* Whether steps before this one went by a schedule that knows the end. */
static bool has_known_end(const merge *m) {
    for (int p = 0; p <= m->held; p++) {
        bool ran = p == 0 ? m->step > 0 : m->run->changes[p - 1].step <= m->step;
        if (ran && gp_config_phase(m->run, p)->optimizer.lr_schedule == GP_LR_COSINE) return true;
    }
    return false;
}

/* A snapshot of version 1 does not say where the run was to end: its last epoch counts as the end. */
static bool has_ended(const merge *m) {
    const gp_reached *reached = &m->snapshot->reached;
    const gp_train_config *train = &gp_config_phase(m->run, m->held)->train;
    if (reached->steps > 0) return m->step >= reached->steps;
    return (train->steps >= 0 && m->step >= train->steps) ||
           (train->epochs.count > 0 && reached->epoch >= train->epochs.count);
}

/* The end is a change at a step if it changes numbers: a cosine before it, or the evaluation that the end had. An
 * evaluation at the change stands for the latter, if it is made alike. Else the new end holds for the whole run. An end
 * that stays leaves those of the changes before it as they are. */
static gp_status carry_end(const merge *m, gp_error *err) {
    static const char *const keys[2] = {"train.epochs", "train.steps"};
    gp_settings now = {0};
    bool ended = has_ended(m);
    GP_RETURN_IF_FAILED(gp_settings_between(m->phase[m->held], m->next, &now, err));
    bool moves = false, other = false, alike = true;
    for (int i = 0; i < now.count; i++) {
        moves = moves || is_end(now.item[i].path);
        other = other || gp_path_is_below(now.item[i].path, "optimizer");
        alike =
            alike && (gp_path_is_below(now.item[i].path, "optimizer") || gp_path_is_below(now.item[i].path, "train"));
    }
    gp_settings_fini(&now);
    if (!moves || has_known_end(m) || (ended && !(other && alike))) return GP_OK;
    for (int p = 0; p <= m->held; p++)
        for (int k = 0; k < 2; k++) GP_RETURN_IF_FAILED(put(m->phase[p], keys[k], gp_yaml_find(m->next, keys[k]), err));
    return GP_OK;
}

static gp_status check_next(const merge *m, gp_error *err) {
    gp_yaml_document *copy = NULL;
    gp_config *next = NULL;
    GP_RETURN_IF_FAILED(gp_yaml_copy(m->next, &copy, err));
    GP_RETURN_IF_FAILED(gp_config_read(m->user, &copy, false, &next, err));
    gp_status status = gp_may_change(gp_config_phase(m->run, m->held), next, err);
    if (status != GP_OK) gp_error_context(err, "--resume: ");
    if (status == GP_OK) status = carry_cut(m, next, err);
    gp_config_destroy(&next);
    return status;
}

/* ---- the new configuration --------------------------------------------------------------------------------------- */

static gp_status write_held(const merge *m, bool replaces, FILE *file, gp_error *err) {
    for (int p = 1; p <= m->held; p++) {
        gp_settings between = {0};
        gp_yaml_document *now = replaces && p == m->held ? m->next : m->phase[p];
        GP_RETURN_IF_FAILED(gp_settings_between(m->phase[p - 1], now, &between, err));
        if (between.count > 0) gp_write_change(file, m->run->changes[p - 1].step, &between);
        gp_settings_fini(&between);
    }
    return GP_OK;
}

/* "{501: {optimizer.sgd.lr: 0.01}, }"; *any: it is not empty. */
static gp_status write_changes(const merge *m, bool replaces, char **out, bool *any, gp_error *err) {
    gp_text_stream stream;
    GP_RETURN_IF_FAILED(gp_text_begin(&stream, "the changes of a run", err));
    FILE *file = stream.file;
    fputs("{", file);
    gp_status status = write_held(m, replaces, file, err);
    if (!replaces && m->added.count > 0) gp_write_change(file, m->step + 1, &m->added);
    for (int i = m->held; i < m->run->change_count; i++)
        gp_write_change(file, m->run->changes[i].step, &m->run->changes[i].settings);
    *any = ftell(file) > 1;
    fputs("}", file);
    return gp_text_end(&stream, status, out, err);
}

static gp_status read_result(const merge *m, gp_yaml_document *base, gp_config **out, gp_error *err) {
    char *text = NULL;
    gp_yaml_document *document = NULL;
    GP_RETURN_IF_FAILED(gp_yaml_text(base, "the configuration of the run", &text, err));
    gp_status status = gp_yaml_parse_at(text, strlen(text), (gp_place){.path = m->user->path}, &document, err);
    free(text);
    return status == GP_OK ? gp_config_read(m->user, &document, true, out, err) : status;
}

static gp_status make_result(const merge *m, gp_config **out, gp_error *err) {
    bool now = m->held > 0 && m->run->changes[m->held - 1].step == m->step + 1;
    bool replaces = (now || m->step == 0) && m->added.count > 0, any = false;
    gp_yaml_document *base = NULL;
    char *changes = NULL;
    GP_RETURN_IF_FAILED(gp_yaml_copy(replaces && m->held == 0 ? m->next : m->phase[0], &base, err));
    gp_status status = write_changes(m, replaces, &changes, &any, err);
    gp_yaml_remove(base, "changes");
    if (status == GP_OK && any) status = gp_yaml_put(base, "changes", changes, err);
    /* The user's own configuration stays if it says the same: its messages know lines. */
    bool same = status == GP_OK && !any && m->user->change_count == 0 &&
                !gp_yaml_differ("", gp_yaml_root(base), gp_yaml_root(m->asked));
    if (status == GP_OK && !same) status = read_result(m, base, out, err);
    free(changes);
    gp_yaml_destroy(&base);
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* If --set does not suit the file, it suits the run: the sections that it names are the run's. */
static gp_status take_sections(const merge *m, gp_yaml_document *to, gp_error *err) {
    static const char *const sections[] = {"model", "data", "optimizer", "train"};
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        if (is_set(m, sections[i]))
            GP_RETURN_IF_FAILED(put(to, sections[i], gp_yaml_find(m->phase[m->held], sections[i]), err));
    return GP_OK;
}

/* What the user asks for from the next step on: --set comes after the changes of the file. */
static gp_status find_wanted(merge *m, gp_error *err) {
    gp_yaml_document *document = NULL;
    int held = gp_config_changes_until(m->user, m->step + 1);
    m->wanted = m->user;
    if (held > 0 || m->user->apart) {
        m->wanted = NULL;
        GP_RETURN_IF_FAILED(gp_yaml_copy(gp_config_phase(m->user, held)->document, &document, err));
        gp_status status = m->user->apart ? take_sections(m, document, err) : GP_OK;
        for (int i = 0; i < m->user->override_count && status == GP_OK; i++)
            status = gp_yaml_override(document, m->user->override[i], err);
        if (status == GP_OK)
            status = gp_config_read(m->user, &document, false, &m->wanted, err);
        else
            gp_yaml_destroy(&document);
        GP_RETURN_IF_FAILED(status);
    }
    return gp_config_resolved(m->wanted, &m->asked, err);
}

static gp_status open_run(merge *m, gp_error *err) {
    gp_yaml_document *document = NULL;
    const char *text = m->snapshot->config;
    GP_RETURN_IF_FAILED(gp_yaml_parse(text, strlen(text), m->path, &document, err));
    GP_RETURN_IF_FAILED(gp_config_read(m->user, &document, true, &m->run, err));
    m->held = gp_config_changes_until(m->run, m->step + 1);
    GP_RETURN_IF_FAILED(GP_NEW(&m->phase, m->held + 1, err));
    for (int p = 0; p <= m->held; p++)
        GP_RETURN_IF_FAILED(gp_config_resolved(gp_config_phase(m->run, p), &m->phase[p], err));
    return gp_yaml_copy(m->phase[m->held], &m->next, err);
}

static gp_status merge_configs(merge *m, gp_settings *changes, gp_config **out, gp_error *err) {
    differences all = {0};
    GP_RETURN_IF_FAILED(open_run(m, err));
    GP_RETURN_IF_FAILED(find_wanted(m, err));
    GP_RETURN_IF_FAILED(find_edits(m, err));
    GP_RETURN_IF_FAILED(check_changes(m, err));
    gp_status status =
        gp_yaml_each_difference("", gp_yaml_root(m->phase[m->held]), gp_yaml_root(m->asked), add_difference, &all, err);
    if (status == GP_OK) status = take_differences(m, &all, err);
    if (status == GP_OK) status = gp_settings_between(m->phase[m->held], m->next, changes, err);
    if (status == GP_OK) status = carry_machine(m, &all, err);
    if (status == GP_OK) status = check_next(m, err);
    if (status == GP_OK) status = carry_end(m, err);
    if (status == GP_OK) status = gp_settings_between(m->phase[m->held], m->next, &m->added, err);
    if (status == GP_OK) status = make_result(m, out, err);
    free_differences(&all);
    return status;
}

static void free_merge(merge *m) {
    gp_settings_fini(&m->added);
    free_differences(&m->edits);
    gp_yaml_destroy(&m->next);
    for (int p = 0; m->phase && p <= m->held; p++) gp_yaml_destroy(&m->phase[p]);
    free(m->phase);
    gp_yaml_destroy(&m->asked);
    if (m->wanted != m->user) gp_config_destroy(&m->wanted);
    gp_config_destroy(&m->run);
}

gp_status gp_resume_merge(gp_config **config, const gp_snapshot *snapshot, const char *path, gp_settings *changes,
                          gp_error *err) {
    merge m = {.snapshot = snapshot, .path = path, .step = snapshot->reached.step, .user = *config};
    gp_settings found = {0};
    gp_config *result = NULL;
    gp_status status = merge_configs(&m, &found, &result, err);
    free_merge(&m);
    if (status != GP_OK) {
        gp_settings_fini(&found);
        return status;
    }
    if (result) {
        free(result->path);
        result->path = (*config)->path; /* that all places name */
        (*config)->path = NULL;
        gp_config_destroy(config);
        *config = result;
    }
    *changes = found;
    return GP_OK;
}
