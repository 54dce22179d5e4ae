gp_test(golden "unit;machine" 60 gp_layers gp_ref gp_cpu gp_data)
target_sources(test_golden PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/layers/lowered_runner.c)
gp_test(golden_grids "unit;machine" 60 gp_layers gp_ref gp_cpu gp_data)
target_sources(test_golden_grids PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/layers/lowered_runner.c)
gp_test(golden_replica_norms "unit;threads" 120 gp_pipeline gp_ref gp_cpu gp_data)
target_sources(test_golden_replica_norms PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/pipeline/harness.c)

add_test(NAME golden_training COMMAND python3 ${CMAKE_CURRENT_LIST_DIR}/test_training.py $<TARGET_FILE:gpipe-train>)
set_tests_properties(golden_training PROPERTIES LABELS "unit;threads;machine" TIMEOUT 120)

add_test(NAME golden_predictions COMMAND python3 -B ${CMAKE_CURRENT_LIST_DIR}/test_predictions.py $<TARGET_FILE:gpipe-train>)
set_tests_properties(golden_predictions PROPERTIES LABELS "unit;threads" TIMEOUT 240)

# Numbers of one thread: nothing for ThreadSanitizer, which sees these workers in golden_training.
add_test(NAME golden_optimizers COMMAND python3 -B ${CMAKE_CURRENT_LIST_DIR}/test_optimizers.py $<TARGET_FILE:gpipe-train>)
set_tests_properties(golden_optimizers PROPERTIES LABELS "unit" TIMEOUT 240)

add_test(NAME golden_clipping COMMAND python3 -B ${CMAKE_CURRENT_LIST_DIR}/test_clipping.py $<TARGET_FILE:gpipe-train>)
set_tests_properties(golden_clipping PROPERTIES LABELS "unit;threads" TIMEOUT 240)

add_test(NAME golden_sums COMMAND python3 -B ${CMAKE_CURRENT_LIST_DIR}/test_sums.py $<TARGET_FILE:gpipe-train>)
set_tests_properties(golden_sums PROPERTIES LABELS "unit;machine" TIMEOUT 120)

# torchvision's ResNets and VGGs. Minutes under a sanitizer, which sees the same code in smaller models.
add_executable(fill_weights ${CMAKE_CURRENT_LIST_DIR}/fill_weights.c)
target_link_libraries(fill_weights PRIVATE gp_model gp_data gp_warnings m)
if(NOT GP_SANITIZE)
  foreach(part evaluate train)
    add_test(NAME golden_models_${part} COMMAND python3 -B ${CMAKE_CURRENT_LIST_DIR}/test_models.py
                                                $<TARGET_FILE:gpipe-train> $<TARGET_FILE:fill_weights> ${part})
    set_tests_properties(golden_models_${part} PROPERTIES LABELS "training" TIMEOUT 300)
  endforeach()
endif()
