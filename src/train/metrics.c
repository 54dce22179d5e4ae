#include "train/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/replace.h"
#include "base/write_error.h"
#include "trace/recorder.h"

enum {
    DIGITS = 9,              /* %.9g: f32 round-trips */
    MOST_WAITING = 16 << 20, /* bytes */
    PART = 64 << 10,         /* bytes of a file that are copied at once */
    LONGEST_END = 4 << 10,   /* bytes of a line in which its time is looked for, from its end */
};

struct gp_metrics {
    int fd;
    char *path;
    double origin; /* seconds of gp_clock at which "time" is 0 */
    off_t end;     /* of the last whole line in the file */
    char *waiting; /* lines that the file did not take yet */
    size_t waiting_bytes, waiting_capacity;
    bool told;     /* gp_metrics_poll was asked since they began to wait */
    gp_error late; /* why they wait */
};

/* Never through a link, and without waiting for the reader of a FIFO. */
enum { OPENED = O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK };

static gp_status open_file(const char *path, int flags, double began, gp_metrics **out, gp_error *err) {
    gp_metrics *metrics = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&metrics, 1, err));
    metrics->fd = -1;
    metrics->origin = began;
    gp_status status = gp_copy_text(&metrics->path, path, err);
    if (status == GP_OK && (metrics->fd = open(path, flags | OPENED, 0666)) < 0)
        status = gp_fail(err, GP_IO, "%s: cannot be written: %s", path, strerror(errno));
    if (status != GP_OK) {
        free(metrics->path);
        free(metrics);
        return status;
    }
    *out = metrics;
    return GP_OK;
}

/* O_EXCL: a file that another process makes meanwhile is not taken for this run's. Devices and pipes stay. */
gp_status gp_metrics_open(const char *path, double began, gp_metrics **out, gp_error *err) {
    struct stat about;
    bool is_there = lstat(path, &about) == 0, is_file = is_there && S_ISREG(about.st_mode);
    if (is_file && unlink(path) != 0) return gp_fail(err, GP_IO, "%s: cannot be removed: %s", path, strerror(errno));
    return open_file(path, O_WRONLY | (is_there && !is_file ? 0 : O_EXCL), began, out, err);
}

/* Where the last line that ends within `bytes` does. */
static gp_status find_line_end(const gp_metrics *metrics, off_t bytes, off_t *out, gp_error *err) {
    char last;
    for (; bytes > 0; bytes--) {
        if (pread(metrics->fd, &last, 1, bytes - 1) != 1)
            return gp_fail(err, GP_IO, "%s: cannot be read: %s", metrics->path, strerror(errno));
        if (last == '\n') break;
    }
    *out = bytes;
    return GP_OK;
}

/* The file has another name, under which it stays as it is: its first `end` bytes become a file of this run. */
static gp_status part_from_other_names(gp_metrics *metrics, gp_error *err) {
    char block[PART];
    gp_replacing *file = NULL;
    GP_RETURN_IF_FAILED(gp_file_begin(metrics->path, &file, err));
    gp_status status = GP_OK;
    for (off_t done = 0; done < metrics->end && status == GP_OK;) {
        size_t wanted = metrics->end - done < PART ? (size_t)(metrics->end - done) : PART;
        ssize_t got = pread(metrics->fd, block, wanted, done);
        if (got <= 0)
            status = gp_fail(err, GP_IO, "%s: cannot be read: %s", metrics->path,
                             got < 0 ? strerror(errno) : "it became shorter");
        else
            status = gp_file_add(file, block, (size_t)got, err);
        done += got;
    }
    GP_RETURN_IF_FAILED(gp_file_end(&file, status, err));
    close(metrics->fd);
    metrics->fd = open(metrics->path, O_RDWR | OPENED, 0666);
    return metrics->fd >= 0 ? GP_OK : gp_fail(err, GP_IO, "%s: cannot be written: %s", metrics->path, strerror(errno));
}

