/* How far Winograd's 3x3 convolutions in f32 are from exact ones, beside direct sums in f32: bench_winograd.
 *
 * Tiles of random pictures and filters, with C channels. The exact result is a sum in f64. Two figures for each way:
 *   of the largest   largest error, divided by the largest result of all tiles (what tests/gpu/test_gpu_ops.c bounds)
 *   of the terms     largest error of one result, divided by the sum of the magnitudes of its own terms
 * F(2x2) computes tiles of 4x4 pixels (cuDNN's note WINOGRAD_TILE_4x4), F(4x4) tiles of 6x6. Their results are sums
 * over transformed channels, whose errors are those of all pixels in the tile. docs/gpu.md says what follows. */
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KERNEL = 3, MOST_TILE = 6, MOST_OUT = 4, MOST_CHANNELS = 512, TILES = 200 };

/* Row-major: `bt` is tile x tile, `g` is tile x 3, `at` is out x tile (Lavin and Gray, 2015). */
typedef struct transform {
    const char *name;
    int out, tile;
    float bt[MOST_TILE][MOST_TILE], g[MOST_TILE][KERNEL], at[MOST_OUT][MOST_TILE];
} transform;

static const transform transforms[] = {
    {"F(2x2)",
     2,
     4,
     {{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}},
     {{1, 0, 0}, {0.5F, 0.5F, 0.5F}, {0.5F, -0.5F, 0.5F}, {0, 0, 1}},
     {{1, 1, 1, 0}, {0, 1, -1, -1}}},
    {"F(4x4)",
     4,
     6,
     {{4, 0, -5, 0, 1, 0},
      {0, -4, -4, 1, 1, 0},
      {0, 4, -4, -1, 1, 0},
      {0, -2, -1, 2, 1, 0},
      {0, 2, -1, -2, 1, 0},
      {0, 4, 0, -5, 0, 1}},
     {{1 / 4.F, 0, 0},
      {-1 / 6.F, -1 / 6.F, -1 / 6.F},
      {-1 / 6.F, 1 / 6.F, -1 / 6.F},
      {1 / 24.F, 1 / 12.F, 1 / 6.F},
      {1 / 24.F, -1 / 12.F, 1 / 6.F},
      {0, 0, 1}},
     {{1, 1, 1, 1, 1, 0}, {0, 1, -1, 2, -2, 0}, {0, 1, 1, 4, 4, 0}, {0, 1, -1, 8, -8, 1}}},
};

static float picture[MOST_CHANNELS][MOST_TILE][MOST_TILE], filter[MOST_CHANNELS][KERNEL][KERNEL];

typedef struct errors {
    double most, of_terms;
} errors;

/* xorshift; uniform in [low, 1). */
static float draw(float low) {
    static unsigned long long state = 88172645463325252ULL;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return low + (1 - low) * (float)(state >> 40) * 0x1p-24F;
}

/* out[rows][rows] = m·in·mᵀ, in f32; m has `rows` rows of `width`. */
static void apply(int rows, int width, const float *m, int m_pitch, const float *in, int in_pitch, float *out) {
    float half[MOST_TILE][MOST_TILE];
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < width; j++) {
            half[i][j] = 0;
            for (int k = 0; k < width; k++) half[i][j] = fmaf(m[i * m_pitch + k], in[k * in_pitch + j], half[i][j]);
        }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < rows; j++) {
            float sum = 0;
            for (int k = 0; k < width; k++) sum = fmaf(half[i][k], m[j * m_pitch + k], sum);
            out[i * MOST_TILE + j] = sum;
        }
}

static void winograd(const transform *t, int channels, float y[MOST_TILE][MOST_TILE]) {
    float sum[MOST_TILE][MOST_TILE] = {{0}}, x[MOST_TILE][MOST_TILE], w[MOST_TILE][MOST_TILE];
    for (int c = 0; c < channels; c++) {
        apply(t->tile, t->tile, &t->bt[0][0], MOST_TILE, &picture[c][0][0], MOST_TILE, &x[0][0]);
        apply(t->tile, KERNEL, &t->g[0][0], KERNEL, &filter[c][0][0], KERNEL, &w[0][0]);
        for (int i = 0; i < t->tile; i++)
            for (int j = 0; j < t->tile; j++) sum[i][j] = fmaf(x[i][j], w[i][j], sum[i][j]);
    }
    apply(t->out, t->tile, &t->at[0][0], MOST_TILE, &sum[0][0], MOST_TILE, &y[0][0]);
}

/* Exact, the magnitudes of its terms, and the direct sum in f32. */
static void direct(int channels, int i, int j, double *exact, double *terms, float *sum) {
    *exact = *terms = 0;
    *sum = 0;
    for (int c = 0; c < channels; c++)
        for (int a = 0; a < KERNEL; a++)
            for (int b = 0; b < KERNEL; b++) {
                float x = picture[c][i + a][j + b], w = filter[c][a][b];
                *exact += (double)x * (double)w;
                *terms += fabs((double)x * (double)w);
                *sum = fmaf(x, w, *sum);
            }
}

static void note(errors *its, double error, double terms) {
    its->most = fmax(its->most, fabs(error));
    its->of_terms = fmax(its->of_terms, fabs(error) / terms);
}

static void measure(const transform *t, int channels, float low) {
    errors plain = {0, 0}, fast = {0, 0};
    double largest = 0;
    for (int n = 0; n < TILES; n++) {
        float y[MOST_TILE][MOST_TILE];
        for (int c = 0; c < channels; c++) {
            for (int i = 0; i < t->tile * t->tile; i++) picture[c][i / t->tile][i % t->tile] = draw(low);
            for (int i = 0; i < KERNEL * KERNEL; i++) filter[c][i / KERNEL][i % KERNEL] = draw(-1);
        }
        winograd(t, channels, y);
        for (int i = 0; i < t->out; i++)
            for (int j = 0; j < t->out; j++) {
                double exact, terms;
                float sum;
                direct(channels, i, j, &exact, &terms, &sum);
                largest = fmax(largest, fabs(exact));
                note(&plain, (double)sum - exact, terms);
                note(&fast, (double)y[i][j] - exact, terms);
            }
    }
    printf("%s  %4d  %-8s  %8.1e %8.1e  %8.1e %8.1e\n", t->name, channels, low < 0 ? "-1 to 1" : "0 to 1",
           plain.most / largest, fast.most / largest, plain.of_terms, fast.of_terms);
}

int main(void) {
    printf("                         of the largest     of the terms\n");
    printf("way     channels  pictures    direct Winograd    direct Winograd\n");
    for (size_t t = 0; t < sizeof transforms / sizeof *transforms; t++)
        for (int channels = 4; channels <= MOST_CHANNELS; channels *= channels == 4 ? 16 : 8)
            for (int low = -1; low <= 0; low++) measure(&transforms[t], channels, (float)low);
    return 0;
}
