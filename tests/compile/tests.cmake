gp_test(fuse "pipeline;threads" 900 gp_pipeline gp_ref gp_cpu)
# As the program has it: OpenMP's threads would spin while they wait, on processors that others need.
set_tests_properties(fuse PROPERTIES ENVIRONMENT OMP_WAIT_POLICY=passive)
gp_test(kept "unit;pipeline;machine" 60 gp_pipeline gp_ref)
gp_test(pack "unit;pipeline;machine" 60 gp_pipeline gp_ref gp_cpu)
foreach(name fuse kept pack)
  target_sources(test_${name} PRIVATE ${CMAKE_CURRENT_LIST_DIR}/../pipeline/harness.c)
endforeach()
