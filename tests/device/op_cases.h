/* Cases of every op over odd shapes, for tests that compare one device kind with another. Pure functions of (kind of
 * op, number, dtype); any thread.
 *
 * The first cases of a kind are its corners, written down; the rest are drawn. Operands are slices of channels of wider
 * tensors in two cases of three. Everything is described in the plain format; op_run.h runs a case.
 */
#ifndef GP_TESTS_DEVICE_OP_CASES_H
#define GP_TESTS_DEVICE_OP_CASES_H

#include <stdbool.h>
#include <stddef.h>

#include "device/op.h"
#include "size.h"

/* Cases of each kind of op. */
enum { GP_OP_CASES = 48 };
/* Tests of one thread take every nth case: sanitizers make them many times slower, and ThreadSanitizer sees nothing in
 * them. Options alternate every 2 to 6 cases: seven cases, each 7 after the last, meet all of them. */
enum { GP_OP_CASES_STEP = TEST_WATCHES_THREADS || TEST_WATCHES_ADDRESSES ? 7 : 1 };

/* What an operand holds before the op runs. */
typedef enum gp_case_fill {
    GP_CASE_OUTPUT,   /* nothing: poison */
    GP_CASE_NORMAL,   /* about −2 to 2 */
    GP_CASE_TIES,     /* few different values, zero and equals among them */
    GP_CASE_POSITIVE, /* variances, 0.25 to 4 */
    GP_CASE_STATS,    /* [..,3,C]: means, variances, rests of the means */
    GP_CASE_PAIRS,    /* [..,2]: a mean, 1/deviation */
    GP_CASE_TARGET,   /* classes, and now and then the one to ignore */
    GP_CASE_INDEX,    /* of max_pool: a place in each window that lies inside the input */
    GP_CASE_SCALARS,  /* gp_op_case.scalars */
    GP_CASE_PARTIAL,  /* sums of losses and counts */
    GP_CASE_SQUARES,  /* sums of squares, small ones and large ones */
    GP_CASE_BYTES,    /* any bytes */
} gp_case_fill;

typedef struct gp_op_case {
    gp_op_desc desc; /* threads: 1 */
    gp_case_fill fill[GP_MAX_OPERANDS];
    gp_step_scalars scalars; /* finite is 0 in some cases */
    gp_op_args args;
    int number;
} gp_op_case;

/* dtype: F32 or F64, of the real operands; copy, reorder and fill use others too. */
void gp_op_case_make(gp_op_kind kind, int number, gp_dtype dtype, gp_op_case *out);

/* Writes gp_tensor_bytes of an operand: its elements as its fill says, what lies between them as poison (all bits set:
 * NaN in a float). */
void gp_op_case_fill(const gp_op_case *op_case, int operand, void *data);

/* Whether all that lies between the tensor's elements is still poison. */
bool gp_op_gaps_kept(const gp_tensor *tensor, const void *data);

/* Compares elements: integers and bytes for equality; reals by |got − want| ≤ tolerance·max(1, largest |want|), NaN
 * equal to NaN. False writes the first difference as a sentence. */
enum { GP_DIFFERENCE_TEXT = 160 };
bool gp_op_same_elements(const gp_tensor *tensor, const void *got, const void *want, double tolerance,
                         char difference[GP_DIFFERENCE_TEXT]);

/* "conv_forward case 12: x [2, 5, 5, 3] strides [..], …" into buffer, which is returned. */
enum { GP_CASE_TEXT = 1024 };
const char *gp_op_case_text(char buffer[GP_CASE_TEXT], const gp_op_case *op_case);

#endif
