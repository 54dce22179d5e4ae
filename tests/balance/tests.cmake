gp_test(expect "unit" 60 gp_balance gp_ref)
