#include "data/safetensors.h"

#include "data/fixture.h"

#include <signal.h>
#include <sys/stat.h>

/* A file of this header and `data_bytes` bytes of data 0, 1, 2 …; the length is as it should be. */
static void write_by_hand(const char *path, const char *header, size_t header_bytes, size_t data_bytes) {
    unsigned char *bytes = malloc(8 + header_bytes + data_bytes);
    uint64_t length = header_bytes;
    assert_non_null(bytes);
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, header_bytes);
    for (size_t i = 0; i < data_bytes; i++) bytes[8 + header_bytes + i] = (unsigned char)i;
    fixture_write(path, bytes, 8 + header_bytes + data_bytes);
    free(bytes);
}

static void round_trip(void **state) {
    (void)state;
    const float weight[2][3] = {{1, 2, 3}, {4, 5, -0.0F}};
    const int64_t steps = -7;
    const unsigned char bytes[3] = {0, 128, 255};
    const gp_safetensors_item items[] = {
        {.name = "z.weight", .dtype = GP_F32, .rank = 2, .dim = {2, 3}, .data = weight},
        {.name = "steps", .dtype = GP_I64, .rank = 0, .data = &steps},
        {.name = "nothing", .dtype = GP_F64, .rank = 2, .dim = {0, 5}, .data = NULL},
        {.name = "a \"quoted\" ñame", .dtype = GP_U8, .rank = 1, .dim = {3}, .data = bytes},
    };
    const char *const metadata[] = {"format", "pt", "made by", "a test", NULL};
    const char *path = fixture_path("round.safetensors");
    gp_error err = {0};
    gp_safetensors *file = NULL;
    assert_int_equal(gp_safetensors_write(path, items, 4, metadata, &err), GP_OK);
    assert_int_equal(gp_safetensors_open(path, &file, &err), GP_OK);
    assert_int_equal(gp_safetensors_count(file), 4);
    assert_string_equal(gp_safetensors_at(file, 0)->name, "z.weight");
    assert_string_equal(gp_safetensors_at(file, 3)->name, "a \"quoted\" ñame");
    const gp_safetensor *found = gp_safetensors_find(file, "z.weight");
    assert_ptr_equal(found, gp_safetensors_at(file, 0));
    assert_int_equal(found->dtype, GP_F32);
    assert_true(found->known);
    assert_int_equal(found->rank, 2);
    assert_int_equal(found->dim[1], 3);
    float back[2][3] = {{0}};
    assert_int_equal(gp_safetensors_read(file, found, 0, sizeof back, back, &err), GP_OK);
    assert_memory_equal(back, weight, sizeof back);
    assert_int_equal(gp_safetensors_read(file, found, 8, 8, back, &err), GP_OK);
    assert_memory_equal(back, &weight[0][2], 8);
    int64_t steps_back = 0;
    assert_int_equal(gp_safetensors_read(file, gp_safetensors_find(file, "steps"), 0, 8, &steps_back, &err), GP_OK);
    assert_int_equal(steps_back, -7);
    assert_null(gp_safetensors_find(file, "z.weigh"));
    assert_null(gp_safetensors_find(file, "__metadata__"));
    assert_int_equal(gp_safetensors_read(file, found, 20, 5, back, &err), GP_DATA);
    assert_non_null(strstr(err.text, "tensor \"z.weight\": 5 bytes from 20 on lie outside of its 24"));
    gp_safetensors_close(&file);
    assert_null(file);
    gp_safetensors_close(&file);
}

/* What other programs rely on: little-endian length, a header of a multiple of 8 that begins with {, ends in spaces. */
static void written_bytes(void **state) {
    (void)state;
    const float value = 1;
    const gp_safetensors_item item = {.name = "w", .dtype = GP_F32, .rank = 1, .dim = {1}, .data = &value};
    const char *path = fixture_path("bytes.safetensors");
    gp_error err = {0};
    assert_int_equal(gp_safetensors_write(path, &item, 1, NULL, &err), GP_OK);
    static const char wanted[] = "\x38\0\0\0\0\0\0\0{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}"
                                 "  \0\0\x80\x3f";
    size_t count = 0;
    unsigned char *bytes = fixture_read(path, &count);
    assert_int_equal(count, sizeof wanted - 1);
    assert_memory_equal(bytes, wanted, count);
    free(bytes);
}

