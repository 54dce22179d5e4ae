/* What users of PyTorch, torchgpipe, Caffe, Keras, Megatron and DeepSpeed type: the names here that mean the same, and
 * advice for names that have no equal here.
 *
 * `folded`: a name without case, '_', '-', '.' and blanks, as gp_fold_name writes it. `known`: the names of the list in
 * which it was not found, NULL-terminated; it tells the place. Pure functions over constant tables; any thread. Inside
 * src/config.
 */
#ifndef GP_CONFIG_FOREIGN_H
#define GP_CONFIG_FOREIGN_H

/* The name of `known` that means the same; NULL: none. */
const char *gp_foreign_name(const char *folded, const char *const *known);
/* What to do about a name that has no equal ("this version has no recurrent layers"); NULL: nothing is known of it. No
 * other name may be suggested for such a name. */
const char *gp_foreign_advice(const char *folded, const char *const *known);
/* "data.batch" for a key, or for a name that means one, which another section of the configuration has; NULL: none, or
 * `known` is no section. */
const char *gp_foreign_home(const char *folded, const char *const *known);

#endif
