/* What the readers of the configuration share: texts in messages, and the tables of the sections. For src/settings/
 * only.
 *
 * What a reader allocates gp_config_destroy frees, also after a failure. One thread.
 */
#ifndef GP_SETTINGS_TABLES_INTERNAL_H
#define GP_SETTINGS_TABLES_INTERNAL_H

#include <stdio.h>

#include "settings/config.h"

/* The tables of the sections, and that of the whole configuration. */
extern const gp_key_table gp_config_table, gp_data_table, gp_pipeline_table, gp_optimizer_table, gp_train_table;
/* Of one transform, one device, `checkpoint` and `links`. */
extern const gp_key_table gp_transform_table, gp_device_table, gp_checkpoint_table, gp_links_table;
/* Keys with files of their own; `base` is the source or the pipeline. */
extern const gp_key_type gp_transforms_type, gp_devices_type, gp_balance_type, gp_together_type;

/* A list that has another number of entries than there are stages. */
gp_status gp_refuse_count(const gp_pipeline_config *pipeline, const gp_yaml *list, const char *what, const char *remedy,
                          gp_error *err);
/* Gives each device so many replicas; there are none yet. */
GP_MUST_USE gp_status gp_config_replicate(gp_pipeline_config *pipeline, int replicas, gp_place place, gp_error *err);
void gp_free_transforms(gp_source_config *source);

GP_MUST_USE gp_status gp_read_changes(gp_config *config, const gp_yaml *node, gp_error *err);
void gp_free_changes(gp_config *config);
/* As config.yaml has them: "{501: {optimizer.sgd.lr: 0.01}, }". */
void gp_write_changes(FILE *file, const gp_config *config);

#endif
