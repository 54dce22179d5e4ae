/* A library to be loaded before a program's own (LD_PRELOAD): calls that change files of one folder are counted, from
 * 1, and one of them, or many, go wrong.
 *
 * GP_FAULTS_FOLDER: the folder, as the kernel calls it. GP_FAULTS_LOG: a file that gets a line per call, "write NAME".
 * GP_FAULTS: `kill-before N`, `kill-within N` (half of what call N was to write), `kill-after N`; `fail N M ERRNO`:
 * calls N … N+M−1, of those that need room; `short SEED`: writes take some of the bytes; `stop-before N`: the process
 * stops (SIGSTOP) before call N, and goes on after SIGCONT. GP_FAULTS_FREE: bytes that each file system has free
 * ("unknown": it does not say). Any thread may call. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LONGEST = 4096 };

typedef enum mode { NONE, KILL_BEFORE, KILL_WITHIN, KILL_AFTER, FAIL, SHORT, STOP_BEFORE } mode;

static struct {
    mode mode;
    long from, count;
    int error;
    const char *folder;
    int log;
    atomic_long calls;
    atomic_uint random;
} faults;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void) {
    const char *text = getenv("GP_FAULTS"), *log = getenv("GP_FAULTS_LOG");
    char word[32] = "";
    static const char *const words[] = {"", "kill-before", "kill-within", "kill-after", "fail", "short", "stop-before"};
    faults.folder = getenv("GP_FAULTS_FOLDER");
    faults.log = log ? (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
    if (text) (void)sscanf(text, "%31s %ld %ld %d", word, &faults.from, &faults.count, &faults.error);
    for (int m = 1; m <= STOP_BEFORE; m++)
        if (strcmp(word, words[m]) == 0) faults.mode = (mode)m;
    atomic_store(&faults.random, (unsigned)faults.from);
}

/* What `path` is called within the folder; NULL where it is elsewhere. */
static const char *within(const char *path) {
    size_t length = faults.folder ? strlen(faults.folder) : 0;
    if (length == 0 || strncmp(path, faults.folder, length) != 0) return NULL;
    return path[length] == '\0' ? "." : path[length] == '/' ? path + length + 1 : NULL;
}

static const char *name_of(int fd, char path[LONGEST]) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, LONGEST - 1);
    if (length <= 0) return NULL;
    path[length] = '\0';
    return within(path);
}

static void end(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* The call's number; 0: it is not of the folder. Ends or stops the process before its call N if GP_FAULTS says so. */
static long count_call(const char *call, const char *name) {
    char line[LONGEST + 32];
    if (!name) return 0;
    long number = atomic_fetch_add(&faults.calls, 1) + 1;
    int length = snprintf(line, sizeof line, "%s %s\n", call, name);
    if (faults.log >= 0) (void)syscall(SYS_write, faults.log, line, (size_t)length);
    if (faults.mode == KILL_BEFORE && number == faults.from) end();
    if (faults.mode == STOP_BEFORE && number == faults.from) (void)raise(SIGSTOP);
    return number;
}

static bool fails(long number) {
    if (faults.mode != FAIL || number < faults.from || number >= faults.from + faults.count) return false;
    errno = faults.error;
    return true;
}

/* After a call that did its work: what it returned, unless it was the last. */
static int done(long number, int result) {
    if ((faults.mode == KILL_AFTER || faults.mode == KILL_WITHIN) && number > 0 && number == faults.from) end();
    return result;
}

static size_t shorter(size_t bytes) {
    unsigned now = atomic_load(&faults.random);
    while (!atomic_compare_exchange_weak(&faults.random, &now, now * 1664525U + 1013904223U)) continue;
    return bytes < 2 || now >> 30 == 0 ? bytes : 1 + (now >> 8) % (bytes - 1);
}

ssize_t write(int fd, const void *data, size_t bytes) {
    char path[LONGEST];
    int before = errno;
    long number = count_call("write", name_of(fd, path));
    if (fails(number)) return -1;
    if (number > 0 && faults.mode == SHORT) bytes = shorter(bytes);
    if (number > 0 && number == faults.from && faults.mode == KILL_WITHIN) bytes /= 2;
    errno = before;
    ssize_t result = syscall(SYS_write, fd, data, bytes);
    (void)done(number, 0);
    return result;
}

int fsync(int fd) {
    char path[LONGEST];
    long number = count_call("fsync", name_of(fd, path));
    return fails(number) ? -1 : done(number, REAL(fsync)(fd));
}

int ftruncate(int fd, off_t bytes) {
    char path[LONGEST];
    long number = count_call("ftruncate", name_of(fd, path));
    return done(number, REAL(ftruncate)(fd, bytes));
}

int rename(const char *from, const char *to) {
    long number = count_call("rename", within(to));
    return fails(number) ? -1 : done(number, REAL(rename)(from, to));
}

int unlink(const char *path) {
    long number = count_call("unlink", within(path));
    return done(number, REAL(unlink)(path));
}

/* Less is free for users than for root. */
int statvfs(const char *path, struct statvfs *about) {
    const char *bytes = getenv("GP_FAULTS_FREE");
    int result = REAL(statvfs)(path, about);
    if (result != 0 || !bytes) return result;
    about->f_frsize = 1;
    about->f_bavail = strtoul(bytes, NULL, 10);
    about->f_blocks = strcmp(bytes, "unknown") == 0 ? 0 : about->f_bavail + (1UL << 40);
    about->f_bfree = about->f_blocks;
    return 0;
}

int mkdir(const char *path, mode_t rights) {
    long number = count_call("mkdir", within(path));
    return fails(number) ? -1 : done(number, REAL(mkdir)(path, rights));
}

int open(const char *path, int flags, ...) {
    mode_t rights = 0;
    if (flags & O_CREAT) {
        va_list arguments;
        va_start(arguments, flags);
        rights = va_arg(arguments, mode_t);
        va_end(arguments);
    }
    long number = flags & O_CREAT ? count_call("open", within(path)) : 0;
    return fails(number) ? -1 : done(number, REAL(open)(path, flags, rights));
}
