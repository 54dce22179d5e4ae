gp_test(cut "unit" 60 gp_balance)
gp_test(partition "unit" 60 gp_balance)
gp_test(cost "unit" 60 gp_balance gp_ref gp_cpu)
gp_test(profile "unit;fault" 60 gp_balance gp_ref gp_cpu)
