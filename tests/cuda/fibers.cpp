/* Fibers and the scheduler of one block: see fibers.h. */
#include "cuda/fibers.h"
#include "cuda/fibers_run.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#if !defined(__x86_64__) || defined(GP_FIBERS_UCONTEXT)
#define GP_FIBERS_UCONTEXT
#include <ucontext.h>
#endif

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GP_FIBERS_ASAN
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(GP_FIBERS_ASAN)
#define GP_FIBERS_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

dim3 threadIdx, blockIdx, blockDim, gridDim;

enum { MOST_THREADS = 1024, STACK_BYTES = 256 << 10 };

/* ---- stacks -------------------------------------------------------------------------------------------------------
 */

#ifdef GP_FIBERS_UCONTEXT
typedef ucontext_t context;

static void context_switch(context *from, context *to) {
    swapcontext(from, to);
}

static void context_make(context *made, char *stack, size_t bytes, void (*entry)()) {
    getcontext(made);
    made->uc_stack.ss_sp = stack;
    made->uc_stack.ss_size = bytes;
    makecontext(made, entry, 0);
}
#else
/* swapcontext saves the signal mask, which takes two system calls; this takes none. */
typedef void *context; /* the stack's top, where the saved registers lie */

extern "C" void gp_fiber_switch(void **from, void *to);
asm(R"(
    .text
    .globl gp_fiber_switch
    .type gp_fiber_switch, @function
gp_fiber_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size gp_fiber_switch, .-gp_fiber_switch
)");

static void context_switch(context *from, context *to) {
    gp_fiber_switch(from, *to);
}

static void context_make(context *made, char *stack, size_t bytes, void (*entry)()) {
    enum { REGISTERS = 6 };
    void **top = (void **)(void *)(stack + bytes) - 2; /* the stack is aligned as after a call */
    top[0] = (void *)entry;
    top[1] = nullptr;
    for (int i = 1; i <= REGISTERS; i++) top[-i] = nullptr;
    *made = top - REGISTERS;
}
#endif

/* ---- the block that runs -------------------------------------------------------------------------------------------
 */

typedef enum thread_state { READY, AT_BARRIER, AT_WARP_BARRIER, AT_SHUFFLE, AT_FAULT, DONE } thread_state;

typedef struct fiber {
    context place;
    char *stack;
    int thread; /* that it carries */
    void *fake_stack;
} fiber;

typedef struct thread {
    thread_state state;
    fiber *on; /* NULL: has not begun, or is done */
    gp_fiber_site site;
    unsigned mask;
    uint64_t bits;
    int from;
} thread;

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static const gp_fiber_run *running;
static thread threads[MOST_THREADS];
static fiber fibers[MOST_THREADS], *idle[MOST_THREADS];
static int fibers_made, fibers_idle;
static fiber *current;
static context scheduler;
static uint64_t random_state;

static uint64_t draw() { /* splitmix64 */
    uint64_t z = random_state += 0x9E3779B97F4A7C15U;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9U;
    z = (z ^ z >> 27) * 0x94D049BB133111EBU;
    return z ^ z >> 31;
}

#ifdef GP_FIBERS_ASAN
static const void *scheduler_stack;
static size_t scheduler_bytes;
#endif

/* From a fiber to the scheduler, and back when it is resumed. */
static void leave() {
    fiber *self = current;
#ifdef GP_FIBERS_ASAN
    __sanitizer_start_switch_fiber(&self->fake_stack, scheduler_stack, scheduler_bytes);
#endif
    context_switch(&self->place, &scheduler);
#ifdef GP_FIBERS_ASAN
    __sanitizer_finish_switch_fiber(self->fake_stack, &scheduler_stack, &scheduler_bytes);
#endif
}

static void fiber_main() {
#ifdef GP_FIBERS_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_bytes);
#endif
    for (;;) {
        running->kernel(running->args);
        threads[current->thread].state = DONE;
        leave();
    }
}

static void fiber_begin(fiber *made) {
    if (!made->stack) {
        void *stack =
            mmap(nullptr, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stack == MAP_FAILED) {
            perror("fibers: a stack");
            abort();
        }
        made->stack = (char *)stack;
    }
#ifdef GP_FIBERS_ASAN
    __asan_unpoison_memory_region(made->stack, STACK_BYTES);
#endif
    /* Not all tops in the same lines of the cache. */
    size_t unused = (size_t)(made - fibers) * 5 * 64 % 4096;
    context_make(&made->place, made->stack, STACK_BYTES - unused, fiber_main);
}

static fiber *fiber_take() {
    if (fibers_idle > 0) return idle[--fibers_idle];
    fiber *made = &fibers[fibers_made++];
    fiber_begin(made);
    return made;
}

/* Threads that waited for what never came are left where they are; their fibers begin anew. */
static void fibers_forget() {
    fibers_made = 0;
    fibers_idle = 0;
}

