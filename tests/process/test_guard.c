/* Guards of several processes, as threads of one, over sockets of this machine. Others are fakes, which send the bytes
 * that a test chooses, or none. Nothing here depends on how long something takes: the tests wait for what must come. */
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "process/fake_peer.h"
#include "process/guard_internal.h"

enum { MOST = 5, LONG = 3600 };

typedef struct member {
    gp_guard *guard;
    pthread_t thread;
    gp_status status;
    gp_error err;
    struct group *group;
    int rank;
} member;

/* The guards of a run. */
typedef struct group {
    gp_guard_door door;
    member member[MOST]; /* [rank]; without a guard: a fake */
    int processes;
    gp_guard_listener listener;
} group;

/* ---- a group ----------------------------------------------------------------------------------------------------- */

static void *start(void *argument) {
    member *its = argument;
    its->status = gp_guard_start(&its->group->door, its->rank == 0 ? &its->group->listener : NULL, its->rank,
                                 its->group->processes, LONG, &its->guard, &its->err);
    if (its->status == GP_OK) gp_guard_set_grace(its->guard, LONG); /* the test's process must not end */
    return NULL;
}

static void begin_start(group *all, int rank) {
    member *its = &all->member[rank];
    *its = (member){.group = all, .rank = rank};
    assert_int_equal(gp_thread_start(&its->thread, 0, start, its), 0);
}

static void end_start(group *all, int rank) {
    member *its = &all->member[rank];
    pthread_join(its->thread, NULL);
    if (its->status != GP_OK) fail_msg("%d: %s", rank, its->err.text);
}

static void listen_for(group *all, int processes) {
    gp_error err = {0};
    memset(all, 0, sizeof *all);
    all->processes = processes;
    if (gp_guard_listen(NULL, 0, &all->door, &all->listener, &err) != GP_OK) fail_msg("%s", err.text);
}

static void stop_listening(group *all) {
    while (all->listener.count > 0) close(all->listener.socket[--all->listener.count]);
}

/* Process 0 and `count` more; the rest are fakes. */
static void begin(group *all, int processes, int count) {
    listen_for(all, processes);
    for (int p = 0; p <= count; p++) begin_start(all, p);
    for (int p = 1; p <= count; p++) end_start(all, p);
}

/* As processes do it: the others wait for process 0. */
static void end(group *all) {
    for (int p = 0; p < all->processes; p++) gp_guard_stop(&all->member[p].guard);
}

static gp_guard *of(group *all, int rank) {
    return all->member[rank].guard;
}

static void nap(void) {
    usleep(1000);
}

static void await_cause(gp_guard *guard, gp_error *cause) {
    while (gp_guard_cause(guard, cause) == GP_OK) nap();
}

static void expect_cause(gp_guard *guard, gp_status status, const char *text) {
    gp_error cause = {0};
    await_cause(guard, &cause);
    assert_string_equal(cause.text, text);
    assert_int_equal(cause.status, status);
}

/* ---- what ends a run --------------------------------------------------------------------------------------------- */

static void test_all_learn_the_first_cause(void **state) {
    static group all;
    gp_cancel cancel;
    gp_error err = {0};
    (void)state;
    begin(&all, 4, 3);
    end_start(&all, 0);
    assert_int_equal(gp_cancel_init(&cancel, &err), GP_OK);
    gp_guard_watch(of(&all, 1), &cancel);
    gp_error cause = {.status = GP_NUMERIC, .text = "process 2: the loss is not finite"};
    gp_guard_fail(of(&all, 2), &cause);
    for (int p = 0; p < 4; p++) expect_cause(of(&all, p), GP_NUMERIC, "process 2: the loss is not finite");
    assert_true(gp_cancelled(&cancel));
    assert_int_equal(gp_cancel_cause(&cancel, &err), GP_NUMERIC);
    gp_guard_watch(of(&all, 1), NULL);
    gp_cancel_fini(&cancel);
    gp_error later = {.status = GP_DEVICE, .text = "process 3: something that followed from it"};
    gp_guard_fail(of(&all, 3), &later);
    assert_int_equal(later.status, GP_NUMERIC);
    assert_string_equal(later.text, "process 2: the loss is not finite");
    for (int p = 0; p < 4; p++) {
        assert_false(gp_guard_has_lost(of(&all, p)));
        assert_int_equal(gp_guard_speaks(of(&all, p)), p == 0);
    }
    end(&all);
}

/* A cancel flag that comes after the cause is raised at once. */
static void test_a_later_watch_is_cancelled(void **state) {
    static group all;
    gp_cancel cancel;
    gp_error err = {0}, cause = {.status = GP_DATA, .text = "process 0: a file"};
    (void)state;
    begin(&all, 2, 1);
    end_start(&all, 0);
    gp_guard_fail(of(&all, 0), &cause);
    expect_cause(of(&all, 1), GP_DATA, "process 0: a file");
    assert_int_equal(gp_cancel_init(&cancel, &err), GP_OK);
    gp_guard_watch(of(&all, 1), &cancel);
    assert_true(gp_cancelled(&cancel));
    gp_guard_watch(of(&all, 1), NULL);
    gp_cancel_fini(&cancel);
    end(&all);
}

