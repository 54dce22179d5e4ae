gp_test(cut "unit" 60 gp_cut)
gp_test(partition "unit" 60 gp_cut)
