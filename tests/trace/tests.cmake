gp_test(trace "unit" 30 gp_trace PkgConfig::JANSSON)
