#include "device/cuda/toolkit/cudnn_device.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* What GPUs of one name have in common with no other. */
static const struct described {
    const char *name, *model;
    int processors, major, clock, memory_clock; /* multiprocessors; kHz */
    size_t shared, shared_optin;                /* bytes of a multiprocessor, and of a block that asks for them */
    int l2;                                     /* bytes */
} described[] = {
    {"h100", "NVIDIA H100 80GB HBM3", 132, 9, 1980000, 2619000, 233472, 232448, 52428800},
    {"a100", "NVIDIA A100-SXM4-80GB", 108, 8, 1410000, 1593000, 167936, 166912, 41943040},
};
enum { DESCRIBED = sizeof described / sizeof described[0], DRIVER = 13000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static gp_cudnn_device live, by_description[DESCRIBED];
static const gp_cudnn_device *chosen;
static int own; /* the device that plans are for; −1: none of this machine */

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

/* What cuDNN asks of a device, in its own JSON. */
static void write_json(char text[GP_CUDNN_DEVICE_JSON], const struct cudaDeviceProp *its, int clock, int memory_clock,
                       int driver) {
    snprintf(text, GP_CUDNN_DEVICE_JSON,
             "{\"maxGridSize\":[%d,%d,%d],\"maxBlockSize\":[%d,%d,%d],\"regsPerBlock\":%d,\"warpSize\":%d,"
             "\"maxSharedMemoryPerBlock\":%zu,\"reservedSharedMemoryPerBlock\":%zu,\"maxRegistersPerSM\":%d,"
             "\"maxCtasPerSM\":%d,\"maxThreadsPerBlock\":%d,\"maxThreadsPerSM\":%d,\"pciDeviceId\":%d,"
             "\"isTccDriver\":%d,\"supportCoopLaunch\":%d,\"cudaDeviceId\":0,\"driverVer\":%d,"
             "\"totalGlobalMem\":%zu,\"integrated\":%d,\"multiProcessorCount\":%d,"
             "\"maxSharedMemoryPerBlockOptin\":%zu,\"smClockRateKHz\":%d,\"memClockRateKHz\":%d,"
             "\"l2CacheSize\":%d,\"deviceName\":\"%s\",\"deviceVer\":%d,\"maxSharedMemoryPerSM\":%zu,"
             "\"maxSharedMemoryPerMultiprocessor\":%zu}",
             its->maxGridSize[0], its->maxGridSize[1], its->maxGridSize[2], its->maxThreadsDim[0],
             its->maxThreadsDim[1], its->maxThreadsDim[2], its->regsPerBlock, its->warpSize, its->sharedMemPerBlock,
             its->reservedSharedMemPerBlock, its->regsPerMultiprocessor, its->maxBlocksPerMultiProcessor,
             its->maxThreadsPerBlock, its->maxThreadsPerMultiProcessor, its->pciDeviceID, its->tccDriver,
             its->cooperativeLaunch, driver, its->totalGlobalMem, its->integrated, its->multiProcessorCount,
             its->sharedMemPerBlockOptin, clock, memory_clock, its->l2CacheSize, its->name,
             100 * its->major + 10 * its->minor, its->sharedMemPerMultiprocessor, its->sharedMemPerMultiprocessor);
}

/* Caller holds the lock, as of what follows. */
static gp_status make_from_json(gp_cudnn_device *device, const struct cudaDeviceProp *its, int clock, int memory_clock,
                                int driver, gp_error *err) {
    char text[GP_CUDNN_DEVICE_JSON];
    write_json(text, its, clock, memory_clock, driver);
    return make(device, its->name, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                (int64_t)strlen(text) + 1, text, err);
}

static gp_status describe(size_t which, gp_error *err) {
    const struct described *as = &described[which];
    struct cudaDeviceProp its = {.maxGridSize = {2147483647, 65535, 65535},
                                 .maxThreadsDim = {1024, 1024, 64},
                                 .regsPerBlock = 65536,
                                 .warpSize = 32,
                                 .sharedMemPerBlock = 49152,
                                 .reservedSharedMemPerBlock = 1024,
                                 .regsPerMultiprocessor = 65536,
                                 .maxBlocksPerMultiProcessor = 32,
                                 .maxThreadsPerBlock = 1024,
                                 .maxThreadsPerMultiProcessor = 2048,
                                 .cooperativeLaunch = 1,
                                 .totalGlobalMem = 85000000000,
                                 .multiProcessorCount = as->processors,
                                 .sharedMemPerBlockOptin = as->shared_optin,
                                 .l2CacheSize = as->l2,
                                 .major = as->major,
                                 .sharedMemPerMultiprocessor = as->shared};
    snprintf(its.name, sizeof its.name, "%s", as->model);
    if (!by_description[which].properties)
        GP_RETURN_IF_FAILED(make_from_json(&by_description[which], &its, as->clock, as->memory_clock, DRIVER, err));
    chosen = &by_description[which];
    return GP_OK;
}

/* As GPU 0 is, without opening it: to open one takes hundreds of MiB of its memory. */
static gp_status describe_first(const struct cudaDeviceProp *its, gp_error *err) {
    int clock = 0, memory_clock = 0, driver = 0;
    if (cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, 0) ||
        cudaDeviceGetAttribute(&memory_clock, cudaDevAttrMemoryClockRate, 0) || cudaDriverGetVersion(&driver)) {
        (void)cudaGetLastError();
        return describe(0, err);
    }
    /* A later cuDNN may ask for more. */
    if (make_from_json(&live, its, clock, memory_clock, driver, err) == GP_OK) return GP_OK;
    return describe(0, err);
}

static gp_status choose(gp_error *err) {
    int count = 0;
    struct cudaDeviceProp properties;
    bool there = cudaGetDeviceCount(&count) == cudaSuccess && count > 0, opens = own >= 0 && own < count;
    if (!there || cudaGetDeviceProperties(&properties, opens ? own : 0)) {
        (void)cudaGetLastError();
        return describe(0, err);
    }
    const int32_t index = own;
    if (!opens)
        GP_RETURN_IF_FAILED(describe_first(&properties, err));
    else
        GP_RETURN_IF_FAILED(
            make(&live, properties.name, CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &index, err));
    if (!chosen) chosen = &live;
    return GP_OK;
}

void gp_cudnn_device_plan_for(int index) {
    pthread_mutex_lock(&lock);
    own = index;
    pthread_mutex_unlock(&lock);
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
