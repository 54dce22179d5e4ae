/* Changes one value in the text of a YAML file and leaves every other byte as it is, comments and layout included.
 *
 * Pure but for gp_yaml_splice_file; any thread. */
#ifndef GP_CONFIG_SPLICE_H
#define GP_CONFIG_SPLICE_H

#include <stddef.h>

#include "base/status.h"

/* `text` with `value` (YAML on one line) as what section.key says: in place of what it said, or added to the section,
 * or with a section of its own; lines end as its first one does. Where the text says it already, it stays as it is.
 * Owned by the caller. GP_CONFIG with a place where the text is no YAML, or cannot be changed so that this and nothing
 * else changes: the value is shared through an anchor, the section comes from an alias, a comment stands within what
 * would be replaced. `name` stands for the path. */
GP_MUST_USE gp_status gp_yaml_splice(const char *text, const char *name, const char *section, const char *key,
                                     const char *value, char **out, gp_error *err);
/* What one key of a section is to say. */
typedef struct gp_yaml_setting {
    const char *key, *value;
} gp_yaml_setting;

/* The same for a file and some keys of a section: it is replaced whole or not at all, and keeps its permissions and its
 * owner. GP_IO if that cannot be. */
GP_MUST_USE gp_status gp_yaml_splice_file(const char *path, const char *section, const gp_yaml_setting *settings,
                                          int count, gp_error *err);

/* GP_IO with the reason if a file that is there may not be replaced: it is read-only, has several hard links, which
 * would be split, or belongs to another user. */
GP_MUST_USE gp_status gp_yaml_check_replaceable(const char *path, gp_error *err);

#endif
