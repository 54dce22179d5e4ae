#include "device/op_cases.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"

typedef struct draws {
    uint64_t seed;
    uint32_t next;
} draws;

static uint32_t draw(draws *random) {
    gp_philox counter = {{random->next++, 0, 0, GP_RANDOM_SYNTHETIC}};
    return gp_philox_draw(random->seed, counter).word[0];
}

static int64_t draw_below(draws *random, int64_t count) {
    return (int64_t)(draw(random) % (uint32_t)count);
}

static double draw_uniform(draws *random, double from, double to) {
    return from + (to - from) * gp_philox_uniform(draw(random));
}

static int64_t draw_of(draws *random, const int64_t *values, size_t count) {
    return values[draw_below(random, (int64_t)count)];
}
#define DRAW_OF(random, ...)                                                                                           \
    draw_of((random), (const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* What the makers of the families share. */
typedef struct maker {
    gp_op_case *out;
    draws random;
    gp_dtype dtype;
} maker;

/* A tensor that is a slice of channels of a wider one, unless the case is one of contiguous tensors. */
static gp_tensor sliced(maker *m, gp_dtype dtype, int rank, const int64_t *dim) {
    int64_t wide[GP_TENSOR_MAX_RANK];
    for (int d = 0; d < rank; d++) wide[d] = dim[d];
    if (m->out->number % 3 != 0) wide[rank - 1] += draw_below(&m->random, 6);
    return gp_tensor_channels(gp_tensor_plain(dtype, rank, wide), dim[rank - 1]);
}

static void put(maker *m, int operand, gp_tensor tensor, gp_case_fill fill) {
    m->out->desc.operand[operand] = tensor;
    m->out->fill[operand] = fill;
}

static void put_like(maker *m, int operand, int rank, const int64_t *dim, gp_case_fill fill) {
    put(m, operand, sliced(m, m->dtype, rank, dim), fill);
}

static void put_vector(maker *m, int operand, int64_t width, gp_case_fill fill) {
    put(m, operand, gp_tensor_plain(m->dtype, 1, &width), fill);
}

static void put_scalars(maker *m, int operand) {
    put(m, operand, gp_tensor_scalars(), GP_CASE_SCALARS);
}

static int64_t draw_channels(draws *random) {
    return DRAW_OF(random, 1, 2, 3, 5, 8, 16, 17, 33, 64);
}

/* A picture, or rows of tokens, or vectors. */
static int draw_values(maker *m, int64_t dim[GP_TENSOR_MAX_RANK]) {
    static const int64_t corners[][5] = {
        {4, 1, 1, 1, 1}, {4, 2, 1, 1, 64}, {4, 1, 5, 7, 3},  {4, 3, 4, 4, 17}, {2, 5, 3, 0, 0},
        {2, 1, 1, 0, 0}, {3, 2, 5, 17, 0}, {3, 1, 1, 64, 0}, {4, 2, 9, 1, 8},  {4, 2, 1, 9, 16},
    };
    size_t number = (size_t)m->out->number;
    if (number < sizeof corners / sizeof corners[0]) {
        for (int d = 0; d < GP_TENSOR_MAX_RANK; d++) dim[d] = corners[number][d + 1];
        return (int)corners[number][0];
    }
    int rank = 2 + (int)draw_below(&m->random, 3);
    for (int d = 0; d < rank - 1; d++) dim[d] = 1 + draw_below(&m->random, 7);
    dim[rank - 1] = draw_channels(&m->random);
    return rank;
}

typedef struct conv_case {
    int64_t n, h, w, in, out, kernel[2], stride[2], pad[2], dilation[2], groups;
} conv_case;

static const conv_case conv_corners[] = {
    {1, 1, 1, 1, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1},     {2, 1, 1, 3, 5, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
    {1, 12, 12, 1, 16, {5, 5}, {1, 1}, {2, 2}, {1, 1}, 1},  {2, 7, 9, 3, 17, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 1},
    {2, 8, 7, 4, 6, {3, 3}, {1, 1}, {2, 2}, {2, 2}, 1},     {2, 6, 6, 6, 4, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 2},
    {2, 5, 6, 17, 17, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 17},  {1, 5, 5, 3, 6, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 3},
    {2, 6, 8, 3, 5, {1, 7}, {1, 1}, {0, 3}, {1, 1}, 1},     {3, 4, 5, 64, 64, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1},
    {2, 7, 7, 5, 3, {1, 1}, {2, 2}, {0, 0}, {1, 1}, 1},     {1, 11, 11, 2, 3, {5, 5}, {3, 3}, {2, 2}, {1, 1}, 1},
    {1, 6, 5, 64, 17, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},   {1, 3, 3, 2, 2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1},
    {1, 4, 4, 2, 3, {2, 2}, {1, 1}, {3, 3}, {1, 1}, 1},     {2, 5, 5, 3, 7, {5, 5}, {1, 1}, {0, 0}, {1, 1}, 1},
    {2, 9, 10, 3, 4, {3, 2}, {2, 1}, {1, 0}, {1, 3}, 1},    {2, 8, 8, 64, 64, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 64},
    {1, 9, 9, 8, 12, {3, 3}, {2, 2}, {2, 2}, {2, 2}, 4},    {2, 2, 3, 1, 1, {2, 3}, {1, 1}, {0, 0}, {1, 1}, 1},
    {1, 14, 14, 32, 32, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1}, {1, 7, 6, 16, 16, {2, 2}, {2, 2}, {0, 0}, {1, 1}, 16},
};

static int64_t conv_outputs(const conv_case *c, int d) {
    int64_t size = d == 0 ? c->h : c->w;
    return (size + 2 * c->pad[d] - c->dilation[d] * (c->kernel[d] - 1) - 1) / c->stride[d] + 1;
}

static conv_case draw_conv(maker *m) {
    size_t number = (size_t)m->out->number;
    if (number < sizeof conv_corners / sizeof conv_corners[0]) return conv_corners[number];
    draws *random = &m->random;
    conv_case c = {.n = 1 + draw_below(random, 3), .h = 1 + draw_below(random, 10), .w = 1 + draw_below(random, 10)};
    c.groups = DRAW_OF(random, 1, 1, 1, 2, 3);
    c.in = c.groups * DRAW_OF(random, 1, 3, 5, 8, 17);
    c.out = c.groups * DRAW_OF(random, 1, 2, 7, 16, 17);
    for (int d = 0; d < 2; d++) {
        c.kernel[d] = 1 + draw_below(random, 4);
        c.stride[d] = 1 + draw_below(random, 3);
        c.dilation[d] = 1 + draw_below(random, 2);
        int64_t size = d == 0 ? c.h : c.w, reach = c.dilation[d] * (c.kernel[d] - 1) + 1;
        int64_t needed = reach > size ? (reach - size + 1) / 2 : 0;
        c.pad[d] = needed + draw_below(random, 2);
    }
    return c;
}

static void make_conv(maker *m) {
    conv_case c = draw_conv(m);
    gp_op_desc *desc = &m->out->desc;
    for (int d = 0; d < 2; d++) {
        desc->attributes.conv.kernel[d] = c.kernel[d];
        desc->attributes.conv.stride[d] = c.stride[d];
        desc->attributes.conv.pad[d] = c.pad[d];
        desc->attributes.conv.dilation[d] = c.dilation[d];
    }
    desc->attributes.conv.groups = c.groups;
    const int64_t x[] = {c.n, c.h, c.w, c.in}, y[] = {c.n, conv_outputs(&c, 0), conv_outputs(&c, 1), c.out};
    gp_tensor w = gp_tensor_plain(m->dtype, 4, (const int64_t[]){c.out, c.in / c.groups, c.kernel[0], c.kernel[1]});
    bool bias = m->out->number % 2 == 0;
    if (desc->kind == GP_OP_CONV_FORWARD) {
        put_like(m, GP_CONV_FORWARD_X, 4, x, GP_CASE_NORMAL);
        put(m, GP_CONV_FORWARD_W, w, GP_CASE_NORMAL);
        if (bias) put_vector(m, GP_CONV_FORWARD_B, c.out, GP_CASE_NORMAL);
        put_like(m, GP_CONV_FORWARD_Y, 4, y, GP_CASE_OUTPUT);
    } else if (desc->kind == GP_OP_CONV_BACKWARD_DATA) {
        put_like(m, GP_CONV_BACKWARD_DATA_DY, 4, y, GP_CASE_NORMAL);
        put(m, GP_CONV_BACKWARD_DATA_W, w, GP_CASE_NORMAL);
        put_like(m, GP_CONV_BACKWARD_DATA_DX, 4, x, GP_CASE_OUTPUT);
    } else {
        desc->flags = m->out->number % 4 < 2 ? GP_OP_ACCUMULATE : 0;
        gp_case_fill before = desc->flags ? GP_CASE_NORMAL : GP_CASE_OUTPUT;
        put_like(m, GP_CONV_BACKWARD_WEIGHTS_X, 4, x, GP_CASE_NORMAL);
        put_like(m, GP_CONV_BACKWARD_WEIGHTS_DY, 4, y, GP_CASE_NORMAL);
        put(m, GP_CONV_BACKWARD_WEIGHTS_DW, w, before);
        if (bias) put_vector(m, GP_CONV_BACKWARD_WEIGHTS_DB, c.out, before);
    }
}

static void make_linear(maker *m) {
    int64_t dim[GP_TENSOR_MAX_RANK];
    int rank = draw_values(m, dim);
    int64_t in = dim[rank - 1], out = m->out->number == 0 ? 1 : draw_channels(&m->random);
    int64_t to[GP_TENSOR_MAX_RANK] = {dim[0], dim[1], dim[2], dim[3]};
    to[rank - 1] = out;
    gp_op_desc *desc = &m->out->desc;
    gp_tensor w = gp_tensor_plain(m->dtype, 2, (const int64_t[]){out, in});
    bool bias = m->out->number % 2 == 0;
    if (desc->kind == GP_OP_LINEAR_FORWARD) {
        put_like(m, GP_LINEAR_FORWARD_X, rank, dim, GP_CASE_NORMAL);
        put(m, GP_LINEAR_FORWARD_W, w, GP_CASE_NORMAL);
        if (bias) put_vector(m, GP_LINEAR_FORWARD_B, out, GP_CASE_NORMAL);
        put_like(m, GP_LINEAR_FORWARD_Y, rank, to, GP_CASE_OUTPUT);
    } else if (desc->kind == GP_OP_LINEAR_BACKWARD_DATA) {
        put_like(m, GP_LINEAR_BACKWARD_DATA_DY, rank, to, GP_CASE_NORMAL);
        put(m, GP_LINEAR_BACKWARD_DATA_W, w, GP_CASE_NORMAL);
        put_like(m, GP_LINEAR_BACKWARD_DATA_DX, rank, dim, GP_CASE_OUTPUT);
    } else {
        desc->flags = m->out->number % 4 < 2 ? GP_OP_ACCUMULATE : 0;
        gp_case_fill before = desc->flags ? GP_CASE_NORMAL : GP_CASE_OUTPUT;
        put_like(m, GP_LINEAR_BACKWARD_WEIGHTS_X, rank, dim, GP_CASE_NORMAL);
        put_like(m, GP_LINEAR_BACKWARD_WEIGHTS_DY, rank, to, GP_CASE_NORMAL);
        put(m, GP_LINEAR_BACKWARD_WEIGHTS_DW, w, before);
        if (bias) put_vector(m, GP_LINEAR_BACKWARD_WEIGHTS_DB, out, before);
    }
}

/* Later cases' own dimensions: corners [count][rank, dimensions] from case `first` on. */
static void draw_corner(const maker *m, int first, const int64_t (*corners)[5], size_t count, int *rank,
                        int64_t dim[GP_TENSOR_MAX_RANK]) {
    int number = m->out->number - first;
    if (number < 0 || number >= (int)count) return;
    *rank = (int)corners[number][0];
    memcpy(dim, &corners[number][1], GP_TENSOR_MAX_RANK * sizeof *dim);
}

static void put_norm_vectors(maker *m, int mean, int64_t width) {
    put_vector(m, mean, width, GP_CASE_NORMAL);
    put_vector(m, mean + 1, width, GP_CASE_POSITIVE);
}

/* Those with a relu behind them, which come with an addend in every second case. */
static void make_norm_relu(maker *m, int rank, const int64_t *dim, bool affine) {
    int64_t width = dim[rank - 1], pair[] = {2, width};
    switch ((int)m->out->desc.kind) {
    case GP_OP_NORM_APPLY_RELU:
        put_norm_vectors(m, GP_NORM_APPLY_RELU_MEAN, width);
        if (affine) put_vector(m, GP_NORM_APPLY_RELU_GAMMA, width, GP_CASE_NORMAL);
        if (affine) put_vector(m, GP_NORM_APPLY_RELU_BETA, width, GP_CASE_NORMAL);
        if (m->out->number % 2) put_like(m, GP_NORM_APPLY_RELU_ADDEND, rank, dim, GP_CASE_NORMAL);
        put_like(m, GP_NORM_APPLY_RELU_Y, rank, dim, GP_CASE_OUTPUT);
        break;
    case GP_OP_NORM_RELU_BACKWARD_REDUCE:
        put_like(m, GP_NORM_RELU_BACKWARD_REDUCE_DY, rank, dim, GP_CASE_NORMAL);
        put_norm_vectors(m, GP_NORM_RELU_BACKWARD_REDUCE_MEAN, width);
        if (affine) put_vector(m, GP_NORM_RELU_BACKWARD_REDUCE_GAMMA, width, GP_CASE_NORMAL);
        if (affine) put_vector(m, GP_NORM_RELU_BACKWARD_REDUCE_BETA, width, GP_CASE_NORMAL);
        put_like(m, GP_NORM_RELU_BACKWARD_REDUCE_SUMS, 2, pair, GP_CASE_OUTPUT);
        break;
    case GP_OP_NORM_RELU_BACKWARD_DATA:
        put_like(m, GP_NORM_RELU_BACKWARD_DATA_DY, rank, dim, GP_CASE_NORMAL);
        put_norm_vectors(m, GP_NORM_RELU_BACKWARD_DATA_MEAN, width);
        if (affine) put_vector(m, GP_NORM_RELU_BACKWARD_DATA_GAMMA, width, GP_CASE_NORMAL);
        if (affine) put_vector(m, GP_NORM_RELU_BACKWARD_DATA_BETA, width, GP_CASE_NORMAL);
        put_like(m, GP_NORM_RELU_BACKWARD_DATA_SUMS, 2, pair, GP_CASE_NORMAL);
        put_like(m, GP_NORM_RELU_BACKWARD_DATA_DX, rank, dim, GP_CASE_OUTPUT);
        break;
    default:
        put_like(m, GP_NORM_ADD_RELU_BACKWARD_REDUCE_Y, rank, dim, GP_CASE_TIES);
        put_like(m, GP_NORM_ADD_RELU_BACKWARD_REDUCE_DY, rank, dim, GP_CASE_NORMAL);
        if (m->out->number % 2) put_like(m, GP_NORM_ADD_RELU_BACKWARD_REDUCE_ADDEND, rank, dim, GP_CASE_NORMAL);
        put_norm_vectors(m, GP_NORM_ADD_RELU_BACKWARD_REDUCE_MEAN, width);
        put_like(m, GP_NORM_ADD_RELU_BACKWARD_REDUCE_DZ, rank, dim, GP_CASE_OUTPUT);
        put_like(m, GP_NORM_ADD_RELU_BACKWARD_REDUCE_SUMS, 2, pair, GP_CASE_OUTPUT);
        break;
    }
}

static void make_norm(maker *m) {
    /* Several blocks of rows, several tiles of columns, more blocks than are summed in one go. */
    static const int64_t corners[][5] = {
        {4, 3, 30, 30, 3}, {3, 2, 150, 66, 0}, {2, 16500, 17, 0, 0}, {2, 1, 200, 0, 0}, {2, 300, 136, 0, 0}};
    int64_t dim[GP_TENSOR_MAX_RANK];
    int rank = draw_values(m, dim);
    draw_corner(m, 14, corners, sizeof corners / sizeof corners[0], &rank, dim);
    int64_t width = dim[rank - 1];
    bool affine = m->out->number % 4 != 3;
    bool data = m->out->desc.kind == GP_OP_NORM_BACKWARD_DATA || m->out->desc.kind == GP_OP_NORM_RELU_BACKWARD_DATA;
    m->out->desc.attributes.norm.eps = m->out->number % 2 ? 1e-5 : 1e-3;
    if (data && m->out->number % 3 == 1) m->out->desc.attributes.norm.rows_summed = 40 + m->out->number;
    put_like(m, 0, rank, dim, GP_CASE_NORMAL);
    switch ((int)m->out->desc.kind) {
    case GP_OP_NORM_STATISTICS:
        put_like(m, GP_NORM_STATISTICS_STATS, 2, (const int64_t[]){3, width}, GP_CASE_OUTPUT);
        break;
    case GP_OP_NORM_APPLY:
        put_vector(m, GP_NORM_APPLY_MEAN, width, GP_CASE_NORMAL);
        put_vector(m, GP_NORM_APPLY_VARIANCE, width, GP_CASE_POSITIVE);
        if (affine) put_vector(m, GP_NORM_APPLY_GAMMA, width, GP_CASE_NORMAL);
        if (affine) put_vector(m, GP_NORM_APPLY_BETA, width, GP_CASE_NORMAL);
        put_like(m, GP_NORM_APPLY_Y, rank, dim, GP_CASE_OUTPUT);
        break;
    case GP_OP_NORM_BACKWARD_REDUCE:
        put_like(m, GP_NORM_BACKWARD_REDUCE_DY, rank, dim, GP_CASE_NORMAL);
        put_vector(m, GP_NORM_BACKWARD_REDUCE_MEAN, width, GP_CASE_NORMAL);
        put_vector(m, GP_NORM_BACKWARD_REDUCE_VARIANCE, width, GP_CASE_POSITIVE);
        put_like(m, GP_NORM_BACKWARD_REDUCE_SUMS, 2, (const int64_t[]){2, width}, GP_CASE_OUTPUT);
        break;
    case GP_OP_NORM_BACKWARD_DATA:
        put_like(m, GP_NORM_BACKWARD_DATA_DY, rank, dim, GP_CASE_NORMAL);
        put_vector(m, GP_NORM_BACKWARD_DATA_MEAN, width, GP_CASE_NORMAL);
        put_vector(m, GP_NORM_BACKWARD_DATA_VARIANCE, width, GP_CASE_POSITIVE);
        if (affine) put_vector(m, GP_NORM_BACKWARD_DATA_GAMMA, width, GP_CASE_NORMAL);
        put_like(m, GP_NORM_BACKWARD_DATA_SUMS, 2, (const int64_t[]){2, width}, GP_CASE_NORMAL);
        put_like(m, GP_NORM_BACKWARD_DATA_DX, rank, dim, GP_CASE_OUTPUT);
        break;
    default: make_norm_relu(m, rank, dim, affine); break;
    }
}

/* Groups that divide the channels, one and as many as channels among them. */
static int64_t draw_groups(maker *m, int64_t width) {
    int64_t groups = m->out->number % 4 == 0 ? 1 : m->out->number % 4 == 1 ? width : 1 + draw_below(&m->random, width);
    while (width % groups) groups--;
    return groups;
}

static void make_group_norm(maker *m) {
    static const int64_t corners[][6] = {{4, 2, 7, 5, 64, 1},   {4, 1, 3, 3, 130, 2},  {4, 2, 4, 3, 96, 32},
                                         {2, 5, 100, 0, 0, 1},  {3, 3, 33, 24, 0, 3},  {4, 1, 20, 15, 12, 12},
                                         {3, 2, 400, 66, 0, 3}, {2, 5, 1500, 0, 0, 1}, {3, 3, 300, 136, 0, 34},
                                         {2, 3, 2700, 0, 0, 4}, {2, 1, 2100, 0, 0, 1}};
    enum { FIRST = 10, CORNERS = sizeof corners / sizeof corners[0] };
    int64_t dim[GP_TENSOR_MAX_RANK];
    int number = m->out->number, rank = draw_values(m, dim);
    int64_t groups = draw_groups(m, dim[rank - 1]);
    if (number >= FIRST && number < FIRST + CORNERS) {
        rank = (int)corners[number - FIRST][0];
        memcpy(dim, &corners[number - FIRST][1], sizeof dim);
        groups = corners[number - FIRST][5];
    }
    int64_t width = dim[rank - 1], stats[] = {dim[0], groups, 2};
    bool affine = number % 5 != 3;
    m->out->desc.attributes.group_norm = (gp_group_norm_attributes){number % 2 ? 1e-5 : 1e-3, groups};
    put_like(m, 0, rank, dim, GP_CASE_NORMAL);
    switch ((int)m->out->desc.kind) {
    case GP_OP_GROUP_NORM_FORWARD:
        if (affine) put_vector(m, GP_GROUP_NORM_FORWARD_GAMMA, width, GP_CASE_NORMAL);
        if (affine) put_vector(m, GP_GROUP_NORM_FORWARD_BETA, width, GP_CASE_NORMAL);
        put_like(m, GP_GROUP_NORM_FORWARD_Y, rank, dim, GP_CASE_OUTPUT);
        if (number % 3 != 2) put_like(m, GP_GROUP_NORM_FORWARD_STATS, 3, stats, GP_CASE_OUTPUT);
        break;
    case GP_OP_GROUP_NORM_BACKWARD_DATA:
        put_like(m, GP_GROUP_NORM_BACKWARD_DATA_DY, rank, dim, GP_CASE_NORMAL);
        put_like(m, GP_GROUP_NORM_BACKWARD_DATA_STATS, 3, stats, GP_CASE_PAIRS);
        if (affine) put_vector(m, GP_GROUP_NORM_BACKWARD_DATA_GAMMA, width, GP_CASE_NORMAL);
        put_like(m, GP_GROUP_NORM_BACKWARD_DATA_DX, rank, dim, GP_CASE_OUTPUT);
        break;
    default:
        m->out->desc.flags = number % 4 < 2 ? GP_OP_ACCUMULATE : 0;
        gp_case_fill before = m->out->desc.flags ? GP_CASE_NORMAL : GP_CASE_OUTPUT;
        put_like(m, GP_GROUP_NORM_BACKWARD_WEIGHTS_DY, rank, dim, GP_CASE_NORMAL);
        put_like(m, GP_GROUP_NORM_BACKWARD_WEIGHTS_STATS, 3, stats, GP_CASE_PAIRS);
        put_vector(m, GP_GROUP_NORM_BACKWARD_WEIGHTS_DGAMMA, width, before);
        put_vector(m, GP_GROUP_NORM_BACKWARD_WEIGHTS_DBETA, width, before);
        break;
    }
}

static void make_norm_merge(maker *m) {
    int64_t parts = 1 + m->out->number % 5, width = draw_channels(&m->random);
    gp_norm_attributes *norm = &m->out->desc.attributes.norm;
    if (m->out->desc.kind == GP_OP_NORM_MERGE_SUMS) {
        put_like(m, GP_NORM_MERGE_SUMS_PARTS, 3, (const int64_t[]){parts, 2, width}, GP_CASE_NORMAL);
        put_like(m, GP_NORM_MERGE_SUMS_SUMS, 2, (const int64_t[]){2, width}, GP_CASE_OUTPUT);
        return;
    }
    norm->rows_last = 1 + draw_below(&m->random, 30);
    norm->rows_full = norm->rows_last + draw_below(&m->random, 40);
    put_like(m, GP_NORM_MERGE_STATS, 3, (const int64_t[]){parts, 3, width}, GP_CASE_STATS);
    put_vector(m, GP_NORM_MERGE_MEAN, width, GP_CASE_OUTPUT);
    put_vector(m, GP_NORM_MERGE_VARIANCE, width, GP_CASE_OUTPUT);
}

static void make_norm_commit(maker *m) {
    int64_t pieces = 1 + m->out->number % 5, width = draw_channels(&m->random);
    gp_norm_attributes *norm = &m->out->desc.attributes.norm;
    norm->eps = 1e-5;
    norm->momentum = m->out->number % 7 == 0 ? 1 : draw_uniform(&m->random, 0.05, 0.5);
    norm->rows_last = 2 + draw_below(&m->random, 30);
    norm->rows_full = norm->rows_last + draw_below(&m->random, 40);
    if (m->out->number % 4 == 1) { /* of 5 samples and 3 replicas, the last has one; of 4, none */
        norm->replicas = 3;
        norm->rows_sample = 1 + draw_below(&m->random, 4);
        norm->rows_full = 5 * norm->rows_sample;
        norm->rows_last = 4 * norm->rows_sample;
        pieces *= 3;
    }
    put_scalars(m, GP_NORM_COMMIT_SCALARS);
    put_like(m, GP_NORM_COMMIT_STATS, 3, (const int64_t[]){pieces, 3, width}, GP_CASE_STATS);
    put_vector(m, GP_NORM_COMMIT_MEAN, width, GP_CASE_NORMAL);
    put_vector(m, GP_NORM_COMMIT_VARIANCE, width, GP_CASE_POSITIVE);
}

typedef struct pool_case {
    int64_t n, h, w, channels, kernel[2], stride[2], pad[2];
    bool ceil;
} pool_case;

static const pool_case pool_corners[] = {
    {1, 1, 1, 1, {1, 1}, {1, 1}, {0, 0}, false},     {2, 4, 4, 3, {2, 2}, {2, 2}, {0, 0}, false},
    {2, 7, 9, 17, {3, 3}, {2, 2}, {1, 1}, false},    {1, 1, 1, 64, {3, 3}, {1, 1}, {1, 1}, false},
    {2, 5, 5, 3, {2, 2}, {2, 2}, {0, 0}, true},      {1, 6, 7, 3, {3, 2}, {1, 2}, {1, 0}, true},
    {1, 28, 28, 1, {2, 2}, {2, 2}, {0, 0}, false},   {1, 8, 8, 5, {1, 1}, {3, 3}, {0, 0}, false},
    {1, 16, 17, 2, {15, 17}, {1, 1}, {7, 8}, false}, {2, 6, 6, 64, {3, 3}, {3, 3}, {0, 0}, false},
    {1, 2, 2, 1, {2, 2}, {3, 3}, {1, 1}, true},      {2, 6, 5, 3, {4, 4}, {1, 1}, {2, 2}, false},
    {2, 17, 19, 5, {17, 16}, {1, 2}, {0, 0}, true},  {2, 2, 6, 3, {3, 4}, {2, 3}, {0, 2}, true},
    {1, 16, 16, 3, {16, 16}, {1, 1}, {0, 0}, false}, {1, 3, 1, 2, {5, 4}, {9, 2}, {1, 2}, true},
};

static int64_t pool_outputs(const pool_case *c, int d) {
    int64_t size = d == 0 ? c->h : c->w, spare = size + 2 * c->pad[d] - c->kernel[d];
    int64_t outputs = (spare + (c->ceil ? c->stride[d] - 1 : 0)) / c->stride[d] + 1;
    return (outputs - 1) * c->stride[d] >= size + c->pad[d] ? outputs - 1 : outputs;
}

static pool_case draw_pool(maker *m) {
    size_t number = (size_t)m->out->number;
    if (number < sizeof pool_corners / sizeof pool_corners[0]) return pool_corners[number];
    draws *random = &m->random;
    pool_case c = {.n = 1 + draw_below(random, 3), .channels = draw_channels(random), .ceil = draw_below(random, 2)};
    for (int d = 0; d < 2; d++) {
        c.kernel[d] = 1 + draw_below(random, 4);
        c.stride[d] = 1 + draw_below(random, 3);
        c.pad[d] = draw_below(random, c.kernel[d] / 2 + 1);
    }
    c.h = c.kernel[0] + draw_below(random, 9);
    c.w = c.kernel[1] + draw_below(random, 9);
    return c;
}

static gp_pool_attributes *set_pool(maker *m, const pool_case *c) {
    gp_pool_attributes *pool = &m->out->desc.attributes.pool;
    for (int d = 0; d < 2; d++) {
        pool->kernel[d] = c->kernel[d];
        pool->stride[d] = c->stride[d];
        pool->pad[d] = c->pad[d];
    }
    return pool;
}

static void make_avg_pool(maker *m) {
    pool_case c = draw_pool(m);
    set_pool(m, &c)->count_pad = m->out->number % 2;
    const int64_t x[] = {c.n, c.h, c.w, c.channels}, y[] = {c.n, pool_outputs(&c, 0), pool_outputs(&c, 1), c.channels};
    bool forward = m->out->desc.kind == GP_OP_AVG_POOL_FORWARD;
    put_like(m, 0, 4, forward ? x : y, GP_CASE_NORMAL);
    put_like(m, 1, 4, forward ? y : x, GP_CASE_OUTPUT);
}

/* n, h, w, channels, and how often each row and column is repeated. */
static void make_upsample(maker *m) {
    static const int64_t corners[][6] = {{1, 1, 1, 1, 1, 1},  {2, 3, 5, 17, 2, 3},  {1, 2, 2, 64, 1, 4},
                                         {3, 1, 1, 65, 7, 1}, {1, 1, 2, 3, 40, 33}, {2, 3, 2, 24, 2, 2}};
    draws *random = &m->random;
    int64_t c[6] = {1 + draw_below(random, 3), 1 + draw_below(random, 6), 1 + draw_below(random, 6),
                    draw_channels(random),     1 + draw_below(random, 4), 1 + draw_below(random, 4)};
    if (m->out->number < 6) memcpy(c, corners[m->out->number], sizeof c);
    const int64_t x[] = {c[0], c[1], c[2], c[3]}, y[] = {c[0], c[1] * c[4], c[2] * c[5], c[3]};
    bool forward = m->out->desc.kind == GP_OP_UPSAMPLE_FORWARD;
    put_like(m, 0, 4, forward ? x : y, GP_CASE_NORMAL);
    put_like(m, 1, 4, forward ? y : x, GP_CASE_OUTPUT);
}

static void make_max_pool(maker *m) {
    pool_case c = draw_pool(m);
    gp_dtype dtype = gp_pool_index_dtype(set_pool(m, &c));
    const int64_t x[] = {c.n, c.h, c.w, c.channels}, y[] = {c.n, pool_outputs(&c, 0), pool_outputs(&c, 1), c.channels};
    if (m->out->desc.kind == GP_OP_MAX_POOL_FORWARD) {
        put_like(m, GP_MAX_POOL_FORWARD_X, 4, x, GP_CASE_TIES);
        put_like(m, GP_MAX_POOL_FORWARD_Y, 4, y, GP_CASE_OUTPUT);
        if (m->out->number % 4 != 3) {
            put(m, GP_MAX_POOL_FORWARD_INDEX, sliced(m, dtype, 4, y), GP_CASE_OUTPUT);
        }
    } else {
        put(m, GP_MAX_POOL_BACKWARD_INDEX, sliced(m, dtype, 4, y), GP_CASE_INDEX);
        put_like(m, GP_MAX_POOL_BACKWARD_DY, 4, y, GP_CASE_NORMAL);
        put_like(m, GP_MAX_POOL_BACKWARD_DX, 4, x, GP_CASE_OUTPUT);
    }
}

static void make_mean_pool(maker *m) {
    static const int64_t corners[][4] = {{1, 1, 1, 1}, {2, 7, 7, 64}, {1, 3, 5, 17}, {3, 1, 9, 3}};
    int64_t x[4] = {1 + draw_below(&m->random, 4), 1 + draw_below(&m->random, 8), 1 + draw_below(&m->random, 8),
                    draw_channels(&m->random)};
    if (m->out->number < 4) memcpy(x, corners[m->out->number], sizeof x);
    const int64_t y[] = {x[0], 1, 1, x[3]};
    bool forward = m->out->desc.kind == GP_OP_MEAN_POOL_FORWARD;
    put_like(m, 0, 4, forward ? x : y, GP_CASE_NORMAL);
    put_like(m, 1, 4, forward ? y : x, GP_CASE_OUTPUT);
}

static void make_flatten(maker *m) {
    int64_t dim[GP_TENSOR_MAX_RANK];
    int rank = draw_values(m, dim);
    gp_tensor plain = gp_tensor_plain(m->dtype, rank, dim);
    const int64_t flat[] = {dim[0], gp_tensor_elements(&plain) / dim[0]};
    bool forward = m->out->desc.kind == GP_OP_FLATTEN;
    put_like(m, GP_FLATTEN_X, forward ? rank : 2, forward ? dim : flat, GP_CASE_NORMAL);
    put_like(m, GP_FLATTEN_Y, forward ? 2 : rank, forward ? flat : dim, GP_CASE_OUTPUT);
}

/* Relu, activations, add, dropout: all reals of one shape, the last operand the output. */
static void make_elementwise(maker *m) {
    /* For dropout: more places, channels and elements than are done at once; draws that belong to two channels. */
    static const int64_t corners[][5] = {{4, 2, 17, 19, 5},  {4, 1, 5, 5, 70},   {4, 2, 7, 7, 70},
                                         {3, 2, 70, 67, 0},  {2, 3, 5000, 0, 0}, {4, 2, 300, 1, 3},
                                         {4, 1, 23, 23, 66}, {4, 1, 23, 23, 66}, {4, 1, 23, 23, 66}};
    int64_t dim[GP_TENSOR_MAX_RANK];
    int rank = draw_values(m, dim);
    draw_corner(m, 14, corners, sizeof corners / sizeof corners[0], &rank, dim);
    int last = (int)m->out->desc.operands - 1;
    for (int i = 0; i < last; i++) put_like(m, i, rank, dim, GP_CASE_TIES);
    put_like(m, last, rank, dim, GP_CASE_OUTPUT);
    gp_op_kind kind = m->out->desc.kind;
    if (kind == GP_OP_ACTIVATION_FORWARD || kind == GP_OP_ACTIVATION_BACKWARD) {
        gp_activation_attributes *activation = &m->out->desc.attributes.activation;
        activation->function = (uint32_t)m->out->number % GP_ACTIVATIONS;
        if (activation->function == GP_LEAKY_RELU) activation->slope = draw_uniform(&m->random, -0.5, 1.5);
        if (m->out->number / GP_ACTIVATIONS % 2) m->out->fill[0] = GP_CASE_NORMAL;
    }
    if (kind != GP_OP_DROPOUT) return;
    gp_dropout_attributes *dropout = &m->out->desc.attributes.dropout;
    dropout->p = m->out->number % 5 == 0 ? 0 : draw_uniform(&m->random, 0.1, 0.9);
    dropout->node = (uint32_t)draw_below(&m->random, 1 << 20);
    dropout->purpose = GP_RANDOM_DROPOUT;
    dropout->channels = rank == 4 && m->out->number % 2;
    put_scalars(m, GP_DROPOUT_SCALARS);
}

/* Copy, reorder, fill: any dtype. */
static void make_move(maker *m) {
    static const gp_dtype dtypes[] = {GP_F32, GP_U8, GP_F64, GP_I64, GP_I32};
    int64_t dim[GP_TENSOR_MAX_RANK];
    int rank = draw_values(m, dim);
    gp_dtype dtype = m->out->number % 2 ? m->dtype : dtypes[m->out->number / 2 % 5];
    bool reorder = m->out->desc.kind == GP_OP_REORDER;
    for (int i = 0; i < (int)m->out->desc.operands; i++) {
        gp_tensor tensor = reorder ? gp_tensor_plain(m->dtype, rank, dim) : sliced(m, dtype, rank, dim);
        put(m, i, tensor, gp_op_writes(m->out->desc.kind, i) ? GP_CASE_OUTPUT : GP_CASE_BYTES);
    }
}

static void make_cross_entropy(maker *m) {
    static const int64_t corners[][5] = {{2, 1, 1, 0, 0}, {2, 1, 10, 0, 0}, {2, 64, 10, 0, 0}, {3, 2, 5, 17, 0}};
    int64_t dim[GP_TENSOR_MAX_RANK];
    int rank = draw_values(m, dim);
    if (m->out->number < 4) {
        rank = (int)corners[m->out->number][0];
        memcpy(dim, &corners[m->out->number][1], sizeof dim);
    }
    /* Whole warps for a row; several blocks of rows. */
    static const int64_t later[][5] = {{2, 21, 300, 0, 0}, {3, 2, 150, 21, 0}, {2, 600, 3, 0, 0}};
    draw_corner(m, 14, later, sizeof later / sizeof later[0], &rank, dim);
    bool forward = m->out->desc.kind == GP_OP_CROSS_ENTROPY_FORWARD;
    gp_cross_entropy_attributes *attributes = &m->out->desc.attributes.cross_entropy;
    attributes->ignore = (const int64_t[]){-100, 0, 255}[m->out->number % 5 % 3]; /* 0: a class */
    attributes->smoothing = (const double[]){0, 0.1, 1, 0.73}[m->out->number % 4];
    put_like(m, 0, rank, dim, GP_CASE_NORMAL);
    gp_tensor target = gp_tensor_plain(GP_I64, rank - 1, dim);
    if (m->out->number % 2) {
        int64_t rows = gp_tensor_elements(&target);
        target = gp_tensor_plain(GP_I64, 1, &rows);
    }
    put(m, 1, target, GP_CASE_TARGET);
    if (forward) {
        put(m, GP_CROSS_ENTROPY_FORWARD_PARTIAL, gp_tensor_plain(GP_F64, 1, (const int64_t[]){2}), GP_CASE_OUTPUT);
    } else {
        put_scalars(m, GP_CROSS_ENTROPY_BACKWARD_SCALARS);
        put_like(m, GP_CROSS_ENTROPY_BACKWARD_DX, rank, dim, GP_CASE_OUTPUT);
    }
}

static void make_element_loss(maker *m) {
    int64_t dim[GP_TENSOR_MAX_RANK];
    int rank = draw_values(m, dim);
    if (m->out->number > GP_OP_CASES - 3) dim[0] = 3000; /* more elements than are summed in one go */
    m->out->desc.attributes.element_loss.function = (uint32_t)m->out->number % GP_ELEMENT_LOSSES;
    put_like(m, 0, rank, dim, GP_CASE_NORMAL);
    put_like(m, 1, rank, dim, GP_CASE_NORMAL);
    if (m->out->desc.kind == GP_OP_ELEMENT_LOSS_FORWARD) {
        put(m, GP_ELEMENT_LOSS_FORWARD_PARTIAL, gp_tensor_plain(GP_F64, 1, (const int64_t[]){2}), GP_CASE_OUTPUT);
    } else {
        put_scalars(m, GP_ELEMENT_LOSS_BACKWARD_SCALARS);
        put_like(m, GP_ELEMENT_LOSS_BACKWARD_DX, rank, dim, GP_CASE_OUTPUT);
    }
}

static void make_loss_total(maker *m) {
    bool shared = m->out->number % 4 == 1; /* 3 replicas, of which some have a part */
    const int64_t partial[] = {(1 + m->out->number % 9) * (shared ? 3 : 1), 2};
    if (shared) m->out->desc.attributes.loss_total = (gp_loss_total_attributes){3, 1 + m->out->number / 4 % 3, 2};
    put(m, GP_LOSS_TOTAL_PARTIAL, sliced(m, GP_F64, 2, partial), GP_CASE_PARTIAL);
    put_scalars(m, GP_LOSS_TOTAL_SCALARS);
}

static void make_square_sum(maker *m) {
    int64_t dim[GP_TENSOR_MAX_RANK];
    int rank = draw_values(m, dim);
    if (m->out->number == 11) { /* several blocks, the last one smaller */
        rank = 1;
        dim[0] = 10007;
    }
    if (m->out->number == 13) { /* the same, in rows that lie apart */
        rank = 2;
        dim[0] = 97;
        dim[1] = 130;
    }
    put_like(m, GP_SQUARE_SUM_X, rank, dim, GP_CASE_NORMAL);
    put(m, GP_SQUARE_SUM_SUM, gp_tensor_plain(GP_F64, 1, (const int64_t[]){1}), GP_CASE_OUTPUT);
}

static void make_square_blocks(maker *m) {
    static const int64_t corners[][5] = {{1, 20011, 0, 0, 0}, {2, 131, 130, 0, 0}, {1, 16384, 0, 0, 0}};
    int64_t dim[GP_TENSOR_MAX_RANK], elements = 1;
    int rank = draw_values(m, dim);
    draw_corner(m, 11, corners, sizeof corners / sizeof corners[0], &rank, dim);
    for (int d = 0; d < rank; d++) elements *= dim[d];
    m->out->desc.attributes.blocks.elements = 8192; /* the only size that all devices have */
    put_like(m, GP_SQUARE_BLOCKS_X, rank, dim, GP_CASE_NORMAL);
    int64_t blocks = (elements + 8191) / 8192;
    put(m, GP_SQUARE_BLOCKS_SUMS, gp_tensor_plain(GP_F64, 1, &blocks), GP_CASE_OUTPUT);
}

static void make_blocks_total(maker *m) {
    const int64_t blocks = m->out->number == 14 ? 777 : 1 + m->out->number % 17;
    put(m, GP_BLOCKS_TOTAL_SUMS, gp_tensor_plain(GP_F64, 1, &blocks), GP_CASE_SQUARES);
    put(m, GP_BLOCKS_TOTAL_SUM, gp_tensor_plain(GP_F64, 1, (const int64_t[]){1}), GP_CASE_OUTPUT);
}

static void make_clip_total(maker *m) {
    const int64_t params = m->out->number == 14 ? 777 : 1 + m->out->number % 17;
    m->out->desc.attributes.clip.max_norm = m->out->number % 4 == 0 ? 0 : draw_uniform(&m->random, 0.01, 20);
    put(m, GP_CLIP_TOTAL_SQUARES, gp_tensor_plain(GP_F64, 1, &params), GP_CASE_SQUARES);
    put_scalars(m, GP_CLIP_TOTAL_SCALARS);
}

/* Parameters that are updated in several blocks, and in more rows than a launch takes. */
static int draw_param(maker *m, int64_t dim[GP_TENSOR_MAX_RANK]) {
    static const int64_t corners[][5] = {{2, 290, 3, 0, 0}, {2, 3, 5001, 0, 0}, {2, 2, 5003, 0, 0}};
    int rank = draw_values(m, dim);
    if (rank == 4 && m->out->number > 9) dim[0] = 1; /* rows that lie apart take a block of threads each */
    draw_corner(m, 14, corners, sizeof corners / sizeof corners[0], &rank, dim);
    return rank;
}

static void make_sgd(maker *m) {
    int64_t dim[GP_TENSOR_MAX_RANK];
    int rank = draw_param(m, dim);
    gp_sgd_attributes *sgd = &m->out->desc.attributes.sgd;
    sgd->momentum = m->out->number % 3 == 0 ? 0 : draw_uniform(&m->random, 0.5, 0.99);
    sgd->decay = m->out->number % 4 < 2 ? 0 : draw_uniform(&m->random, 1e-4, 1e-1);
    sgd->nesterov = m->out->number % 3 == 2;
    put_scalars(m, GP_SGD_SCALARS);
    put_like(m, GP_SGD_GRAD, rank, dim, GP_CASE_NORMAL);
    if (sgd->momentum != 0) put_like(m, GP_SGD_MOMENTUM, rank, dim, GP_CASE_NORMAL);
    put_like(m, GP_SGD_PARAM, rank, dim, GP_CASE_NORMAL);
}

static void make_adam(maker *m) {
    int64_t dim[GP_TENSOR_MAX_RANK];
    int rank = draw_param(m, dim);
    int number = m->out->number;
    m->out->desc.attributes.adam = (gp_adam_attributes){
        .beta1 = number % 4 == 3 ? draw_uniform(&m->random, 0, 0.5) : draw_uniform(&m->random, 0.5, 0.99),
        .beta2 = draw_uniform(&m->random, 0.9, 0.9999),
        .eps = number % 5 == 1 ? 0 : draw_uniform(&m->random, 1e-9, 1e-3),
        .decay = number % 4 < 2 ? 0 : draw_uniform(&m->random, 1e-4, 1e-1),
        .decoupled = number % 6 >= 3};
    if (number % 3 == 0) m->out->scalars.step = 1 + (uint32_t)(number / 3);
    put_scalars(m, GP_ADAM_SCALARS);
    put_like(m, GP_ADAM_GRAD, rank, dim, GP_CASE_NORMAL);
    put_like(m, GP_ADAM_M, rank, dim, GP_CASE_NORMAL);
    put_like(m, GP_ADAM_V, rank, dim, GP_CASE_POSITIVE);
    put_like(m, GP_ADAM_PARAM, rank, dim, GP_CASE_NORMAL);
}

static void make_operands(maker *m) {
    switch (m->out->desc.kind) {
    case GP_OP_CONV_FORWARD:
    case GP_OP_CONV_BACKWARD_DATA:
    case GP_OP_CONV_BACKWARD_WEIGHTS: make_conv(m); return;
    case GP_OP_LINEAR_FORWARD:
    case GP_OP_LINEAR_BACKWARD_DATA:
    case GP_OP_LINEAR_BACKWARD_WEIGHTS: make_linear(m); return;
    case GP_OP_NORM_STATISTICS:
    case GP_OP_NORM_APPLY:
    case GP_OP_NORM_BACKWARD_REDUCE:
    case GP_OP_NORM_BACKWARD_DATA:
    case GP_OP_NORM_APPLY_RELU:
    case GP_OP_NORM_RELU_BACKWARD_REDUCE:
    case GP_OP_NORM_RELU_BACKWARD_DATA:
    case GP_OP_NORM_ADD_RELU_BACKWARD_REDUCE: make_norm(m); return;
    case GP_OP_NORM_MERGE:
    case GP_OP_NORM_MERGE_SUMS: make_norm_merge(m); return;
    case GP_OP_NORM_COMMIT: make_norm_commit(m); return;
    case GP_OP_GROUP_NORM_FORWARD:
    case GP_OP_GROUP_NORM_BACKWARD_DATA:
    case GP_OP_GROUP_NORM_BACKWARD_WEIGHTS: make_group_norm(m); return;
    case GP_OP_MAX_POOL_FORWARD:
    case GP_OP_MAX_POOL_BACKWARD: make_max_pool(m); return;
    case GP_OP_AVG_POOL_FORWARD:
    case GP_OP_AVG_POOL_BACKWARD: make_avg_pool(m); return;
    case GP_OP_UPSAMPLE_FORWARD:
    case GP_OP_UPSAMPLE_BACKWARD: make_upsample(m); return;
    case GP_OP_MEAN_POOL_FORWARD:
    case GP_OP_MEAN_POOL_BACKWARD: make_mean_pool(m); return;
    case GP_OP_FLATTEN:
    case GP_OP_UNFLATTEN: make_flatten(m); return;
    case GP_OP_RELU_FORWARD:
    case GP_OP_RELU_BACKWARD:
    case GP_OP_ACTIVATION_FORWARD:
    case GP_OP_ACTIVATION_BACKWARD:
    case GP_OP_DROPOUT:
    case GP_OP_ADD: make_elementwise(m); return;
    case GP_OP_COPY:
    case GP_OP_REORDER:
    case GP_OP_FILL: make_move(m); return;
    case GP_OP_CROSS_ENTROPY_FORWARD:
    case GP_OP_CROSS_ENTROPY_BACKWARD: make_cross_entropy(m); return;
    case GP_OP_ELEMENT_LOSS_FORWARD:
    case GP_OP_ELEMENT_LOSS_BACKWARD: make_element_loss(m); return;
    case GP_OP_LOSS_TOTAL: make_loss_total(m); return;
    case GP_OP_SQUARE_SUM: make_square_sum(m); return;
    case GP_OP_SQUARE_BLOCKS: make_square_blocks(m); return;
    case GP_OP_BLOCKS_TOTAL: make_blocks_total(m); return;
    case GP_OP_CLIP_TOTAL: make_clip_total(m); return;
    case GP_OP_SGD: make_sgd(m); return;
    case GP_OP_ADAM: make_adam(m); return;
    case GP_OP_KINDS: break;
    }
    assert(false);
}

void gp_op_case_make(gp_op_kind kind, int number, gp_dtype dtype, gp_op_case *out) {
    memset(out, 0, sizeof *out);
    gp_op_desc_init(&out->desc, kind);
    out->desc.threads = 1;
    out->number = number;
    maker m = {out, {(uint64_t)kind << 32 | (uint64_t)number, 0}, dtype};
    out->args.first_sample = draw_below(&m.random, 100);
    out->scalars = (gp_step_scalars){.seed = (uint64_t)draw(&m.random) << 20 | 5,
                                     .step = 1 + draw(&m.random) % 1000,
                                     .rate = draw_uniform(&m.random, 0.001, 0.5),
                                     .divisor = 1 + (double)draw_below(&m.random, 64),
                                     .loss_sum = 1.5,
                                     .right = 3,
                                     .finite = number % 5 != 4,
                                     .clip = number % 3 == 1 ? 0.37 : 1};
    make_operands(&m);
}

/* Offset in elements of element i in row-major order. */
static size_t element_offset(const gp_tensor *tensor, int64_t i) {
    int64_t offset = 0;
    for (int d = tensor->rank - 1; d >= 0; d--) {
        offset += i % tensor->dim[d] * tensor->stride[d];
        i /= tensor->dim[d];
    }
    return (size_t)offset;
}

static void store(const gp_tensor *tensor, void *data, int64_t i, double value) {
    size_t at = element_offset(tensor, i);
    if (tensor->dtype == GP_F32) ((float *)data)[at] = (float)value;
    if (tensor->dtype == GP_F64) ((double *)data)[at] = value;
    if (tensor->dtype == GP_I32) ((int32_t *)data)[at] = (int32_t)value;
    if (tensor->dtype == GP_I64) ((int64_t *)data)[at] = (int64_t)value;
    if (tensor->dtype == GP_U8) ((uint8_t *)data)[at] = (uint8_t)value;
}

/* A place of the window of element i of max_pool_backward's index that lies inside the input. */
static double draw_place(const gp_op_desc *desc, int64_t i, draws *random) {
    const gp_tensor *index = &desc->operand[GP_MAX_POOL_BACKWARD_INDEX], *dx = &desc->operand[GP_MAX_POOL_BACKWARD_DX];
    const gp_pool_attributes *pool = &desc->attributes.pool;
    int64_t place = i / index->dim[3];
    int64_t first[2] = {place / index->dim[2] % index->dim[1] * pool->stride[0] - pool->pad[0],
                        place % index->dim[2] * pool->stride[1] - pool->pad[1]};
    int64_t chosen[2];
    for (int d = 0; d < 2; d++) {
        int64_t size = dx->dim[1 + d], least = first[d] < 0 ? -first[d] : 0;
        int64_t most = first[d] + pool->kernel[d] > size ? size - first[d] : pool->kernel[d];
        chosen[d] = least + draw_below(random, most - least);
    }
    return (double)(chosen[0] * pool->kernel[1] + chosen[1]);
}

static double draw_element(const gp_op_case *op_case, int operand, int64_t i, draws *random) {
    const gp_tensor *tensor = &op_case->desc.operand[operand];
    const gp_tensor *x = &op_case->desc.operand[0];
    switch (op_case->fill[operand]) {
    case GP_CASE_NORMAL: return draw_uniform(random, -1, 1) + draw_uniform(random, -1, 1);
    case GP_CASE_TIES: return (double)(draw_below(random, 13) - 6) / 4;
    case GP_CASE_POSITIVE: return draw_uniform(random, 0.25, 4);
    case GP_CASE_STATS:
        switch (i / tensor->dim[tensor->rank - 1] % 3) {
        case 0: return draw_uniform(random, -2, 2);
        case 1: return draw_uniform(random, 0.25, 4);
        default: return draw_uniform(random, -1e-7, 1e-7);
        }
    case GP_CASE_PAIRS: return i % 2 ? draw_uniform(random, 0.25, 4) : draw_uniform(random, -2, 2);
    case GP_CASE_TARGET:
        return draw_below(random, 6) == 0 ? (double)op_case->desc.attributes.cross_entropy.ignore
                                          : (double)draw_below(random, x->dim[x->rank - 1]);
    case GP_CASE_INDEX: return draw_place(&op_case->desc, i, random);
    case GP_CASE_SQUARES: {
        double root = draw_uniform(random, 0, op_case->number % 3 ? 4 : 0.05);
        return root * root;
    }
    case GP_CASE_PARTIAL: return i % 2 ? (double)draw_below(random, 64) : draw_uniform(random, 0, 100);
    default: return (double)draw_below(random, 200);
    }
}

void gp_op_case_fill(const gp_op_case *op_case, int operand, void *data) {
    const gp_tensor *tensor = &op_case->desc.operand[operand];
    gp_case_fill fill = op_case->fill[operand];
    memset(data, 0xff, gp_tensor_bytes(tensor));
    if (fill == GP_CASE_OUTPUT) return;
    if (fill == GP_CASE_SCALARS) {
        memcpy(data, &op_case->scalars, sizeof op_case->scalars);
        return;
    }
    draws random = {(uint64_t)op_case->desc.kind << 32 | (uint64_t)op_case->number, (uint32_t)(operand + 1) << 24};
    int64_t elements = gp_tensor_elements(tensor);
    for (int64_t i = 0; i < elements; i++) store(tensor, data, i, draw_element(op_case, operand, i, &random));
}

bool gp_op_gaps_kept(const gp_tensor *tensor, const void *data) {
    size_t bytes = gp_tensor_bytes(tensor), size = gp_dtype_size(tensor->dtype);
    unsigned char *rest = malloc(bytes);
    assert(rest);
    memcpy(rest, data, bytes);
    int64_t elements = gp_tensor_elements(tensor);
    for (int64_t i = 0; i < elements; i++) memset(rest + element_offset(tensor, i) * size, 0xff, size);
    bool kept = true;
    for (size_t i = 0; i < bytes; i++) kept = kept && rest[i] == 0xff;
    free(rest);
    return kept;
}

static double load(const gp_tensor *tensor, const void *data, int64_t i) {
    size_t at = element_offset(tensor, i);
    return tensor->dtype == GP_F32 ? (double)((const float *)data)[at] : ((const double *)data)[at];
}

static bool same_bytes(const gp_tensor *tensor, const void *got, const void *want,
                       char difference[GP_DIFFERENCE_TEXT]) {
    size_t size = gp_dtype_size(tensor->dtype);
    int64_t elements = gp_tensor_elements(tensor);
    for (int64_t i = 0; i < elements; i++) {
        size_t at = element_offset(tensor, i) * size;
        if (memcmp((const char *)got + at, (const char *)want + at, size) != 0) {
            snprintf(difference, GP_DIFFERENCE_TEXT, "element %lld differs", (long long)i);
            return false;
        }
    }
    return true;
}

bool gp_op_same_elements(const gp_tensor *tensor, const void *got, const void *want, double tolerance,
                         char difference[GP_DIFFERENCE_TEXT]) {
    if (tensor->dtype != GP_F32 && tensor->dtype != GP_F64) return same_bytes(tensor, got, want, difference);
    int64_t elements = gp_tensor_elements(tensor);
    double scale = 1;
    for (int64_t i = 0; i < elements; i++) {
        double size = fabs(load(tensor, want, i));
        if (isfinite(size) && size > scale) scale = size;
    }
    for (int64_t i = 0; i < elements; i++) {
        double a = load(tensor, got, i), b = load(tensor, want, i);
        if (a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= tolerance * scale) continue;
        snprintf(difference, GP_DIFFERENCE_TEXT, "element %lld is %.9g, which should be %.9g, by %.3g of scale %.3g",
                 (long long)i, a, b, tolerance, scale);
        return false;
    }
    return true;
}

const char *gp_op_case_text(char buffer[GP_CASE_TEXT], const gp_op_case *op_case) {
    const gp_op_desc *desc = &op_case->desc;
    int length = snprintf(buffer, GP_CASE_TEXT, "%s case %d:", gp_op_name(desc->kind), op_case->number);
    for (int i = 0; i < (int)desc->operands; i++) {
        const gp_tensor *tensor = &desc->operand[i];
        if (!tensor->present) continue;
        length +=
            snprintf(buffer + length, (size_t)(GP_CASE_TEXT - length), " %s [", gp_op_operand_name(desc->kind, i));
        for (int d = 0; d < tensor->rank; d++) {
            length += snprintf(buffer + length, (size_t)(GP_CASE_TEXT - length), "%s%lld/%lld", d ? ", " : "",
                               (long long)tensor->dim[d], (long long)tensor->stride[d]);
        }
        length += snprintf(buffer + length, (size_t)(GP_CASE_TEXT - length), "]");
    }
    return buffer;
}