/* The step of a line of a step or an evaluation; -1: it is another. */
static int64_t step_of(const char *line) {
    static const char *const heads[] = {"{\"event\":\"step\",\"step\":", "{\"event\":\"eval\",\"step\":"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (strncmp(line, heads[i], strlen(heads[i])) == 0) return strtoll(line + strlen(heads[i]), NULL, 10);
    return -1;
}

/* A file that was made again behind an older snapshot has other lines where the snapshot's end: it ends before the
 * first that is not of a step before the snapshot. */
static gp_status leave_out_later(gp_metrics *metrics, int64_t step, gp_error *err) {
    char *line = NULL;
    size_t capacity = 0;
    off_t end = 0;
    bool later = false;
    int fd = lseek(metrics->fd, 0, SEEK_SET) == 0 ? fcntl(metrics->fd, F_DUPFD_CLOEXEC, 0) : -1;
    FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!file && fd >= 0) close(fd);
    while (file && end < metrics->end && !later) {
        ssize_t got = getline(&line, &capacity, file);
        if (got <= 0) break;
        later = step_of(line) > step;
        if (!later) end += got;
    }
    bool failed = !file || (end < metrics->end && !later);
    int why = errno;
    if (file) (void)fclose(file);
    free(line);
    if (failed) return gp_fail(err, GP_IO, "%s: cannot be read: %s", metrics->path, strerror(why));
    if (end < metrics->end) metrics->end = end;
    return GP_OK;
}

static gp_status cut_back(gp_metrics *metrics, int64_t bytes, int64_t step, bool *lost, gp_error *err) {
    struct stat about;
    if (fstat(metrics->fd, &about) != 0 || !S_ISREG(about.st_mode))
        return gp_fail(err, GP_IO, "%s: is not a regular file, so its lines after the snapshot cannot be removed",
                       metrics->path);
    GP_RETURN_IF_FAILED(find_line_end(metrics, about.st_size < bytes ? about.st_size : bytes, &metrics->end, err));
    GP_RETURN_IF_FAILED(leave_out_later(metrics, step, err));
    *lost = metrics->end != bytes;
    if (about.st_nlink > 1) GP_RETURN_IF_FAILED(part_from_other_names(metrics, err));
    if (ftruncate(metrics->fd, metrics->end) != 0 || lseek(metrics->fd, metrics->end, SEEK_SET) < 0)
        return gp_fail(err, GP_IO, "%s: lines after the snapshot cannot be removed: %s", metrics->path,
                       strerror(errno));
    return GP_OK;
}

/* The "time" of the last line that is kept; 0 if that line has none, as in files of older versions. The lines are this
 * program's own: a key of that name is the last of its line. */
static double last_time(const gp_metrics *metrics) {
    char text[LONGEST_END + 1];
    size_t wanted = metrics->end < LONGEST_END ? (size_t)metrics->end : LONGEST_END;
    ssize_t got = pread(metrics->fd, text, wanted, metrics->end - (off_t)wanted);
    if (got < 2) return 0;
    text[got - 1] = '\0'; /* the line's end */
    const char *line = strrchr(text, '\n'), *key = line ? line : text, *next;
    while ((next = strstr(key + 1, "\"time\":"))) key = next;
    double time = strncmp(key, "\"time\":", 7) == 0 ? strtod(key + 7, NULL) : 0;
    return isfinite(time) && time > 0 ? time : 0;
}

gp_status gp_metrics_reopen(const char *path, int64_t bytes, int64_t step, double began, gp_metrics **out, bool *lost,
                            gp_error *err) {
    gp_metrics *metrics = NULL;
    GP_RETURN_IF_FAILED(open_file(path, O_RDWR, began, &metrics, err));
    gp_status status = cut_back(metrics, bytes, step, lost, err);
    if (status == GP_OK) {
        metrics->origin -= last_time(metrics);
        *out = metrics;
        return GP_OK;
    }
    gp_status closed = gp_metrics_close(&metrics, NULL);
    return closed == GP_OK || closed == GP_IO ? status : closed;
}

int64_t gp_metrics_bytes(const gp_metrics *metrics) {
    return (int64_t)metrics->end + (int64_t)metrics->waiting_bytes;
}

/* What a full disk took of a line is cut off again, so that the file holds whole lines whatever happens. */
static gp_status write_bytes(gp_metrics *metrics, const char *bytes, size_t count, gp_error *err) {
    for (size_t done = 0; done < count;) {
        ssize_t now = write(metrics->fd, bytes + done, count - done);
        if (now < 0 && errno == EINTR) continue;
        if (now <= 0) {
            char text[GP_WRITE_ERROR_TEXT];
            gp_fail(err, GP_IO, "%s: cannot be written: %s", metrics->path,
                    now < 0 ? gp_write_error(text, errno) : "the system wrote no byte");
            if (ftruncate(metrics->fd, metrics->end) == 0) lseek(metrics->fd, metrics->end, SEEK_SET);
            return GP_IO;
        }
        done += (size_t)now;
    }
    metrics->end += (off_t)count;
    return GP_OK;
}

