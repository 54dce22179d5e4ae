gp_test(safetensors "unit;fault" 60 gp_data)
gp_test(idx "unit;fault" 120 gp_data)
gp_test(tensors "unit" 60 gp_data)
gp_test(synthetic "unit" 60 gp_data)
gp_test(loader "unit;threads" 60 gp_data)

find_program(GP_PYTHON python3 REQUIRED)
add_test(NAME digits COMMAND ${GP_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/data/test_digits.py)
set_tests_properties(digits PROPERTIES LABELS "unit" TIMEOUT 60)
