/* Files that are written whole or not at all, while the system fails in every way at every call. */
#include "base/replace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

static char folder[] = "/tmp/gp-test-replace-XXXXXX";
static char target[64];
static const char old_text[] = "what was there", new_text[] = "what comes in its place";

/* The calls so far, a letter each, and which of them fails how. */
static struct {
    char made[64];
    size_t count, failing;
    int error;   /* 0: write takes nothing, the others succeed */
    size_t most; /* bytes that a write takes; 0: all */
} script;

static bool fails(char call) {
    assert_true(script.count + 1 < sizeof script.made);
    script.made[script.count++] = call;
    script.made[script.count] = '\0';
    if (script.count != script.failing) return false;
    errno = script.error;
    return true;
}

static ssize_t write_scripted(int fd, const void *data, size_t bytes) {
    if (fails('w')) return script.error ? -1 : 0;
    return write(fd, data, script.most && script.most < bytes ? script.most : bytes);
}

static int fsync_scripted(int fd) {
    return fails('s') && script.error ? -1 : fsync(fd);
}

static int rename_scripted(const char *from, const char *to) {
    return fails('r') && script.error ? -1 : rename(from, to);
}

/* The file system of every file, whatever the machine of the test has; and why a new file cannot be looked at. */
enum { EXT4 = 0xEF53 };
static unsigned long file_system = EXT4;
static int fstat_error; /* 0: none */

static int fstat_scripted(int fd, struct stat *about) {
    if (!fstat_error) return fstat(fd, about);
    errno = fstat_error;
    return -1;
}

static int fstatfs_scripted(int fd, struct statfs *about) {
    (void)fd;
    memset(about, 0, sizeof *about);
    about->f_type = (__typeof__(about->f_type))file_system;
    return 0;
}

static const gp_file_calls scripted = {write_scripted, fsync_scripted, rename_scripted, fstat_scripted,
                                       fstatfs_scripted};

static int make(void **state) {
    (void)state;
    if (!mkdtemp(folder)) return -1;
    snprintf(target, sizeof target, "%s/target", folder);
    gp_file_set_calls(&scripted);
    return 0;
}

static int end(void **state) {
    (void)state;
    gp_file_set_calls(NULL);
    return unlink(target) != 0 || rmdir(folder) != 0;
}

static int entries(void) {
    DIR *all = opendir(folder);
    int count = -2; /* "." and ".." */
    assert_non_null(all);
    while (readdir(all)) count++;
    closedir(all);
    return count;
}

static void expect_target(const char *text) {
    char found[64] = "";
    FILE *file = fopen(target, "r");
    assert_non_null(file);
    size_t bytes = fread(found, 1, sizeof found - 1, file);
    fclose(file);
    assert_string_equal(found, text);
    assert_int_equal(bytes, strlen(text));
}

static void put_old(void) {
    FILE *file = fopen(target, "w");
    assert_non_null(file);
    fputs(old_text, file);
    fclose(file);
}

/* In three parts, one of which is empty. */
static gp_status replace(size_t failing, int error, size_t most, gp_error *err) {
    gp_replacing *file = NULL;
    memset(&script, 0, sizeof script);
    script.failing = failing;
    script.error = error;
    script.most = most;
    GP_RETURN_IF_FAILED(gp_file_begin(target, &file, err));
    gp_status status = gp_file_add(file, new_text, 10, err);
    if (status == GP_OK) status = gp_file_add(file, NULL, 0, err);
    if (status == GP_OK) status = gp_file_add(file, new_text + 10, sizeof new_text - 11, err);
    return gp_file_end(&file, status, err);
}

