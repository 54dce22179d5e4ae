#include "data/dataset.h"

#include "data/fixture.h"
#include "data/source.h"

#include <math.h>
#include <signal.h>
#include <sys/stat.h>

static const unsigned char tiny_images[] = {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0,   0,
                                            0, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 255, 51};
static const unsigned char tiny_labels[] = {0, 0, 8, 1, 0, 0, 0, 3, 9, 0, 4};

static gp_sample_spec spec_of(int rank, int64_t a, int64_t b, int64_t c) {
    return (gp_sample_spec){
        .input = {rank, {a, b, c}}, .input_dtype = GP_F32, .target_dtype = GP_I64, .classes = 10, .ignore = -100};
}

static gp_source_config source_of(const char *images, const char *labels) {
    return (gp_source_config){.kind = GP_SOURCE_IDX,
                              .place = {"run.yaml", 7, 11},
                              .images = (char *)(uintptr_t)images,
                              .labels = (char *)(uintptr_t)labels,
                              .std = 1,
                              .take_place = {"run.yaml", 9, 5}};
}

static gp_status open_tiny(const char *images, const char *labels, gp_dataset **out, gp_error *err) {
    gp_sample_spec spec = spec_of(3, 1, 2, 2);
    gp_source_config source = source_of(images, labels);
    return gp_dataset_open(&source, &spec, out, err);
}

static void assert_tiny(gp_dataset *dataset) {
    gp_error err = {0};
    assert_int_equal(gp_dataset_count(dataset), 3);
    for (int64_t i = 2; i >= 0; i--) {
        float input[4];
        int64_t target = -1;
        int64_t counts = 0;
        assert_int_equal(fixture_sample(dataset, i, input, &target, &counts, &err), GP_OK);
        for (int64_t j = 0; j < 4; j++) assert_true(input[j] == (float)tiny_images[16 + 4 * i + j] / 255.0F);
        assert_int_equal(target, tiny_labels[8 + i]);
        assert_int_equal(counts, 1);
    }
}

/* Plain and gzipped in any mixture, told apart by what they hold and not by name. */
static void reads_plain_and_gzipped(void **state) {
    (void)state;
    const char *names[2][2] = {{"images.gz", "labels.gz"}, {"images", "labels"}};
    fixture_write(fixture_path("images.gz"), tiny_images, sizeof tiny_images);
    fixture_write(fixture_path("labels.gz"), tiny_labels, sizeof tiny_labels);
    fixture_gzip(fixture_path("images"), tiny_images, sizeof tiny_images);
    fixture_gzip(fixture_path("labels"), tiny_labels, sizeof tiny_labels);
    for (int i = 0; i < 4; i++) {
        gp_dataset *dataset = NULL;
        gp_error err = {0};
        gp_status status = open_tiny(fixture_path(names[i / 2][0]), fixture_path(names[i % 2][1]), &dataset, &err);
        assert_string_equal(err.text, "");
        assert_int_equal(status, GP_OK);
        assert_tiny(dataset);
        gp_dataset_close(&dataset);
        assert_null(dataset);
    }
}

/* Several gzip members after one another are one file, as gzip has it. */
static void reads_members(void **state) {
    (void)state;
    const char *images = fixture_path("members");
    const char *labels = fixture_path("labels.idx");
    const size_t cuts[] = {0, 3, 3, 20, sizeof tiny_images};
    unsigned char whole[512];
    size_t used = 0;
    fixture_write(labels, tiny_labels, sizeof tiny_labels);
    for (int i = 0; i < 4; i++) {
        size_t bytes = 0;
        fixture_gzip(fixture_path("part"), tiny_images + cuts[i], cuts[i + 1] - cuts[i]);
        unsigned char *part = fixture_read(fixture_path("part"), &bytes);
        assert_true(used + bytes <= sizeof whole);
        memcpy(whole + used, part, bytes);
        used += bytes;
        free(part);
    }
    fixture_write(images, whole, used);
    gp_dataset *dataset = NULL;
    gp_error err = {0};
    assert_int_equal(open_tiny(images, labels, &dataset, &err), GP_OK);
    assert_tiny(dataset);
    gp_dataset_close(&dataset);
}

