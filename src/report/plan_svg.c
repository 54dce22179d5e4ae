#include "report/plan_svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "balance/expect.h"
#include "base/memory.h"
#include "base/replace.h"
#include "base/text_stream.h"
#include "plan/memory.h"
#include "report/plan_report_parts.h"

enum {
    WIDTH = 1200,
    LEFT = 116,
    RIGHT = 16,
    TOP = 84,
    MOST_LANES = 64,  /* more workers: every so many-th */
    ROOMY_LANES = 16, /* up to so many are high */
    SMALL_WIDTH = 6,  /* of a small letter, at most */
    MOST_MARKS = 6000 /* instructions: of more, shares of the time are drawn */
};

/* What a mark is coloured by. */
typedef enum mark_kind {
    MARK_FORWARD,
    MARK_RECOMPUTE,
    MARK_BACKWARD,
    MARK_INPUT,
    MARK_WEIGHT,
    MARK_UPDATE,
    MARK_COPY,
    MARKS,
    MARK_NONE = MARKS
} mark_kind;

/* By kind: the class in the style, and what the legend says. */
static const char *const classes[MARKS] = {"f", "r", "b", "i", "w", "u", "c"};
static const char *const legends[MARKS] = {
    "forward", "recompute", "backward", "backward for inputs", "backward for weights", "update", "copy"};

static const char style[] =
    "<style>\n"
    "svg{background:#fff;font:12px system-ui,sans-serif}\n"
    "text{fill:#24292f}.small{font-size:10px;fill:#57606a}.n{font-size:10px;fill:#fff;text-anchor:middle}\n"
    ".lane{fill:#f0f2f4}.axis{stroke:#d0d7de}.mem{fill:#c8d1da}.arena{stroke:#8c959f;stroke-dasharray:4 3}\n"
    ".f{fill:#2f6fd0}.r{fill:#5aa7c7}.b{fill:#b4493f}.i{fill:#c2601f}.w{fill:#3b8a4b}.u{fill:#7a56b3}.c{fill:#57606a}\n"
    "@media (prefers-color-scheme:dark){\n"
    "svg{background:#0d1117}text{fill:#e6edf3}.small{fill:#9198a1}.n{fill:#fff}\n"
    ".lane{fill:#1b2129}.axis{stroke:#30363d}.mem{fill:#3d4753}.arena{stroke:#768390}\n"
    ".f{fill:#3d7de0}.r{fill:#3f93b5}.b{fill:#c05a50}.i{fill:#cb6d2c}.w{fill:#43985a}.u{fill:#8a66c4}.c{fill:#9198a1}}"
    "\n"
    "</style>\n";

typedef struct painter {
    const gp_plan *plan;
    const gp_mini_plan *mini;
    const gp_profile *profile;
    gp_play *play; /* of the mini-batch, with the timeline; in seconds */
    FILE *out;
    double scale;           /* pixels per second */
    bool each;              /* every instruction is a mark of its own; else shares of the time are drawn */
    int every;              /* of how many workers one is drawn */
    double lane, copy, mem; /* heights */
    double gap;
    size_t most; /* bytes at the top of a memory strip */
} painter;

static double x_of(const painter *p, double seconds) {
    return LEFT + seconds * p->scale;
}

static mark_kind kind_of(const gp_instr *instr) {
    switch (instr->op) {
    case GP_INSTR_FORWARD: return MARK_FORWARD;
    case GP_INSTR_RECOMPUTE: return MARK_RECOMPUTE;
    case GP_INSTR_BACKWARD: return MARK_BACKWARD;
    case GP_INSTR_BACKWARD_INPUT: return MARK_INPUT;
    case GP_INSTR_BACKWARD_WEIGHT: return MARK_WEIGHT;
    case GP_INSTR_LOAD:
    case GP_INSTR_COLLECT:
    case GP_INSTR_RECV: return MARK_COPY;
    case GP_INSTR_NORM:
    case GP_INSTR_CLIP:
    case GP_INSTR_TOTAL:
    case GP_INSTR_REDUCE:
    case GP_INSTR_UPDATE:
    case GP_INSTR_STEP: return MARK_UPDATE;
    default: return MARK_NONE;
    }
}

/* ---- marks ------------------------------------------------------------------------------------------------------- */

