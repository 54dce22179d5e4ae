gp_test(cut "unit" 60 gp_balance)
gp_test(partition "unit" 60 gp_cut)
