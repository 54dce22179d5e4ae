/* Plays programs on devices that work asynchronously, as GPUs do. A host thread issues instructions, and the device
 * carries them out later. In schedule/play.h there are no host threads: copies wait for their data only.
 *
 * Host threads. A host thread needs `launch` for each computation (forward, recompute, backward, and an update that
 * takes time) and `launch_copy` for each copy between two devices; all other instructions need no time of it. It issues
 * the instructions of its device in the order of the program and does not wait for devices. It waits for other host
 * threads: in the barriers of lockstep for all of them, and before a copy for the one that issues the computation whose
 * value is copied. After such a wait it goes on `wake` later than the other thread. One host thread for all devices
 * takes the clocks in order, and in each clock the devices from first to last; at a barrier it changes to the next
 * device, so in lockstep it issues all copies of a clock before all computations (torchgpipe, 2004.09910, section 3.2;
 * torchgpipe/pipeline.py: fence, then compute, for the tasks that clock_cycles lists).
 *
 * Devices. A device has one queue for computations and carries them out in the order of issue. A computation is many
 * kernels: its host thread issues them evenly over `launch`, and the device begins with the first one at once. So a
 * computation that begins to be issued at b and could start at s takes from max(b, s) to max(b + launch, start +
 * duration). It waits for all copies that its host thread issued before it.
 *
 * A copy starts when it is issued, its value is there, the copy before it in its queue (schedule/access.h) is over, and
 * no other one holds the way between the same two devices. What else it waits for is gp_issue_copies. PyTorch records
 * the event that a copy waits for when the copy is issued, not when the computation is: so a copy waits for all kernels
 * that its source was given before. torchgpipe's authors: "a GPU-to-GPU tensor copy requires to synchronize both GPUs";
 * lockstep "ensures to register copy commands behind the final kernel of each partition, rather than the middle of a
 * partition" (github.com/kakaobrain/torchgpipe/issues/2).
 *
 * Instructions are played in the order of issue, which everything that they wait for precedes: O(n log workers). Pure;
 * one thread.
 */
#ifndef GP_SCHEDULE_ISSUE_H
#define GP_SCHEDULE_ISSUE_H

#include <stdbool.h>

#include "base/status.h"
#include "schedule/play.h"

/* What a copy waits for besides. */
typedef enum gp_issue_copies {
    GP_ISSUE_BESIDE,     /* nothing: an event stands directly after the computation whose value is copied */
    GP_ISSUE_QUEUED,     /* all kernels that were issued to its source device before it. At equal times a computation
                            without launch time counts as issued before a copy */
    GP_ISSUE_SAME_QUEUE, /* it goes through the computing queues of both devices, which compute nothing meanwhile:
                            torchgpipe before version 0.0.3, which copied on the default streams */
} gp_issue_copies;

/* Times in the unit of the durations, ≥ 0. */
typedef struct gp_issue_model {
    gp_issue_copies copies;
    bool one_host; /* one host thread for all devices; else one for each */
    double launch, launch_copy, wake;
} gp_issue_model;

typedef struct gp_issue_request {
    const gp_stages *stages;
    const gp_programs *programs;
    const gp_waits *waits; /* those programs', without slots */
    gp_issue_model model;
    gp_duration duration, latency; /* NULL: 0. A copy takes both, and holds its way for the first. They
                                      are asked for the receive */
    const void *context;
    bool timeline; /* keep start, end and time of issue of each instruction */
} gp_issue_request;

/* GP_PROGRAM with the sentence if host threads deadlock. `busy` is the sum of durations, without the gaps in which a
 * device waits for the next kernel to be issued. */
GP_MUST_USE gp_status gp_issue_play(const gp_issue_request *request, gp_play **out, gp_error *err);

#endif