/* Over what was added before; what follows goes on behind it. */
static void bytes_that_are_written_again(void **state) {
    (void)state;
    gp_error err = {0};
    gp_replacing *file = NULL;
    memset(&script, 0, sizeof script);
    put_old();
    assert_int_equal(gp_file_begin(target, &file, &err), GP_OK);
    assert_int_equal(gp_file_add(file, "abc000", 6, &err), GP_OK);
    assert_int_equal(gp_file_patch(file, 3, "12", 2, &err), GP_OK);
    assert_int_equal(gp_file_add(file, "xyz", 3, &err), GP_OK);
    assert_int_equal(gp_file_end(&file, GP_OK, &err), GP_OK);
    expect_target("abc120xyz");
}

/* Written, synced, renamed, and the folder synced: in this order. */
static void in_order(void **state) {
    (void)state;
    gp_error err = {0};
    put_old();
    assert_int_equal(replace(0, 0, 0, &err), GP_OK);
    assert_string_equal(script.made, "wwsrs");
    expect_target(new_text);
    assert_int_equal(entries(), 1);
}

static void short_writes(void **state) {
    (void)state;
    for (size_t most = 1; most < 12; most++) {
        gp_error err = {0};
        put_old();
        assert_int_equal(replace(0, 0, most, &err), GP_OK);
        expect_target(new_text);
    }
}

/* The target is the old file, or after its renaming the new one; and nothing else is left. */
static void each_call_fails(void **state) {
    (void)state;
    static const int errors[] = {ENOSPC, EIO, EDQUOT, EFBIG};
    static const char *const remedies[] = {"; free space on that file system", "",
                                           "; free space, or ask for a larger quota",
                                           "; raise the limit on the size of files (ulimit -f)"};
    char temporary[100], sentences[5][300];
    snprintf(temporary, sizeof temporary, "%s.tmp-%ld-0", target, (long)getpid());
    snprintf(sentences[0], sizeof *sentences, "%s: cannot be written: ", temporary);
    snprintf(sentences[1], sizeof *sentences, "%s: cannot be written: ", temporary);
    snprintf(sentences[2], sizeof *sentences, "%s: cannot be synced: ", temporary);
    snprintf(sentences[3], sizeof *sentences, "%s: cannot be renamed to %s: ", temporary, target);
    snprintf(sentences[4], sizeof *sentences,
             "%s was written, but a crash of the machine may still lose it: %s: cannot be synced: ", target, folder);
    for (size_t call = 1; call <= 5; call++)
        for (size_t e = 0; e < sizeof errors / sizeof *errors; e++) {
            gp_error err = {0};
            size_t length = strlen(sentences[call - 1]);
            put_old();
            assert_int_equal(replace(call, errors[e], 0, &err), GP_IO);
            assert_memory_equal(err.text, sentences[call - 1], length);
            assert_memory_equal(err.text + length, strerror(errors[e]), strlen(strerror(errors[e])));
            assert_string_equal(err.text + length + strlen(strerror(errors[e])), remedies[e]);
            expect_target(call == 5 ? new_text : old_text);
            assert_int_equal(entries(), 1);
        }
}

/* An interrupted write is begun again; one that takes nothing without a reason would be begun for ever. */
static void odd_writes(void **state) {
    (void)state;
    gp_error err = {0};
    put_old();
    assert_int_equal(replace(2, EINTR, 0, &err), GP_OK);
    expect_target(new_text);
    put_old();
    assert_int_equal(replace(1, 0, 0, &err), GP_IO);
    assert_non_null(strstr(err.text, ": cannot be written: the system takes no more bytes"));
    expect_target(old_text);
}

/* Of a folder that cannot be synced there is nothing to say. */
static void folders_without_sync(void **state) {
    (void)state;
    gp_error err = {0};
    put_old();
    assert_int_equal(replace(5, EINVAL, 0, &err), GP_OK);
    expect_target(new_text);
}

static bool is_target(const char *name) {
    return strcmp(name, "target") == 0 || strcmp(name, "a.tmp-1-2") == 0;
}

