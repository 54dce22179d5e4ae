gp_test(golden "unit" 60 gp_layers gp_ref gp_cpu gp_data)
target_sources(test_golden PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/layers/lowered_runner.c)
