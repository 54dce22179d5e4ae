/* The CPU device's own loops, compiled once for each instruction set that pays: the folder loops/ holds them,
 * cmake/Loops.cmake compiles it once for each version. All versions give the same bits: the same operations in the same
 * order of sums, and nothing contracted. The widest version that oneDNN uses too is chosen when it is first needed, so
 * that ONEDNN_MAX_CPU_ISA limits both. What plans (books workspace, checks) is compiled once, for any processor.
 *
 * Tables are constants; any thread.
 */
#ifndef GP_DEVICE_CPU_CPU_LOOPS_H
#define GP_DEVICE_CPU_CPU_LOOPS_H

#include "device/cpu/cpu_call.h"
#include "device/cpu/cpu_column.h"

/* How one op runs: `run` may fail; else `compute`; else gp_cpu_spans of `span`, without context. */
typedef struct gp_cpu_loop {
    gp_status (*run)(const gp_cpu_call *call, gp_error *err);
    void (*compute)(const gp_cpu_call *call);
    gp_cpu_span span;
} gp_cpu_loop;

/* One version. */
struct gp_cpu_loops {
    const char *name;
    const gp_cpu_loop *loop[GP_OP_KINDS]; /* NULL: oneDNN's */
    void (*column_sum)(gp_cpu_pool *pool, gp_column_sum sum);
};

/* The versions, in rising order. */
#if defined(__x86_64__)
#define GP_CPU_VERSIONS(X) X(plain) X(avx2) X(avx512)
#else
#define GP_CPU_VERSIONS(X) X(plain)
#endif

#define GP_CPU_VERSION_NUMBER(version) GP_CPU_VERSION_##version,
enum { GP_CPU_VERSIONS(GP_CPU_VERSION_NUMBER) GP_CPU_VERSION_COUNT };
#undef GP_CPU_VERSION_NUMBER

/* Version `version`, whether the processor can run it or not. */
const gp_cpu_loops *gp_cpu_loops_of(int version);
/* How many versions, from the first on, oneDNN's effective instruction set has. */
int gp_cpu_loops_usable(void);
/* The last of these. */
const gp_cpu_loops *gp_cpu_loops_chosen(void);

/* Runs an op of version `call->loops`. */
GP_MUST_USE gp_status gp_cpu_loop_run(const gp_cpu_call *call, gp_error *err);

#endif
