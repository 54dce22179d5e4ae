# A library to be loaded before a program's own, which a sanitizer's runtime would have to be: scripts/test-isa.sh.
if(NOT GP_SANITIZE)
  add_library(gp_other_machine MODULE ${CMAKE_CURRENT_LIST_DIR}/other_machine.c)
  # Only the headers: the program brings oneDNN itself.
  target_include_directories(gp_other_machine SYSTEM PRIVATE $<TARGET_PROPERTY:DNNL::dnnl,INTERFACE_INCLUDE_DIRECTORIES>)
  target_link_libraries(gp_other_machine PRIVATE gp_options gp_warnings ${CMAKE_DL_LIBS})
endif()
