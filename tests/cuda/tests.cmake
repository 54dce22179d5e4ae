# The CUDA device without a GPU: its kernels compiled for the host (fibers.h), and a table of the runtime's calls that
# works on host memory (host_api.h).
enable_language(CXX)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)

# Sources for fibers. ThreadSanitizer knows one stack per thread: what switches stacks is built without it.
function(gp_for_fibers target)
  target_include_directories(${target} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src)
  target_compile_options(${target} PRIVATE -ffp-contract=off -fno-strict-aliasing -fno-exceptions -fno-rtti -Wall -Wextra
                         -Wshadow -Wno-unused-function -Wno-unknown-pragmas -Werror)
  if(GP_SANITIZE AND NOT GP_SANITIZE MATCHES "thread")
    target_compile_options(${target} PRIVATE -fsanitize=${GP_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(${target} PRIVATE -fsanitize-sections=gp_shared)
    endif()
  endif()
endfunction()

add_library(gp_fibers STATIC ${CMAKE_CURRENT_LIST_DIR}/fibers.cpp)
gp_for_fibers(gp_fibers)
target_link_libraries(gp_fibers PUBLIC Threads::Threads)

function(gp_kernel_sources)
  set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-include;cuda/fibers.h"
                              OBJECT_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/cuda/fibers.h)
endfunction()

file(GLOB kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/device/cuda/kernels/*.cu)
gp_kernel_sources(${kernels})
add_library(gp_host_kernels STATIC ${kernels} ${CMAKE_CURRENT_LIST_DIR}/kernel_table.cpp)
gp_for_fibers(gp_host_kernels)
target_link_libraries(gp_host_kernels PUBLIC gp_fibers)

add_library(gp_host_cuda STATIC ${CMAKE_CURRENT_LIST_DIR}/host_kernels.c ${CMAKE_CURRENT_LIST_DIR}/host_ranges.c
            ${CMAKE_CURRENT_LIST_DIR}/host_memory.c ${CMAKE_CURRENT_LIST_DIR}/host_launch.c
            ${CMAKE_CURRENT_LIST_DIR}/host_api.c)
target_include_directories(gp_host_cuda PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(gp_host_cuda PRIVATE gp_warnings PUBLIC gp_host_kernels gp_cuda gp_ref)

# Made-up kernels for the fibers' own test.
gp_kernel_sources(${CMAKE_CURRENT_LIST_DIR}/fiber_kernels.cu)
add_library(gp_fiber_kernels STATIC ${CMAKE_CURRENT_LIST_DIR}/fiber_kernels.cu)
gp_for_fibers(gp_fiber_kernels)
target_link_libraries(gp_fiber_kernels PUBLIC gp_fibers)

gp_test(cuda_fibers "unit" 60 gp_fiber_kernels gp_base)
gp_test(cuda_launch "unit" 60 gp_host_cuda)
gp_test(cuda_staging "unit" 60 gp_host_cuda)
gp_test(cuda_ops "unit" 600 gp_op_cases gp_host_cuda)
gp_test(cuda_reorder "unit" 60 gp_host_cuda)
gp_test(cuda_update "unit" 60 gp_host_cuda)
gp_test(cuda_numbers "unit" 60 gp_op_cases gp_host_cuda)

# Whole trainings on that device: who orders what, and what happens when a call fails.
foreach(name cuda_order cuda_faults cuda_marks cuda_room)
  gp_test(${name} "pipeline;threads" 600 gp_pipeline gp_cpu gp_host_cuda)
  target_sources(test_${name} PRIVATE ${CMAKE_CURRENT_LIST_DIR}/recorder.c ${CMAKE_CURRENT_LIST_DIR}/accesses.c
                 ${CMAKE_CURRENT_LIST_DIR}/labels.c ${CMAKE_CURRENT_LIST_DIR}/training.c
                 ${CMAKE_CURRENT_SOURCE_DIR}/pipeline/harness.c)
  set_tests_properties(${name} PROPERTIES ENVIRONMENT OMP_WAIT_POLICY=passive)
endforeach()
foreach(name cuda_lines cuda_staged)
  gp_test(${name} "pipeline;threads" 600 gp_pipeline gp_cpu gp_host_cuda)
  target_sources(test_${name} PRIVATE ${CMAKE_CURRENT_LIST_DIR}/recorder.c ${CMAKE_CURRENT_LIST_DIR}/accesses.c
                 ${CMAKE_CURRENT_LIST_DIR}/team.c ${CMAKE_CURRENT_SOURCE_DIR}/process/loop_wire.c
                 ${CMAKE_CURRENT_SOURCE_DIR}/pipeline/harness.c)
  set_tests_properties(${name} PROPERTIES ENVIRONMENT OMP_WAIT_POLICY=passive)
endforeach()
gp_test(cuda_allocations "pipeline;threads" 300 gp_pipeline gp_cpu gp_host_cuda)
target_sources(test_cuda_allocations PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/pipeline/allocations.c
               ${CMAKE_CURRENT_SOURCE_DIR}/pipeline/harness.c)
set_tests_properties(cuda_allocations PROPERTIES ENVIRONMENT OMP_WAIT_POLICY=passive)
