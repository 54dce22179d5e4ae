#include "device/cpu/cpu_conv_choice.h"

#include <assert.h>
#include <math.h>
#include <oneapi/dnnl/dnnl.h>

#include "base/memory.h"

static const char *const method_names[GP_CONV_METHODS] = {"direct", "product", "gathered product", "product by places"};
static const char *const isa_names[GP_CONV_ISAS] = {"SSE4.1", "AVX2", "AVX-512"};

const char *gp_conv_method_name(gp_conv_method method) {
    return method_names[method];
}

const char *gp_conv_isa_name(gp_conv_isa isa) {
    return isa_names[isa];
}

gp_conv_isa gp_conv_isa_now(void) {
    dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa(); /* a set of bits: later sets contain the earlier ones */
    if ((isa & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core) return GP_CONV_AVX512;
    return (isa & dnnl_cpu_isa_avx2) == dnnl_cpu_isa_avx2 ? GP_CONV_AVX2 : GP_CONV_SSE41;
}

/* ---- what is possible -------------------------------------------------------------------------------------------- */

static int64_t places_of(const gp_conv_shape *s) {
    return s->outputs[0] * s->outputs[1];
}

/* A place that sees nothing has no product. A line of taps is one matrix if they lie side by side. */
static bool every_place_sees_a_line(const gp_conv_shape *s) {
    if (s->dilation[1] != 1 && s->kernel[1] > 1) return false;
    for (int d = 0; d < 2; d++) {
        for (int64_t place = 0; place < s->outputs[d]; place++) {
            gp_taps taps = gp_conv_taps(s, d, place);
            if (taps.begin == taps.end) return false;
        }
    }
    return true;
}

size_t gp_conv_gathered_bytes(const gp_conv_shape *s, int64_t samples) {
    size_t rows = gp_size_times((size_t)samples, (size_t)places_of(s));
    return gp_size_times(rows, gp_size_times((size_t)gp_conv_depth(s), sizeof(float)));
}

int64_t gp_conv_gathered_products(const gp_conv_shape *s) {
    const size_t cached = 4 << 20;
    int64_t samples = (int64_t)(cached / gp_conv_gathered_bytes(s, 1)), least = (s->n - 1) / GP_CONV_MOST_PRODUCTS + 1;
    if (samples < least) samples = least;
    return (s->n - 1) / samples + 1;
}

int64_t gp_conv_gathered_samples(const gp_conv_shape *s) {
    return (s->n - 1) / gp_conv_gathered_products(s) + 1;
}

bool gp_conv_is_possible(const gp_conv_shape *s, gp_conv_method method) {
    bool product = gp_conv_is_product(s);
    if (method == GP_CONV_DIRECT) return true;
    if (s->groups != 1) return false;
    if (method == GP_CONV_PRODUCT || product) return method == GP_CONV_PRODUCT && product;
    if (method == GP_CONV_GATHERED)
        return gp_conv_gathered_bytes(s, gp_conv_gathered_samples(s)) <= GP_CONV_MOST_GATHERED;
    return places_of(s) <= GP_CONV_MOST_PRODUCTS / s->kernel[0] && s->size[0] * s->size[1] <= GP_CONV_MOST_TARGETS &&
           s->kernel[0] * s->kernel[1] <= GP_CONV_MOST_TARGETS && every_place_sees_a_line(s);
}

/* Lines of taps that places see, along the height. */
static double lines_of(const gp_conv_shape *s) {
    double lines = 0;
    for (int64_t place = 0; place < s->outputs[0]; place++) {
        gp_taps taps = gp_conv_taps(s, 0, place);
        lines += (double)(taps.end - taps.begin);
    }
    return lines * (double)s->outputs[1];
}

bool gp_conv_by_channels(const gp_conv_shape *s) {
    enum { FEW = 2 * GP_PRODUCT_UNIT, BLOCKS = 2 * GP_PRODUCT_BLOCK };
    return s->n < FEW && s->in >= BLOCKS && places_of(s) * s->kernel[0] <= GP_CONV_MOST_TAPS / s->kernel[1];
}

gp_division gp_conv_divide(const gp_conv_shape *s, gp_op_kind kind, gp_conv_method method, int threads) {
    int64_t rows = s->n, columns = s->out, depth = gp_conv_depth(s); /* of the smallest result */
    bool several = false; /* write the same place, each in its turn: their threads must be the same */
    if (method == GP_CONV_PRODUCT) rows = gp_conv_rows(s);
    if (method == GP_CONV_GATHERED) rows = s->n / gp_conv_gathered_products(s) * places_of(s);
    if (method == GP_CONV_PLACES && kind != GP_OP_CONV_FORWARD) {
        if (kind == GP_OP_CONV_BACKWARD_DATA && gp_conv_by_channels(s))
            return gp_product_divide(false, GP_PRODUCT_BLOCK, s->in, threads);
        several = lines_of(s) > 1;
        depth = (int64_t)(gp_conv_visible_flops(s) / 2 / (double)s->n / (double)s->out); /* if there is one line only */
    }
    if (kind == GP_OP_CONV_BACKWARD_DATA) columns = depth;
    if (kind == GP_OP_CONV_BACKWARD_WEIGHTS) rows = s->out, columns = depth;
    /* Samples and output channels are never shared. A single product is divided along its longer side: the shorter
     * one's factor is then read by all. */
    bool by_rows = several || rows >= columns;
    return gp_product_divide(by_rows, GP_PRODUCT_UNIT, by_rows ? rows : columns, threads);
}

/* ---- padded rows ------------------------------------------------------------------------------------------------- */

gp_conv_rows_of gp_conv_rows_of_x(const gp_conv_shape *s, gp_conv_method method) {
    int64_t places = s->size[0] * s->size[1];
    return method == GP_CONV_PLACES ? (gp_conv_rows_of){s->n, places * s->in} : (gp_conv_rows_of){s->n * places, s->in};
}

gp_conv_rows_of gp_conv_rows_of_y(const gp_conv_shape *s, gp_conv_method method) {
    return method == GP_CONV_PLACES ? (gp_conv_rows_of){s->n, places_of(s) * s->out}
                                    : (gp_conv_rows_of){s->n * places_of(s), s->out};
}

gp_conv_rows_of gp_conv_rows_of_weights(const gp_conv_shape *s) {
    return (gp_conv_rows_of){s->out, gp_conv_depth(s)};
}

/* The size of a result, or of one thread's part of it. */
typedef struct result {
    int64_t rows, columns;
} result;

static result result_of(const gp_conv_shape *s, gp_op_kind kind, gp_conv_method method, int threads) {
    gp_division division = gp_conv_divide(s, kind, method, threads);
    int64_t seen = s->kernel[1] < s->size[1] ? s->kernel[1] : s->size[1]; /* of a line, by places */
    int64_t columns = method == GP_CONV_PLACES ? seen * s->in : gp_conv_depth(s), rows = s->out;
    if (kind == GP_OP_CONV_BACKWARD_DATA)
        rows = method == GP_CONV_PRODUCT    ? gp_conv_rows(s)
               : method == GP_CONV_GATHERED ? gp_conv_gathered_samples(s) * places_of(s)
                                            : s->n;
    *(division.by_rows ? &rows : &columns) /= division.parts;
    return (result){rows, columns};
}

/* oneDNN's products for AVX2 copy neither factor if the result is narrow, and then read a factor down its columns, of
 * which each touches a line of every row. `times`: how often the factor is read so. */
static bool is_padded(int64_t floats, int64_t times) {
    return (floats % 512 == 0 && times >= 32) || (floats % 128 == 0 && times >= 128);
}

gp_conv_pads gp_conv_padded(const gp_conv_shape *s, gp_op_kind kind, gp_conv_method method, gp_conv_isa isa,
                            int threads) {
    const double narrow = 0.0038;
    gp_conv_pads pads = {0};
    if (isa != GP_CONV_AVX2 || method == GP_CONV_DIRECT || kind == GP_OP_CONV_FORWARD) return pads;
    result r = result_of(s, kind, method, threads);
    if (1 / (double)r.rows + 1 / (double)r.columns < narrow) return pads;
    if (kind == GP_OP_CONV_BACKWARD_DATA) {
        pads.weights = is_padded(gp_conv_depth(s), r.rows);
        return pads;
    }
    pads.y = is_padded(gp_conv_rows_of_y(s, method).floats, r.columns);
    pads.gathered = method == GP_CONV_GATHERED && is_padded(gp_conv_depth(s), r.rows);
    pads.x = method != GP_CONV_GATHERED && is_padded(gp_conv_rows_of_x(s, method).floats, r.rows);
    return pads;
}

static double copied_bytes(const gp_conv_shape *s, gp_conv_method method, gp_conv_pads pads) {
    const gp_conv_rows_of x = gp_conv_rows_of_x(s, method), y = gp_conv_rows_of_y(s, method);
    double bytes = 0;
    if (pads.x) bytes += (double)x.rows * (double)x.floats * sizeof(float);
    if (pads.y) bytes += (double)y.rows * (double)y.floats * sizeof(float);
    if (pads.weights) bytes += (double)gp_conv_depth(s) * (double)s->out * sizeof(float);
    return bytes;
}

/* ---- what it costs ----------------------------------------------------------------------------------------------- */

gp_conv_work gp_conv_work_of(const gp_conv_shape *s, gp_op_kind kind, gp_conv_method method, gp_conv_isa isa,
                             uint32_t threads) {
    double weights = (double)gp_conv_depth(s) * (double)s->out * sizeof(float);
    double seen = gp_conv_visible_flops(s);
    gp_conv_work work = {gp_conv_flops(s), weights, 0, 1};
    if (method == GP_CONV_DIRECT) {
        /* Weights, or what is added to their gradient, once for each picture. The gradient's kernels see padding too.
         */
        bool gradient = kind == GP_OP_CONV_BACKWARD_WEIGHTS;
        if (!gradient) work.flops = gp_conv_visible_flops(s);
        work.weights = gradient ? (double)s->n * weights : seen / 2 / (double)places_of(s) * sizeof(float);
    } else if (method == GP_CONV_GATHERED) {
        work.moved = (double)gp_conv_gathered_bytes(s, s->n);
        work.products = (double)gp_conv_gathered_products(s);
        work.weights *= work.products;
    } else if (method == GP_CONV_PLACES) {
        /* Each product reads its part of the weights, and reads and writes its result. */
        double lines = lines_of(s);
        work = (gp_conv_work){seen, seen / 2 / (double)s->n * sizeof(float), 0, lines};
        if (kind == GP_OP_CONV_BACKWARD_DATA && gp_conv_by_channels(s))
            work.products = seen / 2 / (double)s->n / (double)(s->in * s->out);
        if (kind == GP_OP_CONV_BACKWARD_WEIGHTS)
            work.moved = work.weights + weights;
        else
            work.moved = kind == GP_OP_CONV_FORWARD ? lines * (double)(s->n * s->out) * sizeof(float)
                                                    : seen / 2 / (double)s->out * sizeof(float);
    }
    work.moved += copied_bytes(s, method, gp_conv_padded(s, kind, method, isa, (int)threads));
    return work;
}

static const gp_conv_row table[] = {
#define ROW(isa, threads, method, kind, flops, weights, moved, each)                                                   \
    {GP_CONV_##isa, threads, GP_CONV_##method, GP_OP_CONV_##kind, {flops, weights, moved, each}},
#include "device/cpu/cpu_conv_table.inc"
#undef ROW
};

/* Rows for two threads stand for more. */
enum { MOST_MEASURED = 2 };
static const gp_conv_row *find_row(gp_conv_isa isa, uint32_t threads, gp_conv_method method, gp_op_kind kind) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const gp_conv_row *row = &table[i];
        if (row->isa == isa && row->method == method && row->kind == kind &&
            row->threads == (threads > 1 ? MOST_MEASURED : 1))
            return row;
    }
    return NULL;
}

