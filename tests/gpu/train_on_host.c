/* gpipe-train with host memory in a GPU's place (cuda/host_api.h): the whole program through the CUDA device. */
#include "cuda/host_api.h"

int gp_program_main(int argc, char **argv); /* cli/gpipe_train.c's, built under this name */

int main(int argc, char **argv) {
    gp_cuda = &gp_host_api;
    gp_host_api_set_care(GP_HOST_ONCE);
    return gp_program_main(argc, argv);
}