/* Zeros up to the end are padding, as gzip has it, in whatever chunks they are read; nothing may follow them. */
static void reads_padded(void **state) {
    (void)state;
    enum { MOST = 200000, CHUNK = 64 << 10 };
    const char *images = fixture_path("padded.images"), *labels = fixture_path("padded.labels");
    size_t bytes = 0;
    unsigned char *padded = calloc(1, MOST);
    assert_non_null(padded);
    fixture_gzip(images, tiny_images, sizeof tiny_images);
    fixture_write(labels, tiny_labels, sizeof tiny_labels);
    unsigned char *zipped = fixture_read(images, &bytes);
    memcpy(padded, zipped, bytes);
    const size_t sizes[] = {bytes + 1, bytes + 512, CHUNK, CHUNK + 1, MOST};
    gp_dataset *dataset = NULL;
    gp_error err = {0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        fixture_write(images, padded, sizes[i]);
        if (open_tiny(images, labels, &dataset, &err) != GP_OK) fail_msg("%zu bytes: %s", sizes[i], err.text);
        assert_tiny(dataset);
        gp_dataset_close(&dataset);
    }
    memcpy(padded + CHUNK + 7, zipped, bytes);
    fixture_write(images, padded, MOST);
    fixture_expect(open_tiny(images, labels, &dataset, &err), GP_DATA, &err, images,
                   ": offset 65543: the file goes on after the zeros that pad its gzip data");
    free(zipped);
    free(padded);
}

static void normalises(void **state) {
    (void)state;
    const char *images = fixture_path("n.images");
    const char *labels = fixture_path("n.labels");
    fixture_write(images, tiny_images, sizeof tiny_images);
    fixture_write(labels, tiny_labels, sizeof tiny_labels);
    gp_source_config source = source_of(images, labels);
    source.normalise = true;
    source.mean = 0.1307;
    source.std = 0.3081;
    gp_sample_spec spec = spec_of(1, 4, 0, 0); /* as many elements */
    spec.input_dtype = GP_F64;
    gp_dataset *dataset = NULL;
    gp_error err = {0};
    double input[4];
    int64_t target, counts;
    assert_int_equal(gp_dataset_open(&source, &spec, &dataset, &err), GP_OK);
    assert_int_equal(fixture_sample(dataset, 2, input, &target, &counts, &err), GP_OK);
    assert_true(input[2] == (1.0 - 0.1307) / 0.3081);
    assert_true(input[3] == (0.2 - 0.1307) / 0.3081);
    gp_dataset_close(&dataset);
}

/* A grey picture is also its rows, or one vector; any other shape of as many elements is a mistake, and refused. */
static void reads_a_picture_as_rows_or_a_vector(void **state) {
    (void)state;
    const char *images = fixture_path("c.images");
    const char *labels = fixture_path("c.labels");
    fixture_write(images, tiny_images, sizeof tiny_images);
    fixture_write(labels, tiny_labels, sizeof tiny_labels);
    gp_source_config source = source_of(images, labels);
    gp_sample_spec spec = spec_of(3, 1, 2, 2);
    const gp_shape shapes[] = {{3, {1, 2, 2}}, {2, {2, 2}}, {1, {4}}, {3, {2, 2, 1}}, {3, {2, 1, 2}}, {2, {1, 4}}};
    for (int i = 0; i < 6; i++) {
        gp_dataset *dataset = NULL;
        gp_error err = {0};
        float input[4];
        int64_t target, counts;
        spec.input = shapes[i];
        assert_int_equal(gp_dataset_open(&source, &spec, &dataset, &err), i < 3 ? GP_OK : GP_CONFIG);
        if (i >= 3) continue;
        assert_int_equal(fixture_sample(dataset, 1, input, &target, &counts, &err), GP_OK);
        const float wanted[4] = {4 / 255.0F, 5 / 255.0F, 6 / 255.0F, 7 / 255.0F};
        assert_memory_equal(input, wanted, sizeof wanted);
        gp_dataset_close(&dataset);
    }
}

