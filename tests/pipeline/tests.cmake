foreach(name schedule program slots play)
  gp_test(${name} "unit;pipeline" 60 gp_pipeline)
  target_sources(test_${name} PRIVATE ${CMAKE_CURRENT_LIST_DIR}/toy_graph.c)
endforeach()