/* Milliseconds of the work itself, divided evenly. */
static double of_work(const gp_conv_work *work, const gp_conv_rates *rate) {
    return 1e-6 * (work->flops / rate->flops + work->weights / rate->weights + work->moved / rate->moved);
}

/* By how much the largest share exceeds a mean one. */
static double excess_of(int64_t samples, uint32_t threads) {
    int64_t largest = (samples - 1) / threads + 1;
    return (double)largest * threads / (double)samples - 1;
}

bool gp_conv_is_shared(const gp_conv_shape *s, gp_op_kind kind, gp_conv_isa isa, uint32_t threads) {
    double weights = (double)gp_conv_depth(s) * (double)s->out * sizeof(float);
    if (threads < 2 || s->n < threads) return false;
    if (kind == GP_OP_CONV_BACKWARD_WEIGHTS && (threads - 1) * weights > GP_CONV_MOST_PARTIAL) return false;
    const gp_conv_row *row = find_row(isa, threads, GP_CONV_DIRECT, kind);
    gp_conv_work work = gp_conv_work_of(s, kind, GP_CONV_DIRECT, isa, threads);
    return excess_of(s->n, threads) * of_work(&work, &row->rate) <= GP_CONV_WAKING;
}

double gp_conv_expected(const gp_conv_shape *shape, gp_op_kind kind, gp_conv_method method, gp_conv_isa isa,
                        uint32_t threads) {
    /* Threads that have no part of the products are none. */
    if (method != GP_CONV_DIRECT && gp_conv_divide(shape, kind, method, (int)threads).parts == 1) threads = 1;
    const gp_conv_row *row = find_row(isa, threads, method, kind);
    gp_conv_work work = gp_conv_work_of(shape, kind, method, isa, threads);
    if (!row) return method == GP_CONV_DIRECT ? 0 : INFINITY;
    double took = of_work(&work, &row->rate) + 1e-3 * work.products * row->rate.each;
    if (method != GP_CONV_DIRECT || threads == 1) return took;
    if (!gp_conv_is_shared(shape, kind, isa, threads)) return took + GP_CONV_WAKING;
    return took + excess_of(shape->n, threads) * of_work(&work, &row->rate);
}