/* Every file cut anywhere is found when it is opened, with its path and an offset within it. */
static void check_cuts(const char *good_images, const char *good_labels, bool gzipped) {
    const char *cut = fixture_path("cut");
    for (int which = 0; which < 2; which++) {
        size_t bytes = 0;
        unsigned char *whole = fixture_read(which ? good_labels : good_images, &bytes);
        for (size_t kept = 0; kept < bytes; kept++) {
            gp_dataset *dataset = NULL;
            gp_error err = {0};
            char offset[300];
            fixture_write(cut, whole, kept);
            assert_int_equal(open_tiny(which ? good_images : cut, which ? cut : good_labels, &dataset, &err), GP_DATA);
            assert_null(dataset);
            snprintf(offset, sizeof offset, "%s: offset %zu: the %s", cut, kept,
                     gzipped && kept >= 2 ? "gzip data is cut off" : "file ends");
            if (strncmp(err.text, offset, strlen(offset)) != 0) assert_string_equal(err.text, offset);
        }
        free(whole);
    }
}

static void truncated_anywhere(void **state) {
    (void)state;
    const char *images = fixture_path("t.images");
    const char *labels = fixture_path("t.labels");
    fixture_write(images, tiny_images, sizeof tiny_images);
    fixture_write(labels, tiny_labels, sizeof tiny_labels);
    check_cuts(images, labels, false);
    fixture_gzip(images, tiny_images, sizeof tiny_images);
    fixture_gzip(labels, tiny_labels, sizeof tiny_labels);
    check_cuts(images, labels, true);
}

/* A gzipped file with any bit wrong is refused, unless the bit means nothing (time, system, the rest of the last byte
 * before the checksum): then it reads the same. */
static void corrupt_anywhere(void **state) {
    (void)state;
    const char *images = fixture_path("k.images");
    const char *labels = fixture_path("k.labels");
    size_t bytes = 0;
    int refused = 0;
    fixture_gzip(images, tiny_images, sizeof tiny_images);
    fixture_write(labels, tiny_labels, sizeof tiny_labels);
    unsigned char *whole = fixture_read(images, &bytes);
    for (size_t bit = 0; bit < bytes * 8; bit++) {
        gp_dataset *dataset = NULL;
        gp_error err = {0};
        whole[bit / 8] ^= (unsigned char)(1U << bit % 8);
        fixture_write(images, whole, bytes);
        whole[bit / 8] ^= (unsigned char)(1U << bit % 8);
        gp_status status = open_tiny(images, labels, &dataset, &err);
        if (status == GP_OK) {
            if (bit / 8 != bytes - 9) assert_in_range(bit / 8, 3, 9);
            assert_tiny(dataset);
            gp_dataset_close(&dataset);
        } else {
            assert_int_equal(status, GP_DATA);
            assert_non_null(strstr(err.text, ": offset "));
            refused++;
        }
    }
    assert_true(refused >= (int)(bytes - 8) * 8);
    free(whole);
}

typedef struct broken {
    const char *what;
    unsigned char bytes[32];
    size_t count;
    bool label;
    const char *message; /* after the path */
} broken;

static const broken brokens[] = {
    {"png", "\x89PNG\r\n\x1a\n", 8, false,
     "offset 0: begins with the bytes 89 50 4e 47; an idx file begins with 00 00"},
    {"element", {0, 0, 7, 3}, 16, false, "offset 2: element type 0x07 is not one of the idx format"},
    {"i8", {0, 0, 9, 3}, 16, false, "offset 2: elements are i8; only u8 is read"},
    {"i16", {0, 0, 11, 3}, 16, false, "offset 2: elements are i16; only u8 is read"},
    {"i32", {0, 0, 12, 3}, 16, false, "offset 2: elements are i32; only u8 is read"},
    {"f32", {0, 0, 13, 3}, 16, false, "offset 2: elements are f32; only u8 is read"},
    {"f64", {0, 0, 14, 3}, 16, false, "offset 2: elements are f64; only u8 is read"},
    {"rank 0", {0, 0, 8, 0}, 16, false, "offset 3: has 0 dimensions; 1 to 4 are read"},
    {"rank 5", {0, 0, 8, 5}, 16, false, "offset 3: has 5 dimensions; 1 to 4 are read"},
    {"none", {0, 0, 8, 3, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2}, 16, false, "offset 4: dimension 0 is 0"},
    {"flat", {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 0}, 16, false, "offset 12: dimension 2 is 0"},
    {"2^96",
     {0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255},
     16,
     false,
     "offset 4: the 3 dimensions have more elements than a file can"},
    {"2^40",
     {0, 0, 8, 3, 255, 255, 255, 255, 0, 0, 1, 0, 0, 0, 1, 0},
     20,
     false,
     "offset 20: the file ends here; its header claims 281474976645136 bytes"},
    {"long", {0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 3, 4}, 12, true, "offset 11: the file goes on after its last element"},
    {"longer", {0, 0, 8, 1, 0, 0, 0, 3}, 32, true, "offset 11: the file goes on after its last element"},
    {"ranks", {0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 3}, 11, false, "offset 3: images need 2 dimensions or more, these have 1"},
    {"label ranks",
     {0, 0, 8, 2, 0, 0, 0, 3, 0, 0, 0, 1, 1, 2, 3},
     15,
     true,
     "offset 3: labels need 1 dimension, these have 2"},
};

