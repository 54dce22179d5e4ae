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
/* Another session of the same run, with the configuration after so many changes, which it borrows from `like`: `whole`
 * is NULL in it. */
GP_MUST_USE gp_status gp_session_open_phase(const gp_session *like, int changes, gp_session **out, gp_error *err);
/* Opens every later configuration and closes it again. GP_CONFIG at the change that cannot be. */
GP_MUST_USE gp_status gp_session_check_changes(gp_session *session, gp_error *err);

#endif