static void test_a_process_that_ends_without_a_word_is_lost(void **state) {
    static group all;
    (void)state;
    begin(&all, 3, 1);
    int fake = fake_join(&all.door, 2);
    end_start(&all, 0);
    close(fake);
    for (int p = 0; p < 2; p++) {
        expect_cause(of(&all, p), GP_LOST, "process 2 (host fake, pid 7) has ended without a word");
        assert_true(gp_guard_has_lost(of(&all, p)));
        assert_int_equal(gp_guard_speaks(of(&all, p)), p == 0);
    }
    end(&all);
}

/* In both directions: only the other one's time is short. */
static void test_a_silent_process_is_lost(void **state) {
    static group all;
    int rank;
    (void)state;
    begin(&all, 2, 0);
    int fake = fake_join(&all.door, 1);
    end_start(&all, 0);
    gp_guard_set_timeout(of(&all, 0), 0.2);
    expect_cause(of(&all, 0), GP_LOST, "process 1 (host fake, pid 7) has given no sign of life for 0.2 s");
    gp_error told = {0};
    fake_await(fake, GP_GUARD_LOST, &told); /* it may go on later, and must end then */
    assert_string_equal(told.text, "process 1 (host fake, pid 7) has given no sign of life for 0.2 s");
    end(&all);
    close(fake);

    listen_for(&all, 2);
    begin_start(&all, 1);
    fake = fake_admit(&all.listener, &all.door, &rank);
    end_start(&all, 1);
    gp_guard_set_timeout(of(&all, 1), 0.2);
    expect_cause(of(&all, 1), GP_LOST, "process 0 (host fake, pid 7) has given no sign of life for 0.2 s");
    end(&all);
    close(fake);
    stop_listening(&all);
}

/* While process 0 measures a profile, the others know no other timeout. */
static void test_process_0_tells_the_timeout(void **state) {
    static group all;
    const double seconds = 0.2;
    int rank;
    (void)state;
    begin(&all, 2, 0);
    int fake = fake_join(&all.door, 1);
    end_start(&all, 0);
    gp_guard_set_timeout(of(&all, 0), LONG);
    fake_await(fake, GP_GUARD_TIMEOUT, NULL);
    fake_tell(fake, GP_GUARD_BYE, GP_OK, 1, NULL, 0);
    end(&all);
    close(fake);

    listen_for(&all, 2);
    begin_start(&all, 1);
    fake = fake_admit(&all.listener, &all.door, &rank);
    end_start(&all, 1);
    fake_tell(fake, GP_GUARD_TIMEOUT, GP_OK, 0, &seconds, sizeof seconds);
    expect_cause(of(&all, 1), GP_LOST, "process 0 (host fake, pid 7) has given no sign of life for 0.2 s");
    end(&all);
    close(fake);
    stop_listening(&all);
}

/* Process 1 says goodbye and closes its connection before process 2 does without a word. */
static void test_goodbye_is_no_loss(void **state) {
    static group all;
    (void)state;
    begin(&all, 4, 1);
    int one = fake_join(&all.door, 2), two = fake_join(&all.door, 3);
    end_start(&all, 0);
    gp_guard_stop(&all.member[1].guard);
    fake_tell(one, GP_GUARD_BYE, GP_OK, 2, NULL, 0);
    close(one);
    fake_tell(two, GP_GUARD_STOP, GP_OK, 3, NULL, 0);
    while (!gp_guard_is_asked(of(&all, 0))) nap();
    assert_int_equal(gp_guard_cause(of(&all, 0), NULL), GP_OK);
    close(two);
    expect_cause(of(&all, 0), GP_LOST, "process 3 (host fake, pid 7) has ended without a word");
    end(&all);
}

static void test_asking_for_the_end_reaches_process_0(void **state) {
    static group all;
    (void)state;
    begin(&all, 3, 2);
    end_start(&all, 0);
    assert_false(gp_guard_is_asked(of(&all, 0)));
    gp_guard_ask_stop(of(&all, 2));
    while (!gp_guard_is_asked(of(&all, 0))) nap();
    assert_false(gp_guard_is_asked(of(&all, 1)));
    for (int p = 0; p < 3; p++) assert_int_equal(gp_guard_cause(of(&all, p), NULL), GP_OK);
    end(&all);
}

/* ---- messages of MPI --------------------------------------------------------------------------------------------- */

/* Process 0 passes on what 2 asks 1, and what 1 answers. */
static void test_a_message_that_mpi_loses_ends_the_run(void **state) {
    static group all;
    static gp_parcel sent, received, waits;
    gp_deliveries *deliveries[3];
    gp_error err = {0};
    (void)state;
    begin(&all, 3, 2);
    end_start(&all, 0);
    for (int p = 0; p < 3; p++) {
        assert_int_equal(gp_deliveries_create(p, 3, &deliveries[p], &err), GP_OK);
        gp_guard_set_deliveries(of(&all, p), deliveries[p]);
    }
    gp_guard_set_timeout(of(&all, 2), 0.5);
    gp_parcel_fill(&waits, 1, 0, 7, NULL, 100, true); /* what it waits for is not sent */
    gp_deliveries_begin(deliveries[2], &waits);
    gp_parcel_fill(&sent, 1, 2, 7, NULL, 100, false);
    gp_deliveries_begin(deliveries[1], &sent);
    gp_deliveries_end(deliveries[1], &sent);
    gp_parcel_fill(&received, 1, 1, 7, NULL, 100, true);
    gp_deliveries_begin(deliveries[2], &received);
    for (int p = 0; p < 3; p++)
        expect_cause(of(&all, p), GP_LOST,
                     "process 2 has waited for 0 s for a message of process 1, which has sent it: MPI does not deliver "
                     "it; the connection of MPI between the two may be broken");
    for (int p = 0; p < 3; p++) assert_false(gp_guard_has_lost(of(&all, p)));
    end(&all);
    for (int p = 0; p < 3; p++) gp_deliveries_destroy(&deliveries[p]);
}

