#include "gpu/gpu.h"

#include <stdio.h>
#include <string.h>

#include "device/cuda/cuda.h"
#include "device/op_cases.h"

#ifdef GPU_ON_HOST
#include "cuda/host_api.h"
#endif

static int devices;

bool gpu_is_real(void) {
#ifdef GPU_ON_HOST
    return false;
#else
    return true;
#endif
}

int gpu_count(void) {
    return devices;
}

bool gpu_is_there(void) {
    gp_error err = {0};
#ifdef GPU_ON_HOST
    gp_cuda = &gp_host_api;
    gp_host_api_set_care(GP_HOST_ONCE);
#endif
    if (!gp_cuda) {
        puts("skipped: this program was built without CUDA");
        return false;
    }
    if (gp_cuda->count(&devices, &err) != GP_OK) {
        printf("skipped: %s\n", err.text);
        return false;
    }
    if (devices == 0) puts("skipped: the machine has no GPU");
    return devices > 0;
}