static void file_by_hand(void **state) {
    (void)state;
    static const char header[] = "{\"__metadata__\":{\"a\":\"b\"},"
                                 "\"late\":{\"shape\":[2],\"data_offsets\":[6,14],\"dtype\":\"F32\"},"
                                 "\"early\":{\"dtype\":\"U8\",\"shape\":[2,2],\"data_offsets\":[0,4]},"
                                 "\"half\":{\"dtype\":\"U16\",\"shape\":[1,1],\"data_offsets\":[4,6]}}   ";
    const char *path = fixture_path("hand.safetensors");
    gp_error err = {0};
    gp_safetensors *file = NULL;
    write_by_hand(path, header, sizeof header - 1, 14);
    assert_int_equal(gp_safetensors_open(path, &file, &err), GP_OK);
    assert_int_equal(gp_safetensors_count(file), 3);
    assert_string_equal(gp_safetensors_at(file, 0)->name, "early");
    assert_string_equal(gp_safetensors_at(file, 1)->name, "half");
    assert_string_equal(gp_safetensors_at(file, 1)->dtype_name, "U16");
    assert_false(gp_safetensors_at(file, 1)->known);
    assert_string_equal(gp_safetensors_at(file, 2)->name, "late");
    unsigned char bytes[3];
    assert_int_equal(gp_safetensors_read(file, gp_safetensors_find(file, "late"), 1, 3, bytes, &err), GP_OK);
    assert_int_equal(bytes[0], 7);
    assert_int_equal(bytes[2], 9);
    gp_safetensors_close(&file);
    write_by_hand(path, "{}", 2, 0);
    assert_int_equal(gp_safetensors_open(path, &file, &err), GP_OK);
    assert_int_equal(gp_safetensors_count(file), 0);
    gp_safetensors_close(&file);
}

/* The entry of a tensor "w" in an otherwise right file of `data` bytes, or the whole header. */
#define W(entry) "{\"w\":" entry "}"
static const struct {
    const char *header;
    size_t data;
    const char *message; /* after the path */
} broken[] = {
    {"[]", 0, ": offset 8: the header does not begin with {"},
    {" {}", 0, ": offset 8: the header does not begin with {"},
    {"{\"w\\\n\n:", 0, ": offset 15: the header is not valid JSON: : is expected"},
    {"{\"w\\\n\":1}", 0, ": offset 13: the header is not valid JSON: invalid escape near '\"w\\?'"},
    {"{}x", 0, ": offset 10: the header is not valid JSON: its end is expected"},
    {"{\"w\":", 0, ": offset 13: the header is not valid JSON: a value is expected"},
    {"{\"a\":{\"b\":[[[[[[[]]]]]]]}}", 0, ": offset 24: the header is nested deeper than 8"},
    {W("1") "", 4, ": offset 8: tensor \"w\": is not a mapping"},
    {"{\"w\" 1}", 0, ": offset 13: the header is not valid JSON: : is expected"},
    {"{\"w\":}", 0, ": offset 13: the header is not valid JSON: a value is expected"},
    {"{\"w\":{},}", 0, ": offset 8: tensor \"w\": dtype is missing or not a text"},
    {"{,}", 0, ": offset 9: the header is not valid JSON: a name in quotation marks is expected"},
    {"{w:1}", 0, ": offset 9: the header is not valid JSON: a name in quotation marks is expected"},
    {"{\"__metadata__\":{},}", 0, ": offset 27: the header is not valid JSON: a name in quotation marks is expected"},
    {"{\"__metadata__\":{} \"w\"", 0, ": offset 27: the header is not valid JSON: a comma or } is expected"},
    {"{\"__metadata__\":{}", 0, ": offset 26: the header is not valid JSON: a comma or } is expected"},
    {"{\"__metadata__\":[]}", 0, ": offset 24: __metadata__ is not a mapping"},
    {"{\"__metadata__\":{\"n\":1}}", 0, ": offset 29: __metadata__: \"n\" is not a text"},
    {"{\"__metadata__\":{\"n\":\"\", \"m\"}}", 0, ": offset 36: the header is not valid JSON: : is expected"},
    {"{\"__metadata__\":{\"n\":\"\\q\"}}", 0, ": offset 32: the header is not valid JSON: invalid escape near '\"\\q'"},
    {"{\"__metadata__\":{\"n\":\"1\",\"\\u006e\":\"2\"}}", 0, ": offset 42: __metadata__: there are two \"n\""},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, ": offset 42: there are two __metadata__"},
    {W("{\"shape\":[1],\"data_offsets\":[0,4]}"), 4, ": offset 8: tensor \"w\": dtype is missing or not a text"},
    {W("{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}"), 4,
     ": offset 8: tensor \"w\": dtype is missing or not a text"},
    {W("{\"dtype\":\"float\",\"shape\":[1],\"data_offsets\":[0,4]}"), 4,
     ": offset 8: tensor \"w\": dtype \"float\" is not a dtype of safetensors"},
    {W("{\"dtype\":\"F32\",\"data_offsets\":[0,4]}"), 4, ": offset 8: tensor \"w\": shape is missing or not a list"},
    {W("{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}"), 4,
     ": offset 8: tensor \"w\": shape has 9 dimensions; at most 8 are read"},
    {W("{\"dtype\":\"F32\",\"shape\":[1,-1],\"data_offsets\":[0,4]}"), 4,
     ": offset 8: tensor \"w\": dimension 1 is not a whole number of 0 or more"},
    {W("{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}"), 4,
     ": offset 8: tensor \"w\": dimension 0 is not a whole number of 0 or more"},
    {W("{\"dtype\":\"F32\",\"shape\":[1]}"), 4,
     ": offset 8: tensor \"w\": data_offsets is missing or not a list of two"},
    {W("{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}"), 4,
     ": offset 8: tensor \"w\": data_offsets is missing or not a list of two"},
    {W("{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[-4,0]}"), 4,
     ": offset 8: tensor \"w\": data_offsets are not whole numbers of 0 or more"},
    {W("{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}"), 4,
     ": offset 8: tensor \"w\": data_offsets [4, 0] end before they begin"},
    {W("{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"), 7,
     ": offset 8: tensor \"w\": data_offsets [0, 8] exceed the 7 bytes of data in the file: the file is cut short"},
    {W("{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,9223372036854775807]}"), 4,
     ": offset 8: tensor \"w\": data_offsets [0, 9223372036854775807] exceed the 4 bytes of data in the file: the file "
     "is cut short"},
    {W("{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,18446744073709551616]}"), 4,
     ": offset 78: the header is not valid JSON: too big integer near '18446744073709551616'"},
    {W("{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}"), 8,
     ": offset 8: tensor \"w\": shape and dtype take 12 bytes, data_offsets hold 8"},
    {W("{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}"), 0,
     ": offset 8: tensor \"w\": its shape has more bytes than 64 bits count"},
    {W("{\"dtype\":\"F32\",\"shape\":[0,9223372036854775807,9],\"data_offsets\":[0,4]}"), 4,
     ": offset 8: tensor \"w\": shape and dtype take 0 bytes, data_offsets hold 4"},
    {W("{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}"), 1,
     ": offset 8: tensor \"w\": its elements do not fill whole bytes"},
    {W("{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"extra\":0}"), 4,
     ": offset 8: tensor \"w\": has entries other than dtype, shape and data_offsets"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[2,5]}}",
     5, ": offset 115: tensor \"b\": overlaps tensor \"a\""},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}",
     3, ": offset 113: tensor \"b\": overlaps tensor \"a\""},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
     "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[5,8]}}",
     8, ": offset 116: tensor \"b\": 2 bytes before it belong to no tensor"},
    {W("{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}"), 5,
     ": offset 64: 2 bytes after the last tensor belong to no tensor"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
     "\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[3,6]}}",
     6, ": offset 8: tensor \"a\": there are two of that name"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
     "\"\\u0061\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[3,6]}}",
     6, ": offset 8: tensor \"a\": there are two of that name"},
    {W("{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}"), 1,
     ": offset 34: the header is not valid JSON: duplicate object key near '\"dtype\"'"},
};

