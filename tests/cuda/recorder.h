/* A table of the CUDA device (cuda_api.h) on host memory that proves the order of what is enqueued. Every call is noted
 * with vector clocks: one component per stream, joined where a stream waits for an event and where a thread has seen
 * one happen. Two accesses to overlapping memory, one of them a write, that no event orders are an error, whether or
 * not they went wrong this time; so are work on memory that was given back, a wait for an event that nobody has
 * recorded, and a stream used on another device than its own. Work is executed late and in an order of the recorder's
 * choice, so that what is read too early reads poison.
 *
 * Threads may stand for several processes, with lines between them: with an even seed a message goes when both ends
 * have come to it; with an odd one it may go before the receiver has. What one end knows the other does not.
 *
 * One recorder at a time; any thread may call the table. */
#ifndef GP_TESTS_CUDA_RECORDER_H
#define GP_TESTS_CUDA_RECORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum recorder_policy {
    RECORDER_EAGER,      /* when it is enqueued */
    RECORDER_LAZY,       /* when somebody asks, and no more than that takes */
    RECORDER_RANDOM,     /* some of it now, some later, of any stream that may */
    RECORDER_LAST_FIRST, /* when somebody asks, the youngest stream as far as it may, then the next */
    RECORDER_POLICIES
} recorder_policy;

typedef struct recorder_options {
    recorder_policy policy;
    uint64_t seed;
    int devices;
    long without_wait; /* this wait for an event, counted from 0, is left out; −1: none */
    long failing_call; /* this call of the table, counted from 0, fails; −1: none */
    /* This launch, plan or copy, counted from 1, fails when it is carried out; its device does nothing more, and every
     * later call for it fails. 0: none. */
    long failing_work;
    size_t memory;  /* bytes of each device; 0: a GiB */
    size_t library; /* bytes that a stream's libraries take */
} recorder_options;

typedef struct recorder_counts {
    long calls, waits, launches, plans, copies, messages;
} recorder_counts;

enum { RECORDER_LABEL = 96 };

/* What was made to fail, or left out ("wait"): the call, or the kernel or op; the mark and the label that its thread
 * had set, "" where none; on which device. */
typedef struct recorder_fault {
    const char *what; /* NULL: nothing was */
    char mark[96], label[RECORDER_LABEL];
    int device;
} recorder_fault;

/* The device's table is the recorder's until recorder_end. */
void recorder_begin(const recorder_options *options);
/* From now on another program takes so many bytes of the device while a stream's libraries are made; and the table
 * tells what this process holds, its context included. */
enum { RECORDER_CONTEXT = 400 << 20 };
void recorder_share(size_t others_take, bool tells_own);
/* What threads have seen is known to all: they have met in a way that the recorder does not see, and everything that
 * was enqueued has happened. */
void recorder_meet(void);
/* The calling thread tells others what it has seen, under a number below RECORDER_WORDS, once between two meetings;
 * another hears it, and waits until it is told, or something has failed. */
enum { RECORDER_WORDS = 4096 };
void recorder_tell(size_t word);
void recorder_hear(size_t word);
/* From now on every line of the device tells that it has failed. How many were aborted so far, in this recorder. */
void recorder_fail_lines(void);
int recorder_aborted_lines(void);
/* Of what the calling thread enqueues from here on. */
void recorder_label(const char *label);
/* Of the last run. */
const recorder_fault *recorder_failed(void);
/* The first error as a sentence, NULL where there was none; it stays until the next begin. All memory must have been
 * given back. */
const char *recorder_end(recorder_counts *counts);

#endif
