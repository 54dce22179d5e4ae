# The program from outside, a group of tests an entry: test_cli.py PROGRAM GROUP.
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)

function(gp_cli_test group labels seconds)
  add_test(NAME cli_${group} COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_cli.py
                                     $<TARGET_FILE:gpipe-train> ${group})
  set_tests_properties(cli_${group} PROPERTIES LABELS "cli;${labels}" TIMEOUT ${seconds} SKIP_RETURN_CODE 77)
endfunction()

# Of what these tests share.
add_test(NAME cli_runs_itself COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_runs.py)
set_tests_properties(cli_runs_itself PROPERTIES LABELS "scripts" TIMEOUT 120)

gp_cli_test(usage "unit" 120)
gp_cli_test(config "unit;machine" 120)
gp_cli_test(folder "unit" 120)
gp_cli_test(cuts "pipeline" 300)
gp_cli_test(targets "pipeline" 300)
gp_cli_test(replicas "pipeline" 300)
# The program as it is without MPI: its own object stands in for those of the library.
add_executable(gp_without_mpi ${PROJECT_SOURCE_DIR}/src/cli/gpipe_train.c ${PROJECT_SOURCE_DIR}/src/cli/options.c
                              ${PROJECT_SOURCE_DIR}/src/cli/words.c ${PROJECT_SOURCE_DIR}/src/cli/process.c
                              ${PROJECT_SOURCE_DIR}/src/process/mpi_none.c)
target_compile_options(gp_without_mpi PRIVATE -Umain)
target_link_libraries(gp_without_mpi PRIVATE gp_train gp_warnings)
set(without_mpi "GP_WITHOUT_MPI=$<TARGET_FILE:gp_without_mpi>")
if(GP_MPI_FOUND AND NOT GP_SANITIZE)
  list(APPEND without_mpi GP_TEST_MPI=1)
endif()
set_tests_properties(cli_replicas PROPERTIES ENVIRONMENT "${without_mpi}")
gp_cli_test(signals "fault" 600)
gp_cli_test(streams "fault" 120)
gp_cli_test(failures "fault" 300)
gp_cli_test(plan "unit;machine" 300)
gp_cli_test(timelines "unit" 120)
gp_cli_test(norms "unit" 300)
gp_cli_test(predictions "unit" 300)
gp_cli_test(resnet "pipeline" 300)
# Each command of README in a copy of the checkout. Sanitizers leave it out, by its label.
add_test(NAME cli_readme COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_readme.py ${CMAKE_BINARY_DIR})
set_tests_properties(cli_readme PROPERTIES LABELS "cli;scripts" TIMEOUT 600)
# The tree is the same under a sanitizer: its label keeps it out there.
add_test(NAME cli_install COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_install.py ${CMAKE_COMMAND}
                                  ${CMAKE_BINARY_DIR})
set_tests_properties(cli_install PROPERTIES LABELS "cli;scripts" TIMEOUT 120)
add_test(NAME cli_tutorial COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_tutorial.py $<TARGET_FILE:gpipe-train>)
set_tests_properties(cli_tutorial PROPERTIES LABELS "cli;scripts" TIMEOUT 300)
if(GP_SANITIZE)
  set(unbounded --unbounded)
endif()
add_test(NAME cli_bad_input COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_bad_input.py
                                    $<TARGET_FILE:gpipe-train> ${unbounded})
set_tests_properties(cli_bad_input PROPERTIES LABELS "cli;fault" TIMEOUT 600)
# A library to be loaded before the program's own, which a sanitizer's runtime would have to be.
set(faults)
if(NOT GP_SANITIZE)
  add_library(gp_faults MODULE ${CMAKE_CURRENT_SOURCE_DIR}/cli/faults.c)
  target_link_libraries(gp_faults PRIVATE gp_options gp_warnings ${CMAKE_DL_LIBS})
  set(faults --faults $<TARGET_FILE:gp_faults>)
endif()
add_test(NAME cli_kills COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_kills.py
                                $<TARGET_FILE:gpipe-train> ${faults})
# Sanitizers: what runs code of its own. tests/failing resumes some hundred times in one process, tests/train searches.
if(GP_SANITIZE)
  set(resume test_interrupted test_a_damaged_newest_snapshot test_changes_at_several_steps test_changes_of_an_interrupted_run
             test_states_that_come_and_go test_what_a_snapshot_says test_changes_that_cannot_be)
  set(search Search.test_each_size_is_measured_once Search.test_tries_all_and_sorts_by_time
             Search.test_a_policy_by_stage_is_written_and_runs Search.test_write_changes_the_pipeline_and_nothing_else
             Search.test_the_report_compares_the_plans Search.test_where_none_fits_a_sentence_says_why)
endif()
add_test(NAME cli_resume COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_resume.py
                                 $<TARGET_FILE:gpipe-train> ${resume})
