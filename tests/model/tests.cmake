gp_test(graph "unit" 60 gp_model)
gp_test(graph_errors "unit" 60 gp_model)
gp_test(initialise "unit" 60 gp_model)
gp_test(builtin "unit" 60 gp_model)
