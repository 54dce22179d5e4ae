#include "failing/opened.h"

#include "session/fixture.h"

gp_status opened_config(const char *name, const char *const *changes, gp_config **out, gp_error *err) {
    int count = 0;
    while (changes && changes[count]) count++;
    return gp_config_load(GP_TO_RUN, fixture_path(name), changes, count, out, err);
}

gp_status opened_session(const char *name, const char *const *changes, gp_session **out, gp_error *err) {
    gp_config *config = NULL;
    GP_RETURN_IF_FAILED(opened_config(name, changes, &config, err));
    return gp_session_open(&config, NULL, out, err);
}