static void broken_files(void **state) {
    (void)state;
    const char *images = fixture_path("b.images");
    const char *labels = fixture_path("b.labels");
    const char *bad = fixture_path("bad");
    fixture_write(images, tiny_images, sizeof tiny_images);
    fixture_write(labels, tiny_labels, sizeof tiny_labels);
    for (size_t i = 0; i < sizeof brokens / sizeof *brokens; i++) {
        const broken *it = &brokens[i];
        for (int gzipped = 0; gzipped < 2; gzipped++) {
            gp_dataset *dataset = NULL;
            gp_error err = {0};
            char message[256];
            (gzipped ? fixture_gzip : fixture_write)(bad, it->bytes, it->count);
            gp_status status = open_tiny(it->label ? images : bad, it->label ? bad : labels, &dataset, &err);
            const char *text = strchr(it->message, ':') + 2;
            snprintf(message, sizeof message, ": %.*s%s%s", (int)(text - it->message), it->message,
                     gzipped ? "(inflated) " : "", text);
            fixture_expect(status, GP_DATA, &err, bad, message);
        }
    }
}

static void other_failures(void **state) {
    (void)state;
    const char *images = fixture_path("o.images");
    const char *labels = fixture_path("o.labels");
    static const unsigned char four[] = {0, 0, 8, 1, 0, 0, 0, 4, 1, 2, 3, 4};
    gp_dataset *dataset = NULL;
    gp_error err = {0};
    char message[600];
    fixture_write(images, tiny_images, sizeof tiny_images);
    fixture_write(labels, four, sizeof four);
    snprintf(message, sizeof message, ": offset 4: 4 labels for the 3 images of %s", images);
    fixture_expect(open_tiny(images, labels, &dataset, &err), GP_DATA, &err, labels, message);

    const char *missing = fixture_path("o.missing");
    fixture_expect(open_tiny(missing, labels, &dataset, &err), GP_DATA, &err, missing,
                   ": cannot be opened: No such file or directory");
    fixture_expect(open_tiny(images, fixture_folder, &dataset, &err), GP_DATA, &err, fixture_folder,
                   ": is not a regular file");
    const char *pipe = fixture_path("o.pipe");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    fixture_expect(open_tiny(images, pipe, &dataset, &err), GP_DATA, &err, pipe, ": is not a regular file");

    size_t bytes = 0;
    fixture_gzip(labels, tiny_labels, sizeof tiny_labels);
    unsigned char *zipped = fixture_read(labels, &bytes);
    unsigned char longer[128];
    memcpy(longer, zipped, bytes);
    memcpy(longer + bytes, "garbage!!", 9);
    free(zipped);
    fixture_write(labels, longer, bytes + 9);
    assert_int_equal(open_tiny(images, labels, &dataset, &err), GP_DATA);
    assert_non_null(strstr(err.text, "the gzip data ends here, but the file goes on"));

    fixture_write(labels, tiny_labels, sizeof tiny_labels);
    gp_sample_spec spec = spec_of(3, 1, 2, 2);
    gp_source_config source = source_of(images, labels);
    spec.classes = 9;
    fixture_expect(gp_dataset_open(&source, &spec, &dataset, &err), GP_DATA, &err, labels,
                   ": sample 0: class 9 is out of range; the model has 9 outputs, for the classes 0 … 8");
    spec.classes = 10;
    spec.target = (gp_shape){1, {2}};
    assert_int_equal(gp_dataset_open(&source, &spec, &dataset, &err), GP_CONFIG);
    assert_non_null(strstr(err.text, " are [] for each sample, but the loss wants [2]"));
    spec = spec_of(3, 1, 2, 3);
    snprintf(message, sizeof message,
             "run.yaml:7:11: the samples of %s are [1, 2, 2], but the model's input is [1, 2, 3]", images);
    fixture_expect(gp_dataset_open(&source, &spec, &dataset, &err), GP_CONFIG, &err, message, "");
}