static void broken_headers(void **state) {
    (void)state;
    const char *path = fixture_path("broken.safetensors");
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        gp_error err = {0};
        gp_safetensors *file = NULL;
        write_by_hand(path, broken[i].header, strlen(broken[i].header), broken[i].data);
        fixture_expect(gp_safetensors_open(path, &file, &err), GP_DATA, &err, path, broken[i].message);
        assert_null(file);
    }
}

static void broken_lengths(void **state) {
    (void)state;
    static const struct {
        uint64_t length;
        const char *message;
    } cases[] = {
        {0, ": offset 0: header length 0 is too short for JSON"},
        {1, ": offset 0: header length 1 is too short for JSON"},
        {11, ": offset 0: header length 11 exceeds the 10 bytes that follow"},
        {16U << 20, ": offset 0: header length 16777216 exceeds the 10 bytes that follow"},
        {(16U << 20) + 1,
         ": offset 0: header length 16777217 exceeds the 16777216 that are read: is this a safetensors file?"},
        {UINT64_MAX, ": offset 0: header length 18446744073709551615 exceeds the 16777216 that are read: is this a "
                     "safetensors file?"},
    };
    const char *path = fixture_path("length.safetensors");
    gp_safetensors *file = NULL;
    gp_error err = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        unsigned char bytes[18] = {0};
        memcpy(bytes, &cases[i].length, 8);
        memcpy(bytes + 8, "{}        ", 10);
        fixture_write(path, bytes, sizeof bytes);
        fixture_expect(gp_safetensors_open(path, &file, &err), GP_DATA, &err, path, cases[i].message);
    }
    fixture_write(path, "1234567", 7);
    fixture_expect(gp_safetensors_open(path, &file, &err), GP_DATA, &err, path,
                   ": offset 0: the file has 7 bytes, too few for a safetensors header");
    fixture_expect(
        gp_safetensors_open(fixture_folder, &file, &err), GP_DATA, &err, fixture_folder,
        ": is a folder without model.safetensors.index.json, which says which of its files has which tensor");
    path = fixture_path("missing");
    fixture_expect(gp_safetensors_open(path, &file, &err), GP_DATA, &err, path,
                   ": cannot be opened: No such file or directory");
}

