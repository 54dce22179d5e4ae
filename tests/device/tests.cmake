# What the tests of devices share: cases of every op, how one runs and is compared, and a bench for operands written by hand.
add_library(gp_op_cases STATIC ${CMAKE_CURRENT_LIST_DIR}/op_cases.c ${CMAKE_CURRENT_LIST_DIR}/op_run.c
            ${CMAKE_CURRENT_LIST_DIR}/op_bench.c ${CMAKE_CURRENT_LIST_DIR}/op_trial.c
            ${CMAKE_CURRENT_LIST_DIR}/op_whole.c ${CMAKE_CURRENT_LIST_DIR}/op_commit.c)
target_include_directories(gp_op_cases PUBLIC ${CMAKE_CURRENT_LIST_DIR}/..)
target_link_libraries(gp_op_cases PRIVATE gp_warnings PUBLIC gp_device ${CMOCKA_LIBRARY})

gp_test(op "unit" 60 gp_op_cases gp_ref)
gp_test(op_table "unit" 60 gp_device)
gp_test(ref "unit" 60 gp_op_cases gp_ref)
gp_test(ref_properties "unit" 120 gp_op_cases gp_ref)
gp_test(cpu "unit;machine" 300 gp_op_cases gp_cpu gp_ref)
gp_test(cpu_versions "unit;machine" 120 gp_op_cases gp_cpu)
gp_test(cpu_convolutions "unit;machine" 120 gp_op_cases gp_cpu gp_ref)
target_link_options(test_cpu_convolutions PRIVATE -Wl,--wrap=dnnl_matmul_primitive_desc_create -Wl,--wrap=omp_set_num_threads)
gp_test(exponential "unit" 300 gp_device)
gp_test(cpu_losses "unit;machine" 60 gp_op_cases gp_cpu gp_ref)
gp_test(cpu_device "unit;threads" 60 gp_cpu)
gp_test(cpu_formats "unit;machine" 60 gp_cpu)
gp_test(long_sums "unit;machine" 60 gp_op_cases gp_cpu gp_ref)
