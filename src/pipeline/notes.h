/* After which ops of a routine a queue writes a progress note (device.h, stream_note). Notes are so frequent that a
 * failure is narrowed down to a few layers, and so rare that they cost little.
 *
 * Pure, from the routine and the counts of its ops, so that who reads a note finds the ops that it stands between as
 * the worker that enqueued it did, and no list is kept. Any thread. */
#ifndef GP_PIPELINE_NOTES_H
#define GP_PIPELINE_NOTES_H

#include "compile/routine.h"

/* Seconds of work that come before a note, at least. A note takes about a microsecond. Written by tests alone, before
 * workers are. */
extern double gp_note_seconds;

/* Seconds that an op takes at the least, about: its launch, and its operations or its bytes, at rates that no GPU
 * surpasses that scripts/gpu-figures.py knows. */
double gp_note_estimate(const gp_prepared *prepared);

/* Whether a note stands behind op `op` of a routine, of which those with `skipped` are not run: since the last one, or
 * the routine's begin, there has been enough work, and the op that is run next is another layer's. For every op in
 * order; *since, 0 at first, is the caller's to keep between them. */
bool gp_note_behind(const gp_routine *routine, size_t op, gp_when skipped, double *since);

/* The nodes, first to last, whose work an op does; those between them may be others'. false: it is no node's. */
bool gp_note_nodes(const gp_exec_op *op, int *first, int *last);

#endif
