/* The schedules: each a function that lists the tasks of every worker, tested against literal tables.
 *
 * They add to an order that the caller owns; pure but for that, any thread. */
#ifndef GP_SCHEDULE_SCHEDULES_H
#define GP_SCHEDULE_SCHEDULES_H

#include "schedule/order.h"

/* Adds all tasks to an order without any; clocks are set later. p workers, worker s counted from 0, m micro-batches. */
typedef gp_status (*gp_order_generator)(gp_order *order, gp_error *err);

/* GPipe (Huang et al., 1811.06965, section 2.3; torchgpipe, 2004.09910, section 3.2): all forwards, then all backwards,
 * last micro-batch first. */
GP_MUST_USE gp_status gp_order_gpipe(gp_order *order, gp_error *err);
/* 1F1B, PipeDream-flush (Narayanan et al., 2006.09503): p−s−1 forwards, then forward and backward in turn. */
GP_MUST_USE gp_status gp_order_1f1b(gp_order *order, gp_error *err);
/* Interleaved 1F1B (Narayanan et al., 2104.04473, section 2.2): v stages per worker, stage c·p + s on worker s. Groups
 * of micro-batches go through a worker's stages one after another; 2(p−s−1) + (v−1)·group forwards to warm up. Groups
 * of p where p divides m; else of p or some more, the larger ones first, without which there would be deadlocks. */
GP_MUST_USE gp_status gp_order_interleaved(gp_order *order, gp_error *err);
/* Zero bubble, ZB-H1 and ZB-H2 (Qi et al., 2401.10241, section 2): backward for inputs and for weights apart. H1 has
 * 1F1B's memory, and a W once more than s I are done; H2 2(p−s)−1 forwards to warm up, and a W once more than 2s. */
GP_MUST_USE gp_status gp_order_zb_h1(gp_order *order, gp_error *err);
GP_MUST_USE gp_status gp_order_zb_h2(gp_order *order, gp_error *err);
/* ZB-V (Qi et al., 2405.15362): two stages per worker, s and 2p−1−s, so that the second half comes back in a V. */
GP_MUST_USE gp_status gp_order_zb_v(gp_order *order, gp_error *err);

#endif
