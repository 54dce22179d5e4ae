/* Devices that are lost: work failed after it was enqueued, and they do nothing more. Any thread; the device in use is
 * another afterwards. Internal to device/cuda. */
#ifndef GP_DEVICE_CUDA_CUDA_LOST_H
#define GP_DEVICE_CUDA_CUDA_LOST_H

#include "device/cuda/cuda_api.h"

/* That the process uses a device. */
void gp_cuda_lost_watch(int index);
bool gp_cuda_lost(int index);
/* Waits for the event, of device `index`. False where it will not happen: what comes before it waits for a device that
 * is lost. */
bool gp_cuda_lost_wait(gp_cuda_event *event, int index);
/* Polls after which a thread looks whether one is. */
extern long gp_cuda_lost_patience;

#endif
