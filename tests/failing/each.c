#include "failing/each.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "size.h"

enum { SECONDS = 60, MOST_COMPLAINTS = 20 };

int each_most;

/* What a process tells of its time. */
typedef struct account {
    int64_t calls;
    char failed[64]; /* the first call that did; empty: none */
    gp_status status;
    gp_error err;
    bool whole, left_behind;
} account;

typedef struct attempt {
    const each_scenario *scenario;
    calls_family family;
    int64_t first; /* the call that fails; 0: none */
    bool on;       /* and all after it */
    account *account;
    int ended; /* as wait says it */
} attempt;

static int count_entries(const char *path) {
    int count = 0;
    DIR *folder = opendir(path);
    if (!folder) return -1;
    while (readdir(folder)) count++;
    closedir(folder);
    return count;
}

/* A thread that was joined may stand in /proc for a moment longer. */
static bool are_threads(int wanted) {
    for (int i = 0; i < 1000; i++) {
        if (count_entries("/proc/self/task") == wanted) return true;
        usleep(1000);
    }
    return false;
}

/* In a process of its own. */
static void run_here(const attempt *it) {
    account *out = it->account;
    const char *failed = NULL;
    int files = count_entries("/proc/self/fd"), threads = count_entries("/proc/self/task");
    alarm(SECONDS);
    calls_arm(it->family, it->first, it->on);
    out->status = it->scenario->run(&out->err);
    out->calls = calls_disarm(&failed);
    if (failed) snprintf(out->failed, sizeof out->failed, "%s", failed);
    out->left_behind = count_entries("/proc/self/fd") != files || !are_threads(threads);
    out->whole = !failed || (it->scenario->is_whole && out->status == GP_OK && it->scenario->is_whole(failed));
}

static void run_apart(attempt *it) {
    memset(it->account, 0, sizeof *it->account);
    if (it->scenario->prepare) it->scenario->prepare();
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (it->first > 0 && !getenv("GPIPE_TEST_VERBOSE") && !freopen("/dev/null", "w", stderr)) exit(1);
        run_here(it);
        exit(0);
    }
    assert_int_equal(waitpid(child, &it->ended, 0), child);
}

/* What is wrong with how it ended; NULL: nothing. */
static const char *find_fault(const attempt *it) {
    const account *its = it->account;
    if (WIFSIGNALED(it->ended)) return WTERMSIG(it->ended) == SIGALRM ? "does not end" : strsignal(WTERMSIG(it->ended));
    if (WEXITSTATUS(it->ended) != 0) return "a sanitizer objects (GPIPE_TEST_VERBOSE=1 shows it)";
    if (its->left_behind) return "a thread or an open file is left behind";
    if (its->status == GP_OK) return its->whole ? NULL : "nobody noticed";
    if (its->err.status != its->status || !its->err.text[0]) return "the error has no sentence";
    if ((it->family == CALLS_MEMORY || it->family == CALLS_THREADS) && its->status != GP_MEMORY)
        return "it is not said that memory was refused";
    return NULL;
}

static void complain(const attempt *it, const char *fault) {
    const account *its = it->account;
    printf("%s, %s %" PRId64 "%s (%s): %s; status %d: %s\n", it->scenario->name, calls_family_name(it->family),
           it->first, it->on ? " and all after" : "", its->failed, fault, (int)its->status, its->err.text);
}

static attempt first_attempt(const each_scenario *scenario, calls_family family) {
    account *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    attempt it = {.scenario = scenario, .family = family, .account = shared};
    run_apart(&it);
    const char *fault = find_fault(&it);
    if (fault || shared->status != GP_OK) fail_msg("%s: %s: %s", scenario->name, fault ? fault : "", shared->err.text);
    return it;
}

void each_once(const each_scenario *scenario) {
    attempt it = first_attempt(scenario, CALLS_MEMORY);
    munmap(it.account, sizeof *it.account);
}

void each_call_fails(const each_scenario *scenario, calls_family family) {
    attempt it = first_attempt(scenario, family);
    int64_t calls = it.account->calls, times = 0, unharmed = 0, faults = 0;
    int64_t most = each_most > 1 ? each_most : test_pick(scenario->most / 3, scenario->most, INT_MAX);
    int64_t all = most / 2;
    int64_t stride = calls > most ? (calls - all) / (most - all) + 1 : 1;
    for (it.first = 1; it.first <= calls; it.first += it.first < all ? 1 : stride, times++) {
        /* Every eighth time nothing works any more, so that what cleans up meets failures too. */
        it.on = times % 8 == 7;
        run_apart(&it);
        const char *fault = find_fault(&it);
        if (fault && faults++ < MOST_COMPLAINTS) complain(&it, fault);
        if (fault || it.account->status != GP_OK || !it.account->failed[0]) continue;
        unharmed++;
        if (getenv("GPIPE_TEST_VERBOSE")) complain(&it, "does no harm");
    }
    printf("%-14s %-8s %6" PRId64 " calls, %5" PRId64 " failed, %4" PRId64 " of them without harm\n", scenario->name,
           calls_family_name(family), calls, times, unharmed);
    munmap(it.account, sizeof *it.account);
    if (faults > 0) fail_msg("%s, %s: %" PRId64 " bad ends", scenario->name, calls_family_name(family), faults);
}
