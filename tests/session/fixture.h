/* A temporary folder with a small data set and a configuration on it, for the tests of src/train. cmocka asserts
 * inside, so main thread only. */
#ifndef GP_TESTS_SESSION_FIXTURE_H
#define GP_TESTS_SESSION_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "session/resume.h"
#include "session/session.h"

enum { FIXTURE_SAMPLES = 64, FIXTURE_CLASSES = 3 };

/* What every configuration of these tests begins with: 8 layers on [2, 4, 4], a skip, batch norm, dropout. */
#define FIXTURE_MODEL                                                                                                  \
    "model:\n"                                                                                                         \
    "  input: {shape: [2, 4, 4]}\n"                                                                                    \
    "  layers:\n"                                                                                                      \
    "    - conv: {out: 8, kernel: 3, pad: 1}\n"                                                                        \
    "    - batch_norm\n"                                                                                               \
    "    - relu: {name: a}\n"                                                                                          \
    "    - conv: {out: 8, kernel: 3, pad: 1}\n"                                                                        \
    "    - add: [a, -1]\n"                                                                                             \
    "    - dropout: 0.2\n"                                                                                             \
    "    - flatten\n"                                                                                                  \
    "    - linear: {out: 3}\n"                                                                                         \
    "  loss: cross_entropy\n"
/* 50 samples in mini-batches of 16, the last of 2; 14 for evaluation. */
#define FIXTURE_CONFIG                                                                                                 \
    FIXTURE_MODEL                                                                                                      \
    "data:\n"                                                                                                          \
    "  train: {tensors: d.safetensors, take: [0, 50]}\n"                                                               \
    "  eval: {tensors: d.safetensors, take: [50, 64]}\n"                                                               \
    "  batch: 16\n"                                                                                                    \
    "pipeline:\n"                                                                                                      \
    "  devices: [cpu, cpu]\n"                                                                                          \
    "  micro_batches: 4\n"                                                                                             \
    "  balance: auto\n"                                                                                                \
    "optimizer:\n"                                                                                                     \
    "  sgd: {lr: 0.02, momentum: 0.9}\n"                                                                               \
    "  warmup: 0\n"                                                                                                    \
    "train: {epochs: 2}\n"

/* For cmocka's group: the folder, with the data set d.safetensors in it; and its removal, with all that lies there. */
int fixture_make(void **state);
int fixture_remove(void **state);

/* A path in the folder; each call has a text of its own for the next 64 calls. */
const char *fixture_path(const char *name);
/* Takes the folder out of a text. */
void fixture_strip_folder(char *text);
/* A run's own folder within it; the path stays as long. */
const char *fixture_new_folder(void);
/* Samples x [n, 2, 4, 4] that a network can learn, y classes, written as a safetensors file. Every `ignored`-th target
 * is one that does not count; 0: none. */
void fixture_write_data(const char *name, int samples, int ignored);
void fixture_write_text(const char *name, const char *text);
/* The file's bytes with a NUL behind them, to be freed by the caller. */
char *fixture_read(const char *path, size_t *bytes);
/* Entries of a folder, "." and ".." not counted; −1 where there is none. */
int fixture_count_entries(const char *path);

/* The configuration, with `changes` as --set takes them (NULL-terminated; may be NULL). */
gp_config *fixture_config(const char *text, const char *const *changes);
/* The session of FIXTURE_CONFIG with changes; must succeed. */
gp_session *fixture_session(const char *const *changes);
/* The session that goes on with the run in a folder. *resume is to be closed; must succeed. */
gp_session *fixture_resume(const char *text, const char *const *changes, const char *run, gp_resume *resume);
/* Whole sentence, wherever it says "<folder>/" without it, and status of a session that is refused. */
void fixture_refused(const char *text, const char *const *changes, gp_status wanted, const char *rest);

/* gp_cost_by_time as the session counts it for its first device, with so many recomputes; must succeed. */
void fixture_count_cost(const gp_session *session, double recomputes, int64_t *cost);

/* metrics.jsonl of a run folder, one object a line; a JSON array. */
json_t *fixture_metrics(const char *folder);

#define FIXTURE_CHANGES(...) ((const char *const[]){__VA_ARGS__, NULL})

#endif
