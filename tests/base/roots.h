/* A root folder with files of a test's own, in place of the machine's. For one test at a time; cmocka asserts inside.
 */
#ifndef GP_TESTS_BASE_ROOTS_H
#define GP_TESTS_BASE_ROOTS_H

/* The folder, while a test runs. */
extern char root[64];

/* Writes a file below the root, and the folders that lead to it. */
void give(const char *name, const char *text);
/* Setup and teardown of a test. */
int make_root(void **state);
int remove_root(void **state);

#endif
