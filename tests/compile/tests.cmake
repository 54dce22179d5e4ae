gp_test(fuse "pipeline;threads" 900 gp_pipeline gp_ref gp_cpu)
# As the program has it: OpenMP's threads would spin while they wait, on processors that others need.
set_tests_properties(fuse PROPERTIES ENVIRONMENT OMP_WAIT_POLICY=passive)
gp_test(alias "pipeline;threads" 120 gp_pipeline gp_ref gp_cpu)
set_tests_properties(alias PROPERTIES ENVIRONMENT OMP_WAIT_POLICY=passive)
gp_test(kept "unit;pipeline;machine" 60 gp_pipeline gp_ref)
foreach(name alias fuse kept)
  target_sources(test_${name} PRIVATE ${CMAKE_CURRENT_LIST_DIR}/../pipeline/harness.c)
endforeach()
