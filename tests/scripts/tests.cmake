# The checks of the sources' order and headers, and that these checks find what they are for.
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)

function(gp_script_test name seconds)
  add_test(NAME ${name} COMMAND Python3::Interpreter ${ARGN} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "scripts" TIMEOUT ${seconds})
endfunction()

gp_script_test(check_rooms 60 scripts/check-rooms.py)
gp_script_test(check_rooms_itself 60 scripts/check-rooms.py --self-test)
gp_script_test(check_headers 120 scripts/check-headers.py --cc ${CMAKE_C_COMPILER})
gp_script_test(check_headers_itself 60 scripts/check-headers.py --self-test --cc ${CMAKE_C_COMPILER})
