# What the tests of devices share: cases of every op, and how one runs.
add_library(gp_op_cases STATIC ${CMAKE_CURRENT_LIST_DIR}/op_cases.c ${CMAKE_CURRENT_LIST_DIR}/op_run.c)
target_include_directories(gp_op_cases PUBLIC ${CMAKE_CURRENT_LIST_DIR}/..)
target_link_libraries(gp_op_cases PRIVATE gp_warnings PUBLIC gp_device)

gp_test(op "unit" 60 gp_op_cases gp_ref)