static gp_status write_waiting(gp_metrics *metrics, gp_error *err) {
    GP_RETURN_IF_FAILED(write_bytes(metrics, metrics->waiting, metrics->waiting_bytes, err));
    metrics->waiting_bytes = 0;
    metrics->told = false;
    return GP_OK;
}

/* Written, or among those that wait; fails where these are too many. */
static gp_status add_line(gp_metrics *metrics, const char *line, size_t bytes, gp_error *err) {
    gp_status status = metrics->waiting_bytes > 0 ? write_waiting(metrics, &metrics->late) : GP_OK;
    if (status == GP_OK && write_bytes(metrics, line, bytes, &metrics->late) == GP_OK) return GP_OK;
    if (bytes > MOST_WAITING - metrics->waiting_bytes) {
        if (err) *err = metrics->late;
        return GP_IO;
    }
    GP_RETURN_IF_FAILED(GP_GROW(&metrics->waiting, &metrics->waiting_capacity, metrics->waiting_bytes + bytes, err));
    memcpy(metrics->waiting + metrics->waiting_bytes, line, bytes);
    metrics->waiting_bytes += bytes;
    return GP_OK;
}

gp_status gp_metrics_poll(gp_metrics *metrics, gp_error *err) {
    if (metrics->waiting_bytes == 0 || metrics->told) return GP_OK;
    metrics->told = true;
    if (err) *err = metrics->late;
    return GP_IO;
}

