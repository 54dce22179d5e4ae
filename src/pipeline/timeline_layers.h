/* The part of a timeline that shows layers: spans within those of the instructions, from the times that a worker
 * recorded. One thread, while nothing is recorded. */
#ifndef GP_PIPELINE_TIMELINE_LAYERS_H
#define GP_PIPELINE_TIMELINE_LAYERS_H

#include "plan/plan.h"
#include "trace/chrome.h"
#include "trace/recorder.h"

/* Reads one worker's times, in the order of its spans. */
typedef struct gp_layer_reader {
    const gp_plan *plan;
    const gp_ticks *ticks; /* NULL: none were recorded, and nothing is written */
    int worker;
    size_t next;
} gp_layer_reader;

/* The layers of the instruction whose span comes next in the lane. */
void gp_timeline_layers(gp_layer_reader *reader, const gp_span *span, int track, gp_chrome *chrome);

#endif
