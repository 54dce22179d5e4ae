/* All that the CPU device does with oneDNN: convolutions, matmuls, reorders, and the formats of weights.
 *
 * Prepared ops hold oneDNN's primitives, which any number of threads may execute at once, each with its own scratchpad,
 * which is part of gp_prepared.workspace. A primitive always sees dense operands: a strided slice of channels is
 * gathered into the workspace first (or spread out afterwards), so that the same numbers give the same bits whether a
 * value lies alone or inside another one.
 *
 * Formats: gp_format numbers name oneDNN's memory descriptors of weights in a registry of the process, which holds the
 * groups of a convolution too (five dimensions instead of four). Equal layouts have equal numbers. Any thread.
 */
#ifndef GP_DEVICE_CPU_CPU_ONEDNN_H
#define GP_DEVICE_CPU_CPU_ONEDNN_H

#include "device/cpu/cpu_call.h"
#include "device/cpu/cpu_conv_choice.h"

/* A oneDNN stream: one for each gp_stream, used by its worker only. */
GP_MUST_USE gp_status gp_cpu_onednn_open(struct dnnl_stream **out, gp_error *err);
void gp_cpu_onednn_close(struct dnnl_stream **stream);
/* "oneDNN 3.2.0 with AVX2, convolutions 6": its version, the instruction set that it uses, and the version of the table
 * that convolutions are chosen by. Static storage. */
const char *gp_cpu_onednn_version(void);

/* Gradients of weights: without the bias, which cpu_weights.c adds up. */
GP_MUST_USE gp_status gp_cpu_conv_prepare(gp_prepared *prepared, gp_error *err);
/* By a method that the caller chooses: for tests and measurements. GP_UNSUPPORTED: it cannot do that. */
GP_MUST_USE gp_status gp_cpu_conv_prepare_as(gp_prepared *prepared, gp_conv_method method, gp_error *err);
/* The method of a convolution that is prepared. */
gp_conv_method gp_cpu_conv_method(const gp_prepared *prepared);
GP_MUST_USE gp_status gp_cpu_linear_prepare(gp_prepared *prepared, gp_error *err);
/* See gp_device_kind. *out is NULL for an op that none of the above has prepared. */
GP_MUST_USE gp_status gp_cpu_onednn_bind(const gp_prepared *prepared, gp_bound **out, gp_error *err);
void gp_cpu_onednn_unbind(gp_bound *bound);
size_t gp_cpu_onednn_bound_bytes(const gp_prepared *prepared);
/* Runs what one of the above has prepared, with call->bound. */
GP_MUST_USE gp_status gp_cpu_onednn_run(const gp_cpu_call *call, gp_error *err);
void gp_cpu_onednn_release(gp_prepared *prepared);

#endif