static void resume(int number) {
    thread *self = &threads[number];
    if (!self->on) {
        self->on = fiber_take();
        self->on->thread = number;
    }
    threadIdx = {(uint32_t)number, 0, 0};
    current = self->on;
#ifdef GP_FIBERS_ASAN
    void *fake_stack = nullptr;
    __sanitizer_start_switch_fiber(&fake_stack, current->stack, STACK_BYTES);
#endif
    context_switch(&scheduler, &current->place);
#ifdef GP_FIBERS_ASAN
    __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
    if (self->state == DONE) {
        idle[fibers_idle++] = self->on;
        self->on = nullptr;
    }
}

/* ---- where threads meet -------------------------------------------------------------------------------------------
 */

static thread *wait_at(thread_state state, unsigned mask, gp_fiber_site site) {
    thread *self = &threads[current->thread];
    self->state = state;
    self->mask = mask;
    self->site = site;
    return self;
}

void gp_fiber_barrier(gp_fiber_site site) {
    wait_at(AT_BARRIER, 0, site);
    leave();
}

void gp_fiber_warp_barrier(unsigned mask, gp_fiber_site site) {
    wait_at(AT_WARP_BARRIER, mask, site);
    leave();
}

uint64_t gp_fiber_shuffle(unsigned mask, uint64_t bits, int from, gp_fiber_site site) {
    thread *self = wait_at(AT_SHUFFLE, mask, site);
    self->bits = bits;
    self->from = from;
    leave();
    return self->bits;
}

void gp_fiber_fault(gp_fiber_site site) {
    wait_at(AT_FAULT, 0, site);
    for (;;) leave();
}

/* Of literals, which mostly are one and the same. */
static bool same_text(const char *a, const char *b) {
    return a == b || !strcmp(a, b);
}

static bool same_site(const thread *a, const thread *b) {
    return a->state == b->state && a->mask == b->mask && a->site.line == b->site.line &&
           same_text(a->site.file, b->site.file) && same_text(a->site.what, b->site.what);
}

static void thread_text(char *text, size_t size, int number) {
    const thread *t = &threads[number];
    if (t->state == DONE)
        snprintf(text, size, "thread %d has left", number);
    else
        snprintf(text, size, "thread %d is at %s in %s:%d (mask %08x)", number, t->site.what, t->site.file,
                 t->site.line, t->mask);
}

static int faulted(int number, char text[GP_FIBERS_TEXT]) {
    const gp_fiber_site *site = &threads[number].site;
    snprintf(text, GP_FIBERS_TEXT, "kernel %s, block (%u, %u, %u): thread %d is at %s in %s:%d", running->name,
             blockIdx.x, blockIdx.y, blockIdx.z, number, site->what, site->file, site->line);
    return -1;
}

static int diverged(int waiting, int other, char text[GP_FIBERS_TEXT]) {
    char first[160], second[160];
    thread_text(first, sizeof first, waiting);
    thread_text(second, sizeof second, other);
    snprintf(text, GP_FIBERS_TEXT, "kernel %s, block (%u, %u, %u): not all threads meet: %s, and %s", running->name,
             blockIdx.x, blockIdx.y, blockIdx.z, first, second);
    return -1;
}

/* Hands out what the lanes of a warp brought to a shuffle. */
static void exchange(int first, int lanes) {
    uint64_t bits[warpSize];
    for (int i = 0; i < warpSize; i++) bits[i] = i < lanes ? threads[first + i].bits : UINT64_MAX;
    for (int i = 0; i < lanes; i++) {
        thread *t = &threads[first + i];
        if (t->state != AT_SHUFFLE) continue;
        bool named = t->mask >> t->from & 1;
        t->bits = named ? bits[t->from] : UINT64_MAX;
    }
}

/* Lets the threads of a warp go on that wait for each other: all that the mask names, in one place. */
static int warp_release(int first, int lanes, bool *released, char text[GP_FIBERS_TEXT]) {
    bool shuffles = false;
    unsigned checked = 0; /* lanes that may go on */
    for (int i = 0; i < lanes; i++) {
        thread *t = &threads[first + i];
        if (checked >> i & 1 || (t->state != AT_WARP_BARRIER && t->state != AT_SHUFFLE)) continue;
        if (!(t->mask >> i & 1)) return diverged(first + i, first + i, text);
        for (int k = 0; k < lanes; k++)
            if (t->mask >> k & 1 && !same_site(t, &threads[first + k])) return diverged(first + i, first + k, text);
        shuffles = shuffles || t->state == AT_SHUFFLE;
        checked |= t->mask;
    }
    if (shuffles) exchange(first, lanes);
    for (int i = 0; i < lanes; i++)
        if (checked >> i & 1) threads[first + i].state = READY;
    *released = *released || checked;
    return 0;
}