/* Of processes that there are not, and of more messages than there are. */
static void test_questions_that_no_process_asks(void **state) {
    static group all;
    static const gp_delivery_question wrong = {.count = GP_DELIVERY_ITEMS + 1};
    static const gp_delivery_answer unasked = {.begun = UINT64_MAX};
    gp_delivery_question right = {.serial = 9, .count = 1};
    gp_deliveries *deliveries = NULL;
    gp_error err = {0};
    (void)state;
    begin(&all, 2, 0);
    int fake = fake_join(&all.door, 1);
    end_start(&all, 0);
    assert_int_equal(gp_deliveries_create(0, 2, &deliveries, &err), GP_OK);
    gp_guard_set_deliveries(of(&all, 0), deliveries);
    for (int rank = 0; rank < 1 << 16; rank += rank < 4 ? 1 : 1 << 14)
        fake_tell(fake, GP_GUARD_ASK, GP_OK, rank, &wrong, sizeof wrong);
    fake_tell(fake, GP_GUARD_ANSWER, GP_OK, 0, &unasked, sizeof unasked);
    fake_tell(fake, GP_GUARD_ASK, GP_OK, 0, &right, sizeof right);
    fake_await(fake, GP_GUARD_ANSWER, NULL);
    assert_int_equal(gp_guard_cause(of(&all, 0), NULL), GP_OK);
    fake_tell(fake, GP_GUARD_BYE, GP_OK, 1, NULL, 0);
    end(&all);
    close(fake);
    gp_deliveries_destroy(&deliveries);
}

/* ---- process 0 is lost ------------------------------------------------------------------------------------------- */

static void test_process_1_speaks_if_process_0_is_lost(void **state) {
    static group all;
    int fake[2], rank;
    (void)state;
    listen_for(&all, 3);
    for (int p = 1; p < 3; p++) begin_start(&all, p);
    for (int i = 0; i < 2; i++) fake[i] = fake_admit(&all.listener, &all.door, &rank);
    for (int p = 1; p < 3; p++) end_start(&all, p);
    for (int p = 1; p < 3; p++) assert_false(gp_guard_speaks(of(&all, p)));
    for (int i = 0; i < 2; i++) close(fake[i]);
    for (int p = 1; p < 3; p++) {
        expect_cause(of(&all, p), GP_LOST, "process 0 (host fake, pid 7) has ended without a word");
        assert_int_equal(gp_guard_speaks(of(&all, p)), p == 1);
    }
    end(&all);
    stop_listening(&all);
}

/* It was stopped, and goes on after process 1 has said that it was lost. */
static void test_process_0_that_comes_back_does_not_say_it_again(void **state) {
    static group all;
    static const char said[] = "process 0 (host h, pid 1) has given no sign of life for 2 s";
    (void)state;
    begin(&all, 2, 0);
    int fake = fake_join(&all.door, 1);
    end_start(&all, 0);
    fake_tell(fake, GP_GUARD_LOST, GP_LOST, 0, said, sizeof said - 1);
    expect_cause(of(&all, 0), GP_LOST, said);
    assert_false(gp_guard_speaks(of(&all, 0)));
    end(&all);
    close(fake);
}

/* ---- joining ----------------------------------------------------------------------------------------------------- */

static void expect_refused(int socket) {
    assert_true(fake_is_refused(socket));
    close(socket);
}

static void test_others_are_turned_away(void **state) {
    static group all;
    gp_guard_door wrong;
    int silent[20];
    (void)state;
    listen_for(&all, 3);
    begin_start(&all, 0);
    for (int i = 0; i < 20; i++) silent[i] = fake_knock(&all.door); /* and say nothing */
    wrong = all.door;
    wrong.secret[GP_GUARD_SECRET - 1] ^= 1;
    int its = fake_knock(&all.door);
    fake_hello(its, &wrong, 1, 1, "fake", 4);
    expect_refused(its);
    static const int ranks[] = {0, 3, 4, 65535};
    for (int i = 0; i < 4; i++) {
        its = fake_knock(&all.door);
        fake_hello(its, &all.door, ranks[i], 1, "fake", 4);
        expect_refused(its);
    }
    its = fake_knock(&all.door);
    fake_tell(its, GP_GUARD_BEAT, GP_OK, 1, NULL, 0);
    expect_refused(its);
    its = fake_knock(&all.door);
    fake_send(its, "GET / HTTP/1.1\r\n\r\n", 18);
    expect_refused(its);
    its = fake_knock(&all.door);
    fake_send(its, "\0\0\1\0\x54", 5); /* the first bytes of a HELLO */
    shutdown(its, SHUT_WR);
    expect_refused(its);

    int one = fake_join(&all.door, 1);
    its = fake_knock(&all.door);
    fake_hello(its, &all.door, 1, 1, "fake", 4); /* it is there already */
    expect_refused(its);
    begin_start(&all, 2);
    end_start(&all, 2);
    end_start(&all, 0);
    fake_tell(one, GP_GUARD_STOP, GP_OK, 1, NULL, 0);
    while (!gp_guard_is_asked(of(&all, 0))) nap();
    for (int i = 0; i < 20; i++) expect_refused(silent[i]);
    close(one);
    expect_cause(of(&all, 2), GP_LOST, "process 1 (host fake, pid 7) has ended without a word");
    end(&all);
}

