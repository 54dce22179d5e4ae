/* How much of a GPU's memory this process holds. cudaMemGetInfo counts the whole device, other programs included; NVML,
 * the driver's library for management, counts by process. It is opened by name, and nothing depends on it. Internal to
 * device/cuda/toolkit; any thread. */
#ifndef GP_DEVICE_CUDA_TOOLKIT_OWN_MEMORY_H
#define GP_DEVICE_CUDA_TOOLKIT_OWN_MEMORY_H

#include <stddef.h>

/* nvmlProcessInfo_t of nvmlDeviceGetComputeRunningProcesses_v3; toolkits come without nvml.h. */
typedef struct gp_nvml_process {
    unsigned pid;
    unsigned long long used; /* bytes; all bits set: not known */
    unsigned gpu_instance, compute_instance;
} gp_nvml_process;

/* All return 0 for success. */
typedef struct gp_nvml_calls {
    int (*init)(void);                          /* nvmlInit_v2 */
    int (*device)(const char *bus, void **out); /* nvmlDeviceGetHandleByPciBusId_v2 */
    int (*processes)(void *device, unsigned *count, gp_nvml_process *out);
} gp_nvml_calls;

/* NULL where there is no NVML, or where this process does not go by the number that the driver knows it by (in a
 * container): the number would be another process's. Opened once. */
const gp_nvml_calls *gp_nvml_open(void);

/* Bytes that process `pid` holds on the device at the PCI address `bus`; 0: not known. */
size_t gp_nvml_held(const gp_nvml_calls *nvml, const char *bus, unsigned pid);

#endif
