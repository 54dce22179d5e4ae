/* The part of CUDA C++ that our kernels are written in, for the host: included before a kernel's source
 * (`g++ -include cuda/fibers.h`), it makes an ordinary C++ file of it. fibers.cpp runs what comes out: one fiber for
 * each thread of a block, blocks one after another, threads in an order that the test chooses anew after every barrier,
 * so that a missing barrier, or memory that nobody wrote, gives other bits in some order.
 *
 * An access to an address that a GPU would refuse is an error where __stwb makes it; others are UBSan's to find.
 * Stricter than a GPU: barriers and shuffles must be reached by all threads of the block (of the mask), in the same
 * line, and shared memory holds poison when a block begins. Not modelled: that threads of a warp usually go in step,
 * and memory order without a barrier. One kernel runs at a time in the whole process; any thread may run it.
 */
#ifndef GP_TESTS_CUDA_FIBERS_H
#define GP_TESTS_CUDA_FIBERS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__    __attribute__((noinline))
#define __launch_bounds__(...)
/* In a section of its own, so that it can be found and poisoned. */
#define __shared__ static __attribute__((section("gp_shared")))

struct dim3 {
    uint32_t x, y, z;
};
/* Of the thread that runs. */
extern dim3 threadIdx, blockIdx, blockDim, gridDim;
enum { warpSize = 32 };

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) double2 {
    double x, y;
};
struct alignas(8) int2 {
    int x, y;
};
struct alignas(16) int4 {
    int x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(4) uchar4 {
    unsigned char x, y, z, w;
};

static inline float2 make_float2(float x, float y) {
    return {x, y};
}
static inline float4 make_float4(float x, float y, float z, float w) {
    return {x, y, z, w};
}
static inline double2 make_double2(double x, double y) {
    return {x, y};
}
static inline int2 make_int2(int x, int y) {
    return {x, y};
}
static inline int4 make_int4(int x, int y, int z, int w) {
    return {x, y, z, w};
}
static inline uint2 make_uint2(unsigned x, unsigned y) {
    return {x, y};
}
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return {x, y, z, w};
}
static inline uchar4 make_uchar4(unsigned char x, unsigned char y, unsigned char z, unsigned char w) {
    return {x, y, z, w};
}

/* ---- where threads meet ------------------------------------------------------------------------------------------ */

/* Where in the kernel's source a thread waits. */
struct gp_fiber_site {
    const char *what, *file;
    int line;
};
#define GP_FIBER_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

/* Return when all threads of the block, or of the warp's mask, have come here. */
void gp_fiber_barrier(gp_fiber_site site);
void gp_fiber_warp_barrier(unsigned mask, gp_fiber_site site);
/* The bits that the warp's lane `from` brought. Of a lane that is not there: all ones. */
uint64_t gp_fiber_shuffle(unsigned mask, uint64_t bits, int from, gp_fiber_site site);

/* Of an access that a GPU would not allow: ends the run with a sentence. Does not return. */
[[noreturn]] void gp_fiber_fault(gp_fiber_site site);

static inline void __syncthreads(GP_FIBER_HERE) {
    gp_fiber_barrier({"__syncthreads", file, line});
}

static inline void __syncwarp(unsigned mask = 0xffffffffU, GP_FIBER_HERE) {
    gp_fiber_warp_barrier(mask, {"__syncwarp", file, line});
}

template <typename value>
static inline value gp_fiber_shuffled(unsigned mask, value mine, int from, gp_fiber_site site) {
    static_assert(sizeof(value) <= sizeof(uint64_t), "shuffles carry eight bytes at most");
    uint64_t bits = 0;
    memcpy(&bits, &mine, sizeof mine);
    bits = gp_fiber_shuffle(mask, bits, from, site);
    memcpy(&mine, &bits, sizeof mine);
    return mine;
}

/* `width`, a power of two: the warp in parts that do not reach each other. */
template <typename value>
static inline value __shfl_sync(unsigned mask, value mine, int lane, int width = warpSize, GP_FIBER_HERE) {
    int own = (int)(threadIdx.x % warpSize), first = own & ~(width - 1);
    return gp_fiber_shuffled(mask, mine, first + (lane & (width - 1)), {"__shfl_sync", file, line});
}

template <typename value>
static inline value __shfl_up_sync(unsigned mask, value mine, unsigned by, int width = warpSize, GP_FIBER_HERE) {
    int own = (int)(threadIdx.x % warpSize), first = own & ~(width - 1), from = own - (int)by;
    return gp_fiber_shuffled(mask, mine, from < first ? own : from, {"__shfl_up_sync", file, line});
}

template <typename value>
static inline value __shfl_down_sync(unsigned mask, value mine, unsigned by, int width = warpSize, GP_FIBER_HERE) {
    int own = (int)(threadIdx.x % warpSize), last = own | (width - 1), from = own + (int)by;
    return gp_fiber_shuffled(mask, mine, from > last ? own : from, {"__shfl_down_sync", file, line});
}

template <typename value>
static inline value __shfl_xor_sync(unsigned mask, value mine, int by, int width = warpSize, GP_FIBER_HERE) {
    int own = (int)(threadIdx.x % warpSize), last = own | (width - 1), from = own ^ by;
    return gp_fiber_shuffled(mask, mine, from > last ? own : from, {"__shfl_xor_sync", file, line});
}

/* ---- functions that are CUDA's and not C's --------------------------------------------------------------------------
 */

static inline float rsqrtf(float x) {
    return 1 / sqrtf(x);
}
static inline uint32_t __umulhi(uint32_t a, uint32_t b) {
    return (uint32_t)((uint64_t)a * b >> 32);
}
static inline unsigned __float_as_uint(float x) {
    unsigned bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline float __uint_as_float(unsigned bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
template <typename value> static inline value __ldg(const value *at) {
    return *at;
}
/* A store of the whole value: to a multiple of its size. */
template <typename value> static inline void __stwb(value *to, value stored, GP_FIBER_HERE) {
    if ((uintptr_t)to % sizeof(value))
        gp_fiber_fault({"__stwb to an address that is no multiple of its size", file, line});
    *to = stored;
}
template <typename value> static inline value min(value a, value b) {
    return b < a ? b : a;
}
template <typename value> static inline value max(value a, value b) {
    return a < b ? b : a;
}

#endif