/* A header of brackets must not become a recursion; a long name must not push the cause out of the message. */
static void hostile_headers(void **state) {
    (void)state;
    enum { BYTES = 1 << 20 };
    const char *path = fixture_path("hostile.safetensors");
    char *header = malloc(BYTES);
    gp_safetensors *file = NULL;
    gp_error err = {0};
    assert_non_null(header);
    memset(header, '[', BYTES);
    memcpy(header, "{\"w\":", 5);
    write_by_hand(path, header, BYTES, 0);
    fixture_expect(gp_safetensors_open(path, &file, &err), GP_DATA, &err, path,
                   ": offset 20: the header is nested deeper than 8");
    memset(header, 'n', BYTES);
    memcpy(header, "{\"\\\"[[[[[[[[[[[\\n", 17);
    memcpy(header + BYTES - 4, "\":1}", 4);
    write_by_hand(path, header, BYTES, 0);
    assert_int_equal(gp_safetensors_open(path, &file, &err), GP_DATA);
    assert_non_null(strstr(err.text, ": offset 8: tensor \"\"[[[[[[[[[[[?nnnn"));
    assert_non_null(strstr(err.text, "nnn…\": is not a mapping"));
    free(header);
}

/* A header under construction; all of them together stay below the longest one. */
typedef struct heap {
    char *text;
    size_t bytes;
} heap;

static void put(heap *to, const char *text) {
    size_t bytes = strlen(text);
    assert_true(to->bytes + bytes <= GP_SAFETENSORS_MAX_HEADER);
    memcpy(to->text + to->bytes, text, bytes);
    to->bytes += bytes;
}

static void put_many(heap *to, char byte, size_t count) {
    assert_true(to->bytes + count <= GP_SAFETENSORS_MAX_HEADER);
    memset(to->text + to->bytes, byte, count);
    to->bytes += count;
}

#define EMPTY_ENTRY "{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}"

/* `count` tensors whose names have `padding` bytes and a number. */
static void put_tensors(heap *to, int count, size_t padding) {
    char number[80];
    for (int i = 0; i < count; i++) {
        put(to, i ? ",\"" : "\"");
        put_many(to, 'n', padding);
        snprintf(number, sizeof number, "%06x\":" EMPTY_ENTRY, (unsigned)i);
        put(to, number);
    }
}

static void put_metadata(heap *to, int count) {
    char entry[32];
    put(to, "\"__metadata__\":{");
    for (int i = 0; i < count; i++) {
        snprintf(entry, sizeof entry, "%s\"%x\":\"\"", i ? "," : "", (unsigned)i);
        put(to, entry);
    }
    put(to, "},");
}

static void many_tensors(heap *to) {
    put_tensors(to, 1 << 17, 60);
}
static void too_many_tensors(heap *to) {
    put_tensors(to, (1 << 17) + 1, 0);
}
static void much_metadata(heap *to) {
    put_metadata(to, 1 << 14);
    put_tensors(to, 1 << 16, 180);
}
static void too_much_metadata(heap *to) {
    put_metadata(to, (1 << 14) + 1);
    put_tensors(to, 1, 0);
}
static void long_metadata(heap *to) {
    put(to, "\"__metadata__\":{\"config\":\"");
    put_many(to, 'n', (16 << 20) - 40);
    put(to, "\"}");
}
static void long_names(heap *to) {
    put_tensors(to, 15, (1 << 20) - 8);
}
static void too_long_name(heap *to) {
    put_tensors(to, 1, (1 << 20) - 7);
}
static void too_long_entry(heap *to) {
    put(to, "\"w\":[");
    put_many(to, '1', (64 << 10) - 1);
    put(to, "]");
}
static void spaces(heap *to) {
    put_many(to, ' ', (16 << 20) - 2);
}
static void open_text(heap *to) {
    put(to, "\"");
    put_many(to, 'n', (16 << 20) - 3);
}

typedef struct large_header {
    void (*fill)(heap *to);
    int64_t tensors;
    const char *message; /* after the path; NULL: it opens */
} large_header;

static const large_header large_headers[] = {
    {many_tensors, 1 << 17, NULL},
    {too_many_tensors, 0, ": offset 7471113: the header has more than 131072 tensors"},
    {much_metadata, 1 << 16, NULL},
    {too_much_metadata, 0, ": offset 159497: __metadata__ has more than 16384 entries"},
    {long_metadata, 0, NULL},
    {long_names, 15, NULL},
    {too_long_name, 0, ": offset 9: a name has 1048577 bytes; at most 1048576 are read"},
    {too_long_entry, 0, ": offset 8: tensor \"w\": its entry has 65537 bytes; at most 65536 are read"},
    {spaces, 0, NULL},
    {open_text, 0, ": offset 16777223: the header is not valid JSON: : is expected"},
};

