gp_test(base "unit" 30 gp_base)
gp_test(machine_memory "unit" 30 gp_base)
gp_test(replace "unit;fault" 30 gp_base)
gp_test(sync "unit;threads" 60 gp_base)
