/* Configurations and sessions for scenarios, which may fail: no asserts in here. */
#ifndef GP_TESTS_FAILING_OPENED_H
#define GP_TESTS_FAILING_OPENED_H

#include "session/session.h"

/* The configuration file `name` of the fixture's folder; `changes` as --set takes them, NULL-terminated, may be NULL.
 */
gp_status opened_config(const char *name, const char *const *changes, gp_config **out, gp_error *err);
gp_status opened_session(const char *name, const char *const *changes, gp_session **out, gp_error *err);

#endif
