#include "process/launch.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

static const char *const slurm_tasks = "SLURM_STEP_NUM_TASKS";
static const char *const slurm_rank = "SLURM_PROCID";

static int number_of(const char *name) {
    const char *text = getenv(name);
    char *end;
    long number = text && *text ? strtol(text, &end, 10) : -1;
    return number >= 0 && number < 1 << 20 && *end == '\0' ? (int)number : -1;
}

static bool is_launch(const char *count_name, const char *rank_name, int *count, int *rank) {
    int processes = number_of(count_name), own = number_of(rank_name);
    if (processes < 1 || own < 0 || own >= processes) return false;
    *count = processes;
    *rank = own;
    return true;
}

/* Open MPI, and PMI of MPICH and others. */
static bool find_own(int *count, int *rank) {
    static const char *const names[][2] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                           {"PMI_SIZE", "PMI_RANK"},
                                           {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_launch(names[i][0], names[i][1], count, rank)) return true;
    return false;
}

/* A task of Slurm may be a launcher of its own: then its processes have that launcher's numbers, too. */
void gp_launch_find(int *count, int *rank) {
    *count = 1;
    *rank = 0;
    if (!find_own(count, rank)) (void)is_launch(slurm_tasks, slurm_rank, count, rank);
}

/* ---- machines ---------------------------------------------------------------------------------------------------- */

/* A number of digits only. 0: there is none, or it is too large. */
static int read_number(const char **at) {
    int number = 0;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        if (number >= 1 << 20) return 0;
        number = 10 * number + (**at - '0');
    }
    return number;
}

bool gp_launch_read_tasks(const char *text, int count, int *out) {
    int placed = 0;
    for (const char *at = text;; at++) {
        int tasks = read_number(&at), hosts = 1;
        if (tasks == 0) return false;
        if (strncmp(at, "(x", 2) == 0) {
            at += 2;
            hosts = read_number(&at);
            if (hosts == 0 || *at++ != ')') return false;
        }
        if (tasks > (count - placed) / hosts) return false;
        for (int i = 0; i < tasks * hosts; i++) out[placed + i] = placed + i - i % tasks;
        placed += tasks * hosts;
        if (*at == '\0') return placed == count;
        if (*at != ',') return false;
    }
}

/* Slurm places tasks in other orders, too, if the user asks for that. */
static bool read_slurm(int count, int *out) {
    const char *order = getenv("SLURM_DISTRIBUTION"), *tasks = getenv("SLURM_STEP_TASKS_PER_NODE");
    if (!tasks || number_of(slurm_tasks) != count) return false;
    return (!order || strncmp(order, "block", 5) == 0) && gp_launch_read_tasks(tasks, count, out);
}

gp_status gp_launch_machines(int count, int **out, gp_error *err) {
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE"};
    int here = -1, own_count, own_rank, *machines = NULL;
    *out = NULL;
    if (count < 2) return GP_OK;
    GP_RETURN_IF_FAILED(GP_NEW(&machines, count, err));
    for (size_t i = 0; i < sizeof names / sizeof *names && here < 1; i++) here = number_of(names[i]);
    bool known = here >= 1 && here <= count;
    for (int p = 0; p < count && known; p++) machines[p] = p - p % here;
    if (!known && !find_own(&own_count, &own_rank)) known = read_slurm(count, machines);
    if (known)
        *out = machines;
    else
        free(machines);
    return GP_OK;
}

int gp_launch_processors(const int *machines, int count) {
    cpu_set_t own, all;
    int here = 0;
    for (int p = 0; p < count && machines; p++) here += machines[p] == machines[0];
    if (here < 2 || sched_getaffinity(0, sizeof own, &own) != 0) return 0;
    if (sched_getaffinity(getppid(), sizeof all, &all) != 0) return 0;
    CPU_OR(&all, &all, &own);
    int most = CPU_COUNT(&all), each = CPU_COUNT(&own);
    return here <= most / each ? here * each : most;
}

/* ---- Slurm without PMI ------------------------------------------------------------------------------------------- */

/* The first letters of what launchers tell the MPI of their processes. */
static bool offers_pmi(void) {
    static const char *const names[] = {"PMIX_", "PMI_", "FLUX_"};
    for (char **at = environ; *at; at++)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (strncmp(*at, names[i], strlen(names[i])) == 0) return true;
    return false;
}

gp_status gp_launch_check(const char *library, gp_error *err) {
    int count, rank;
    if (find_own(&count, &rank) || !is_launch(slurm_tasks, slurm_rank, &count, &rank) || count == 1) return GP_OK;
    if (!strstr(library, "Open MPI") || offers_pmi()) return GP_OK;
    return gp_fail(err, GP_UNSUPPORTED,
                   "srun started %d processes, but does not connect them; with Slurm, try srun --mpi=pmix", count);
}