/* Process 0 stalls, and a process that waited too long for the answer comes again. What it said in the connection that
 * it has closed is answered, too late, and does not count. */
static void test_a_connection_that_was_given_up_does_not_count(void **state) {
    static group all;
    (void)state;
    listen_for(&all, 3);
    int old = fake_knock(&all.door), older = fake_knock(&all.door);
    fake_hello(older, &all.door, 1, 1, "fake", 4);
    close(older);
    fake_hello(old, &all.door, 1, 2, "fake", 4);
    shutdown(old, SHUT_WR);
    begin_start(&all, 2);
    begin_start(&all, 0);
    assert_false(fake_is_refused(old));
    end_start(&all, 2);
    int last = fake_knock(&all.door);
    fake_hello(last, &all.door, 1, 3, "fake", 4);
    assert_false(fake_is_refused(last));
    fake_ready(last, 1);
    end_start(&all, 0);
    fake_tell(last, GP_GUARD_STOP, GP_OK, 1, NULL, 0);
    while (!gp_guard_is_asked(of(&all, 0))) nap();
    assert_int_equal(gp_guard_cause(of(&all, 0), NULL), GP_OK);
    fake_tell(last, GP_GUARD_BYE, GP_OK, 1, NULL, 0);
    end(&all);
    close(old);
    close(last);
}

/* In whichever order they are heard: of several addresses each has a queue of its own. */
static void test_the_newest_attempt_holds(void **state) {
    static group all;
    int its[3];
    (void)state;
    listen_for(&all, 2);
    begin_start(&all, 0);
    for (int i = 0; i < 3; i++) its[i] = fake_knock(&all.door);
    fake_hello(its[0], &all.door, 1, 2, "fake", 4);
    assert_false(fake_is_refused(its[0]));
    fake_hello(its[1], &all.door, 1, 1, "fake", 4);
    expect_refused(its[1]);
    fake_hello(its[2], &all.door, 1, 3, "fake", 4);
    assert_false(fake_is_refused(its[2]));
    expect_refused(its[0]);
    fake_ready(its[2], 1);
    end_start(&all, 0);
    close(its[2]);
    expect_cause(of(&all, 0), GP_LOST, "process 1 (host fake, pid 7) has ended without a word");
    end(&all);
}

/* A process that goes on after it was answered, but not with READY, can try again. */
static void test_nothing_counts_before_ready(void **state) {
    static group all;
    (void)state;
    listen_for(&all, 2);
    begin_start(&all, 0);
    int its = fake_knock(&all.door);
    fake_hello(its, &all.door, 1, 1, "fake", 4);
    assert_false(fake_is_refused(its));
    fake_tell(its, GP_GUARD_BEAT, GP_OK, 1, NULL, 0);
    expect_refused(its);
    begin_start(&all, 1); /* its first attempts have numbers that were there already */
    end_start(&all, 1);
    end_start(&all, 0);
    end(&all);
}

/* The other side: process 0 says nothing, and the process gives its connection up, and comes again. */
static void test_a_process_that_is_not_answered_tries_again(void **state) {
    static group all;
    gp_guard_hello hello;
    int rank;
    (void)state;
    listen_for(&all, 2);
    begin_start(&all, 1);
    close(fake_hear(&all.listener, &all.door, &rank, &hello));
    assert_int_equal(hello.attempt, 1);
    int its = fake_hear(&all.listener, &all.door, &rank, &hello);
    assert_int_equal(hello.attempt, 2);
    fake_hello(its, &all.door, 0, 2, "fake", 4);
    fake_await(its, GP_GUARD_READY, NULL);
    end_start(&all, 1);
    fake_tell(its, GP_GUARD_BYE, GP_OK, 0, NULL, 0);
    end(&all);
    close(its);
    stop_listening(&all);
}

/* More than there is room for. The oldest ones make room: process 1, which knocks once, is not turned away. */
static void test_silent_strangers_hold_up_no_process(void **state) {
    enum { STRANGERS = 900 };
    static group all;
    static int stranger[STRANGERS];
    struct rlimit files;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    listen_for(&all, 3);
    begin_start(&all, 0);
    for (int i = 0; i < STRANGERS; i++) stranger[i] = fake_knock(&all.door);
    int one = fake_join(&all.door, 1);
    begin_start(&all, 2);
    end_start(&all, 0);
    end_start(&all, 2);
    for (int i = 0; i < STRANGERS; i++) expect_refused(stranger[i]);
    assert_int_equal(gp_guard_cause(of(&all, 0), NULL), GP_OK);
    assert_int_equal(gp_guard_cause(of(&all, 2), NULL), GP_OK);
    fake_tell(one, GP_GUARD_BYE, GP_OK, 1, NULL, 0);
    end(&all);
    close(one);
}