bool gp_metrics_are_gone(const gp_metrics *metrics) {
    struct stat about;
    return fstat(metrics->fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_nlink == 0;
}

gp_status gp_metrics_renew(gp_metrics *metrics, const char *path, bool *renewed, gp_error *err) {
    gp_metrics *fresh = NULL;
    struct stat own, found;
    bool is_there = lstat(path, &found) == 0;
    *renewed = false;
    if (is_there && fstat(metrics->fd, &own) == 0 && own.st_dev == found.st_dev && own.st_ino == found.st_ino)
        return GP_OK;
    if (is_there)
        return gp_fail(err, GP_IO,
                       "%s was replaced while the run went on: what is there now stays as it is, and the lines of the "
                       "run are lost",
                       path);
    if (open_file(path, O_WRONLY | O_EXCL, metrics->origin, &fresh, err) != GP_OK)
        return gp_error_context(err, "the file was removed while the run went on, and cannot be made again: ");
    close(metrics->fd);
    free(metrics->path);
    metrics->fd = fresh->fd;
    metrics->path = fresh->path;
    metrics->end = 0;
    free(fresh);
    *renewed = true;
    return GP_OK;
}

gp_status gp_metrics_close(gp_metrics **metrics, gp_error *err) {
    gp_metrics *it = *metrics;
    if (!it) return GP_OK;
    gp_status status = it->waiting_bytes > 0 ? write_waiting(it, err) : GP_OK;
    if (close(it->fd) != 0 && status == GP_OK)
        status = gp_fail(err, GP_IO, "%s: cannot be written: %s", it->path, strerror(errno));
    free(it->waiting);
    free(it->path);
    free(it);
    *metrics = NULL;
    return status;
}

static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

/* Adds a value, which it takes. If memory fails, the whole is dropped: it stays NULL from then on. */
static void put(json_t **object, const char *key, json_t *value) {
    if (json_object_set_new(*object, key, value) == 0) return;
    json_decref(*object);
    *object = NULL;
}

static void append(json_t **array, json_t *value) {
    if (json_array_append_new(*array, value) == 0) return;
    json_decref(*array);
    *array = NULL;
}

/* Takes `object`; NULL: no memory was left for it. Adds "time". Into a block that is large enough: where jansson's own
 * cannot grow, it leaves out keys. */
static gp_status write_line(gp_metrics *metrics, json_t *object, gp_error *err) {
    const size_t flags = JSON_COMPACT | JSON_REAL_PRECISION(DIGITS);
    double time = 1e-9 * (double)gp_clock() - metrics->origin;
    put(&object, "time", number(time > 0 ? time : 0));
    size_t length = object ? json_dumpb(object, NULL, 0, flags) : 0;
    char *text = NULL;
    gp_status status = length > 0 ? GP_NEW(&text, length + 1, err) : GP_MEMORY;
    if (status == GP_OK && json_dumpb(object, text, length, flags) != length) status = GP_MEMORY;
    json_decref(object);
    if (status == GP_OK) {
        text[length] = '\n';
        status = add_line(metrics, text, length + 1, err);
    } else {
        gp_fail(err, GP_MEMORY, "out of memory: a line of %s", metrics->path);
    }
    free(text);
    return status;
}

/* One name, or one for each stage where they differ; "file": programs say it. NULL: no memory. */
static json_t *describe_checkpoint(const gp_plan *plan) {
    const gp_checkpoint_mode *modes = plan->checkpoints;
    int stages = plan->stages->numbers, same = 1;
    while (same < stages && modes[same] == modes[0]) same++;
    if (gp_plan_has_programs(plan)) return json_string("file");
    if (same == stages) return json_string(gp_checkpoint_mode_name(modes[0]));
    json_t *list = json_array();
    for (int s = 0; s < stages; s++) append(&list, json_string(gp_checkpoint_mode_name(modes[s])));
    return list;
}

/* NULL: no memory. */
static json_t *describe_run(const gp_session *session) {
    const gp_config *config = session->config;
    json_t *balance = json_array(), *devices = json_array();
    for (int s = 0; s < session->plan->stages->numbers; s++) append(&balance, json_integer(session->layers[s]));
    for (int w = 0; w < session->plan->workers; w++) append(&devices, json_string(config->pipeline.devices[w].kind));
    return json_pack(
        "{s:s, s:I, s:i, s:o, s:o, s:i, s:i, s:s, s:o, s:b, s:I, s:I, s:I, s:I, s:I}", "version", GP_VERSION,
        "parameters", (json_int_t)gp_graph_param_elements(session->graph), "layers", session->graph->layer_count,
        "balance", balance, "devices", devices, "processes", session->plan->processes, "micro_batches",
        config->pipeline.micro_batches, "schedule", gp_schedule_kind_name(config->pipeline.schedule.kind), "checkpoint",
        describe_checkpoint(session->plan), "lockstep", gp_plan_has_barriers(session->plan), "seed",
        (json_int_t)config->train.seed, "batch", (json_int_t)config->data.batch, "train_samples",
        (json_int_t)(session->train ? gp_dataset_count(session->train) : 0), "eval_samples",
        (json_int_t)(session->eval ? gp_dataset_count(session->eval) : 0), "steps", (json_int_t)session->steps);
}

/* Takes the pairs of `event`, and adds what describes the run. */
static gp_status write_beginning(gp_metrics *metrics, const gp_session *session, json_t *event, gp_error *err) {
    json_t *about = describe_run(session);
    if (json_object_update(event, about) != 0) {
        json_decref(event);
        event = NULL; /* no memory: write_line says so */
    }
    json_decref(about);
    return write_line(metrics, event, err);
}

gp_status gp_metrics_start(gp_metrics *metrics, const gp_session *session, gp_error *err) {
    GP_RETURN_IF_FAILED(write_beginning(metrics, session, json_pack("{s:s}", "event", "start"), err));
    return metrics->waiting_bytes > 0 ? gp_metrics_poll(metrics, err) : GP_OK;
}

/* A number or a truth value if it is written as one, else a text. NULL: no memory. */
static json_t *describe_value(const char *text) {
    char *end;
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) return json_boolean(*text == 't');
    if (*text && text[strspn(text, "-0123456789")] == '\0') return json_integer(strtoll(text, NULL, 10));
    double value = strtod(text, &end);
    return end != text && !*end && isfinite(value) ? json_real(value) : json_string(text);
}

/* Takes `event`, and adds what was changed. */
static json_t *add_changes(json_t *event, const gp_settings *changes) {
    json_t *list = json_object();
    for (int i = 0; i < changes->count; i++) put(&list, changes->item[i].path, describe_value(changes->item[i].value));
    put(&event, "changes", list);
    return event;
}

gp_status gp_metrics_resume(gp_metrics *metrics, const gp_session *session, int64_t step, const gp_settings *changes,
                            gp_error *err) {
    json_t *event = json_pack("{s:s, s:I}", "event", "resume", "step", (json_int_t)step);
    if (changes->count > 0) event = add_changes(event, changes);
    return write_beginning(metrics, session, event, err);
}

