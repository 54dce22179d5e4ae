gp_test(layers "unit" 60 gp_layers)
gp_test(layer_gradients "grad" 120 gp_layers gp_ref)
target_sources(test_layer_gradients PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/layers/lowered_runner.c)
