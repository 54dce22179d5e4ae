/* Runs kernels whose source was compiled with fibers.h: see there for what is modelled. C and C++. One kernel runs at a
 * time in the whole process; any thread may call. */
#ifndef GP_TESTS_CUDA_FIBERS_RUN_H
#define GP_TESTS_CUDA_FIBERS_RUN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gp_fiber_order { GP_FIBERS_ASCENDING, GP_FIBERS_DESCENDING, GP_FIBERS_RANDOM } gp_fiber_order;

typedef struct gp_fiber_run {
    const char *name;                 /* of the kernel */
    void (*kernel)(const void *args); /* what each thread does */
    const void *args;
    uint32_t grid[3];
    uint32_t block; /* threads, 1 … 1024 */
    gp_fiber_order order;
    uint64_t seed;        /* of GP_FIBERS_RANDOM */
    unsigned char poison; /* every byte of shared memory when a block begins */
} gp_fiber_run;

enum { GP_FIBERS_TEXT = 512 };

/* 0, or −1 and a sentence where threads waited for what never came, or made an access that a GPU refuses; the blocks
 * after that one have not run. */
int gp_fibers_run(const gp_fiber_run *run, char text[GP_FIBERS_TEXT]);

#ifdef __cplusplus
}
#endif

#endif
