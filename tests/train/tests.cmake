gp_test(plan_report "unit" 60 gp_train)