/* ---- the choice -------------------------------------------------------------------------------------------------- */

typedef struct best {
    gp_conv_method method;
    double cost;
} best;

/* The format of the weights, as the methods are compared. */
typedef struct weights_at {
    bool by_taps;
    bool given; /* the op has no other choice: a method that wants the other format has a reorder */
} weights_at;

/* What a method takes with the weights there, or INFINITY. Of formats that may be chosen, the weights have what all
 * three ops agree on; a gradient has what its method writes, and is reordered to the master's if that is another one.
 */
static double cost_of(const gp_conv_shape *shape, gp_op_kind kind, gp_conv_method method, weights_at weights,
                      gp_conv_isa isa, uint32_t threads) {
    double bytes = (double)gp_conv_depth(shape) * (double)shape->out * sizeof(float);
    bool product = method != GP_CONV_DIRECT, gradient = kind == GP_OP_CONV_BACKWARD_WEIGHTS;
    if (!gp_conv_is_possible(shape, method)) return INFINITY;
    if (product && !gradient && !weights.by_taps && !weights.given) return INFINITY;
    bool always = gradient && !weights.by_taps && !weights.given; /* oneDNN's formats of both need not be the same */
    double reorder = always || product != weights.by_taps ? 2e-6 * bytes / GP_CONV_REORDER : 0;
    return gp_conv_expected(shape, kind, method, isa, threads) + reorder;
}

