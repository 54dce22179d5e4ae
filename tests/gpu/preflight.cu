/* What every other step of scripts/gpu-check.sh needs, in seconds: a driver, a GPU, one kernel built for it, memory
 * that comes back, and handles of cuDNN and cuBLASLt. Prints one sentence; exit status 1 when something is missing.
 * Built by nvcc alone; without a GPU it says so. */
#include <cstdio>
#include <dlfcn.h>

static const unsigned expected = 0x5eed;

__global__ void write_number(unsigned *out) {
    *out = expected + threadIdx.x;
}

static int fail(const char *what, const char *cause) {
    std::printf("%s: %s\n", what, cause);
    return 1;
}

static int check(cudaError_t code, const char *what) {
    return code == cudaSuccess ? 0 : fail(what, cudaGetErrorString(code));
}

static int run_kernel(void) {
    unsigned *device = nullptr, host = 0;
    if (check(cudaMalloc(reinterpret_cast<void **>(&device), sizeof *device), "no memory of the GPU")) return 1;
    write_number<<<1, 1>>>(device);
    if (check(cudaGetLastError(), "the kernel was not launched")) return 1;
    if (check(cudaMemcpy(&host, device, sizeof host, cudaMemcpyDeviceToHost), "the kernel failed")) return 1;
    if (check(cudaFree(device), "memory of the GPU was not given back")) return 1;
    return host == expected ? 0 : fail("the kernel failed", "it wrote another number");
}

/* A handle made and given back. Every call of both libraries returns 0 for success. */
static int make_handle(const char *library, const char *create, const char *destroy) {
    typedef int (*make_call)(void **handle);
    typedef int (*end_call)(void *handle);
    char text[96];
    void *handle = nullptr, *opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!opened) return fail("a library is missing", dlerror());
    make_call make = reinterpret_cast<make_call>(dlsym(opened, create));
    end_call end = reinterpret_cast<end_call>(dlsym(opened, destroy));
    if (!make || !end) return fail(library, "a call is missing");
    int code = make(&handle);
    std::snprintf(text, sizeof text, "status %d", code);
    if (code != 0) return fail(create, text);
    return end(handle) == 0 ? 0 : fail(destroy, "failed");
}

int main(void) {
    int devices = 0, driver = 0, runtime = 0;
    cudaDeviceProp properties;
    if (check(cudaDriverGetVersion(&driver), "no driver")) return 1;
    if (driver == 0) return fail("no driver", "the machine has none for its GPU");
    if (check(cudaGetDeviceCount(&devices), "no GPU")) return 1;
    if (check(cudaGetDeviceProperties(&properties, 0), "no GPU")) return 1;
    if (check(cudaRuntimeGetVersion(&runtime), "no runtime")) return 1;
    if (run_kernel() || make_handle("libcudnn.so.9", "cudnnCreate", "cudnnDestroy") ||
        make_handle("libcublasLt.so.13", "cublasLtCreate", "cublasLtDestroy"))
        return 1;
    std::printf("%d x %s, CUDA %d.%d of a driver for %d.%d\n", devices, properties.name, runtime / 1000,
                runtime % 1000 / 10, driver / 1000, driver % 1000 / 10);
    return 0;
}
