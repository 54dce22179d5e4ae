gp_test(golden "unit" 60 gp_layers gp_ref gp_cpu gp_data)
target_sources(test_golden PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/layers/lowered_runner.c)

add_test(NAME golden_training COMMAND python3 ${CMAKE_CURRENT_LIST_DIR}/test_training.py $<TARGET_FILE:gpipe-train>)
set_tests_properties(golden_training PROPERTIES LABELS "unit;threads" TIMEOUT 60)

add_test(NAME golden_optimizers COMMAND python3 -B ${CMAKE_CURRENT_LIST_DIR}/test_optimizers.py $<TARGET_FILE:gpipe-train>)
set_tests_properties(golden_optimizers PROPERTIES LABELS "unit;threads" TIMEOUT 120)

add_test(NAME golden_clipping COMMAND python3 -B ${CMAKE_CURRENT_LIST_DIR}/test_clipping.py $<TARGET_FILE:gpipe-train>)
set_tests_properties(golden_clipping PROPERTIES LABELS "unit;threads" TIMEOUT 120)