/* Of a worker's stages the later ones are paler. */
static double paleness(const painter *p, int stage) {
    int worker = p->plan->stage[stage].worker, before = 0, all = 0;
    for (int s = 0; s < p->plan->stages->count; s++) {
        if (p->plan->stage[s].worker != worker) continue;
        all++;
        before += s < stage;
    }
    return all > 1 ? 1 - 0.4 * before / (all - 1) : 1;
}

static void draw_mark(const painter *p, const gp_instr *instr, mark_kind kind, const double when[2], double y,
                      double height) {
    double from = x_of(p, when[0]), width = (when[1] - when[0]) * p->scale;
    fprintf(p->out, "<rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\"", classes[kind], from, y,
            width, height);
    double pale = kind == MARK_COPY || kind == MARK_UPDATE ? 1 : paleness(p, instr->stage);
    if (pale < 1) fprintf(p->out, " fill-opacity=\"%.2f\"", pale);
    char text[GP_INSTR_TEXT];
    fprintf(p->out, "><title>%s: %s from %s</title></rect>\n", gp_instr_text(text, instr),
            gp_report_seconds(when[1] - when[0]).text, gp_report_seconds(when[0]).text);
    char number[16];
    snprintf(number, sizeof number, "%u", instr->micro);
    if (kind < MARK_UPDATE && height >= 12 && width >= 4 + 6 * (double)strlen(number))
        fprintf(p->out, "<text class=\"n\" x=\"%.2f\" y=\"%.1f\">%s</text>\n", from + width / 2, y + height / 2 + 3.5,
                number);
}

enum { COLUMN = 2, COLUMNS = (WIDTH - LEFT - RIGHT) / COLUMN };

/* What part of each column's time goes to each kind. */
typedef struct shares {
    double of[COLUMNS][MARKS];
} shares;

static void add_share(const painter *p, shares *all, mark_kind kind, double start, double end) {
    double from = start * p->scale / COLUMN, to = end * p->scale / COLUMN;
    for (int c = (int)from; c < COLUMNS && c < to; c++) all->of[c][kind] += fmin(to, c + 1) - fmax(from, c);
}

/* Stacked from below; neighbours of equal height are one. */
static void draw_share(const painter *p, const shares *all, int kind, double y, double height) {
    double from = 0, top = y, high = 0;
    fprintf(p->out, "<path class=\"%s\" d=\"", classes[kind]);
    for (int c = 0; c <= COLUMNS; c++) {
        double below = 0, part = c < COLUMNS ? all->of[c][kind] * height : 0;
        for (int k = 0; k < kind && c < COLUMNS; k++) below += all->of[c][k] * height;
        double at = y + height - below - part, x = LEFT + c * COLUMN;
        if (fabs(part - high) < 0.05 && fabs(at - top) < 0.05) continue;
        if (high >= 0.05) fprintf(p->out, "M%.0f %.1fH%.0fv%.1fH%.0f", from, top, x, high, from);
        from = x;
        top = at;
        high = part;
    }
    fputs("\"/>\n", p->out);
}

