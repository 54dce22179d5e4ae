/* The other end of a guard's connection, as bytes that a test chooses. For tests.
 *
 * Calls block until what they wait for is there. What fails here ends the test's process. The main thread. */
#ifndef GP_TESTS_PROCESS_FAKE_PEER_H
#define GP_TESTS_PROCESS_FAKE_PEER_H

#include "process/guard_messages.h"

/* Connects to process 0, and says nothing; the socket. */
int fake_knock(const gp_guard_door *door);
/* Connects, and becomes process `rank` of the run, on host "fake", pid 7. */
int fake_join(const gp_guard_door *door, int rank);
/* Sends a HELLO of that process, which it says in its attempt number `attempt` to connect. */
void fake_hello(int socket, const gp_guard_door *door, int rank, int attempt, const char *host, size_t host_bytes);
/* Says that the answer has come. */
void fake_ready(int socket, int rank);
void fake_send(int socket, const void *bytes, size_t count);
void fake_tell(int socket, gp_guard_kind kind, gp_status status, int rank, const void *text, size_t length);
/* Whether the other end closes the connection before it sends anything; false: it sent a HELLO. */
bool fake_is_refused(int socket);
/* Waits for a message of that kind, and reads over those before it. */
void fake_await(int socket, gp_guard_kind kind, gp_error *cause);
/* As process 0: waits for the next process that knocks, and its HELLO. *rank: which one. */
int fake_hear(const gp_guard_listener *listener, const gp_guard_door *door, int *rank, gp_guard_hello *hello);
/* The same, and answers it. */
int fake_admit(const gp_guard_listener *listener, const gp_guard_door *door, int *rank);

#endif
