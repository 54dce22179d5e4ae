# The room timeline.
gp_test(timeline "unit;pipeline" 60 gp_pipeline gp_timeline gp_ref PkgConfig::JANSSON)
target_sources(test_timeline PRIVATE ${CMAKE_CURRENT_LIST_DIR}/../pipeline/harness.c)

# Tests of scripts/timelines/: each test_<name>.py here is the test timelines_<name>. They exit with 77 if a tool is missing.
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)

# A library to be loaded before a program's own, which a sanitizer's runtime would have to be.
if(NOT GP_SANITIZE)
  add_library(gp_slow MODULE ${CMAKE_CURRENT_LIST_DIR}/slow.c)
  # Only the headers: the program brings oneDNN itself.
  target_include_directories(gp_slow SYSTEM PRIVATE $<TARGET_PROPERTY:DNNL::dnnl,INTERFACE_INCLUDE_DIRECTORIES>)
  target_compile_options(gp_slow PRIVATE -fno-builtin)
  target_link_libraries(gp_slow PRIVATE gp_options gp_warnings ${CMAKE_DL_LIBS})
  set(slow_library ";GP_SLOW_LIBRARY=$<TARGET_FILE:gp_slow>")
endif()

file(GLOB timeline_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/test_*.py)
foreach(path ${timeline_tests})
  cmake_path(GET path STEM name)
  string(REPLACE "test_" "timelines_" name ${name})
  add_test(NAME ${name} COMMAND Python3::Interpreter ${path} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "scripts" TIMEOUT 300 SKIP_RETURN_CODE 77
                       ENVIRONMENT "GPIPE_TRAIN=$<TARGET_FILE:gpipe-train>;GPIPE_BALANCE=$<TARGET_FILE:gpipe-balance>${slow_library}")
endforeach()