/* Nobody is ready: all are done (*over), or some meet and go on. */
static int release(bool *over, char text[GP_FIBERS_TEXT]) {
    int count = (int)running->block;
    bool released = false;
    for (int i = 0; i < count; i++)
        if (threads[i].state == AT_FAULT) return faulted(i, text);
    for (int first = 0; first < count; first += warpSize) {
        int lanes = count - first < warpSize ? count - first : warpSize;
        if (warp_release(first, lanes, &released, text) != 0) return -1;
    }
    *over = false;
    if (released) return 0;
    for (int i = 1; i < count; i++)
        if (threads[0].state != threads[i].state ||
            (threads[0].state == AT_BARRIER && !same_site(&threads[0], &threads[i])))
            return threads[0].state == DONE ? diverged(i, 0, text) : diverged(0, i, text);
    *over = threads[0].state == DONE;
    for (int i = 0; i < count && !*over; i++) threads[i].state = READY;
    return 0;
}

/* ---- blocks -------------------------------------------------------------------------------------------------------
 */

/* The numbers below count in the run's order. */
static void arrange(uint32_t *numbers, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) numbers[i] = running->order == GP_FIBERS_DESCENDING ? count - 1 - i : i;
    if (running->order != GP_FIBERS_RANDOM) return;
    for (uint32_t i = count; i > 1; i--) {
        uint32_t other = (uint32_t)(draw() % i), kept = numbers[i - 1];
        numbers[i - 1] = numbers[other];
        numbers[other] = kept;
    }
}

/* Set by the linker; no shared memory in the whole program: NULL. */
extern "C" {
extern char __start_gp_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_gp_shared[] __attribute__((weak, visibility("hidden")));
}

/* Over AddressSanitizer's gaps between the variables too. */
__attribute__((no_sanitize_address, noinline)) static void shared_poison(unsigned char value) {
    volatile char *at = __start_gp_shared;
    for (; at < __stop_gp_shared && (uintptr_t)at % sizeof(uint64_t); at++) *at = (char)value;
    for (; at + sizeof(uint64_t) <= __stop_gp_shared; at += sizeof(uint64_t))
        *(volatile uint64_t *)at = value * 0x0101010101010101U;
    for (; at < __stop_gp_shared; at++) *at = (char)value;
}

static void run_ready(uint32_t first, uint32_t count) {
    uint32_t order[MOST_THREADS];
    arrange(order, count);
    for (uint32_t i = 0; i < count; i++)
        if (threads[first + order[i]].state == READY) resume((int)(first + order[i]));
}

/* Each warp as far as it gets alone, so that warps are as far apart as barriers let them. */
static int run_warp_by_warp(char text[GP_FIBERS_TEXT]) {
    uint32_t order[MOST_THREADS / warpSize], count = (running->block + warpSize - 1) / warpSize;
    arrange(order, count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t first = order[i] * warpSize, lanes = running->block - first;
        if (lanes > warpSize) lanes = warpSize;
        for (bool released = true; released;) {
            run_ready(first, lanes);
            released = false;
            if (warp_release((int)first, (int)lanes, &released, text) != 0) return -1;
        }
    }
    return 0;
}

static int block_run(char text[GP_FIBERS_TEXT]) {
    shared_poison(running->poison);
    for (uint32_t i = 0; i < running->block; i++) threads[i] = thread{READY, nullptr, {nullptr, nullptr, 0}, 0, 0, 0};
    for (bool over = false; !over;) {
        bool apart = running->order != GP_FIBERS_RANDOM || draw() % 2;
        if (!apart)
            run_ready(0, running->block);
        else if (run_warp_by_warp(text) != 0)
            return -1;
        if (release(&over, text) != 0) return -1;
    }
    return 0;
}

static int grid_run(const uint32_t *order, uint32_t blocks, char text[GP_FIBERS_TEXT]) {
    for (uint32_t i = 0; i < blocks; i++) {
        uint32_t x = order[i] % gridDim.x, rest = order[i] / gridDim.x;
        blockIdx = {x, rest % gridDim.y, rest / gridDim.y};
        if (block_run(text) != 0) {
            fibers_forget();
            return -1;
        }
    }
    return 0;
}

int gp_fibers_run(const gp_fiber_run *run, char text[GP_FIBERS_TEXT]) {
    assert(run->block >= 1 && run->block <= MOST_THREADS);
    uint32_t blocks = run->grid[0] * run->grid[1] * run->grid[2];
    uint32_t *order = (uint32_t *)malloc(sizeof *order * (blocks ? blocks : 1));
    if (!order) {
        snprintf(text, GP_FIBERS_TEXT, "kernel %s: out of memory", run->name);
        return -1;
    }
    pthread_mutex_lock(&one_at_a_time);
    running = run;
    random_state = run->seed;
    gridDim = {run->grid[0], run->grid[1], run->grid[2]};
    blockDim = {run->block, 1, 1};
    arrange(order, blocks);
    int status = grid_run(order, blocks, text);
    running = nullptr;
    pthread_mutex_unlock(&one_at_a_time);
    free(order);
    return status;
}
