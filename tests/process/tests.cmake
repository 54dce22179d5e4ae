gp_test(guard "fault;threads" 60 gp_process)
target_sources(test_guard PRIVATE ${CMAKE_CURRENT_LIST_DIR}/fake_peer.c)
gp_test(launch "unit" 60 gp_process)
gp_test(handshake "unit" 60 gp_process)
# The files that know whether there is an MPI, as they are without one. Those of the library are not linked then.
gp_test(without_mpi "unit;fault" 60 gp_process)
target_sources(test_without_mpi PRIVATE ${PROJECT_SOURCE_DIR}/src/process/mpi_none.c ${PROJECT_SOURCE_DIR}/src/cli/process.c)
gp_test(mpi_wire "unit;threads" 60 gp_process)
gp_test(two_ends "unit" 60 gp_process)
# Open MPI's own libraries leak, and race. Whole stacks, since MPI has unloaded its parts by the end.
set_tests_properties(mpi_wire two_ends PROPERTIES ENVIRONMENT
  "ASAN_OPTIONS=fast_unwind_on_malloc=0;LSAN_OPTIONS=print_suppressions=0:suppressions=${CMAKE_CURRENT_LIST_DIR}/../cli/mpi_leaks.txt;TSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/../cli/mpi_races.txt")
gp_test(deliveries "unit;fault" 60 gp_process)
gp_test(start_limit "unit;fault" 60 gp_process)
