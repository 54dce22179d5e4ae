# The CUDA device on a GPU (label gpu; skipped where there is none), and the same tests with host memory in its place, so
# that they are right when they meet one.
function(gp_gpu_test name seconds)
  # ThreadSanitizer does not see the inside of kernels, and ops alone start no thread.
  set(host_labels "unit;threads")
  if(name MATCHES "^gpu_(ops|wide)$")
    set(host_labels "unit")
  endif()
  gp_test(${name} "gpu" ${seconds} ${ARGN})
  target_sources(test_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/gpu/gpu.c)
  add_executable(test_${name}_on_host ${CMAKE_CURRENT_SOURCE_DIR}/gpu/test_${name}.c ${CMAKE_CURRENT_SOURCE_DIR}/gpu/gpu.c)
  target_include_directories(test_${name}_on_host PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_definitions(test_${name}_on_host PRIVATE GPU_ON_HOST)
  # First, so that its kernels are taken, which have the names of the toolkit's.
  target_link_libraries(test_${name}_on_host PRIVATE gp_host_cuda gp_host_kernels ${ARGN} ${CMOCKA_LIBRARY} gp_warnings)
  if(GP_SANITIZE)
    math(EXPR seconds "${seconds} * 6")
  endif()
  add_test(NAME ${name}_on_host COMMAND test_${name}_on_host)
  set_tests_properties(${name}_on_host PROPERTIES LABELS "${host_labels}" TIMEOUT ${seconds})
  # As the program has it: OpenMP's threads would spin while they wait, on processors that others need. Memory that one
  # test takes another would miss.
  set_tests_properties(${name} ${name}_on_host PROPERTIES ENVIRONMENT OMP_WAIT_POLICY=passive)
  set_tests_properties(${name} PROPERTIES RESOURCE_LOCK gpu)
endfunction()

gp_gpu_test(gpu_device 60 gp_op_cases gp_cuda)
gp_gpu_test(gpu_ops 180 gp_op_cases gp_cuda gp_ref)
gp_gpu_test(gpu_train 600 gp_op_cases gp_cuda gp_pipeline gp_cpu)
target_sources(test_gpu_train PRIVATE ${CMAKE_CURRENT_LIST_DIR}/../pipeline/harness.c)
target_sources(test_gpu_train_on_host PRIVATE ${CMAKE_CURRENT_LIST_DIR}/../pipeline/harness.c)

gp_gpu_test(gpu_fault 120 gp_op_cases gp_cuda gp_train)
foreach(test test_gpu_fault test_gpu_fault_on_host)
  target_sources(${test} PRIVATE ${CMAKE_CURRENT_LIST_DIR}/../pipeline/harness.c
                                 ${CMAKE_CURRENT_LIST_DIR}/../session/fixture.c)
endforeach()

gp_gpu_test(gpu_profile 120 gp_cuda gp_balance)
gp_gpu_test(gpu_wide 120 gp_cuda)

# For scripts/gpu-check.sh.
add_executable(count_work ${CMAKE_CURRENT_LIST_DIR}/count_work.c)
target_link_libraries(count_work PRIVATE gp_train gp_warnings)

# The program itself with host memory for a GPU: PyTorch's values through the CUDA device.
add_executable(train_on_host ${CMAKE_CURRENT_LIST_DIR}/train_on_host.c ${PROJECT_SOURCE_DIR}/src/cli/gpipe_train.c
               ${PROJECT_SOURCE_DIR}/src/cli/options.c ${PROJECT_SOURCE_DIR}/src/cli/words.c
               ${PROJECT_SOURCE_DIR}/src/cli/process.c)
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/cli/gpipe_train.c PROPERTIES COMPILE_DEFINITIONS main=gp_program_main)
target_include_directories(train_on_host PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(train_on_host PRIVATE gp_host_cuda gp_host_kernels gp_train gp_warnings)
foreach(name training predictions clipping)
  add_test(NAME golden_${name}_on_cuda COMMAND python3 -B ${CMAKE_CURRENT_SOURCE_DIR}/golden/test_${name}.py
                                               ${PROJECT_SOURCE_DIR}/scripts/on-gpu.sh)
  set_tests_properties(golden_${name}_on_cuda PROPERTIES LABELS "unit;threads" TIMEOUT 600
                       ENVIRONMENT "GPIPE_PROGRAM=$<TARGET_FILE:train_on_host>")
endforeach()
# ThreadSanitizer sees the workers' norms in golden_clipping, and the device in golden_training_on_cuda.
set_tests_properties(golden_clipping_on_cuda PROPERTIES LABELS "unit")

# Times of ops, also for that script; with host memory for a GPU it takes no time, and is tried on a small network.
add_executable(time_ops ${CMAKE_CURRENT_LIST_DIR}/time_ops.c)
target_link_libraries(time_ops PRIVATE gp_train gp_warnings)
add_executable(time_ops_on_host ${CMAKE_CURRENT_LIST_DIR}/time_ops.c)
target_include_directories(time_ops_on_host PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_definitions(time_ops_on_host PRIVATE GPU_ON_HOST)
target_link_libraries(time_ops_on_host PRIVATE gp_host_cuda gp_host_kernels gp_train gp_warnings)
add_test(NAME time_ops_on_host COMMAND python3 -B ${PROJECT_SOURCE_DIR}/scripts/gpu-figures.py --try
                                       $<TARGET_FILE:time_ops_on_host>)
set_tests_properties(time_ops_on_host PROPERTIES LABELS "unit;threads" TIMEOUT 60)
