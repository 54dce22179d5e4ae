gp_test(tree "unit;fault" 60 gp_config)
gp_test(read "unit" 60 gp_config)
gp_test(splice "unit;fault" 60 gp_config)