static void shortened_while_open(void **state) {
    (void)state;
    const char *images = fixture_path("s.images");
    const char *labels = fixture_path("s.labels");
    gp_dataset *dataset = NULL;
    gp_error err = {0};
    float input[4];
    int64_t target, counts;
    fixture_write(images, tiny_images, sizeof tiny_images);
    fixture_write(labels, tiny_labels, sizeof tiny_labels);
    assert_int_equal(open_tiny(images, labels, &dataset, &err), GP_OK);
    assert_int_equal(truncate(images, 25), 0);
    assert_int_equal(fixture_sample(dataset, 1, input, &target, &counts, &err), GP_OK);
    fixture_expect(fixture_sample(dataset, 2, input, &target, &counts, &err), GP_DATA, &err, images,
                   ": offset 25: the file ends here; 3 more bytes were expected");
    gp_dataset_close(&dataset);
}

static bool ends_early(const void *paths) {
    const char *const *of = paths;
    gp_dataset *dataset = NULL;
    gp_error err = {0};
    gp_status status = open_tiny(of[0], of[1], &dataset, &err);
    return status == GP_DATA && strstr(err.text, "the file ends here; its header claims");
}

/* Files that claim 3 GiB and 2^48 bytes, gzipped and not, take no room for what they do not have. */
static void huge_claims(void **state) {
    (void)state;
    static const unsigned char claims[2][20] = {{0, 0, 8, 3, 192, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1},
                                                {0, 0, 8, 3, 255, 255, 255, 255, 0, 0, 1, 0, 0, 0, 1, 0}};
    const char *paths[] = {fixture_path("h.images"), fixture_path("h.labels")};
    fixture_write(paths[1], tiny_labels, sizeof tiny_labels);
    for (int i = 0; i < 4; i++) {
        (i / 2 ? fixture_gzip : fixture_write)(paths[0], claims[i % 2], sizeof claims[0]);
        fixture_within_limits(ends_early, paths);
    }
}

/* TMPDIR for the time of a test. */
static char *set_temporary_folder(const char *folder) {
    const char *before = getenv("TMPDIR");
    char *kept = before ? strdup(before) : NULL;
    assert_int_equal(setenv("TMPDIR", folder, 1), 0);
    return kept;
}

static void restore_temporary_folder(char *before) {
    if (before)
        setenv("TMPDIR", before, 1);
    else
        unsetenv("TMPDIR");
    free(before);
}

/* Inflated into memory, into a temporary file, and into memory first and then a file, a sample has the same bytes; the
 * file has no name. */
static void same_bytes_from_a_temporary_file(void **state) {
    (void)state;
    const char *images = fixture_path("spill.images");
    const char *labels = fixture_path("spill.labels");
    fixture_gzip(images, tiny_images, sizeof tiny_images);
    fixture_gzip(labels, tiny_labels, sizeof tiny_labels);
    char *before = set_temporary_folder(fixture_folder);
    int files = fixture_files();
    for (size_t memory = 0; memory <= sizeof tiny_images; memory++) {
        gp_source *source = NULL;
        gp_error err = {0};
        unsigned char image[4];
        assert_int_equal(gp_idx_open(images, labels, memory, &source, &err), GP_OK);
        for (int64_t i = 2; i >= 0; i--) {
            assert_int_equal(source->class->input(source, i, image, &err), GP_OK);
            assert_memory_equal(image, tiny_images + 16 + 4 * i, 4);
        }
        assert_int_equal(fixture_files(), files);
        source->class->close(source);
    }
    restore_temporary_folder(before);
}