/* Those that have joined hear process 0 while it waits for the rest. */
static void test_process_0_gives_signs_of_life_while_it_waits(void **state) {
    static group all;
    (void)state;
    listen_for(&all, 3);
    begin_start(&all, 0);
    int one = fake_join(&all.door, 1);
    fake_await(one, GP_GUARD_BEAT, NULL);
    int two = fake_join(&all.door, 2);
    end_start(&all, 0);
    fake_tell(one, GP_GUARD_BYE, GP_OK, 1, NULL, 0);
    fake_tell(two, GP_GUARD_BYE, GP_OK, 2, NULL, 0);
    end(&all);
    close(one);
    close(two);
}

static void test_what_process_0_says_if_nobody_comes(void **state) {
    group all;
    gp_guard *guard = NULL;
    gp_error err = {0};
    char expected[GP_ERROR_TEXT];
    (void)state;
    listen_for(&all, 4);
    int stranger = fake_knock(&all.door);
    fake_send(stranger, "GET / HTTP/1.1\r\n\r\n", 18);
    assert_int_equal(gp_guard_start(&all.door, &all.listener, 0, 4, 3, &guard, &err), GP_IO);
    expect_refused(stranger);
    snprintf(expected, sizeof expected,
             "the connection between the processes: 3 of 3 processes did not connect to process 0 within 3 s; a "
             "firewall may refuse port %d; 1 connections of other programs were closed",
             all.door.port);
    assert_string_equal(err.text, expected);
    assert_null(guard);
}

/* ---- where process 0 listens ------------------------------------------------------------------------------------- */

static bool can_connect(const unsigned char address[4], int port) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    memcpy(&to.sin_addr, address, 4);
    int its = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool can = connect(its, (struct sockaddr *)&to, sizeof to) == 0;
    close(its);
    return can;
}

static const unsigned char home[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};

/* The machine has more addresses: all of 127.0.0.0/8, at least. */
static void test_processes_of_one_machine_are_by_themselves(void **state) {
    group all;
    gp_guard_network own;
    (void)state;
    listen_for(&all, 2);
    assert_memory_equal(all.door.address[0], home, 16);
    assert_true(can_connect(&home[12], all.door.port));
    assert_false(can_connect((const unsigned char[]){127, 0, 0, 2}, all.door.port));
    gp_guard_describe_network(&own);
    for (int a = 0; a < own.count; a++)
        if (memcmp(own.address[a], home, 12) == 0) assert_false(can_connect(&own.address[a][12], all.door.port));
    stop_listening(&all);
}

/* The way to 127.0.0.9 leads from 127.0.0.1. An address that both have is none. */
static void test_between_machines_the_ways_count(void **state) {
    gp_guard_network net[2] = {{.count = 2}, {.count = 2}};
    gp_guard_door door;
    gp_guard_listener listener;
    gp_error err = {0};
    (void)state;
    memcpy(net[0].address[0], home, 16);
    net[0].address[0][15] = 77;
    memcpy(net[0].address[1], home, 16);
    net[0].address[1][15] = 78;
    memcpy(net[1].address[0], net[0].address[0], 16);
    memcpy(net[1].address[1], home, 16);
    net[1].address[1][15] = 9;
    assert_int_equal(gp_guard_listen(net, 2, &door, &listener, &err), GP_OK);
    assert_int_equal(door.count, 1);
    assert_memory_equal(door.address[0], home, 16);
    assert_int_equal(listener.count, 1);
    close(listener.socket[0]);

    net[1].count = 1; /* there is no way: all addresses, with one port */
    assert_int_equal(gp_guard_listen(net, 2, &door, &listener, &err), GP_OK);
    assert_int_equal(door.count, 2);
    for (int a = 0; a < 2; a++) {
        assert_memory_equal(door.address[a], net[0].address[a], 16);
        assert_true(can_connect(&door.address[a][12], door.port));
        close(listener.socket[a]);
    }
}

/* What follows the HELLO in the same bytes is a message like any other. */
static void test_messages_right_after_the_hello(void **state) {
    static group all;
    unsigned char bytes[2 * GP_GUARD_ROOM];
    gp_guard_hello hello = {.pid = 7, .attempt = 1};
    (void)state;
    begin(&all, 2, 0);
    memcpy(hello.secret, all.door.secret, sizeof hello.secret);
    size_t count = gp_guard_write(bytes, GP_GUARD_HELLO, GP_OK, 1, &hello, sizeof hello);
    count += gp_guard_write(bytes + count, GP_GUARD_READY, GP_OK, 1, NULL, 0);
    count += gp_guard_write(bytes + count, GP_GUARD_STOP, GP_OK, 1, NULL, 0);
    int fake = fake_knock(&all.door);
    fake_send(fake, bytes, count);
    end_start(&all, 0);
    while (!gp_guard_is_asked(of(&all, 0))) nap();
    end(&all);
    close(fake);
}

