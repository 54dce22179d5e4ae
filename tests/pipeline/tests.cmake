set(schedule ${CMAKE_CURRENT_LIST_DIR}/../schedule)
# What the workers do: each of these starts them.
foreach(name allocations arena bits buckets delays diagnose faults formats lookout mixed mutants nonfinite replicas run
        schedule_file replica_norms shards team)
  gp_test(${name} "pipeline;threads" 900 gp_pipeline gp_ref gp_cpu)
  # As the program has it: OpenMP's threads would spin while they wait, on processors that others need.
  set_tests_properties(${name} PROPERTIES ENVIRONMENT OMP_WAIT_POLICY=passive)
  target_sources(test_${name} PRIVATE ${CMAKE_CURRENT_LIST_DIR}/harness.c)
endforeach()
foreach(name buckets replicas replica_norms shards)
  target_sources(test_${name} PRIVATE ${CMAKE_CURRENT_LIST_DIR}/replicas.c)
endforeach()
set_tests_properties(lookout PROPERTIES TIMEOUT 120) # it waits until workers rest, however long that takes
target_sources(test_team PRIVATE ${CMAKE_CURRENT_LIST_DIR}/../process/loop_wire.c)
target_sources(test_allocations PRIVATE ${CMAKE_CURRENT_LIST_DIR}/allocations.c)
target_sources(test_schedule_file PRIVATE ${schedule}/toy_graph.c)
foreach(name faults lookout team)
  target_sources(test_${name} PRIVATE ${CMAKE_CURRENT_LIST_DIR}/wrapper.c)
endforeach()
target_sources(test_arena PRIVATE ${CMAKE_CURRENT_LIST_DIR}/wrapper.c ${CMAKE_CURRENT_LIST_DIR}/shadow.c
               ${CMAKE_CURRENT_LIST_DIR}/shadow_rules.c ${CMAKE_CURRENT_LIST_DIR}/shadow_ops.c
               ${CMAKE_CURRENT_LIST_DIR}/../plan/touches.c)
target_sources(test_mutants PRIVATE ${schedule}/interpreter.c ${schedule}/mutate.c ${schedule}/toy_graph.c
               ${CMAKE_CURRENT_LIST_DIR}/wrapper.c ${CMAKE_CURRENT_LIST_DIR}/shadow.c
               ${CMAKE_CURRENT_LIST_DIR}/shadow_rules.c ${CMAKE_CURRENT_LIST_DIR}/shadow_ops.c
               ${CMAKE_CURRENT_LIST_DIR}/../plan/touches.c)
gp_test(clock_offset "unit" 60 gp_pipeline)
gp_test(notes "unit;pipeline" 60 gp_pipeline gp_ref)
target_sources(test_notes PRIVATE ${CMAKE_CURRENT_LIST_DIR}/harness.c)
set_tests_properties(mixed PROPERTIES LABELS "pipeline;threads;machine")
