/* Chosen engines of cuDNN and algorithms of cuBLASLt, kept by descriptor, device and version. So one descriptor gets
 * one engine in every run and every cut, and is not asked for twice. Kept in a file of the user's cache,
 * gpipe/cudnn-engines under $XDG_CACHE_HOME or ~/.cache; where that cannot be read or written, nothing is lost but
 * time. Internal to device/cuda/toolkit; any thread. */
#ifndef GP_DEVICE_CUDA_TOOLKIT_CHOICES_H
#define GP_DEVICE_CUDA_TOOLKIT_CHOICES_H

#include "device/cuda/toolkit/cudnn_engine.h"

/* What an engine is chosen by, as one number. Two descriptors that share one only share a proposal: it is checked as
 * any other is. */
uint64_t gp_choice_key(const gp_op_desc *desc, const char *device, size_t version);
/* False where none is known. The first call reads the file. */
bool gp_choice_find(uint64_t key, gp_cudnn_engine *out);
/* Takes the place of what was known. */
void gp_choice_add(uint64_t key, const gp_cudnn_engine *engine);
/* Writes the file where something has been added since it was read, or where it was damaged; what other processes have
 * written meanwhile stays. */
void gp_choices_save(void);
/* Forgets all but the file. For tests. */
void gp_choices_forget(void);

#endif
