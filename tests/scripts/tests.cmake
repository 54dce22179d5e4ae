# The checks of rooms, headers, documents, English and kernels, and a test of each check.
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)

function(gp_script_test name)
  add_test(NAME ${name} COMMAND Python3::Interpreter ${ARGN} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "scripts" TIMEOUT 120)
endfunction()

gp_script_test(check_rooms scripts/check-rooms.py)
gp_script_test(check_rooms_itself scripts/check-rooms.py --self-test)
gp_script_test(check_circles scripts/check-circles.py ${PROJECT_BINARY_DIR})
gp_script_test(check_circles_itself scripts/check-circles.py --self-test)
gp_script_test(check_headers scripts/check-headers.py --cc ${CMAKE_C_COMPILER})
gp_script_test(check_headers_itself scripts/check-headers.py --self-test --cc ${CMAKE_C_COMPILER})
gp_script_test(check_docs scripts/check-docs.py)
gp_script_test(check_docs_itself scripts/check-docs.py --self-test)
gp_script_test(check_english scripts/check-english.py)
gp_script_test(check_english_itself scripts/check-english.py --self-test)
add_test(NAME test_isa_itself COMMAND ${PROJECT_SOURCE_DIR}/scripts/test-isa.sh --self-test)
set_tests_properties(test_isa_itself PROPERTIES LABELS "scripts" TIMEOUT 120)

# What the compiler made of the loops, in versions that this processor may lack. Vectors are made by -O3 only.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$" AND CMAKE_BUILD_TYPE STREQUAL "Release")
  gp_script_test(check_loops scripts/check-loops.py ${PROJECT_BINARY_DIR})
  gp_script_test(check_loops_itself scripts/check-loops.py --self-test ${CMAKE_C_COMPILER})
endif()

# What nvcc made of the kernels: whole vectors, registers. Read from the library of this build.
gp_script_test(check_kernels_itself scripts/check-kernels.py --self-test)
if(GP_CUDA_FOUND)
  gp_script_test(check_kernels scripts/check-kernels.py $<TARGET_FILE:gp_cuda_kernels>)
else()
  add_test(NAME check_kernels COMMAND sh -c "echo 'skipped: there is no CUDA toolkit' && exit 77")
endif()
set_tests_properties(check_kernels PROPERTIES LABELS "scripts;toolkit" SKIP_RETURN_CODE 77)

# Each barrier taken out in turn: compiles and links some tens of times.
if(NOT GP_SANITIZE)
  gp_script_test(check_barriers scripts/check-barriers.py --build ${PROJECT_BINARY_DIR})
  set_tests_properties(check_barriers PROPERTIES TIMEOUT 600)
  gp_script_test(check_barriers_itself scripts/check-barriers.py --self-test --build ${PROJECT_BINARY_DIR})
endif()

# Of what needs a GPU: figures from made-up files, steps on a made-up machine, the table, and the pack, which is made and
# configured with.
if(NOT GP_SANITIZE)
  add_test(NAME gpu_check_itself COMMAND ${PROJECT_SOURCE_DIR}/scripts/gpu-check.sh --self-test)
  set_tests_properties(gpu_check_itself PROPERTIES LABELS "scripts" TIMEOUT 240)
endif()
if(NOT GP_SANITIZE)
  gp_script_test(same_bits_itself scripts/same-bits.py --self-test ${PROJECT_BINARY_DIR})
endif()
gp_script_test(ci_times_itself scripts/ci-times.py --self-test)

# bench/peers.py without PyTorch: its arithmetic, its tables, the processes that it starts and ends.
if(NOT GP_SANITIZE)
  gp_script_test(bench_peers tests/scripts/test_peers.py)
  set_tests_properties(bench_peers PROPERTIES ENVIRONMENT "GPIPE_TRAIN=$<TARGET_FILE:gpipe-train>")
endif()
