# Tests of scripts/timelines/: each test_<name>.py here is the test timelines_<name>. They exit with 77 if a tool is missing.
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
file(GLOB timeline_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/test_*.py)
foreach(path ${timeline_tests})
  cmake_path(GET path STEM name)
  string(REPLACE "test_" "timelines_" name ${name})
  add_test(NAME ${name} COMMAND Python3::Interpreter ${path} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "scripts" TIMEOUT 300 SKIP_RETURN_CODE 77
                       ENVIRONMENT "GPIPE_TRAIN=$<TARGET_FILE:gpipe-train>;GPIPE_BALANCE=$<TARGET_FILE:gpipe-balance>")
endforeach()