/* Of a worker: its copies, or its computations. Each is a mark; if there are too many to see each, shares. */
static gp_status draw_lane(const painter *p, int worker, bool copies, double y, double height, gp_error *err) {
    const gp_program *program = &p->mini->programs->worker[worker];
    const gp_play_worker *its = &p->play->worker[worker];
    bool there[MARKS] = {false};
    shares *all = NULL;
    if (!p->each) GP_RETURN_IF_FAILED(GP_NEW(&all, 1, err));
    for (size_t pc = 0; pc < program->count; pc++) {
        const gp_instr *instr = &program->instrs[pc];
        mark_kind kind = kind_of(instr);
        if (kind == MARK_NONE || (kind == MARK_COPY) != copies) continue;
        there[kind] = true;
        if (!p->each)
            add_share(p, all, kind, its->start[pc], its->end[pc]);
        else if (its->end[pc] > its->start[pc])
            draw_mark(p, instr, kind, (const double[]){its->start[pc], its->end[pc]}, y, height);
    }
    for (int k = 0; k < MARKS && !p->each; k++)
        if (there[k]) draw_share(p, all, k, y, height);
    free(all);
    return GP_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Half pixels, each as high as the most that is alive in it. */
static void draw_alive(const painter *p, int worker, const size_t *bytes, double y) {
    size_t count = p->mini->programs->worker[worker].count, most = 0;
    double scale = p->most ? p->mem / (double)p->most : 0, at = LEFT, drawn = -1;
    fprintf(p->out, "<path class=\"mem\" d=\"M%d %.1f", (int)LEFT, y + p->mem);
    for (size_t pc = 0; pc < count; pc++) {
        double x = floor(2 * x_of(p, p->play->worker[worker].start[pc])) / 2, top = y + p->mem - (double)most * scale;
        if (x > at && fabs(top - drawn) >= 0.05) {
            fprintf(p->out, "H%.1fV%.1f", at, top);
            drawn = top;
        }
        if (x > at) most = 0;
        at = fmax(x, at);
        if (bytes[pc] > most) most = bytes[pc];
    }
    fprintf(p->out, "H%.1fV%.1fH%dV%.1fZ\"/>\n", at, y + p->mem - (double)most * scale, WIDTH - RIGHT, y + p->mem);
    fprintf(p->out, "<path class=\"arena\" d=\"M%d %.1fH%d\"/>\n", (int)LEFT,
            y + p->mem - (double)p->plan->arena[worker] * scale, WIDTH - RIGHT);
}

static gp_status draw_memory(const painter *p, int worker, double y, gp_error *err) {
    size_t *bytes = NULL;
    GP_RETURN_IF_FAILED(GP_NEW(&bytes, p->mini->programs->worker[worker].count, err));
    gp_status status = gp_memory_follow(p->plan, gp_plan_largest_mini(p->plan), worker, bytes, err);
    if (status == GP_OK) draw_alive(p, worker, bytes, y);
    free(bytes);
    return status;
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

static void draw_axis(const painter *p, double height) {
    double rough = p->play->length / 8, step = pow(10, floor(log10(rough)));
    if (!(rough > 0)) return;
    step *= rough / step > 5 ? 10 : rough / step > 2 ? 5 : rough / step > 1 ? 2 : 1;
    for (int i = 0; i * step <= p->play->length; i++) {
        double at = i * step;
        const gp_report_text its = at > 0 ? gp_report_seconds(at) : (gp_report_text){"0"};
        bool fits = x_of(p, at) + 3 + SMALL_WIDTH * (double)strlen(its.text) <= WIDTH;
        fprintf(p->out,
                "<path class=\"axis\" d=\"M%.2f %dV%.1f\"/><text class=\"small\" x=\"%.2f\" y=\"%d\"%s>%s</text>\n",
                x_of(p, at), TOP - 12, height, x_of(p, at) + (fits ? 3 : -3), TOP - 8,
                fits ? "" : " text-anchor=\"end\"", its.text);
    }
}

static const char later_stage[] = "paler: a worker's later stage";

static void draw_legend(const painter *p) {
    bool there[MARKS] = {false};
    double x = LEFT;
    for (int w = 0; w < p->plan->workers; w++)
        for (size_t pc = 0; pc < p->mini->programs->worker[w].count; pc++) {
            mark_kind kind = kind_of(&p->mini->programs->worker[w].instrs[pc]);
            if (kind != MARK_NONE) there[kind] = true;
        }
    for (int k = 0; k < MARKS; k++) {
        if (!there[k]) continue;
        fprintf(p->out, "<rect class=\"%s\" x=\"%.0f\" y=\"%d\" width=\"12\" height=\"%d\"/>", classes[k], x,
                k == MARK_COPY ? 50 : 44, k == MARK_COPY ? 4 : 12);
        fprintf(p->out, "<text x=\"%.0f\" y=\"54\">%s</text>\n", x + 16, legends[k]);
        x += 34 + 6.6 * (double)strlen(legends[k]);
    }
    if (p->each && p->plan->stages->count > p->plan->workers) {
        fprintf(p->out,
                "<rect class=\"f\" x=\"%.0f\" y=\"44\" width=\"12\" height=\"12\" fill-opacity=\"0.60\"/>"
                "<text x=\"%.0f\" y=\"54\">%s</text>\n",
                x, x + 16, later_stage);
        x += 34 + 6.6 * (double)strlen(later_stage);
    }
    fprintf(p->out,
            "<rect class=\"mem\" x=\"%.0f\" y=\"44\" width=\"12\" height=\"12\"/>"
            "<text x=\"%.0f\" y=\"54\">memory alive, arena dashed</text>\n",
            x, x + 16);
}

static const char *source_of(const gp_profile *profile) {
    if (gp_profile_is_counted(profile)) return "counted";
    return profile->scaled ? "scaled from a profile" : "profiled";
}

static void write_title(const painter *p) {
    char checkpoint[GP_PLAN_CHECKPOINT_TEXT];
    fprintf(
        p->out,
        "<text x=\"%d\" y=\"24\" font-size=\"14\">%s, %s on %s, %d micro-batch%s, checkpoint %s: %s, bubble %.1f %%",
        (int)LEFT, gp_schedule_kind_name(p->plan->schedule.kind), gp_report_count(p->plan->stages->count, "stage").text,
        gp_report_count(p->plan->workers, "worker").text, p->mini->pieces, p->mini->pieces == 1 ? "" : "es",
        gp_plan_checkpoint_text(checkpoint, p->plan), gp_report_seconds(p->play->length).text,
        100 * gp_play_bubble(p->play));
    fprintf(p->out, " (%s)", source_of(p->profile));
    if (!p->each) fputs("; shares of the time", p->out);
    if (p->every > 1) fprintf(p->out, "; every %dth worker", p->every);
    fputs("</text>\n", p->out);
}

static gp_status draw_worker(const painter *p, int worker, double y, gp_error *err) {
    bool labels = p->lane >= 12;
    fprintf(p->out, "<text x=\"8\" y=\"%.1f\"%s>worker %d</text>\n", y + p->lane / 2 + 4,
            labels ? "" : " class=\"small\"", worker);
    fprintf(p->out, "<rect class=\"lane\" x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\"/>\n", (int)LEFT, y,
            WIDTH - LEFT - RIGHT, p->lane + p->copy);
    GP_RETURN_IF_FAILED(draw_lane(p, worker, false, y, p->lane, err));
    GP_RETURN_IF_FAILED(draw_lane(p, worker, true, y + p->lane, p->copy, err));
    y += p->lane + p->copy + 3;
    if (labels)
        fprintf(p->out, "<text class=\"small\" x=\"8\" y=\"%.1f\">%s</text>\n", y + p->mem / 2 + 4,
                gp_report_bytes(p->plan->arena[worker]).text);
    return draw_memory(p, worker, y, err);
}

static void choose_sizes(painter *p) {
    size_t instrs = 0;
    int shown = p->plan->workers;
    for (p->every = 1; shown > MOST_LANES; p->every++) shown = (p->plan->workers + p->every) / (p->every + 1);
    bool roomy = shown <= ROOMY_LANES;
    p->lane = roomy ? 24 : 10;
    p->copy = roomy ? 4 : 2;
    p->mem = roomy ? 24 : 8;
    p->gap = roomy ? 12 : 8;
    for (int w = 0; w < p->plan->workers; w += p->every) {
        instrs += p->mini->programs->worker[w].count;
        if (p->plan->arena[w] > p->most) p->most = p->plan->arena[w];
    }
    p->each = instrs <= MOST_MARKS;
    p->scale = p->play->length > 0 ? (WIDTH - LEFT - RIGHT) / p->play->length : 0;
}

const char gp_plan_svg_head[] = "<svg xmlns=\"http://www.w3.org/2000/svg\"";

static gp_status draw(painter *p, gp_error *err) {
    choose_sizes(p);
    double each = p->lane + p->copy + 3 + p->mem + p->gap;
    int shown = (p->plan->workers + p->every - 1) / p->every;
    double height = TOP + each * shown;
    fprintf(p->out, "%s viewBox=\"0 0 %d %.0f\" width=\"%d\" height=\"%.0f\" fill=\"none\">\n%s", gp_plan_svg_head,
            WIDTH, height, WIDTH, height, style);
    write_title(p);
    draw_legend(p);
    draw_axis(p, height - p->gap);
    for (int i = 0; i < shown; i++) GP_RETURN_IF_FAILED(draw_worker(p, i * p->every, TOP + each * i, err));
    fputs("</svg>\n", p->out);
    return GP_OK;
}

gp_status gp_plan_svg_write(const gp_plan *plan, const gp_profile *profile, const char *path, gp_error *err) {
    int mini = gp_plan_largest_mini(plan);
    painter p = {.plan = plan, .mini = &plan->minis[mini], .profile = profile};
    gp_text_stream stream;
    char *text = NULL;
    GP_RETURN_IF_FAILED(gp_expect_play(plan, mini, profile, &p.play, err));
    gp_status status = gp_text_begin(&stream, "the picture of the plan", err);
    p.out = stream.file;
    if (status == GP_OK) status = gp_text_end(&stream, draw(&p, err), &text, err);
    if (status == GP_OK) status = gp_file_replace(path, text, err);
    free(text);
    gp_play_destroy(&p.play);
    return status;
}
