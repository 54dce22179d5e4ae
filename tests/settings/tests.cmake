gp_test(config "unit" 60 gp_settings)
gp_test(bad_config "unit;fault" 60 gp_settings)
gp_test(keys "unit" 60 gp_settings)
gp_test(rate "unit" 60 gp_settings)
