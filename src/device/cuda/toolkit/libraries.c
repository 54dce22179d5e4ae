#include "device/cuda/toolkit/libraries.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

gp_cudnn_calls gp_cudnn;
gp_cublaslt_calls gp_cublaslt;
#ifdef GP_NCCL
gp_nccl_calls gp_nccl;
#endif

/* A function of a library, and the member that is to point to it. */
typedef struct wanted {
    const char *name;
    void *member;
} wanted;

#define GP_WANT_CUDNN(name)    {#name, &gp_cudnn.name},
#define GP_WANT_CUBLASLT(name) {#name, &gp_cublaslt.name},
static const wanted cudnn_wanted[] = {GP_CUDNN_CALLS(GP_WANT_CUDNN)};
static const wanted cublaslt_wanted[] = {GP_CUBLASLT_CALLS(GP_WANT_CUBLASLT)};
#ifdef GP_NCCL
#define GP_WANT_NCCL(name) {#name, &gp_nccl.name},
static const wanted nccl_wanted[] = {GP_NCCL_CALLS(GP_WANT_NCCL)};
#undef GP_WANT_NCCL
#endif
#undef GP_WANT_CUDNN
#undef GP_WANT_CUBLASLT

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held while a library is opened */
static atomic_bool cudnn_is_open, cublaslt_is_open;

static const char *cause(void) {
    const char *text = dlerror();
    return text ? text : "no cause given";
}

/* Caller holds the lock. */
static gp_status find_calls(const char *name, const wanted *calls, size_t count, gp_error *err) {
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) return gp_fail(err, GP_DEVICE, "cuda: cannot open %s: %s", name, cause());
    for (size_t i = 0; i < count; i++) {
        void *function = dlsym(library, calls[i].name);
        if (!function) {
            gp_status status = gp_fail(err, GP_DEVICE, "cuda: %s has no %s: %s", name, calls[i].name, cause());
            dlclose(library);
            return status;
        }
        memcpy(calls[i].member, &function, sizeof function);
    }
    return GP_OK;
}

static gp_status open_once(atomic_bool *is_open, const char *name, const wanted *calls, size_t count, gp_error *err) {
    gp_status status = GP_OK;
    if (atomic_load_explicit(is_open, memory_order_acquire)) return GP_OK;
    pthread_mutex_lock(&lock);
    if (!atomic_load_explicit(is_open, memory_order_relaxed)) status = find_calls(name, calls, count, err);
    if (status == GP_OK) atomic_store_explicit(is_open, true, memory_order_release);
    pthread_mutex_unlock(&lock);
    return status;
}

gp_status gp_cudnn_open(gp_error *err) {
    return open_once(&cudnn_is_open, "libcudnn.so.9", cudnn_wanted, sizeof cudnn_wanted / sizeof cudnn_wanted[0], err);
}

gp_status gp_cublaslt_open(gp_error *err) {
    return open_once(&cublaslt_is_open, "libcublasLt.so.13", cublaslt_wanted,
                     sizeof cublaslt_wanted / sizeof cublaslt_wanted[0], err);
}

#ifdef GP_NCCL
gp_status gp_nccl_open(gp_error *err) {
    static atomic_bool is_open;
    return open_once(&is_open, "libnccl.so.2", nccl_wanted, sizeof nccl_wanted / sizeof nccl_wanted[0], err);
}
#endif

gp_status gp_cudnn_check(cudnnStatus_t code, const char *call, gp_error *err) {
    if (code == CUDNN_STATUS_SUCCESS) return GP_OK;
    char said[512] = "";
    gp_cudnn.cudnnGetLastErrorString(said, sizeof said);
    bool memory = code == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                  code == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
    return gp_fail(err, memory ? GP_MEMORY : GP_DEVICE, "%s: %s%s%s", call, gp_cudnn.cudnnGetErrorString(code),
                   said[0] ? ": " : "", said);
}

gp_status gp_cublaslt_check(cublasStatus_t code, const char *call, gp_error *err) {
    if (code == CUBLAS_STATUS_SUCCESS) return GP_OK;
    bool memory = code == CUBLAS_STATUS_ALLOC_FAILED;
    return gp_fail(err, memory ? GP_MEMORY : GP_DEVICE, "%s: %s", call, gp_cublaslt.cublasLtGetStatusString(code));
}
