foreach(name disk folder snapshot weights)
  gp_test(${name} "unit" 120 gp_train)
  target_sources(test_${name} PRIVATE ${CMAKE_CURRENT_LIST_DIR}/../session/fixture.c)
endforeach()
