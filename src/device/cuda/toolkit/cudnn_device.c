#include "device/cuda/toolkit/cudnn_device.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* What cuDNN asks of a device, in its own JSON. */
#define GP_DESCRIBED_HEAD                                                                                              \
    "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,"                \
    "\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,\"reservedSharedMemoryPerBlock\":1024,"                         \
    "\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,"            \
    "\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,\"cudaDeviceId\":0,\"driverVer\":13000,"              \
    "\"totalGlobalMem\":85000000000,\"integrated\":0,"

static const struct described {
    const char *name, *model, *json;
} described[] = {
    {"h100", "NVIDIA H100 80GB HBM3",
     GP_DESCRIBED_HEAD "\"multiProcessorCount\":132,\"maxSharedMemoryPerBlockOptin\":232448,"
                       "\"smClockRateKHz\":1980000,\"memClockRateKHz\":2619000,\"l2CacheSize\":52428800,"
                       "\"deviceName\":\"NVIDIA H100 80GB HBM3\",\"deviceVer\":900,"
                       "\"maxSharedMemoryPerSM\":233472,\"maxSharedMemoryPerMultiprocessor\":233472}"},
    {"a100", "NVIDIA A100-SXM4-80GB",
     GP_DESCRIBED_HEAD "\"multiProcessorCount\":108,\"maxSharedMemoryPerBlockOptin\":166912,"
                       "\"smClockRateKHz\":1410000,\"memClockRateKHz\":1593000,\"l2CacheSize\":41943040,"
                       "\"deviceName\":\"NVIDIA A100-SXM4-80GB\",\"deviceVer\":800,"
                       "\"maxSharedMemoryPerSM\":167936,\"maxSharedMemoryPerMultiprocessor\":167936}"},
};
enum { DESCRIBED = sizeof described / sizeof described[0] };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static gp_cudnn_device live, by_description[DESCRIBED];
static const gp_cudnn_device *chosen;

/* Caller holds the lock. */
static gp_status make(gp_cudnn_device *device, const char *name, cudnnBackendAttributeName_t attribute,
                      cudnnBackendAttributeType_t type, int64_t count, const void *value, gp_error *err) {
    gp_cudnn_parts parts = {0};
    gp_cudnn_part properties = gp_cudnn_part_new(&parts, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    gp_cudnn_part_set(&parts, properties, attribute, type, count, value);
    gp_cudnn_part_finish(&parts, properties, "device properties");
    gp_status status = gp_cudnn_parts_status(&parts, err);
    if (status == GP_OK) {
        snprintf(device->name, sizeof device->name, "%s", name);
        device->properties = properties;
        parts.count = 0; /* kept */
    }
    gp_cudnn_parts_fini(&parts);
    return status;
}

/* Caller holds the lock. */
static gp_status describe(size_t which, gp_error *err) {
    const struct described *as = &described[which];
    gp_cudnn_device *device = &by_description[which];
    if (!device->properties)
        GP_RETURN_IF_FAILED(make(device, as->model, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                 (int64_t)strlen(as->json) + 1, as->json, err));
    chosen = device;
    return GP_OK;
}

/* Caller holds the lock. */
static gp_status choose(gp_error *err) {
    int count = 0;
    struct cudaDeviceProp properties;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count < 1 || cudaGetDeviceProperties(&properties, 0)) {
        (void)cudaGetLastError();
        return describe(0, err);
    }
    const int32_t first = 0;
    GP_RETURN_IF_FAILED(
        make(&live, properties.name, CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &first, err));
    chosen = &live;
    return GP_OK;
}

gp_status gp_cudnn_device_get(const gp_cudnn_device **out, gp_error *err) {
    pthread_mutex_lock(&lock);
    gp_status status = chosen ? GP_OK : choose(err);
    if (status == GP_OK) *out = chosen;
    pthread_mutex_unlock(&lock);
    return status;
}

gp_status gp_cudnn_device_live(gp_cudnn_parts *parts, gp_cudnn_part *out, gp_error *err) {
    int index = 0;
    cudaError_t code = cudaGetDevice(&index);
    if (code != cudaSuccess) return gp_fail(err, GP_DEVICE, "cudaGetDevice: %s", cudaGetErrorString(code));
    const int32_t number = index;
    gp_cudnn_part properties = gp_cudnn_part_new(parts, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    gp_cudnn_part_set(parts, properties, CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &number);
    gp_cudnn_part_finish(parts, properties, "device properties");
    *out = properties;
    return gp_cudnn_parts_status(parts, err);
}

gp_status gp_cudnn_device_describe(const char *name, gp_error *err) {
    for (size_t i = 0; i < DESCRIBED; i++) {
        if (strcmp(described[i].name, name) != 0) continue;
        GP_RETURN_IF_FAILED(gp_cudnn_open(err));
        pthread_mutex_lock(&lock);
        gp_status status = describe(i, err);
        pthread_mutex_unlock(&lock);
        return status;
    }
    return gp_fail(err, GP_USAGE, "cuda: no device is described as \"%s\"", name);
}
