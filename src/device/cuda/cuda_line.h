/* Lines of the CUDA device (device.h): each is a group of two members, the sender 0 and the receiver 1. Internal to
 * device/cuda.
 *
 * The device's worker owns its lines; its thread calls, if nothing else is said. */
#ifndef GP_DEVICE_CUDA_CUDA_LINE_H
#define GP_DEVICE_CUDA_CUDA_LINE_H

#include "device/device.h"

/* Of the table of device.h. */
bool gp_cuda_has_lines(void);
GP_MUST_USE gp_status gp_cuda_line_id(char id[GP_LINE_ID], gp_error *err);
GP_MUST_USE gp_status gp_cuda_line_open(gp_device *device, const char id[GP_LINE_ID], bool sends, int blocks,
                                        const gp_cancel *cancel, gp_line **out, gp_error *err);
GP_MUST_USE gp_status gp_cuda_line_carry(gp_line *line, gp_stream *stream, const gp_device_range *ranges, int count,
                                         const gp_cancel *cancel, gp_error *err);
void gp_cuda_line_abort(gp_line *line);
void gp_cuda_line_close(gp_line *line);

/* What has failed in messages of the device's lines since they were enqueued. Any thread; for those that wait. */
GP_MUST_USE gp_status gp_cuda_lines_check(const gp_device *device, gp_error *err);
/* Polls for which the other end may keep a line from closing; then it is aborted. */
extern long gp_cuda_line_patience;

#endif
