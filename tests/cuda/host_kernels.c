#include "cuda/host_kernels.h"

#include <string.h>

#include "cuda/kernel_table.h"

const char *gp_host_kernel_name(gp_cuda_kernel kernel) {
    return gp_kernel_table[kernel].name;
}

bool gp_host_kernel_has_wide(gp_cuda_kernel kernel) {
    if (kernel + 1 >= GP_CUDA_KERNEL_COUNT) return false;
    const char *name = gp_kernel_table[kernel].name, *next = gp_kernel_table[kernel + 1].name;
    size_t length = strlen(name);
    return strncmp(name, next, length) == 0 && strcmp(next + length, "_wide") == 0;
}

static gp_status check(const gp_cuda_launch *launch, gp_error *err) {
    if ((int)launch->kernel < 0 || launch->kernel >= GP_CUDA_KERNEL_COUNT)
        return gp_fail(err, GP_INTERNAL, "there is no kernel %d", (int)launch->kernel);
    const gp_kernel_entry *entry = &gp_kernel_table[launch->kernel];
    if (launch->args_bytes != entry->args_bytes)
        return gp_fail(err, GP_INTERNAL, "kernel %s takes arguments of %zu bytes, not %zu", entry->name,
                       entry->args_bytes, launch->args_bytes);
    if (launch->block < 1 || launch->block > 1024)
        return gp_fail(err, GP_INTERNAL, "kernel %s: %u threads in a block", entry->name, launch->block);
    uint32_t x = launch->grid[0], y = launch->grid[1], z = launch->grid[2];
    if (x < 1 || x > INT32_MAX || y < 1 || y > UINT16_MAX || z < 1 || z > UINT16_MAX ||
        (uint64_t)x * y > UINT32_MAX / z)
        return gp_fail(err, GP_INTERNAL, "kernel %s: a grid of %u x %u x %u blocks", entry->name, x, y, z);
    return GP_OK;
}

gp_status gp_host_kernel_run(const gp_cuda_launch *launch, gp_host_order order, gp_error *err) {
    GP_RETURN_IF_FAILED(check(launch, err));
    const gp_kernel_entry *entry = &gp_kernel_table[launch->kernel];
    gp_fiber_run run = {.name = entry->name,
                        .kernel = entry->kernel,
                        .args = launch->args,
                        .grid = {launch->grid[0], launch->grid[1], launch->grid[2]},
                        .block = launch->block,
                        .order = order.order,
                        .seed = order.seed,
                        .poison = order.poison};
    char text[GP_FIBERS_TEXT];
    if (gp_fibers_run(&run, text) != 0) return gp_fail(err, GP_INTERNAL, "%s", text);
    return GP_OK;
}