set_tests_properties(cli_kills cli_resume PROPERTIES LABELS "cli;fault" TIMEOUT 1200)
add_test(NAME cli_balance COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_balance.py
                                  $<TARGET_FILE:gpipe-balance> $<TARGET_FILE:gpipe-train>)
set_tests_properties(cli_balance PROPERTIES LABELS "cli;unit;fault;machine" TIMEOUT 300)
# Several processes over MPI; each test waits for mpirun most of its time. Sanitizers: some of them; scripts/test-long.sh
# runs all.
set(processes)
set(processes_labels "cli;pipeline;fault")
if(GP_SANITIZE)
  set(processes --moments 2 test_clipping_and_norms test_changes test_resumed_with_other_numbers_of_processes
                test_a_timeline_has_all_workers test_processes_and_ranks test_a_loss_that_is_not_finite
                test_lost_and_stopped)
  list(APPEND processes_labels threads)
else()
  add_library(gp_hang MODULE ${CMAKE_CURRENT_SOURCE_DIR}/cli/hang.c)
  # Only the headers: the program brings oneDNN itself.
  target_include_directories(gp_hang SYSTEM PRIVATE $<TARGET_PROPERTY:DNNL::dnnl,INTERFACE_INCLUDE_DIRECTORIES>)
  target_link_libraries(gp_hang PRIVATE gp_options gp_warnings ${CMAKE_DL_LIBS})
  # The program, of another version: its own object stands in for that of the library. tests/gpu renames main of that source.
  add_executable(gp_other_version ${PROJECT_SOURCE_DIR}/src/cli/gpipe_train.c ${PROJECT_SOURCE_DIR}/src/cli/options.c
                                  ${PROJECT_SOURCE_DIR}/src/cli/words.c ${PROJECT_SOURCE_DIR}/src/cli/process.c
                                  ${PROJECT_SOURCE_DIR}/src/train/opening_check.c)
  target_compile_options(gp_other_version PRIVATE -Umain -UGP_VERSION "-DGP_VERSION=\"99.1\"")
  target_link_libraries(gp_other_version PRIVATE gp_train gp_warnings)
  set(processes --hang $<TARGET_FILE:gp_hang> --other-version $<TARGET_FILE:gp_other_version>
      --on-host $<TARGET_FILE:train_on_host> ${faults})
endif()
add_test(NAME cli_processes COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_processes.py
                                    $<TARGET_FILE:gpipe-train> ${processes})
set_tests_properties(cli_processes PROPERTIES LABELS "${processes_labels}" TIMEOUT 900 SKIP_RETURN_CODE 77)
add_test(NAME cli_links COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_links.py
                                $<TARGET_FILE:gpipe-train>)
set_tests_properties(cli_links PROPERTIES LABELS "${processes_labels}" TIMEOUT 300 SKIP_RETURN_CODE 77)
# Minutes under a sanitizer, which sees the same code in the others.
if(NOT GP_SANITIZE)
  gp_cli_test(mnist "training" 1800)
endif()
add_test(NAME cli_simulate COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_simulate.py
                                   $<TARGET_FILE:gpipe-balance>)
add_test(NAME cli_svg COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_svg.py
                              $<TARGET_FILE:gpipe-train>)
add_test(NAME cli_account COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_account.py
                                  $<TARGET_FILE:gpipe-train>)
add_test(NAME cli_trace COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_trace.py
                                $<TARGET_FILE:gpipe-train>)
set_tests_properties(cli_account cli_simulate cli_svg cli_trace PROPERTIES LABELS "cli;unit" TIMEOUT 120)
add_test(NAME cli_plan_json COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_plan_json.py
                                    $<TARGET_FILE:gpipe-train> $<TARGET_FILE:gpipe-balance>)
set_tests_properties(cli_plan_json PROPERTIES LABELS "cli;unit;machine" TIMEOUT 300)
add_test(NAME cli_check COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_check.py
                                $<TARGET_FILE:gpipe-train>)
set_tests_properties(cli_check PROPERTIES LABELS "cli;unit" TIMEOUT 240)
add_test(NAME cli_memory COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_memory.py
                                 $<TARGET_FILE:gpipe-train> ${unbounded})
set_tests_properties(cli_memory PROPERTIES LABELS "cli;unit;machine" TIMEOUT 300)
add_test(NAME cli_search COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_search.py
                                 $<TARGET_FILE:gpipe-balance> $<TARGET_FILE:gpipe-train> ${search})
set_tests_properties(cli_search PROPERTIES LABELS "cli;unit;machine" TIMEOUT 300)
add_test(NAME cli_files COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_files.py
                                $<TARGET_FILE:gpipe-train> $<TARGET_FILE:gpipe-balance> ${faults})
set_tests_properties(cli_files PROPERTIES LABELS "cli;fault" TIMEOUT 300)
add_test(NAME cli_loop_versions COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/cli/test_loop_versions.py
                                        $<TARGET_FILE:gpipe-train>)
set_tests_properties(cli_loop_versions PROPERTIES LABELS "cli;unit" TIMEOUT 120)