static void touch(const char *name, char path[100]) {
    snprintf(path, 100, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
}

/* Only names that replacing one of the targets makes. */
static void stale_files_go(void **state) {
    (void)state;
    static const char *const stale[] = {"target.tmp-1-0", "target.tmp-4194304-99", "a.tmp-1-2.tmp-22-7"};
    static const char *const others[] = {"target.tmp-",     "target.tmp-1",     "target.tmp-1-",     "target.tmp-x-1",
                                         "target.tmp--1-1", "target.tmp-1-x",   "target.tmp-1-1.x",  "target.tmp-0-1",
                                         "target.tmp-01-1", "target.tmp-1-01",  "target.tmp-1-00",   "target.tmp-1-100",
                                         "target.tmp- 1-1", "target.tmp-1-1-1", "target.tmp-+1-1",   ".tmp-1-1",
                                         "tmp-1-1",         "a-target.tmp-1-1", "thesis.tmp-2024-11"};
    enum { STALE = sizeof stale / sizeof *stale, OTHERS = sizeof others / sizeof *others };
    char path[100];
    put_old();
    for (size_t i = 0; i < STALE; i++) touch(stale[i], path);
    for (size_t i = 0; i < OTHERS; i++) touch(others[i], path);
    gp_file_remove_stale(folder, is_target, NULL);
    assert_int_equal(entries(), 1 + OTHERS);
    for (size_t i = 0; i < OTHERS; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, others[i]);
        assert_int_equal(unlink(path), 0);
    }
    gp_file_remove_stale("/no/such/folder", is_target, NULL);
}

/* Only where the locks of all writers are seen: on file systems of one machine. */
static void stale_files_stay_where_locks_may_not_be_seen(void **state) {
    (void)state;
    static const unsigned long local[] = {0xEF53,     0x58465342, 0x9123683E, 0x2FC12FC1, 0x01021994,
                                          0x858458F6, 0x794C7630, 0xF2F52010, 0xCA451A4E};
    static const struct {
        const char *name;
        unsigned long type;
    } others[] = {
        {"NFS", 0x6969},       {"SMB", 0x517B},        {"CIFS", 0xFF534D42}, {"SMB2", 0xFE534D42},
        {"FUSE", 0x65735546},  {"Lustre", 0x0BD00BD0}, {"9p", 0x01021997},   {"AFS", 0x5346414F},
        {"kAFS", 0x6B414653},  {"GPFS", 0x47504653},   {"Ceph", 0x00C36400}, {"GFS2", 0x01161970},
        {"OCFS2", 0x7461636F}, {"BeeGFS", 0x19830326}, {"none known", 0x1},  {"vboxsf", 0x786F4256},
    };
    char path[100];
    put_old();
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        touch("target.tmp-1-0", path);
        file_system = others[i].type;
        gp_file_remove_stale(folder, is_target, NULL);
        if (unlink(path) != 0) fail_msg("a stale file on %s was removed", others[i].name);
    }
    for (size_t i = 0; i < sizeof local / sizeof *local; i++) {
        touch("target.tmp-1-0", path);
        file_system = local[i];
        gp_file_remove_stale(folder, is_target, NULL);
        if (unlink(path) == 0) fail_msg("a stale file on file system %#lx was not removed", local[i]);
    }
    file_system = EXT4;
}

/* The new file cannot be looked at: no second one is made, and none stays. */
static void a_file_that_cannot_be_looked_at_does_not_stay(void **state) {
    (void)state;
    gp_error err = {0};
    char wanted[300];
    put_old();
    fstat_error = EIO;
    gp_status status = replace(0, 0, 0, &err);
    fstat_error = 0;
    assert_int_equal(status, GP_IO);
    snprintf(wanted, sizeof wanted, "%s.tmp-%ld-0: its attributes cannot be read: %s", target, (long)getpid(),
             strerror(EIO));
    assert_string_equal(err.text, wanted);
    assert_int_equal(entries(), 1);
    expect_target(old_text);
}

/* The lock says whether the writer lives, and not the number in the name; a link's target and a folder are left alone.
 */
