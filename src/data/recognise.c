/* What a file is that the user took for a safetensors file, and how to convert it. */
#include "data/file.h"

#include <stdbool.h>
#include <string.h>

enum { HEAD = 64, LONGEST_NAME = 200 };

typedef struct head {
    unsigned char byte[HEAD + 1];
    size_t count;
} head;

static bool begins(const head *of, const char *bytes, size_t count) {
    return of->count >= count && memcmp(of->byte, bytes, count) == 0;
}

/* The name of a zip file's first member contains `text`. */
static bool first_member_has(const head *of, const char *text) {
    enum { NAME_AT = 30 };
    char name[HEAD + 1] = "";
    if (!begins(of, "PK\3\4", 4) || of->count <= NAME_AT) return false;
    memcpy(name, of->byte + NAME_AT, of->count - NAME_AT);
    return strstr(name, text) != NULL;
}

/* A path as Python reads it between quotation marks, without its ending; "FILE" if it has other characters. */
static void plain_stem(const char *path, char out[LONGEST_NAME + 1]) {
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";
    const char *dot = strrchr(path, '.');
    size_t length = dot && !strchr(dot, '/') ? (size_t)(dot - path) : strlen(path);
    if (length > LONGEST_NAME || strspn(path, safe) != strlen(path)) {
        strcpy(out, "FILE");
        return;
    }
    memcpy(out, path, length);
    out[length] = '\0';
}

/* A format that Python reads whole. */
typedef struct other_format {
    const char *name, *ending, *imports;
    const char *saver;     /* module with save_file */
    const char *load;      /* what stands before the path */
    const char *arguments; /* what follows the path */
    const char *more;      /* what stands after the line of Python */
} other_format;

static const other_format pytorch = {
    "PyTorch",
    ".pth",
    "torch, safetensors.torch",
    "safetensors.torch",
    "{k: v.contiguous() for k, v in torch.load(",
    ", map_location=\"cpu\", weights_only=True).items()}",
    "; a checkpoint has the weights under a key: write torch.load(…)[\"model\"].items()"};
static const other_format numpy = {
    "NumPy (.npz)", ".npz", "numpy, safetensors.numpy", "safetensors.numpy", "dict(numpy.load(", "))", ""};

static gp_status refuse(const other_format *its, const char *path, gp_error *err) {
    char stem[LONGEST_NAME + 1];
    plain_stem(path, stem);
    bool plain = strcmp(stem, "FILE") != 0;
    return gp_fail(err, GP_DATA,
                   "%s: is a %s file, and a safetensors file is needed; one line of Python converts it: import %s; "
                   "%s.save_file(%s\"%s%s\"%s, \"%s.safetensors\")%s",
                   path, its->name, its->imports, its->saver, its->load, plain ? path : stem, plain ? "" : its->ending,
                   its->arguments, stem, its->more);
}

gp_status gp_refuse_other_format(const gp_data_file *file, gp_error *err) {
    head first = {.count = file->size < HEAD ? (size_t)file->size : HEAD};
    GP_RETURN_IF_FAILED(gp_data_file_read(file, 0, first.count, first.byte, err));
    const char *path = file->path;
    /* Since PyTorch 1.6 a zip file, before that pickles one after another: protocol 2, a long integer. */
    if (first_member_has(&first, "/data.pkl") || first_member_has(&first, "/version") ||
        first_member_has(&first, "/.format_version") || begins(&first, "\x80\x02\x8a\x0a", 4))
        return refuse(&pytorch, path, err);
    if (first_member_has(&first, ".npy")) return refuse(&numpy, path, err);
    if (begins(&first, "\x93NUMPY", 6))
        return gp_fail(err, GP_DATA,
                       "%s: is a NumPy array (.npy), and a safetensors file is needed; a data set has two arrays: "
                       "import numpy, safetensors.numpy; safetensors.numpy.save_file({\"x\": numpy.load(\"x.npy\"), "
                       "\"y\": numpy.load(\"y.npy\")}, \"data.safetensors\")",
                       path);
    if (begins(&first, "\x89HDF", 4))
        return gp_fail(err, GP_DATA, "%s: is an HDF5 file, and a safetensors file is needed", path);
    if (begins(&first, "\x1f\x8b", 2))
        return gp_fail(err, GP_DATA, "%s: is a gzipped file, and a safetensors file is needed; gunzip it first", path);
    return GP_OK;
}
