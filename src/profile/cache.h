/* What is kept from one run to the next, for one user and machine: where it is, and how the machine is named.
 *
 * The environment and /proc are read at each call. Any thread. */
#ifndef GP_PROFILE_CACHE_H
#define GP_PROFILE_CACHE_H

#include "base/status.h"

/* The folder gpipe under $XDG_CACHE_HOME or ~/.cache; owned by the caller; NULL if neither is an absolute path. */
GP_MUST_USE gp_status gp_cache_folder(char **out, gp_error *err);
/* Replaces a file of the cache by this text, whole; makes the folders that are missing. */
GP_MUST_USE gp_status gp_cache_write(const char *path, const char *text, gp_error *err);
/* "AMD EPYC, 2 CPUs, NVIDIA H200": processors and GPUs; owned by the caller. */
GP_MUST_USE gp_status gp_cache_machine(char **out, gp_error *err);

#endif