static bool opens_as_it_says(const void *of) {
    const large_header *it = of;
    const char *path = fixture_path("large.safetensors");
    gp_safetensors *file = NULL;
    gp_error err = {0};
    gp_status status = gp_safetensors_open(path, &file, &err);
    if (!it->message && status == GP_OK && gp_safetensors_count(file) == (size_t)it->tensors) return true;
    if (it->message && status == GP_DATA && strcmp(err.text + strlen(path), it->message) == 0) return true;
    fprintf(stderr, "header %td: %s\n", it - large_headers, err.text);
    return false;
}

/* The tree that JSON becomes is many times as large as its text; a header that makes the most of that stays within
 * bounds all the same. */
static void large_headers_take_little(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof large_headers / sizeof *large_headers; i++) {
        heap header = {malloc(GP_SAFETENSORS_MAX_HEADER), 0};
        assert_non_null(header.text);
        put(&header, "{");
        large_headers[i].fill(&header);
        if (large_headers[i].fill != open_text) put(&header, "}");
        write_by_hand(fixture_path("large.safetensors"), header.text, header.bytes, 0);
        free(header.text);
        fixture_within_limits(opens_as_it_says, &large_headers[i]);
    }
}

/* Every shorter file and every file with one bit wrong either opens or fails with a sentence; reading stays inside. */
static void damaged_files(void **state) {
    (void)state;
    static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
                                 "\"b\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[3,11]}}";
    const char *whole = fixture_path("whole.safetensors");
    const char *path = fixture_path("damaged.safetensors");
    gp_safetensors *file = NULL;
    size_t count = 0;
    write_by_hand(whole, header, sizeof header - 1, 11);
    unsigned char *bytes = fixture_read(whole, &count);
    for (size_t kept = 0; kept < count; kept++) {
        gp_error err = {0};
        fixture_write(path, bytes, kept);
        assert_int_equal(gp_safetensors_open(path, &file, &err), GP_DATA);
        assert_non_null(strstr(err.text, ": offset "));
    }
    for (size_t bit = 0; bit < count * 8; bit++) {
        gp_error err = {0};
        unsigned char flip = (unsigned char)(1U << bit % 8);
        bytes[bit / 8] ^= flip;
        fixture_write(path, bytes, count);
        gp_status status = gp_safetensors_open(path, &file, &err);
        if (status == GP_OK) {
            char data[16];
            for (size_t i = 0; i < gp_safetensors_count(file); i++) {
                const gp_safetensor *tensor = gp_safetensors_at(file, i);
                size_t size = (size_t)(tensor->end - tensor->begin);
                assert_true(size <= sizeof data);
                assert_int_equal(gp_safetensors_read(file, tensor, 0, size, data, &err), GP_OK);
            }
        } else {
            assert_int_equal(status, GP_DATA);
        }
        gp_safetensors_close(&file);
        bytes[bit / 8] ^= flip;
    }
    free(bytes);
}

/* The sum is XXH3's over the file with zeros in its place; a file that lost a byte, or has one bit wrong anywhere, is
 * not taken for what was written. */
