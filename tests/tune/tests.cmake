gp_test(what_if "unit;fault" 60 gp_tune)
gp_test(search "unit;machine" 120 gp_train)
target_sources(test_search PRIVATE ${CMAKE_CURRENT_LIST_DIR}/../session/fixture.c)
