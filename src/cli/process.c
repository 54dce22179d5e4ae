#include "cli/process.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/ticker.h"
#include "process/launch.h"

/* Where the caller closed a standard stream, the next file opened would take its place, and progress would go into the
 * model. What stands in for it cannot be written (or read), so that it is noticed. */
static void hold_standard_streams(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd) return;
}

/* libgomp reads variables when it is loaded, before main. Threads that spin while they wait disturb the other stages.
 * With fewer threads than oneDNN was asked to compute with, a part of a result stays as it was. So where a variable is
 * not as it must be, the program starts itself again, by its own name, which ps and killall know. */
static void set_openmp(char **argv) {
    static const char *const fewer[] = {"OMP_DYNAMIC", "OMP_THREAD_LIMIT", "OMP_MAX_ACTIVE_LEVELS"};
    char path[4096];
    bool wrong = !getenv("OMP_WAIT_POLICY") && setenv("OMP_WAIT_POLICY", "passive", 1) == 0;
    for (size_t i = 0; i < sizeof fewer / sizeof *fewer; i++) {
        if (!getenv(fewer[i])) continue;
        (void)unsetenv(fewer[i]);
        wrong = true;
    }
    if (!wrong) return;
    ssize_t length = readlink("/proc/self/exe", path, sizeof path);
    if (length <= 0 || (size_t)length == sizeof path) return;
    path[length] = '\0';
    execv(path, argv);
}

/* What libraries of GPUs read when they start. As many queues of a GPU as it can have go on without one another
 * (plan/lines.h). The configuration says how a run computes, not variables that change the arithmetic of f32. */
static void set_gpu_libraries(void) {
    (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    (void)unsetenv("NVIDIA_TF32_OVERRIDE");
    (void)unsetenv("CUBLAS_EMULATE_SINGLE_PRECISION");
}

void gp_process_keep_output(void) {
    static const char *const destinations[] = {"CUDNN_LOGDEST_DBG", "CUBLAS_LOGDEST_DBG"};
    (void)unsetenv("ONEDNN_VERBOSE");
    (void)unsetenv("DNNL_VERBOSE");
    for (size_t i = 0; i < sizeof destinations / sizeof *destinations; i++) {
        const char *to = getenv(destinations[i]);
        if (to && !strcmp(to, "stdout")) (void)setenv(destinations[i], "stderr", 1);
    }
    (void)setenv("CUBLASLT_LOG_FILE", "/dev/stderr", 0); /* without it, standard output */
}

/* No signal is lost while the program starts itself again: the mask and what is pending outlive execv, handlers do not.
 */
static void block_signals(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
}

/* A parent may have blocked signals, and the mask outlives its exec: SIGTERM would stay pending, and would not end the
 * program. What the parent ignores stays ignored, as nohup and the background jobs of a script want it. */
static void unblock_signals(void) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void leave(int number) {
    (void)number;
    _exit(gp_status_exit(GP_INTERRUPTED));
}

void gp_process_on_interrupt(void (*handler)(int number)) {
    static const int numbers[] = {SIGINT, SIGTERM};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, before;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < 2; i++) sigaddset(&action.sa_mask, numbers[i]);
    for (size_t i = 0; i < 2; i++)
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
}

/* What is freed goes back to the system, so that a large block of the start does not stay for the whole run: a large
 * block has pages of its own. glibc also gives each thread a heap with 64 MiB of address space; where that is limited,
 * all threads share one. */
static void set_heap(void) {
    struct rlimit space;
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    mallopt(M_TRIM_THRESHOLD, 4 << 20);
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) mallopt(M_ARENA_MAX, 1);
}

/* A file that may not grow (ulimit -f) is an error of a write, which is reported as a full disk is. */
static void survive_file_limit(void) {
    signal(SIGXFSZ, SIG_IGN);
}

void gp_process_begin(char **argv) {
    block_signals();
    hold_standard_streams();
    set_openmp(argv);
    set_gpu_libraries();
    gp_process_on_interrupt(leave);
    unblock_signals();
    survive_file_limit();
    set_heap();
}

bool gp_process_says_alone(int rank) {
    /* More than launchers take to end the others when one has failed. Process 1 speaks before those after it end. */
    const struct timespec pause = {rank == 1 ? 2 : 3, 0};
    if (rank == 0) return true;
    nanosleep(&pause, NULL);
    return rank == 1 && !gp_processes_are_built();
}

gp_status gp_process_refuse_together(uint64_t task, gp_status status, gp_processes **together, bool *says,
                                     gp_error *err) {
    gp_error other = {0};
    int count, rank;
    if (!gp_processes_are_built()) return status;
    gp_launch_find(&count, &rank);
    if (gp_processes_open(task, together, &other) == GP_OK) {
        *says = gp_processes_end(*together, &status, err);
        return status;
    }
    *says = gp_process_says_alone(rank);
    if (other.status == GP_USAGE) *err = other;
    return err->status;
}

int gp_process_end(const char *program, gp_processes **together, gp_status status, gp_error *err) {
    if (status == GP_OK && (fflush(stdout) != 0 || ferror(stdout)))
        status = gp_fail(err, GP_IO, "standard output cannot be written");
    if (status != GP_OK && err->text[0]) {
        fflush(stdout);
        gp_ticker_clear_line(false);
    }
    for (const char *line = err->text; status != GP_OK && *line;) {
        int length = (int)strcspn(line, "\n");
        fprintf(stderr, "%s: %.*s\n", program, length, line);
        line += length + (line[length] == '\n');
    }
    gp_processes_close(together);
    return gp_status_exit(status);
}
