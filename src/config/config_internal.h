/* What the readers of the configuration share: texts in messages, and the tables of the sections. For src/config/ only.
 *
 * What a reader allocates gp_config_destroy frees, also after a failure. One thread.
 */
#ifndef GP_CONFIG_CONFIG_INTERNAL_H
#define GP_CONFIG_CONFIG_INTERNAL_H

#include <stdio.h>

#include "config/config.h"

/* A text in quotation marks for a message: control characters escaped, cut with "…" where it is long. */
typedef struct gp_shown {
    char text[100];
} gp_shown;
gp_shown gp_show(const char *text);

/* "a list", "a mapping", "an empty value", or the text shown. */
gp_shown gp_show_node(const gp_yaml *node);

/* "optimizer.sgd.lr" for a name that means a key of another section than the one whose keys are `known`; NULL: none. */
const char *gp_home_of(const char *name, const char *const *known);
/* Whether two names are equal without case, '_', '-', '.' and blanks. */
bool gp_same_name(const char *a, const char *b);
/* Index of a name in a NULL-terminated list, which may be NULL; −1 where it is not there. */
int gp_index_of(const char *name, const char *const *names);

/* The kind's index in `known`. A kind of `later` is not available yet; another is unknown, with the nearest. */
GP_MUST_USE gp_status gp_find_kind(const gp_choice *choice, const char *what, const char *const *known,
                                   const char *const *later, int *out, gp_error *err);

/* The kind's options as a mapping with known keys, or alone: *out is NULL then. A value in place of a mapping is
 * refused.
 */
GP_MUST_USE gp_status gp_read_options(const gp_choice *choice, const char *what, const char *const *known,
                                      const char *const *later, const gp_yaml **out, gp_error *err);
/* The tables of the sections, and that of the whole configuration. */
extern const gp_key_table gp_config_table, gp_data_table, gp_pipeline_table, gp_optimizer_table, gp_train_table;
/* Of one transform, one device, and `checkpoint`. */
extern const gp_key_table gp_transform_table, gp_device_table, gp_checkpoint_table;
/* Keys with files of their own; `base` is the source or the pipeline. */
extern const gp_key_type gp_transforms_type, gp_devices_type, gp_balance_type, gp_together_type;

void gp_free_transforms(gp_source_config *source);

GP_MUST_USE gp_status gp_read_changes(gp_config *config, const gp_yaml *node, gp_error *err);
void gp_free_changes(gp_config *config);
/* As config.yaml has them: "{501: {optimizer.sgd.lr: 0.01}, }". */
void gp_write_changes(FILE *file, const gp_config *config);

#endif
