foreach(name finite metrics opening_check progress)
  gp_test(${name} "unit" 120 gp_train)
endforeach()
gp_test(trainer "unit;threads;fault" 300 gp_train)
# What process 0 sends to the others.
gp_test(opening "unit" 60 gp_train)
target_sources(test_opening PRIVATE ${CMAKE_CURRENT_LIST_DIR}/../pipeline/harness.c)
gp_test(tracing "unit;threads" 120 gp_train)
# Marks for profilers, and when their capture begins and ends: likewise on host memory in a GPU's place.
gp_test(capture "unit;threads" 120 gp_host_cuda gp_host_kernels gp_train)
set_tests_properties(capture PROPERTIES ENVIRONMENT OMP_WAIT_POLICY=passive)

# Steps that begin behind one another, through the CUDA device with host memory in a GPU's place.
gp_test(behind "unit;threads;fault" 300 gp_host_cuda gp_host_kernels gp_train)
set_tests_properties(behind PROPERTIES ENVIRONMENT OMP_WAIT_POLICY=passive)

foreach(name finite metrics progress trainer tracing capture behind)
  target_sources(test_${name} PRIVATE ${CMAKE_CURRENT_LIST_DIR}/../session/fixture.c)
endforeach()
