gp_test(keep "unit" 60 gp_checkpoint)