static best find_best(const gp_conv_shape *shape, gp_op_kind kind, weights_at weights, gp_conv_isa isa,
                      uint32_t threads) {
    best found = {GP_CONV_DIRECT, INFINITY};
    for (int m = 0; m < GP_CONV_METHODS; m++) {
        double cost = cost_of(shape, kind, (gp_conv_method)m, weights, isa, threads);
        if (cost < found.cost) found = (best){(gp_conv_method)m, cost};
    }
    return found;
}

static double all_three(const gp_conv_shape *shape, bool by_taps, gp_conv_isa isa, uint32_t threads) {
    static const gp_op_kind kinds[] = {GP_OP_CONV_FORWARD, GP_OP_CONV_BACKWARD_DATA, GP_OP_CONV_BACKWARD_WEIGHTS};
    double sum = 0;
    for (int i = 0; i < 3; i++) sum += find_best(shape, kinds[i], (weights_at){by_taps, false}, isa, threads).cost;
    return sum;
}

gp_conv_choice gp_conv_choose(const gp_op_desc *desc, gp_conv_weights weights, gp_conv_isa isa) {
    gp_conv_shape shape = gp_conv_shape_of(desc);
    weights_at at = {weights == GP_CONV_WEIGHTS_BY_TAPS, weights != GP_CONV_WEIGHTS_ANY};
    if (!at.given)
        at.by_taps = all_three(&shape, true, isa, desc->threads) < all_three(&shape, false, isa, desc->threads);
    gp_conv_method method = find_best(&shape, desc->kind, at, isa, desc->threads).method;
    /* The gradient lies as the method writes it; the weights lie alike for all three ops. */
    bool by_taps = desc->kind == GP_OP_CONV_BACKWARD_WEIGHTS ? method != GP_CONV_DIRECT : at.by_taps;
    return (gp_conv_choice){method, by_taps};
}

double gp_conv_effort(const gp_op_desc *desc) {
    const gp_conv_isa isa = GP_CONV_AVX2;
    gp_op_desc on = *desc;
    if (on.threads == 0) on.threads = 1;
    if (on.threads > MOST_MEASURED) on.threads = MOST_MEASURED;
    gp_conv_shape shape = gp_conv_shape_of(&on);
    double large = find_row(isa, 1, GP_CONV_DIRECT, GP_OP_CONV_FORWARD)->rate.flops * on.threads;
    gp_conv_method method = gp_conv_choose(&on, GP_CONV_WEIGHTS_ANY, isa).method;
    double milliseconds = gp_conv_expected(&shape, on.kind, method, isa, on.threads);
    return 1e6 * milliseconds * large / gp_conv_flops(&shape);
}
