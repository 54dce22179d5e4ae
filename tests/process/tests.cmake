gp_test(guard "fault;threads" 60 gp_process)
target_sources(test_guard PRIVATE ${CMAKE_CURRENT_LIST_DIR}/fake_peer.c)
