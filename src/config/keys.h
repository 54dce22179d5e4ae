/* The table of configuration keys: one row for each key. Reading, ranges, defaults, messages, the resolved file, what a
 * run may change and the list in docs/configuration.md all follow from the rows.
 *
 * A row says where its value lies in the struct that its table fills, and has a type that reads and writes the value. A
 * key with a form of its own has a type of its own, beside its table. Rows are constant; reading is for one thread.
 */
#ifndef GP_CONFIG_KEYS_H
#define GP_CONFIG_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "config/read.h"

enum { GP_MAX_KEYS = 20, GP_KEY_TEXT = 96 };

typedef struct gp_key gp_key;
typedef struct gp_key_kind gp_key_kind;

/* Where a value is read. */
typedef struct gp_key_context {
    const char *what;   /* the value's path in messages: "optimizer.sgd" */
    const char *joint;  /* between `what` and a key of its mapping: "." or ": "; NULL: a key is named alone */
    const char *folder; /* where relative paths begin */
    gp_place place;     /* of a key that is absent */
} gp_key_context;

/* How values are read and written. `base`: the struct that the table fills. */
typedef struct gp_key_type {
    const char *noun; /* in docs/configuration.md: "integer" */
    /* NULL: rooms above read it. */
    gp_status (*read)(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base, gp_error *err);
    void (*write)(FILE *file, const gp_key *key, const void *base);
    /* Whether there is a value to write. NULL: always. Asked if the key has no default. */
    bool (*is_said)(const gp_key *key, const void *base);
} gp_key_type;

/* UNNAMED: a message about it names the mapping. */
typedef enum gp_key_alone { GP_ALONE_NEVER, GP_ALONE_SCALAR, GP_ALONE_ANY, GP_ALONE_UNNAMED } gp_key_alone;

/* The keys of one mapping, and the kinds of which it chooses one. */
typedef struct gp_key_table {
    const gp_key *keys;       /* up to one without a name; NULL: none. In the order of the resolved file */
    const gp_key_kind *kinds; /* likewise */
    size_t kind;              /* offset of the kind's enum */
    size_t kind_place;        /* offset of its place; 0: none */
    const char *const *later_kinds, *const *later_keys; /* of a later version; may be NULL */
    const char *before_example;                         /* in the message for a missing key; NULL: ", as in " */
    const char *needs;  /* what the message for a missing key asks for, in place of the key's example */
    gp_key_alone alone; /* whether the first key's value may stand in the place of the mapping */
    bool short_names;   /* messages name an option by its kind alone: "random_crop: size" */
    /* What needs several keys. `mapping`: NULL if there is none. */
    gp_status (*check)(const gp_yaml *mapping, const gp_key_context *at, const void *base, gp_error *err);
} gp_key_table;

struct gp_key_kind {
    const char *name;
    int value;         /* of the enum */
    const char *fixed; /* why a run cannot change to or from this kind; NULL: it can */
    gp_key_table options;
};

/* What --resume and `changes` may do with a key. A key without a rule has that of the key above it. */
typedef enum gp_key_change {
    GP_CHANGE_AS_ABOVE,
    GP_CHANGE_BY_STEP, /* from a step on, if --set or `changes` says so */
    GP_CHANGE_FREELY,  /* by an edit of the file too */
    GP_CHANGE_MACHINE, /* the same, and it changes no number: it holds for the whole run */
    GP_CHANGE_NEVER,
} gp_key_change;

enum {
    GP_KEY_FIRST = 1,    /* is read before the others of its table */
    GP_KEY_UNNAMED = 2,  /* messages name the mapping in its place, and it is written alone if nothing else is said */
    GP_KEY_QUIET = 4,    /* is written only if `given` is set */
    GP_KEY_SHORT = 8,    /* short for what another key says, and never written */
    GP_KEY_DEPENDS = 16, /* is read only if the keys before it are without a mistake */
};

/* Parts of a row. */
#define GP_FIXED(reason)    .change = GP_CHANGE_NEVER, .fixed = (reason)
#define GP_IF_GIVEN(offset) .given = (offset), .flags = GP_KEY_QUIET

struct gp_key {
    const char *name;
    const gp_key_type *type;
    size_t offset;       /* of the value in the struct that the table fills */
    const char *unsaid;  /* the default, as YAML; NULL: none */
    const char *example; /* the key is required; the message shows this */
    struct {
        int64_t low, high;
    } integer; /* bounds of integers, of a time (low) and of entries (high) */
    struct {
        double low, high;
        unsigned open; /* as gp_read_number's */
    } number;
    const char *const *names; /* values of a choice, by its enum */
    const char *const *later; /* values that a later version will have; may be NULL */
    const gp_key_table *table;
    struct {
        gp_yaml_kind kind;
        const char *why; /* NULL: the type has messages of its own */
    } refused;           /* a form that the value cannot have */
    size_t place;        /* offset of the value's place; 0: none */
    size_t given;        /* offset of a flag that is set if the configuration has the key; 0: none */
    size_t count;        /* offset of the number of entries of a list, which is written if it has any; 0: no list */
    unsigned flags;
    gp_key_change change;
    const char *fixed; /* GP_CHANGE_NEVER: the reason */
};

/* Types of one value. Names of what they fill: int, int64_t or uint64_t, double, bool, gp_time, gp_every, an owned
 * char * with an absolute path, an enum, size_t, two int64_t ([height, width], or one number for both). */
extern const gp_key_type gp_int_type, gp_int64_type, gp_number_type, gp_boolean_type, gp_time_type, gp_every_type,
    gp_path_type, gp_choice_type, gp_bytes_type, gp_pair_type;
/* What `table` has, in the same struct. */
extern const gp_key_type gp_table_type;
/* A section that rooms above read: it has a row, and no value in any struct. */
extern const gp_key_type gp_elsewhere_type;

/* Fills `base` from a mapping, or from the form that the table lets stand in its place. Mistakes of several keys are
 * joined. */
GP_MUST_USE gp_status gp_read_table(const gp_key_table *table, const gp_yaml *node, const gp_key_context *at,
                                    void *base, gp_error *err);
/* The options of a kind that was chosen; `at` names the kind. */
GP_MUST_USE gp_status gp_read_kind_options(const gp_key_table *table, const gp_choice *choice, const gp_key_context *at,
                                           void *base, gp_error *err);
/* As YAML on one line. */
void gp_write_table(FILE *file, const gp_key_table *table, const void *base);
/* ["a", "b"] */
void gp_write_names(FILE *file, const gp_placed_name *names, int count);
/* The shortest decimal that reads back as the same number. */
void gp_write_number(FILE *file, double value);
void gp_write_time(FILE *file, gp_time time);

/* The rule of the deepest row that the path "data.train.take" meets, and the reason of GP_CHANGE_NEVER. */
gp_key_change gp_find_change(const gp_key_table *table, const char *path, const char **reason);

#endif