static void summed_files(void **state) {
    (void)state;
    enum { FIELD = 8 + sizeof GP_SAFETENSORS_SUMMED - 1 };
    const unsigned char values[5] = {1, 2, 3, 4, 5};
    const gp_safetensors_item items[] = {
        {.name = "a", .dtype = GP_U8, .rank = 1, .dim = {5}, .data = values},
        {.name = "none", .dtype = GP_F32, .rank = 1, .dim = {0}, .data = NULL},
    };
    const char *const metadata[] = {"format", "pt", NULL};
    const char *whole = fixture_path("summed.safetensors");
    const char *path = fixture_path("damaged.safetensors");
    gp_safetensors *file = NULL;
    gp_error err = {0};
    size_t count = 0;
    assert_int_equal(gp_safetensors_write_summed(whole, items, 2, metadata, &err), GP_OK);
    assert_int_equal(gp_safetensors_open(whole, &file, &err), GP_OK);
    assert_int_equal(gp_safetensors_check_sum(file, &err), GP_OK);
    assert_int_equal(gp_safetensors_check_any_sum(file, &err), GP_OK);
    assert_string_equal(gp_safetensors_metadata(file, "format"), "pt");
    gp_safetensors_close(&file);
    unsigned char *bytes = fixture_read(whole, &count);
    assert_memory_equal(bytes + 8, GP_SAFETENSORS_SUMMED, FIELD - 8);
    char digits[GP_CHECKSUM_DIGITS + 1];
    memcpy(digits, bytes + FIELD, GP_CHECKSUM_DIGITS);
    digits[GP_CHECKSUM_DIGITS] = '\0';
    assert_string_equal(digits, "e9c845a0168f6b9f07b713b46cc955d4"); /* what xxhsum -H2 prints */
    for (size_t kept = 0; kept < count; kept++) {
        fixture_write(path, bytes, kept);
        assert_int_equal(gp_safetensors_open(path, &file, &err), GP_DATA);
    }
    for (size_t bit = 0; bit < count * 8; bit++) {
        unsigned char flip = (unsigned char)(1U << bit % 8);
        bytes[bit / 8] ^= flip;
        fixture_write(path, bytes, count);
        gp_status status = gp_safetensors_open(path, &file, &err);
        gp_status any = status == GP_OK ? gp_safetensors_check_any_sum(file, &err) : status;
        if (status == GP_OK) status = gp_safetensors_check_sum(file, &err);
        assert_int_equal(status, GP_DATA);
        assert_int_equal(any, GP_DATA);
        gp_safetensors_close(&file);
        bytes[bit / 8] ^= flip;
    }
    bytes[count ? count - 1 : 0] ^= 1;
    fixture_write(path, bytes, count);
    assert_int_equal(gp_safetensors_open(path, &file, &err), GP_OK);
    char message[160];
    snprintf(message, sizeof message, ": offset %d: the checksum is wrong: it says %s, the bytes give ", FIELD, digits);
    assert_int_equal(gp_safetensors_check_sum(file, &err), GP_DATA);
    assert_non_null(strstr(err.text, message));
    gp_safetensors_close(&file);
    free(bytes);
    assert_int_equal(gp_safetensors_write(path, items, 2, metadata, &err), GP_OK);
    assert_int_equal(gp_safetensors_open(path, &file, &err), GP_OK);
    fixture_expect(gp_safetensors_check_sum(file, &err), GP_DATA, &err, path,
                   ": offset 8: the header does not begin with a checksum");
    assert_int_equal(gp_safetensors_check_any_sum(file, &err), GP_OK);
    gp_safetensors_close(&file);
}

/* Entries that other programs may begin with, and a checksum that one of them has put elsewhere. */
static void files_without_a_checksum(void **state) {
    (void)state;
    static const char *const headers[] = {
        "{}",
        "{\"__metadata__\":{}}",
        "{\"__metadata__\":{\"checksum\":\"00000000000000000000000000000000\"}}",
        "{\"__metadata__\":{\"xxh3-1\":\"00000000000000000000000000000000aa\"}}",
        "{\"__metadata__\":{\"xxh3-129\":\"0000000000000000000000000000000g\"}}",
        "{\"__metadata__\":{\"format\":\"pt\",\"xxh3-128\":\"00000000000000000000000000000000\"}}",
        "{ \"__metadata__\":{\"xxh3-128\":\"00000000000000000000000000000000\"}}",
    };
    const char *path = fixture_path("foreign.safetensors");
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        gp_safetensors *file = NULL;
        gp_error err = {0};
        write_by_hand(path, headers[i], strlen(headers[i]), 0);
        if (gp_safetensors_open(path, &file, &err) != GP_OK) fail_msg("%s: %s", headers[i], err.text);
        assert_int_equal(gp_safetensors_check_any_sum(file, &err), GP_OK);
        gp_safetensors_close(&file);
    }
}

static void shortened_while_open(void **state) {
    (void)state;
    static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[0,9]}}";
    const char *path = fixture_path("shortened.safetensors");
    gp_safetensors *file = NULL;
    gp_error err = {0};
    char data[9];
    write_by_hand(path, header, sizeof header - 1, 9);
    assert_int_equal(gp_safetensors_open(path, &file, &err), GP_OK);
    assert_int_equal(truncate(path, 8 + sizeof header - 1 + 5), 0);
    assert_int_equal(gp_safetensors_read(file, gp_safetensors_at(file, 0), 0, 5, data, &err), GP_OK);
    fixture_expect(gp_safetensors_read(file, gp_safetensors_at(file, 0), 0, 9, data, &err), GP_DATA, &err, path,
                   ": offset 66: the file ends here; 4 more bytes were expected");
    gp_safetensors_close(&file);
}

static void assert_old_file(const char *path, int files) {
    gp_safetensors *file = NULL;
    gp_error err = {0};
    float value = 0;
    assert_int_equal(gp_safetensors_open(path, &file, &err), GP_OK);
    assert_int_equal(gp_safetensors_read(file, gp_safetensors_find(file, "old"), 0, 4, &value, &err), GP_OK);
    assert_true(value == 42);
    gp_safetensors_close(&file);
    assert_int_equal(fixture_files(), files);
}