/* ---- bytes that are no message ----------------------------------------------------------------------------------- */

static const struct {
    const char *what;
    unsigned char header[GP_GUARD_HEADER];
    size_t more; /* bytes of text that follow */
} garbage[] = {
    {"a kind that there is not", {GP_GUARD_KINDS, 0, 1, 0, 0, 0, 0, 0}, 0},
    {"the largest kind", {255, 0, 1, 0, 0, 0, 0, 0}, 0},
    {"a text that is too long", {GP_GUARD_FAIL, GP_IO, 1, 0, 0, 8, 0, 0}, 2048},
    {"a text of 4 GiB", {GP_GUARD_FAIL, GP_IO, 1, 0, 255, 255, 255, 255}, 0},
    {"a text of 16 MiB", {GP_GUARD_LOST, GP_IO, 1, 0, 0, 0, 0, 1}, 0},
    {"a cause that is none", {GP_GUARD_FAIL, GP_OK, 1, 0, 1, 0, 0, 0}, 1},
    {"a status that there is not", {GP_GUARD_LOST, GP_INTERRUPTED + 1, 1, 0, 1, 0, 0, 0}, 1},
    {"a sign of life with a text", {GP_GUARD_BEAT, 0, 1, 0, 1, 0, 0, 0}, 1},
    {"a goodbye with a text", {GP_GUARD_BYE, 0, 1, 0, 1, 0, 0, 0}, 1},
    {"a second HELLO", {GP_GUARD_HELLO, 0, 1, 0, sizeof(gp_guard_hello), 0, 0, 0}, sizeof(gp_guard_hello)},
    {"a question without its items", {GP_GUARD_ASK, 0, 0, 0, 8, 0, 0, 0}, 8},
    {"an answer of another length", {GP_GUARD_ANSWER, 0, 0, 0, 8, 0, 0, 0}, 8},
    {"a timeout of another length", {GP_GUARD_TIMEOUT, 0, 0, 0, 4, 0, 0, 0}, 4},
    {"a timeout of 0 s", {GP_GUARD_TIMEOUT, 0, 0, 0, 8, 0, 0, 0}, 8},
    {"a second READY", {GP_GUARD_READY, 0, 1, 0, 0, 0, 0, 0}, 0},
    {"a READY with a text", {GP_GUARD_READY, 0, 1, 0, 1, 0, 0, 0}, 1},
    {"a saved run that has failed", {GP_GUARD_SAVED, GP_IO, 0, 0, 0, 0, 0, 0}, 0},
    {"a HELLO of another length", {GP_GUARD_HELLO, 0, 1, 0, 1, 0, 0, 0}, 1},
};

static void expect_garbage(size_t i) {
    static group all;
    unsigned char bytes[2 * GP_GUARD_ROOM] = {0};
    begin(&all, 2, 0);
    int fake = fake_join(&all.door, 1);
    end_start(&all, 0);
    size_t good = gp_guard_write(bytes, GP_GUARD_BEAT, GP_OK, 1, NULL, 0);
    memcpy(bytes + good, garbage[i].header, GP_GUARD_HEADER);
    fake_send(fake, bytes, good + GP_GUARD_HEADER + garbage[i].more);
    expect_cause(of(&all, 0), GP_LOST,
                 "process 1 (host fake, pid 7) has sent bytes that are no message of this program");
    end(&all);
    close(fake);
}

static void test_what_is_no_message(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
        print_message("%s\n", garbage[i].what);
        expect_garbage(i);
    }
}

static void test_a_message_that_is_cut_off(void **state) {
    static group all;
    (void)state;
    begin(&all, 2, 0);
    int fake = fake_join(&all.door, 1);
    end_start(&all, 0);
    fake_send(fake, (unsigned char[]){GP_GUARD_FAIL, GP_IO, 1, 0, 9, 0, 0, 0, 'a'}, 9);
    close(fake);
    expect_cause(of(&all, 0), GP_LOST, "process 1 (host fake, pid 7) has ended in the middle of a message");
    end(&all);
}

/* The text takes the first byte of the next message, and what is left of that is none. */
static void test_a_message_that_lacks_a_byte(void **state) {
    static group all;
    unsigned char bytes[2 * GP_GUARD_ROOM];
    (void)state;
    begin(&all, 2, 0);
    int fake = fake_join(&all.door, 1);
    end_start(&all, 0);
    size_t count = gp_guard_write(bytes, GP_GUARD_FAIL, GP_DATA, 1, "a file", 6) - 1;
    for (int i = 0; i < 2; i++) count += gp_guard_write(bytes + count, GP_GUARD_BYE, GP_OK, 1, NULL, 0);
    fake_send(fake, bytes, count);
    while (!gp_guard_has_lost(of(&all, 0))) nap();
    expect_cause(of(&all, 0), GP_DATA, "a fil?");
    end(&all);
    close(fake);
}

