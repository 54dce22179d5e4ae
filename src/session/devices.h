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

/* Of a process's GPUs, by index; "": it has none with that index. */
enum { GP_BUS_ADDRESSES = 64 };
typedef struct gp_bus_addresses {
    char of[GP_BUS_ADDRESSES][GP_BUS_ADDRESS];
} gp_bus_addresses;

/* Of this process, without opening any. */
void gp_bus_addresses_find(gp_bus_addresses *out);

#endif
