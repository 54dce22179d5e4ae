/* The order of a session's devices, if the session looks for it.
 *
 * Works on a session while it is opened; one thread. */
#ifndef GP_SESSION_ORDERING_H
#define GP_SESSION_ORDERING_H

#include "balance/balance.h"
#include "balance/device_order.h"
#include "session/session.h"

/* Places the session's devices in the order whose bottleneck costs least, and sets session->order. `request` is that of
 * the session's plan, with the devices in the configured order. Fails as gp_device_order_find. */
GP_MUST_USE gp_status gp_ordering_apply(gp_session *session, const gp_balance_request *request, gp_error *err);
/* Whether the order that was found is the configured one. */
bool gp_ordering_is_as_given(const gp_session *session);

#endif
