gp_test(safetensors "unit;fault" 60 gp_data)
gp_test(idx "unit;fault" 120 gp_data)
gp_test(tensors "unit" 60 gp_data)
gp_test(loader "unit" 60 gp_data)
