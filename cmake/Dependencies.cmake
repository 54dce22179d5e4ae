# The libraries that the project stands on; docs/dependencies.md says why each is there, scripts/setup.sh installs them.
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)

# oneDNN: the system's where it is version 3 or later, else the one that scripts/setup.sh put under .deps/onednn.
find_package(dnnl 3 QUIET CONFIG)
if(NOT dnnl_FOUND)
  set(GP_ONEDNN_DIR "${CMAKE_CURRENT_SOURCE_DIR}/.deps/onednn" CACHE PATH "folder with oneDNN's include/ and lib/")
  find_path(GP_ONEDNN_INCLUDE oneapi/dnnl/dnnl.h PATHS ${GP_ONEDNN_DIR}/include NO_DEFAULT_PATH)
  find_library(GP_ONEDNN_LIBRARY NAMES libdnnl.so.3 dnnl PATHS ${GP_ONEDNN_DIR}/lib NO_DEFAULT_PATH)
  if(NOT GP_ONEDNN_INCLUDE OR NOT GP_ONEDNN_LIBRARY)
    message(FATAL_ERROR "oneDNN 3 was not found: run scripts/setup.sh, or point GP_ONEDNN_DIR at one")
  endif()
  add_library(DNNL::dnnl SHARED IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES
    IMPORTED_LOCATION ${GP_ONEDNN_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${GP_ONEDNN_INCLUDE})
  set(CMAKE_BUILD_RPATH ${GP_ONEDNN_DIR}/lib)
endif()
# omp_set_num_threads: the runtime that oneDNN is linked with; clang would bring another.
find_library(GP_GOMP_LIBRARY NAMES libgomp.so.1 REQUIRED)
target_link_libraries(DNNL::dnnl INTERFACE ${GP_GOMP_LIBRARY})