/* Nothing that another process sends can end a line, or speak to a terminal. */
static void test_texts_can_be_printed(void **state) {
    static const char said[] = "a\x1b[31m\nb \xff\xc3\xa9\0 unseen";
    static group all;
    char longest[GP_ERROR_TEXT - 1], expected[GP_ERROR_TEXT] = "";
    (void)state;
    begin(&all, 2, 0);
    int fake = fake_join(&all.door, 1);
    end_start(&all, 0);
    fake_tell(fake, GP_GUARD_FAIL, GP_DATA, 1, said, sizeof said - 1);
    expect_cause(of(&all, 0), GP_DATA, "a?[31m?b ?\xc3\xa9");
    end(&all);
    close(fake);

    memset(longest, 'x', sizeof longest); /* has no end */
    memset(expected, 'x', sizeof longest);
    begin(&all, 2, 0);
    fake = fake_join(&all.door, 1);
    end_start(&all, 0);
    for (size_t i = 0; i < 2; i++) fake_send(fake, "\1\0\1\0\0\0\0\0", 8);
    fake_tell(fake, GP_GUARD_FAIL, GP_DATA, 1, longest, sizeof longest);
    expect_cause(of(&all, 0), GP_DATA, expected);
    end(&all);
    close(fake);

    char host[GP_HOST_TEXT];
    memset(host, 'h', sizeof host); /* likewise */
    memcpy(host, "\x1b]0;\a", 5);
    begin(&all, 2, 0);
    fake = fake_knock(&all.door);
    fake_hello(fake, &all.door, 1, 1, host, sizeof host);
    fake_ready(fake, 1);
    end_start(&all, 0);
    close(fake);
    host[0] = host[4] = '?';
    snprintf(expected, sizeof expected, "process 1 (host %.63s, pid 7) has ended without a word", host);
    expect_cause(of(&all, 0), GP_LOST, expected);
    end(&all);
}

/* ---- a process that does not end --------------------------------------------------------------------------------- */

/* A child with a guard, whose main thread never ends. *said: what it writes to stderr. `after`: with which status the
 * run was saved; GP_INTERNAL: it was not. */
static pid_t fork_guard(group *all, int rank, gp_status after, int *said) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        gp_guard *guard = NULL;
        gp_error err = {0};
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        if (gp_guard_start(&all->door, rank ? NULL : &all->listener, rank, 2, LONG, &guard, &err) != GP_OK) _exit(99);
        gp_guard_set_grace(guard, 0.1);
        if (rank == 0 && after != GP_INTERNAL) gp_guard_set_timeout(guard, 0.5);
        if (after == GP_INTERRUPTED) gp_guard_fail(guard, &(gp_error){.status = GP_INTERRUPTED});
        if (rank == 0 && after != GP_INTERNAL) gp_guard_finish(guard, after);
        for (;;) pause();
    }
    close(ends[1]);
    if (rank == 0) stop_listening(all);
    *said = ends[0];
    return child;
}

static void expect_end(pid_t child, int said, int exit_status, const char *expected) {
    char line[512] = "";
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), exit_status);
    assert_true(read(said, line, sizeof line - 1) >= 0);
    assert_string_equal(line, expected);
    close(said);
}

/* The child's guard ends it, and says the cause. */
static void test_a_process_that_does_not_end_is_ended(void **state) {
    static group all;
    int said;
    (void)state;
    listen_for(&all, 2);
    pid_t child = fork_guard(&all, 0, GP_INTERNAL, &said);
    int fake = fake_join(&all.door, 1);
    fake_tell(fake, GP_GUARD_FAIL, GP_DATA, 1, "process 1: a file", 17);
    fake_await(fake, GP_GUARD_BYE, NULL);
    expect_end(child, said, 1, "gpipe-train: process 1: a file\n");
    close(fake);
}

/* Process 1 is stopped when all is saved: process 0 does not wait for it for ever, and the run is well. When process 1
 * goes on, it learns that. */
static void test_a_process_that_is_lost_after_all_was_saved(void **state) {
    static group all;
    gp_error told = {0};
    int said;
    (void)state;
    for (int interrupted = 0; interrupted < 2; interrupted++) {
        listen_for(&all, 2);
        pid_t child = fork_guard(&all, 0, interrupted ? GP_INTERRUPTED : GP_OK, &said);
        int fake = fake_join(&all.door, 1);
        fake_await(fake, GP_GUARD_SAVED, NULL);
        fake_await(fake, GP_GUARD_LOST, &told);
        assert_string_equal(told.text, "process 1 (host fake, pid 7) has given no sign of life for 0.5 s");
        fake_await(fake, GP_GUARD_BYE, NULL);
        expect_end(child, said, interrupted ? 130 : 0,
                   "gpipe-train: warning: process 1 (host fake, pid 7) has given no sign of life for 0.5 s, when all "
                   "was saved; the run is complete, and does not wait for it\n");
        close(fake);
    }
}

/* An interrupted run is interrupted for all, whichever of both calls comes first. */
static void test_all_are_interrupted(void **state) {
    static group all;
    (void)state;
    for (int fails_first = 0; fails_first < 2; fails_first++) {
        gp_error cause = {.status = GP_INTERRUPTED};
        begin(&all, 2, 1);
        end_start(&all, 0);
        if (fails_first) gp_guard_fail(of(&all, 0), &cause);
        gp_guard_finish(of(&all, 0), GP_INTERRUPTED);
        if (!fails_first) gp_guard_fail(of(&all, 0), &cause);
        assert_int_equal(cause.status, GP_INTERRUPTED);
        assert_int_equal(gp_guard_cause(of(&all, 0), &cause), GP_INTERRUPTED);
        await_cause(of(&all, 1), &cause);
        assert_int_equal(cause.status, GP_INTERRUPTED);
        gp_guard_stop(&all.member[1].guard);
        end(&all);
    }
}