/* 80 MiB of pictures. */
static void write_large(const char *images, const char *labels) {
    enum { COUNT = 1280, HEAD = 16, ROWS = 256 };
    static unsigned char label[8 + COUNT] = {0, 0, 8, 1, 0, 0, COUNT / 256, COUNT % 256};
    size_t bytes = HEAD + (size_t)COUNT * ROWS * ROWS;
    unsigned char *all = calloc(bytes, 1);
    assert_non_null(all);
    memcpy(all, (const unsigned char[HEAD]){0, 0, 8, 3, 0, 0, COUNT / 256, COUNT % 256, 0, 0, 1, 0, 0, 0, 1, 0}, HEAD);
    all[bytes - 1] = 77;
    fixture_gzip(images, all, bytes);
    fixture_write(labels, label, sizeof label);
    free(all);
}

static gp_status open_large(const char *images, const char *labels, gp_dataset **out, gp_error *err) {
    gp_sample_spec spec = spec_of(3, 1, 256, 256);
    gp_source_config source = source_of(images, labels);
    return gp_dataset_open(&source, &spec, out, err);
}

static void large_files_leave_memory(void **state) {
    (void)state;
    const char *images = fixture_path("large.images");
    const char *labels = fixture_path("large.labels");
    const char *nowhere = fixture_path("nowhere");
    gp_dataset *dataset = NULL;
    gp_error err = {0};
    static float input[256 * 256];
    int64_t target, counts;
    char message[600];
    write_large(images, labels);
    char *before = set_temporary_folder(fixture_folder);
    assert_int_equal(open_large(images, labels, &dataset, &err), GP_OK);
    assert_int_equal(fixture_sample(dataset, 1279, input, &target, &counts, &err), GP_OK);
    assert_true(input[256 * 256 - 1] == 77 / 255.0F);
    gp_dataset_close(&dataset);

    setenv("TMPDIR", nowhere, 1);
    snprintf(
        message, sizeof message,
        ": cannot be decompressed into a temporary file in %s: No such file or directory; to use another folder, set "
        "TMPDIR",
        nowhere);
    fixture_expect(open_large(images, labels, &dataset, &err), GP_IO, &err, images, message);

    struct rlimit limit, full = {1 << 20, RLIM_INFINITY};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    full.rlim_max = limit.rlim_max;
    setenv("TMPDIR", fixture_folder, 1);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &full), 0);
    gp_status status = open_large(images, labels, &dataset, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    signal(SIGXFSZ, SIG_DFL);
    snprintf(
        message, sizeof message,
        ": cannot be decompressed into a temporary file in %s: File too large; raise the limit on the size of files "
        "(ulimit -f)",
        fixture_folder);
    fixture_expect(status, GP_IO, &err, images, message);
    restore_temporary_folder(before);
}

/* A few hundred bytes that inflate to 64 MiB of zeros behind a header that claims 12 bytes are not inflated to the end.
 */
static void bomb(void **state) {
    (void)state;
    enum { BYTES = 64 << 20 };
    const char *images = fixture_path("bomb.images");
    const char *labels = fixture_path("bomb.labels");
    unsigned char *bytes = calloc(BYTES, 1);
    gp_dataset *dataset = NULL;
    gp_error err = {0};
    assert_non_null(bytes);
    memcpy(bytes, tiny_images, sizeof tiny_images);
    fixture_gzip(images, bytes, BYTES);
    free(bytes);
    fixture_write(labels, tiny_labels, sizeof tiny_labels);
    fixture_expect(open_tiny(images, labels, &dataset, &err), GP_DATA, &err, images,
                   ": offset 28: (inflated) the file goes on after its last element");
}