static void what_is_written_stays(void **state) {
    (void)state;
    gp_error err = {0};
    gp_replacing *file = NULL;
    char path[100];
    put_old();
    assert_int_equal(gp_file_begin(target, &file, &err), GP_OK);
    gp_file_remove_stale(folder, is_target, NULL);
    assert_int_equal(entries(), 2);
    assert_int_equal(gp_file_add(file, new_text, strlen(new_text), &err), GP_OK);
    assert_int_equal(gp_file_end(&file, GP_OK, &err), GP_OK);
    expect_target(new_text);
    assert_int_equal(entries(), 1);
    snprintf(path, sizeof path, "%s/target.tmp-1-0", folder);
    assert_int_equal(symlink("target", path), 0);
    gp_file_remove_stale(folder, is_target, NULL);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    gp_file_remove_stale(folder, is_target, NULL);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    gp_file_remove_stale(folder, is_target, NULL);
    assert_int_equal(unlink(path), 0);
}

/* While the file is renamed, too: another process that cleans up there finds the lock. */
static int rename_and_clean(const char *from, const char *to) {
    gp_file_remove_stale(folder, is_target, NULL);
    return rename(from, to);
}

static void it_stays_until_it_is_in_place(void **state) {
    (void)state;
    static const gp_file_calls cleaning = {write, fsync, rename_and_clean, fstat, fstatfs_scripted};
    gp_error err = {0};
    put_old();
    gp_file_set_calls(&cleaning);
    gp_status status = gp_file_replace(target, new_text, &err);
    gp_file_set_calls(&scripted);
    assert_int_equal(status, GP_OK);
    expect_target(new_text);
}

static void the_same_file_by_other_names(void **state) {
    (void)state;
    char link[100], hard[100], absent[100], within[100];
    put_old();
    snprintf(link, sizeof link, "%s/link", folder);
    snprintf(hard, sizeof hard, "%s/hard", folder);
    assert_int_equal(symlink("target", link), 0);
    assert_int_equal(linkat(AT_FDCWD, target, AT_FDCWD, hard, 0), 0);
    snprintf(within, sizeof within, "%s/./target", folder);
    assert_true(gp_file_is(target, link) && gp_file_is(target, hard) && gp_file_is(within, target));
    assert_int_equal(unlink(hard), 0);
    assert_false(gp_file_is(target, hard));
    snprintf(absent, sizeof absent, "%s/absent", folder);
    snprintf(within, sizeof within, "%s/../%s/absent", folder, strrchr(folder, '/') + 1);
    assert_true(gp_file_is(absent, within));
    assert_false(gp_file_is(absent, hard));
    assert_int_equal(symlink("absent", hard), 0); /* a link to what is not there yet */
    assert_true(gp_file_is(absent, hard));
    assert_false(gp_file_is("/no/such/a", "/no/such/a"));
    assert_int_equal(unlink(hard), 0);
    assert_int_equal(unlink(link), 0);
}

/* A write that fails leaves nothing beside what a link leads to either. What a killed process left there is not looked
 * for: that folder is not held, and a living one's file may be it. */
static void where_links_lead(void **state) {
    (void)state;
    char other[80], link[100], path[120];
    gp_error err = {0};
    snprintf(other, sizeof other, "%s/other", folder);
    snprintf(link, sizeof link, "%s/link", other);
    put_old();
    assert_int_equal(mkdir(other, 0700), 0);
    assert_int_equal(symlink("../target", link), 0);
    for (size_t call = 1; call <= 3; call++) { /* write, sync, rename */
        memset(&script, 0, sizeof script);
        script.failing = call;
        script.error = ENOSPC;
        assert_int_equal(gp_file_replace(link, new_text, &err), GP_IO);
        expect_target(old_text);
        assert_int_equal(entries(), 2);
    }
    snprintf(path, sizeof path, "%s.tmp-1-0", target);
    fclose(fopen(path, "w"));
    gp_file_remove_stale(other, is_target, NULL);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(rmdir(other), 0);
}