/* Whatever goes wrong, the target stays the old file, whole, and no temporary file is left. */
static void failed_writes(void **state) {
    (void)state;
    enum { LIMIT = 4096, BYTES = 1 << 16 };
    static const char big[BYTES];
    const float value = 42;
    const gp_safetensors_item old = {.name = "old", .dtype = GP_F32, .rank = 1, .dim = {1}, .data = &value};
    const gp_safetensors_item large = {.name = "new", .dtype = GP_U8, .rank = 1, .dim = {BYTES}, .data = big};
    const char *path = fixture_path("target.safetensors");
    gp_error err = {0};
    assert_int_equal(gp_safetensors_write(path, &old, 1, NULL, &err), GP_OK);
    int files = fixture_files();

    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit limit = {LIMIT, before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    gp_status status = gp_safetensors_write(path, &large, 1, NULL, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_DFL);
    char message[128];
    snprintf(message, sizeof message,
             ".tmp-%ld-0: cannot be written: File too large; raise the limit on the size of files (ulimit -f)",
             (long)getpid());
    fixture_expect(status, GP_IO, &err, path, message);
    assert_old_file(path, files);

    const gp_safetensors_item twice[] = {large, large};
    fixture_expect(gp_safetensors_write(path, twice, 2, NULL, &err), GP_IO, &err, path,
                   ": there are two tensors \"new\"");
    gp_safetensors_item odd = large;
    odd.name = "\xff";
    fixture_expect(gp_safetensors_write(path, &odd, 1, NULL, &err), GP_IO, &err, path,
                   ": tensor \"?\": its name is not UTF-8, so it cannot be written as JSON");
    odd = large;
    odd.dim[0] = -1;
    fixture_expect(gp_safetensors_write(path, &odd, 1, NULL, &err), GP_IO, &err, path,
                   ": tensor \"new\" has an impossible shape");
    odd = large;
    odd.rank = GP_SAFETENSORS_MAX_RANK + 1;
    fixture_expect(gp_safetensors_write(path, &odd, 1, NULL, &err), GP_IO, &err, path,
                   ": tensor \"new\" has an impossible shape");
    odd.rank = -1;
    fixture_expect(gp_safetensors_write(path, &odd, 1, NULL, &err), GP_IO, &err, path,
                   ": tensor \"new\" has an impossible shape");
    odd = large;
    odd.rank = 3;
    odd.dim[0] = odd.dim[1] = odd.dim[2] = 1 << 22;
    fixture_expect(gp_safetensors_write(path, &odd, 1, NULL, &err), GP_IO, &err, path,
                   ": tensor \"new\" has an impossible shape");
    odd.dim[2] = 1 << 19; /* 2^63 bytes */
    fixture_expect(gp_safetensors_write(path, &odd, 1, NULL, &err), GP_IO, &err, path,
                   ": the tensors have more bytes than a file can");
    gp_safetensors_item sum[] = {odd, odd};
    sum[0].name = "old";
    sum[0].dim[2] = 2;
    sum[1].dim[2] = (1 << 20) - 1; /* 2^64 bytes and 2^44 */
    fixture_expect(gp_safetensors_write(path, sum, 2, NULL, &err), GP_IO, &err, path,
                   ": the tensors have more bytes than a file can");
    const char *const metadata[] = {"key", "\xff", NULL};
    fixture_expect(gp_safetensors_write(path, &large, 1, metadata, &err), GP_IO, &err, path,
                   ": the metadata is not UTF-8 throughout, so it cannot be written as JSON");
    assert_old_file(path, files);

    const char *nowhere = fixture_path("no/folder.safetensors");
    snprintf(message, sizeof message, ".tmp-%ld-0: cannot be created: No such file or directory", (long)getpid());
    fixture_expect(gp_safetensors_write(nowhere, &large, 1, NULL, &err), GP_IO, &err, nowhere, message);
    const char *folder = fixture_path("folder");
    assert_int_equal(mkdir(folder, 0777), 0);
    assert_int_equal(gp_safetensors_write(folder, &large, 1, NULL, &err), GP_IO);
    assert_non_null(strstr(err.text, ": is not a regular file, and cannot be replaced: choose another name"));
    assert_old_file(path, files + 1);
}

/* A file that happens to have the temporary's name is somebody else's. */
static void spares_other_files(void **state) {
    (void)state;
    const float value = 42;
    const gp_safetensors_item item = {.name = "old", .dtype = GP_F32, .rank = 1, .dim = {1}, .data = &value};
    char name[64];
    gp_error err = {0};
    size_t count = 0;
    snprintf(name, sizeof name, "spared.tmp-%ld-0", (long)getpid());
    fixture_write(fixture_path(name), "mine", 4);
    assert_int_equal(gp_safetensors_write(fixture_path("spared"), &item, 1, NULL, &err), GP_OK);
    unsigned char *bytes = fixture_read(fixture_path(name), &count);
    assert_int_equal(count, 4);
    assert_memory_equal(bytes, "mine", 4);
    free(bytes);
    assert_old_file(fixture_path("spared"), fixture_files());
}

/* A reader that has the old file open keeps it: the new one is another file that took its name. */
static void replaced_whole(void **state) {
    (void)state;
    const float values[2] = {1, 2};
    const gp_safetensors_item item = {.name = "w", .dtype = GP_F32, .rank = 1, .dim = {1}, .data = &values[0]};
    const gp_safetensors_item other = {.name = "w", .dtype = GP_F32, .rank = 1, .dim = {1}, .data = &values[1]};
    const char *path = fixture_path("replaced.safetensors");
    gp_safetensors *before = NULL;
    gp_safetensors *after = NULL;
    gp_error err = {0};
    float value = 0;
    assert_int_equal(gp_safetensors_write(path, &item, 1, NULL, &err), GP_OK);
    int files = fixture_files();
    assert_int_equal(gp_safetensors_open(path, &before, &err), GP_OK);
    assert_int_equal(gp_safetensors_write(path, &other, 1, NULL, &err), GP_OK);
    assert_int_equal(fixture_files(), files);
    assert_int_equal(gp_safetensors_open(path, &after, &err), GP_OK);
    assert_int_equal(gp_safetensors_read(before, gp_safetensors_at(before, 0), 0, 4, &value, &err), GP_OK);
    assert_true(value == 1);
    assert_int_equal(gp_safetensors_read(after, gp_safetensors_at(after, 0), 0, 4, &value, &err), GP_OK);
    assert_true(value == 2);
    gp_safetensors_close(&before);
    gp_safetensors_close(&after);
}

/* Written as it comes, the file is the same; with too much or too little it is none, and what failed elsewhere stays
 * the cause. */
static void written_in_parts(void **state) {
    (void)state;
    const float values[6] = {1, 2, 3, 4, 5, 6};
    const gp_safetensors_item items[] = {{.name = "a", .dtype = GP_F32, .rank = 2, .dim = {2, 2}, .data = values},
                                         {.name = "b", .dtype = GP_F32, .rank = 1, .dim = {2}, .data = values + 4}};
    static const char *const metadata[] = {"format", "pt", NULL};
    const char *whole = fixture_path("whole.safetensors"), *parts = fixture_path("parts.safetensors");
    gp_safetensors_writer *writer = NULL;
    gp_error err = {0};
    size_t whole_bytes, parts_bytes;
    assert_int_equal(gp_safetensors_write(whole, items, 2, metadata, &err), GP_OK);
    assert_int_equal(gp_safetensors_begin(parts, items, 2, metadata, &writer, &err), GP_OK);
    assert_int_equal(gp_safetensors_add(writer, values, 4, &err), GP_OK);
    assert_int_equal(access(parts, F_OK), -1);
    assert_int_equal(gp_safetensors_add(writer, values + 1, 20, &err), GP_OK);
    assert_int_equal(gp_safetensors_end(&writer, GP_OK, &err), GP_OK);
    assert_null(writer);
    unsigned char *a = fixture_read(whole, &whole_bytes), *b = fixture_read(parts, &parts_bytes);
    assert_int_equal(whole_bytes, parts_bytes);
    assert_memory_equal(a, b, whole_bytes);
    int files = fixture_files();

    assert_int_equal(gp_safetensors_begin(parts, items, 1, NULL, &writer, &err), GP_OK);
    assert_int_equal(gp_safetensors_add(writer, values, 17, &err), GP_INTERNAL);
    assert_int_equal(gp_safetensors_add(writer, values, 15, &err), GP_OK);
    assert_int_equal(gp_safetensors_end(&writer, GP_OK, &err), GP_INTERNAL);
    assert_int_equal(gp_safetensors_begin(parts, items, 1, NULL, &writer, &err), GP_OK);
    assert_int_equal(gp_safetensors_end(&writer, gp_fail(&err, GP_DATA, "broken elsewhere"), &err), GP_DATA);
    assert_string_equal(err.text, "broken elsewhere");
    assert_int_equal(fixture_files(), files);
    unsigned char *c = fixture_read(parts, &parts_bytes);
    assert_int_equal(whole_bytes, parts_bytes);
    assert_memory_equal(a, c, whole_bytes);
    free(a);
    free(b);
    free(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),           cmocka_unit_test(written_bytes),
        cmocka_unit_test(file_by_hand),         cmocka_unit_test(broken_headers),
        cmocka_unit_test(broken_lengths),       cmocka_unit_test(hostile_headers),
        cmocka_unit_test(damaged_files),        cmocka_unit_test(failed_writes),
        cmocka_unit_test(replaced_whole),       cmocka_unit_test(large_headers_take_little),
        cmocka_unit_test(shortened_while_open), cmocka_unit_test(spares_other_files),
        cmocka_unit_test(summed_files),         cmocka_unit_test(files_without_a_checksum),
        cmocka_unit_test(written_in_parts),
    };
    return cmocka_run_group_tests(tests, fixture_make, fixture_remove);
}
