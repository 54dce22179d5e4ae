# The CPU device's own loops, src/device/cpu/loops: compiled once for each version, into the room's library.
# src/device/cpu/cpu_loops.h has the list of versions too.
file(GLOB loops CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/src/device/cpu/loops/*.c)

# gp_loops(version options...)
function(gp_loops version)
  add_library(gp_cpu_${version} OBJECT ${loops})
  target_compile_definitions(gp_cpu_${version} PRIVATE GP_CPU_VERSION=${version})
  # Nothing looks at floating-point exceptions or errno: without them more loops become vectors, with the same bits.
  target_compile_options(gp_cpu_${version} PRIVATE -fno-math-errno -fno-trapping-math ${ARGN})
  target_link_libraries(gp_cpu_${version} PRIVATE gp_warnings gp_device)
  target_sources(gp_cpu PRIVATE $<TARGET_OBJECTS:gp_cpu_${version}>)
endfunction()

gp_loops(plain)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  # No fused multiply-add: it rounds once where the other versions round twice.
  gp_loops(avx2 -mavx2 -mno-fma)
  gp_loops(avx512 -mavx512f -mavx512vl -mavx512bw -mavx512dq -mprefer-vector-width=512)
endif()