/* A loss that came before stays a failure. */
static void test_a_failure_is_not_saved(void **state) {
    static group all;
    (void)state;
    begin(&all, 2, 0);
    int fake = fake_join(&all.door, 1);
    end_start(&all, 0);
    gp_error cause = {.status = GP_LOST, .text = "process 1: it is lost"};
    gp_guard_fail(of(&all, 0), &cause);
    gp_guard_finish(of(&all, 0), GP_OK);
    fake_await(fake, GP_GUARD_FAIL, NULL); /* and no SAVED */
    assert_int_equal(gp_guard_cause(of(&all, 0), &cause), GP_LOST);
    fake_tell(fake, GP_GUARD_BYE, GP_OK, 1, NULL, 0);
    end(&all);
    close(fake);
}

/* The other way round, of a run that was interrupted. Before it has heard that, it is a failure. */
static void test_process_0_is_lost_after_all_was_saved(void **state) {
    static const char sentence[] = "process 0 (host fake, pid 7) has ended without a word";
    static group all;
    int said, rank;
    char expected[256];
    (void)state;
    for (int saved = 0; saved < 2; saved++) {
        listen_for(&all, 2);
        pid_t child = fork_guard(&all, 1, GP_INTERNAL, &said);
        int fake = fake_admit(&all.listener, &all.door, &rank);
        if (saved) fake_tell(fake, GP_GUARD_SAVED, GP_INTERRUPTED, 0, NULL, 0);
        shutdown(fake, SHUT_WR);
        snprintf(expected, sizeof expected, "gpipe-train: %s%s%s\n", saved ? "warning: " : "", sentence,
                 saved ? ", when all was saved; the run is complete, and does not wait for it" : "");
        expect_end(child, said, saved ? 130 : 1, expected);
        close(fake);
        stop_listening(&all);
    }
}

/* Process 0 hears the goodbyes of all before it ends. */
static void test_process_0_waits_for_goodbyes(void **state) {
    static group all;
    (void)state;
    begin(&all, 3, 1);
    int fake = fake_join(&all.door, 2);
    end_start(&all, 0);
    gp_guard_finish(of(&all, 0), GP_OK);
    fake_await(fake, GP_GUARD_SAVED, NULL);
    gp_guard_stop(&all.member[1].guard);
    fake_tell(fake, GP_GUARD_BYE, GP_OK, 2, NULL, 0);
    end(&all);
    close(fake);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        /* These fork, before there are threads. */
        cmocka_unit_test(test_a_process_that_does_not_end_is_ended),
        cmocka_unit_test(test_a_process_that_is_lost_after_all_was_saved),
        cmocka_unit_test(test_process_0_is_lost_after_all_was_saved),
        cmocka_unit_test(test_all_learn_the_first_cause),
        cmocka_unit_test(test_a_later_watch_is_cancelled),
        cmocka_unit_test(test_a_process_that_ends_without_a_word_is_lost),
        cmocka_unit_test(test_a_silent_process_is_lost),
        cmocka_unit_test(test_process_0_tells_the_timeout),
        cmocka_unit_test(test_goodbye_is_no_loss),
        cmocka_unit_test(test_process_0_waits_for_goodbyes),
        cmocka_unit_test(test_all_are_interrupted),
        cmocka_unit_test(test_a_failure_is_not_saved),
        cmocka_unit_test(test_asking_for_the_end_reaches_process_0),
        cmocka_unit_test(test_a_message_that_mpi_loses_ends_the_run),
        cmocka_unit_test(test_questions_that_no_process_asks),
        cmocka_unit_test(test_process_1_speaks_if_process_0_is_lost),
        cmocka_unit_test(test_process_0_that_comes_back_does_not_say_it_again),
        cmocka_unit_test(test_others_are_turned_away),
        cmocka_unit_test(test_a_connection_that_was_given_up_does_not_count),
        cmocka_unit_test(test_the_newest_attempt_holds),
        cmocka_unit_test(test_nothing_counts_before_ready),
        cmocka_unit_test(test_a_process_that_is_not_answered_tries_again),
        cmocka_unit_test(test_silent_strangers_hold_up_no_process),
        cmocka_unit_test(test_process_0_gives_signs_of_life_while_it_waits),
        cmocka_unit_test(test_what_process_0_says_if_nobody_comes),
        cmocka_unit_test(test_processes_of_one_machine_are_by_themselves),
        cmocka_unit_test(test_between_machines_the_ways_count),
        cmocka_unit_test(test_messages_right_after_the_hello),
        cmocka_unit_test(test_what_is_no_message),
        cmocka_unit_test(test_a_message_that_is_cut_off),
        cmocka_unit_test(test_a_message_that_lacks_a_byte),
        cmocka_unit_test(test_texts_can_be_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
