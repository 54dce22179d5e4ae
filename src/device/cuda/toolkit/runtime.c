/* The real table: the runtime's calls and the launches. */
#include <cuda.h>
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/cuda/toolkit/cudnn_device.h"
#include "device/cuda/toolkit/own_memory.h"
#include "device/cuda/toolkit/toolkit.h"

/* What comes out at some later call, of any thread of the process that uses the GPU. */
static bool is_of_earlier_work(cudaError_t code) {
    switch (code) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidPc:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable: return true;
    default: return false;
    }
}

/* GP_OK, or the sentence "cudaStreamCreate: out of memory". */
static gp_status check(cudaError_t code, const char *call, gp_error *err) {
    if (code == cudaSuccess) return GP_OK;
    /* A failed call leaves its error for the next one to report; it has been reported. */
    (void)cudaGetLastError();
    if (is_of_earlier_work(code))
        return gp_fail(err, GP_DEVICE,
                       "%s: %s, in earlier work of this GPU; run again with CUDA_LAUNCH_BLOCKING=1 to "
                       "see the layer",
                       call, cudaGetErrorString(code));
    return gp_fail(err, code == cudaErrorMemoryAllocation ? GP_MEMORY : GP_DEVICE, "%s: %s", call,
                   cudaGetErrorString(code));
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

static gp_status count(int *out, gp_error *err) {
    int found = 0;
    cudaError_t code = cudaGetDeviceCount(&found);
    if (code == cudaErrorNoDevice) {
        (void)cudaGetLastError();
        found = 0;
    } else if (code == cudaErrorInsufficientDriver) {
        (void)cudaGetLastError();
        return gp_fail(err, GP_DEVICE, "the machine has no driver, or one that is too old for CUDA %d.%d",
                       CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    } else {
        GP_RETURN_IF_FAILED(check(code, "cudaGetDeviceCount", err));
    }
    *out = found;
    return GP_OK;
}

static gp_status bus_address(int index, char text[GP_BUS_ADDRESS], gp_error *err) {
    return check(cudaDeviceGetPCIBusId(text, GP_BUS_ADDRESS, index), "cudaDeviceGetPCIBusId", err);
}

static gp_status use(int index, gp_error *err) {
    return check(cudaSetDevice(index), "cudaSetDevice", err);
}

/* Of the device in use; 0: not known. */
static size_t own_memory(void) {
    const gp_nvml_calls *nvml = gp_nvml_open();
    char bus[32];
    int index = 0;
    if (!nvml) return 0;
    if (cudaGetDevice(&index) != cudaSuccess || cudaDeviceGetPCIBusId(bus, sizeof bus, index) != cudaSuccess) {
        (void)cudaGetLastError();
        return 0;
    }
    return gp_nvml_held(nvml, bus, (unsigned)getpid());
}

static gp_status memory(gp_cuda_memory *out, gp_error *err) {
    gp_cuda_memory found = {0, 0, 0};
    GP_RETURN_IF_FAILED(check(cudaMemGetInfo(&found.free, &found.total), "cudaMemGetInfo", err));
    found.own = own_memory();
    *out = found;
    return GP_OK;
}

static gp_status reach(int other, bool *out, gp_error *err) {
    int here = 0, may = 0;
    GP_RETURN_IF_FAILED(check(cudaGetDevice(&here), "cudaGetDevice", err));
    *out = here == other;
    if (here == other) return GP_OK;
    GP_RETURN_IF_FAILED(check(cudaDeviceCanAccessPeer(&may, here, other), "cudaDeviceCanAccessPeer", err));
    if (!may) return GP_OK;
    cudaError_t code = cudaDeviceEnablePeerAccess(other, 0);
    /* Refused, as where there are too many peers, the driver's staging is left. */
    *out = code == cudaSuccess || code == cudaErrorPeerAccessAlreadyEnabled;
    (void)cudaGetLastError();
    return GP_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static gp_status allocate(size_t bytes, void **out, gp_error *err) {
    void *block = NULL;
    GP_RETURN_IF_FAILED(check(cudaMalloc(&block, bytes), "cudaMalloc", err));
    *out = block;
    return GP_OK;
}

static void release(void *block) {
    (void)cudaFree(block);
}

static gp_status host_allocate(size_t bytes, void **out, gp_error *err) {
    void *block = NULL;
    GP_RETURN_IF_FAILED(check(cudaHostAlloc(&block, bytes, cudaHostAllocPortable), "cudaHostAlloc", err));
    *out = block;
    return GP_OK;
}

static void host_release(void *block) {
    (void)cudaFreeHost(block);
}

/* ---- streams and events ------------------------------------------------------------------------------------------ */

static gp_status stream_create(bool urgent, gp_cuda_stream **out, gp_error *err) {
    int least = 0, greatest = 0;
    cudaStream_t stream = NULL;
    GP_RETURN_IF_FAILED(
        check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange", err));
    GP_RETURN_IF_FAILED(check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, urgent ? greatest : least),
                              "cudaStreamCreateWithPriority", err));
    *out = stream;
    return GP_OK;
}

static void stream_destroy(gp_cuda_stream *stream) {
    (void)cudaStreamDestroy(stream);
}

static gp_status event_create(bool timed, gp_cuda_event **out, gp_error *err) {
    cudaEvent_t event = NULL;
    GP_RETURN_IF_FAILED(check(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming),
                              "cudaEventCreateWithFlags", err));
    *out = event;
    return GP_OK;
}

static void event_destroy(gp_cuda_event *event) {
    (void)cudaEventDestroy(event);
}

static gp_status event_record(gp_cuda_event *event, gp_cuda_stream *stream, gp_error *err) {
    return check(cudaEventRecord(event, stream), "cudaEventRecord", err);
}

static gp_status event_wait(gp_cuda_stream *stream, gp_cuda_event *event, gp_error *err) {
    return check(cudaStreamWaitEvent(stream, event, 0), "cudaStreamWaitEvent", err);
}

static gp_status event_done(gp_cuda_event *event, bool *out, gp_error *err) {
    cudaError_t code = cudaEventQuery(event);
    *out = code == cudaSuccess;
    if (code == cudaErrorNotReady) {
        (void)cudaGetLastError();
        return GP_OK;
    }
    return check(code, "work on the device", err);
}

static gp_status event_elapsed(gp_cuda_event *from, gp_cuda_event *to, float *out, gp_error *err) {
    return check(cudaEventElapsedTime(out, from, to), "cudaEventElapsedTime", err);
}

/* ---- work -------------------------------------------------------------------------------------------------------- */

static gp_status copy(void *to, const void *from, size_t bytes, gp_cuda_direction direction, gp_cuda_stream *stream,
                      gp_error *err) {
    static const enum cudaMemcpyKind kinds[] = {
        [GP_CUDA_IN] = cudaMemcpyHostToDevice,
        [GP_CUDA_OUT] = cudaMemcpyDeviceToHost,
        [GP_CUDA_WITHIN] = cudaMemcpyDeviceToDevice,
    };
    return check(cudaMemcpyAsync(to, from, bytes, kinds[direction], stream), "cudaMemcpyAsync", err);
}

static gp_status copy_peer(void *to, int to_index, const void *from, int from_index, size_t bytes,
                           gp_cuda_stream *stream, gp_error *err) {
    return check(cudaMemcpyPeerAsync(to, to_index, from, from_index, bytes, stream), "cudaMemcpyPeerAsync", err);
}

/* The driver's own call: the runtime has none, and the program links no driver. */
typedef CUresult (*write_value_call)(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags);
static write_value_call write_value;
static pthread_once_t write_value_once = PTHREAD_ONCE_INIT;

static void find_write_value(void) {
    enum cudaDriverEntryPointQueryResult how;
    void *found = NULL;
    if (cudaGetDriverEntryPointByVersion("cuStreamWriteValue32", &found, 12000, cudaEnableDefault, &how) !=
            cudaSuccess ||
        how != cudaDriverEntryPointSuccess)
        (void)cudaGetLastError();
    else
        memcpy(&write_value, &found, sizeof found);
}

/* Pinned memory has the same address on the device. */
static gp_status note(_Atomic uint32_t *host_at, uint32_t number, gp_cuda_stream *stream, gp_error *err) {
    (void)pthread_once(&write_value_once, find_write_value);
    if (!write_value) return GP_OK;
    CUresult code = write_value(stream, (CUdeviceptr)(uintptr_t)host_at, number, CU_STREAM_WRITE_VALUE_DEFAULT);
    if (code == CUDA_ERROR_NOT_SUPPORTED) return GP_OK;
    /* The runtime has the driver's numbers. */
    return check((cudaError_t)code, "cuStreamWriteValue32", err);
}

static gp_status launch(const gp_cuda_launch *launch, gp_cuda_stream *stream, gp_error *err) {
    void *args[] = {(void *)(uintptr_t)launch->args};
    dim3 grid = {launch->grid[0], launch->grid[1], launch->grid[2]}, block = {launch->block, 1, 1};
    cudaError_t code = cudaLaunchKernel(gp_cuda_kernel_functions[launch->kernel], grid, block, args, 0, stream);
    if (code == cudaSuccess) return GP_OK;
    check(code, "cudaLaunchKernel", err);
    return gp_error_context(err, "kernel %s: ", gp_cuda_kernel_names[launch->kernel]);
}

/* A tool gives a level, from 0. NVTX's own answer without a tool is also that of a tool which counts no levels: then
 * the variable tells by which tools are loaded. */
static bool mark_begin(const char *name) {
    return nvtxRangePushA(name) >= 0 || getenv("NVTX_INJECTION64_PATH") != NULL;
}

static void mark_end(void) {
    nvtxRangePop();
}

static gp_status capture(bool begins, gp_error *err) {
    if (begins) return check(cudaProfilerStart(), "cudaProfilerStart", err);
    return check(cudaProfilerStop(), "cudaProfilerStop", err);
}

const gp_cuda_api gp_cuda_toolkit = {
    .count = count,
    .bus_address = bus_address,
    .use = use,
    .memory = memory,
    .reach = reach,
    .allocate = allocate,
    .release = release,
    .host_allocate = host_allocate,
    .host_release = host_release,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_done = event_done,
    .event_elapsed = event_elapsed,
    .copy = copy,
    .copy_peer = copy_peer,
    .note = note,
    .launch = launch,
    .libraries = gp_cuda_libraries,
    .plan_create = gp_cuda_plan_create,
    .plan_for = gp_cudnn_device_plan_for,
    .plan_destroy = gp_cuda_plan_destroy,
    .library_open = gp_cuda_library_open,
    .library_close = gp_cuda_library_close,
    .plan_run = gp_cuda_plan_run,
    .mark_begin = mark_begin,
    .mark_end = mark_end,
    .capture = capture,
#ifdef GP_NCCL
    .comm_id = gp_cuda_comm_id,
    .comm_create = gp_cuda_comm_create,
    .comm_busy = gp_cuda_comm_busy,
    .group_begin = gp_cuda_group_begin,
    .group_end = gp_cuda_group_end,
    .comm_send = gp_cuda_comm_send,
    .comm_receive = gp_cuda_comm_receive,
    .comm_finish = gp_cuda_comm_finish,
    .comm_destroy = gp_cuda_comm_destroy,
    .comm_abort = gp_cuda_comm_abort,
#endif
};
