/* Names of devices → what this build can open. The one place that knows every device kind.
 *
 * Owns nothing: kinds are static, specs are plain values. Any thread. */
#ifndef GP_SESSION_DEVICES_H
#define GP_SESSION_DEVICES_H

#include "base/status.h"
#include "device/device.h"
#include "settings/config.h"

/* GP_UNSUPPORTED with the device's place where this build does not have the kind. */
GP_MUST_USE gp_status gp_device_spec_find(const gp_device_config *config, gp_device_spec *out, gp_error *err);

#endif
