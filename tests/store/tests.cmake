foreach(name disk folder snapshot weights)
  gp_test(${name} "unit" 120 gp_train)
  target_sources(test_${name} PRIVATE ${CMAKE_CURRENT_LIST_DIR}/../session/fixture.c)
endforeach()
target_link_options(test_folder PRIVATE -Wl,--wrap=stat)
gp_test(held "pipeline;threads" 300 gp_train)
target_sources(test_held PRIVATE ${CMAKE_CURRENT_LIST_DIR}/../pipeline/harness.c
                                 ${CMAKE_CURRENT_LIST_DIR}/../process/loop_wire.c)
set_tests_properties(held PROPERTIES ENVIRONMENT OMP_WAIT_POLICY=passive)
