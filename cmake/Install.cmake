# What `cmake --install build --prefix P` puts below P, and nothing elsewhere. The tree can be moved: programs find the
# libraries that came with them relative to themselves, and documents and configurations find each other. docs/installing.md.
set(GP_INSTALL_LIBRARIES ${CMAKE_INSTALL_LIBDIR}/gpipe)
set(GP_INSTALL_DATA ${CMAKE_INSTALL_DATADIR}/gpipe)

# oneDNN of .deps goes along: nothing else needs that folder, and it may be removed with the checkout. Any other oneDNN is
# the machine's, and is used where it is.
if(NOT dnnl_FOUND)
  set(from_deps OFF)
  cmake_path(IS_PREFIX CMAKE_SOURCE_DIR "${GP_ONEDNN_LIBRARY}" NORMALIZE from_deps)
  option(GP_INSTALL_ONEDNN "install oneDNN with the programs" ${from_deps})
endif()
if(GP_INSTALL_ONEDNN)
  file(RELATIVE_PATH libraries_from_programs ${CMAKE_INSTALL_FULL_BINDIR}
       ${CMAKE_INSTALL_FULL_LIBDIR}/gpipe)
  set_target_properties(gpipe-train gpipe-balance PROPERTIES INSTALL_RPATH "$ORIGIN/${libraries_from_programs}")
  # The file itself, by the name that programs ask for, whatever links lead to it.
  file(REAL_PATH ${GP_ONEDNN_LIBRARY} onednn_file)
  install(FILES ${onednn_file} DESTINATION ${GP_INSTALL_LIBRARIES} RENAME libdnnl.so.3)
  foreach(text LICENSE THIRD-PARTY-PROGRAMS)
    if(EXISTS ${GP_ONEDNN_DIR}/doc/${text})
      install(FILES ${GP_ONEDNN_DIR}/doc/${text} DESTINATION ${GP_INSTALL_DATA}/licences/onednn)
    else()
      message(WARNING "oneDNN is installed without its ${text}: ${GP_ONEDNN_DIR}/doc has none")
    endif()
  endforeach()
elseif(NOT dnnl_FOUND)
  set_target_properties(gpipe-train gpipe-balance PROPERTIES INSTALL_RPATH ${GP_ONEDNN_DIR}/lib)
endif()

install(TARGETS gpipe-train gpipe-balance RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# As in the checkout, so that links and paths between them hold.
install(FILES README.md LICENSE DESTINATION ${GP_INSTALL_DATA})
install(DIRECTORY docs configs DESTINATION ${GP_INSTALL_DATA})
install(PROGRAMS scripts/fetch-digits.sh scripts/digits.py DESTINATION ${GP_INSTALL_DATA}/scripts)

# The scripts that read runs and timelines, with their modules, and a launcher for those that users type: beside the programs
# in bin/, and in the build folder. A launcher finds its script relative to itself, through links too.
install(PROGRAMS scripts/report.py scripts/compare-timelines.py scripts/nsys-profile.sh
        DESTINATION ${GP_INSTALL_DATA}/scripts)
install(DIRECTORY scripts/timelines DESTINATION ${GP_INSTALL_DATA}/scripts
        FILES_MATCHING PATTERN "*.py" PATTERN "*.js" PATTERN "*.css" PATTERN __pycache__ EXCLUDE)
file(WRITE ${CMAKE_BINARY_DIR}/VERSION "${PROJECT_VERSION}\n")
install(FILES ${CMAKE_BINARY_DIR}/VERSION DESTINATION ${GP_INSTALL_DATA})
file(RELATIVE_PATH data_from_programs ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_DATADIR}/gpipe)
file(RELATIVE_PATH data_from_build ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
foreach(pair gpipe-compare:compare-timelines.py gpipe-report:report.py)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 launcher)
  list(GET pair 1 script)
  foreach(place build programs)
    set(from ${data_from_${place}})
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/launchers/${place}/${launcher} @ONLY CONTENT [=[#!/bin/sh
exec python3 -B "$(dirname "$(readlink -f "$0")")/@from@/scripts/@script@" "$@"
]=])
  endforeach()
  file(COPY ${CMAKE_BINARY_DIR}/launchers/build/${launcher} DESTINATION ${CMAKE_BINARY_DIR} FILE_PERMISSIONS
       OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  install(PROGRAMS ${CMAKE_BINARY_DIR}/launchers/programs/${launcher} DESTINATION ${CMAKE_INSTALL_BINDIR})
endforeach()
