/* Posts that are carried out within the backward that makes their parts, before it is over (plan/early_posts.h).
 *
 * The plan owns the lists; workers carry them out, and the player reads them. Read-only, any thread. */
#ifndef GP_SCHEDULE_POSTS_H
#define GP_SCHEDULE_POSTS_H

#include <stddef.h>
#include <stdint.h>

/* The instruction `post` is carried out within the backward `pc`, when `ops` ops of its routine are over. */
typedef struct gp_early_post {
    uint32_t pc, post, ops;
    double share; /* of the time of the backward that is over then, about */
} gp_early_post;

/* Of a worker, by pc and then by ops. */
typedef struct gp_worker_posts {
    gp_early_post *items;
    size_t count, capacity;
} gp_worker_posts;

#endif
