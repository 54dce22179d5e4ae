gp_test(layers "unit" 60 gp_layers)
gp_test(layer_gradients "grad" 120 gp_layers gp_ref)
target_sources(test_layer_gradients PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/layers/lowered_runner.c)

# The complete example of docs/adding-a-layer.md compiles, and computes what the page says.
set(page ${PROJECT_SOURCE_DIR}/docs/adding-a-layer.md)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page})
file(READ ${page} text)
string(REGEX REPLACE "^.*\n```c\n(.*)\n```\n\n## 1\\. .*$" "\\1\n" example "${text}")
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/layer_of_page.c CONTENT "${example}" @ONLY)
gp_test(layer_example "unit" 60 gp_layers gp_ref)
target_sources(test_layer_example PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/layer_of_page.c
               ${CMAKE_CURRENT_SOURCE_DIR}/layers/lowered_runner.c)
# The runner finds the layer although no table has it.
target_link_options(test_layer_example PRIVATE -Wl,--wrap=gp_layer_type_find)
