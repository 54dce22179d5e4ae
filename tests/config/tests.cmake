gp_test(tree "unit;fault" 60 gp_config)
gp_test(read "unit" 60 gp_config)
gp_test(config "unit" 60 gp_config)
gp_test(bad_config "unit;fault" 60 gp_config)