/* A process that ended in the middle may have had this one's number. */
static void names_that_are_taken_are_passed_by(void **state) {
    (void)state;
    gp_error err = {0};
    char path[100], wanted[300];
    put_old();
    for (int taken = 0; taken <= 100; taken++) {
        gp_status status = replace(0, 0, 0, &err);
        assert_int_equal(status, taken < 100 ? GP_OK : GP_IO);
        assert_int_equal(entries(), 1 + taken);
        snprintf(path, sizeof path, "%s.tmp-%ld-%d", target, (long)getpid(), taken);
        if (taken < 100) fclose(fopen(path, "w"));
    }
    snprintf(wanted, sizeof wanted,
             "%s: 100 temporary files of other runs exist (%s.tmp-*): remove those of runs that have ended", target,
             target);
    assert_string_equal(err.text, wanted);
    expect_target(new_text);
    gp_file_remove_stale(folder, is_target, NULL);
    assert_int_equal(entries(), 1);
}

/* The file that a link leads to is replaced, with its permissions; what is no file stays what it is. */
static void links_permissions_and_pipes_stay(void **state) {
    (void)state;
    char link[80], pipe[80];
    struct stat about;
    gp_error err = {0};
    snprintf(link, sizeof link, "%s/link", folder);
    snprintf(pipe, sizeof pipe, "%s/pipe", folder);
    script.failing = 0;
    put_old();
    assert_int_equal(chmod(target, 0600), 0);
    assert_int_equal(symlink("target", link), 0);
    script.count = 0;
    assert_int_equal(gp_file_replace(link, new_text, &err), GP_OK);
    assert_int_equal(lstat(link, &about), 0);
    assert_true(S_ISLNK(about.st_mode));
    assert_int_equal(stat(target, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0600);
    expect_target(new_text);
    /* What it leads to is not there yet: the link stays, and leads to it. Nobody's permissions stay too. */
    assert_int_equal(unlink(target), 0);
    script.count = 0;
    assert_int_equal(gp_file_replace(link, new_text, &err), GP_OK);
    assert_int_equal(lstat(link, &about), 0);
    assert_true(S_ISLNK(about.st_mode));
    expect_target(new_text);
    assert_int_equal(chmod(target, 0), 0);
    script.count = 0;
    assert_int_equal(gp_file_replace(link, new_text, &err), GP_OK);
    assert_int_equal(stat(target, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0);
    assert_int_equal(chmod(target, 0600), 0);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    script.count = 0;
    assert_int_equal(gp_file_replace(pipe, new_text, &err), GP_IO);
    assert_non_null(strstr(err.text, "/pipe: is not a regular file, and cannot be replaced: choose another name"));
    assert_int_equal(lstat(pipe, &about), 0);
    assert_true(S_ISFIFO(about.st_mode));
    assert_int_equal(unlink(pipe), 0);
    assert_int_equal(unlink(link), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_that_are_written_again),
        cmocka_unit_test(in_order),
        cmocka_unit_test(short_writes),
        cmocka_unit_test(each_call_fails),
        cmocka_unit_test(odd_writes),
        cmocka_unit_test(folders_without_sync),
        cmocka_unit_test(stale_files_go),
        cmocka_unit_test(stale_files_stay_where_locks_may_not_be_seen),
        cmocka_unit_test(a_file_that_cannot_be_looked_at_does_not_stay),
        cmocka_unit_test(what_is_written_stays),
        cmocka_unit_test(it_stays_until_it_is_in_place),
        cmocka_unit_test(the_same_file_by_other_names),
        cmocka_unit_test(where_links_lead),
        cmocka_unit_test(names_that_are_taken_are_passed_by),
        cmocka_unit_test(links_permissions_and_pipes_stay),
    };
    return cmocka_run_group_tests_name("replace", tests, make, end);
}
