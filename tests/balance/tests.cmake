gp_test(partition "unit" 60 gp_balance)
