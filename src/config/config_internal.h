/* What the readers of the configuration share: texts in messages, and one function per section. For src/config/ only.
 *
 * A section's reader fills its part of gp_config, defaults included; what it allocates gp_config_destroy frees, also
 * after a failure. One thread.
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
/* *out is the key's value; where it is absent the message stands at `place` and shows an example ("batch: 64"). */
GP_MUST_USE gp_status gp_require(const gp_yaml *mapping, gp_place place, const char *what, const char *key,
                                 const char *example, const gp_yaml **out, gp_error *err);
/* The value of an optional key; *out stays where it is absent. */
GP_MUST_USE gp_status gp_read_optional_boolean(const gp_yaml *mapping, const char *key, const char *what, bool *out,
                                               gp_error *err);
/* A path as the configuration says it, from its folder; *out is owned by the caller. */
GP_MUST_USE gp_status gp_read_path(const gp_yaml *node, const char *what, const char *folder, char **out,
                                   gp_error *err);

/* Entries of `transform`: below a source called `what` in messages. */
GP_MUST_USE gp_status gp_read_transforms(const gp_yaml *node, const char *what, gp_source_config *source,
                                         gp_error *err);
void gp_free_transforms(gp_source_config *source);
/* As config.yaml has them: "[{pad: {…}}, …]". */
void gp_write_transforms(FILE *file, const gp_source_config *source);
/* The shortest decimal that reads back as the same number. */
void gp_write_number(FILE *file, double value);

/* Whether a list at pipeline.balance has names of layers in it. */
bool gp_balance_has_names(const gp_yaml *list);
GP_MUST_USE gp_status gp_read_balance_names(gp_pipeline_config *pipeline, const gp_yaml *list, gp_error *err);
GP_MUST_USE gp_status gp_read_together(gp_pipeline_config *pipeline, const gp_yaml *node, gp_error *err);
/* As config.yaml has them. */
void gp_write_balance_names(FILE *file, const gp_pipeline_config *pipeline);
void gp_write_together(FILE *file, const gp_pipeline_config *pipeline);
void gp_write_devices(FILE *file, const gp_pipeline_config *pipeline);

GP_MUST_USE gp_status gp_read_checkpoint(gp_pipeline_config *pipeline, const gp_yaml *node, gp_error *err);

GP_MUST_USE gp_status gp_read_changes(gp_config *config, const gp_yaml *node, gp_error *err);
void gp_free_changes(gp_config *config);
/* As config.yaml has them: "{501: {optimizer.sgd.lr: 0.01}, }". */
void gp_write_changes(FILE *file, const gp_config *config);

GP_MUST_USE gp_status gp_read_data(gp_config *config, const gp_yaml *node, gp_error *err);
GP_MUST_USE gp_status gp_read_pipeline(gp_config *config, const gp_yaml *node, gp_error *err);
GP_MUST_USE gp_status gp_read_optimizer(gp_config *config, const gp_yaml *node, gp_error *err);
GP_MUST_USE gp_status gp_read_train(gp_config *config, const gp_yaml *node, gp_error *err);

#endif
