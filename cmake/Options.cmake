# Compiler options for every room: gp_warnings (private to our own sources) and gp_options (language, sanitizers).
option(BUILD_TESTING "build the tests" ON)
option(GP_FUZZ "build the fuzz targets (clang)" OFF)
set(GP_SANITIZE "" CACHE STRING "sanitizers to build with, e.g. address,undefined or thread")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_library(gp_warnings INTERFACE)
target_compile_options(gp_warnings INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Werror)

add_library(gp_options INTERFACE)
target_compile_definitions(gp_options INTERFACE _GNU_SOURCE GP_VERSION="${PROJECT_VERSION}")
# Bits must not depend on what the compiler fuses: a*b+c is rounded twice unless fma() is written.
target_compile_options(gp_options INTERFACE -ffp-contract=off)
if(GP_SANITIZE)
  target_compile_options(gp_options INTERFACE -fsanitize=${GP_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  target_link_options(gp_options INTERFACE -fsanitize=${GP_SANITIZE})
  # Where every access is checked no loop becomes vectors, and clang says so of each that was asked to.
  if(CMAKE_C_COMPILER_ID STREQUAL "Clang")
    target_compile_options(gp_warnings INTERFACE -Wno-pass-failed)
  endif()
endif()
