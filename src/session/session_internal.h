/* Inside the session: what its files share.
 *
 * A session that opens another one lends it the configuration of the whole run. One thread. */
#ifndef GP_SESSION_SESSION_INTERNAL_H
#define GP_SESSION_SESSION_INTERNAL_H

#include "session/session.h"

/* Makes the configuration after so many changes the session's. */
void gp_session_set_phase(gp_session *session, int changes);
/* From the beginning of the run to the session's configuration. The training data are open. */
GP_MUST_USE gp_status gp_session_find_epochs(gp_session *session, gp_error *err);

#endif
