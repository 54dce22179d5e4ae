# The CUDA device: its own code is C and always built; what needs the toolkit is built where one is found (13 or later,
# with cuDNN 9). GP_CUDA_FOUND says whether; gp_cuda_toolkit is what the program then links.
set(GP_CUDA AUTO CACHE STRING "build for GPUs: ON, OFF, or AUTO where the toolkit is found")
set(GP_CUDA_FOUND OFF)
if(GP_CUDA)
  find_package(CUDAToolkit 13 QUIET)
  find_path(GP_CUDNN_INCLUDE cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  if(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE AND GP_CUDNN_INCLUDE)
    set(GP_CUDA_FOUND ON)
  elseif(GP_CUDA STREQUAL "ON")
    message(FATAL_ERROR "GP_CUDA is ON, and no CUDA toolkit 13 with cuDNN was found")
  endif()
endif()
message(STATUS "CUDA: ${GP_CUDA_FOUND}")
if(NOT GP_CUDA_FOUND)
  return()
endif()

# What clang builds has clang for nvcc's host side too.
if(NOT DEFINED CMAKE_CUDA_HOST_COMPILER AND CMAKE_C_COMPILER_ID STREQUAL "Clang")
  find_program(GP_CLANGXX clang++ REQUIRED)
  set(CMAKE_CUDA_HOST_COMPILER ${GP_CLANGXX} CACHE FILEPATH "nvcc's host compiler")
endif()
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 90-virtual CACHE STRING "machine code for A100 and H100, PTX for what comes")
endif()
set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 17)

set(folder ${CMAKE_CURRENT_SOURCE_DIR}/src/device/cuda)
file(GLOB kernels CONFIGURE_DEPENDS ${folder}/kernels/*.cu ${folder}/toolkit/*.cu)
add_library(gp_cuda_kernels STATIC ${kernels})
target_include_directories(gp_cuda_kernels PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/src)
# -fmad=false: what the host rounds twice the device rounds twice. --no-compress: scripts/check-kernels.py reads the PTX.
# The host side does not see who calls the functions of the device.
target_compile_options(gp_cuda_kernels PRIVATE -fmad=false --no-compress -Xcompiler=-Wall,-Wextra,-Wno-unused-function)
option(GP_CUDA_WERROR "warnings of nvcc and of its host compiler are errors" ON)
if(GP_CUDA_WERROR)
  target_compile_options(gp_cuda_kernels PRIVATE -Werror all-warnings -Xcompiler=-Werror)
endif()

file(GLOB sources CONFIGURE_DEPENDS ${folder}/toolkit/*.c)
add_library(gp_cuda_toolkit STATIC ${sources})
target_include_directories(gp_cuda_toolkit SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${GP_CUDNN_INCLUDE})
target_link_libraries(gp_cuda_toolkit PRIVATE gp_warnings PUBLIC gp_device gp_cuda_kernels CUDA::cudart_static
                      ${CMAKE_DL_LIBS})
# Messages between GPUs of several processes: built if NCCL's header is found (2.18 or later, for its configuration).
find_path(GP_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
if(GP_NCCL_INCLUDE)
  target_compile_definitions(gp_cuda_toolkit PUBLIC GP_NCCL)
  target_include_directories(gp_cuda_toolkit SYSTEM PRIVATE ${GP_NCCL_INCLUDE})
  message(STATUS "NCCL: ON")
else()
  message(STATUS "NCCL: OFF")
endif()
# cuDNN, cuBLASLt and NCCL are opened by name when they are first needed (toolkit/libraries.c).
target_link_options(gp_cuda_toolkit INTERFACE -Wl,-rpath,${CUDAToolkit_LIBRARY_DIR})