static void take(void **state) {
    (void)state;
    const char *images = fixture_path("take.images");
    const char *labels = fixture_path("take.labels");
    gp_sample_spec spec = spec_of(3, 1, 2, 2);
    gp_dataset *dataset = NULL;
    gp_error err = {0};
    float input[4];
    int64_t target, counts;
    fixture_write(images, tiny_images, sizeof tiny_images);
    fixture_gzip(labels, tiny_labels, sizeof tiny_labels);
    gp_source_config source = source_of(images, labels);
    source.take = true;
    source.take_from = 1;
    source.take_to = 3;
    spec.classes = 5; /* sample 0, of class 9, is not taken */
    assert_int_equal(gp_dataset_open(&source, &spec, &dataset, &err), GP_OK);
    assert_int_equal(gp_dataset_count(dataset), 2);
    assert_int_equal(fixture_sample(dataset, 1, input, &target, &counts, &err), GP_OK);
    assert_int_equal(target, 4);
    assert_true(input[2] == 1);
    gp_dataset_close(&dataset);
    spec.classes = 4;
    fixture_expect(gp_dataset_open(&source, &spec, &dataset, &err), GP_DATA, &err, labels,
                   ": sample 2: class 4 is out of range; the model has 4 outputs, for the classes 0 … 3");
    const int64_t wrong[][2] = {{0, 4}, {3, 4}, {2, 2}, {2, 1}, {-1, 2}, {INT64_MIN, INT64_MAX}, {5, INT64_MAX}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char message[512];
        source.take_from = wrong[i][0];
        source.take_to = wrong[i][1];
        snprintf(
            message, sizeof message,
            "run.yaml:9:5: take: [%lld, %lld] is not a range of the 3 samples of %s; 0 ≤ from < to ≤ 3 is the rule",
            (long long)wrong[i][0], (long long)wrong[i][1], images);
        fixture_expect(gp_dataset_open(&source, &spec, &dataset, &err), GP_CONFIG, &err, message, "");
    }
}

/* The test set of MNIST, where it is at hand. */
static void reads_mnist(void **state) {
    (void)state;
    const char *folder = getenv("GPIPE_TEST_DATA");
    char images[512], labels[512];
    if (!folder) folder = GP_TEST_SOURCE_DIR "/../../shared/data";
    snprintf(images, sizeof images, "%s/mnist/t10k-images-idx3-ubyte.gz", folder);
    snprintf(labels, sizeof labels, "%s/mnist/t10k-labels-idx1-ubyte.gz", folder);
    if (access(images, R_OK) != 0) skip();
    static const int first[] = {7, 2, 1, 0, 4, 1, 4, 9, 5, 9};
    static float input[784];
    gp_sample_spec spec = spec_of(3, 1, 28, 28);
    gp_source_config source = source_of(images, labels);
    gp_dataset *dataset = NULL;
    gp_error err = {0};
    double sum = 0;
    int64_t target, counts;
    assert_int_equal(gp_dataset_open(&source, &spec, &dataset, &err), GP_OK);
    assert_int_equal(gp_dataset_count(dataset), 10000);
    for (int64_t i = 0; i < 10000; i++) {
        assert_int_equal(fixture_sample(dataset, i, input, &target, &counts, &err), GP_OK);
        if (i < 10) assert_int_equal(target, first[i]);
        for (int j = 0; j < 784; j++) sum += (double)input[j];
    }
    assert_true(fabs(sum / 7840000 - 0.1325) < 1e-4); /* as is widely reported */
    gp_dataset_close(&dataset);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_plain_and_gzipped),
        cmocka_unit_test(reads_members),
        cmocka_unit_test(reads_padded),
        cmocka_unit_test(normalises),
        cmocka_unit_test(reads_a_picture_as_rows_or_a_vector),
        cmocka_unit_test(truncated_anywhere),
        cmocka_unit_test(corrupt_anywhere),
        cmocka_unit_test(broken_files),
        cmocka_unit_test(other_failures),
        cmocka_unit_test(shortened_while_open),
        cmocka_unit_test(huge_claims),
        cmocka_unit_test(same_bytes_from_a_temporary_file),
        cmocka_unit_test(large_files_leave_memory),
        cmocka_unit_test(bomb),
        cmocka_unit_test(take),
        cmocka_unit_test(reads_mnist),
    };
    return cmocka_run_group_tests(tests, fixture_make, fixture_remove);
}
