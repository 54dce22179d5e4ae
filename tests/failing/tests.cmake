# Each call that can fail, failing (failing/calls.h): the linker puts calls.c's wrappers before these.
set(calls calloc realloc aligned_alloc posix_memalign vasprintf open_memstream XXH3_createState
    json_loadb
    pthread_create
    open read pread write fsync fstat stat access lseek flock ftruncate mkdir rename unlink unlinkat realpath opendir
    fopen fflush ferror fclose close
    dnnl_stream_create dnnl_memory_create dnnl_memory_desc_clone dnnl_memory_desc_create_with_strides
    dnnl_memory_desc_create_with_tag dnnl_engine_create dnnl_primitive_attr_create dnnl_primitive_attr_clone
    dnnl_post_ops_create dnnl_primitive_create dnnl_reorder_primitive_desc_create dnnl_primitive_execute
    dnnl_stream_wait)
list(TRANSFORM calls PREPEND "LINKER:--wrap=")

# They demand that no thread is left, and ThreadSanitizer's runtime has one of its own.
if(GP_SANITIZE STREQUAL "thread")
  return()
endif()
foreach(name failing_reads failing_runs)
  gp_test(${name} "fault" 600 gp_train)
  target_sources(test_${name} PRIVATE ${CMAKE_CURRENT_LIST_DIR}/calls.c ${CMAKE_CURRENT_LIST_DIR}/each.c
                 ${CMAKE_CURRENT_LIST_DIR}/opened.c ${CMAKE_CURRENT_SOURCE_DIR}/session/fixture.c)
  target_link_options(test_${name} PRIVATE ${calls})
endforeach()