gp_status gp_metrics_change(gp_metrics *metrics, int64_t step, int64_t steps, const gp_settings *changes,
                            gp_error *err) {
    json_t *event =
        json_pack("{s:s, s:I, s:I}", "event", "change", "step", (json_int_t)step, "steps", (json_int_t)steps);
    return write_line(metrics, add_changes(event, changes), err);
}

gp_status gp_metrics_step(gp_metrics *metrics, const gp_step_record *record, gp_error *err) {
    json_t *line = json_pack("{s:s, s:I, s:I, s:o, s:o, s:I, s:o, s:o}", "event", "step", "step",
                             (json_int_t)record->step, "epoch", (json_int_t)record->epoch, "loss", number(record->loss),
                             "lr", number(record->rate), "samples", (json_int_t)record->samples, "seconds",
                             number(record->seconds), "data_seconds", number(record->data_seconds));
    if (!isnan(record->accuracy)) put(&line, "accuracy", number(record->accuracy));
    if (record->normed) put(&line, "grad_norm", number(record->grad_norm));
    return write_line(metrics, line, err);
}

gp_status gp_metrics_eval(gp_metrics *metrics, const gp_eval_record *record, gp_error *err) {
    json_t *line = json_pack("{s:s, s:I, s:I, s:o, s:o, s:o}", "event", "eval", "step", (json_int_t)record->step,
                             "epoch", (json_int_t)record->epoch, "loss", number(record->loss), "seconds",
                             number(record->seconds), "data_seconds", number(record->data_seconds));
    if (!isnan(record->accuracy)) put(&line, "accuracy", number(record->accuracy));
    return write_line(metrics, line, err);
}

/* NULL: no memory. */
static json_t *describe_side(const gp_account_side *side, int workers) {
    static const char *const names[] = {"busy", "copying", "waiting"};
    json_t *about = json_pack("{s:o, s:o}", "step", number(side->seconds), "bubble", number(side->bubble));
    for (int i = 0; i < 3; i++) {
        json_t *list = json_array();
        for (int w = 0; w < workers; w++) {
            const gp_account_share *share = &side->worker[w];
            const double values[] = {share->busy, share->copying, share->waiting};
            append(&list, number(values[i]));
        }
        put(&about, names[i], list);
    }
    return about;
}

/* What was planned, kind by kind. NULL: no memory. */
static json_t *describe_host(const gp_host_memory *host) {
    json_t *kinds = json_object();
    for (int k = 0; k < GP_HOST_KINDS; k++)
        if (host->bytes[k] > 0)
            put(&kinds, gp_host_kind_key((gp_host_kind)k), json_integer((json_int_t)host->bytes[k]));
    return kinds;
}

static json_t *describe_account(const gp_account_result *account) {
    size_t planned = account->host.planned + account->host.program;
    json_t *expected = describe_side(&account->expected, account->workers);
    json_t *measured = describe_side(&account->measured, account->workers);
    json_t *data = json_pack("{s:I, s:o, s:o}", "steps", (json_int_t)account->all_steps, "seconds",
                             number(account->data_seconds), "share", number(gp_account_data_share(account)));
    json_t *off = json_pack("{s:o, s:o, s:o}", "computing", number(account->off.computing), "copying",
                            number(account->off.copying), "waiting", number(account->off.waiting));
    put(&measured, "median", number(account->median));
    json_t *resident = account->resident_bytes ? json_integer((json_int_t)account->resident_bytes) : json_null();
    return json_pack("{s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o}", "source",
                     account->profiled ? "profile" : "counted", "steps", (json_int_t)account->steps, "recorded",
                     (json_int_t)account->recorded, "expected", expected, "measured", measured, "off", off, "data",
                     data, "stolen", number(account->stolen), "planned_bytes", (json_int_t)planned, "program_bytes",
                     (json_int_t)account->host.program, "resident_bytes", resident, "host",
                     describe_host(&account->host));
}

gp_status gp_metrics_end(gp_metrics *metrics, const char *status, int64_t steps, double seconds,
                         const gp_account_result *account, gp_error *err) {
    json_t *line = json_pack("{s:s, s:s, s:I, s:o}", "event", "end", "status", status, "steps", (json_int_t)steps,
                             "seconds", number(seconds));
    if (account) put(&line, "account", describe_account(account));
    return write_line(metrics, line, err);
}
