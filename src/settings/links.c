/* pipeline.links: what data take between workers, and in which processes and hosts these are. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "config/names.h"
#include "settings/tables_internal.h"

/* A unit, and how many of the stored one it is. */
typedef struct unit {
    const char *name;
    double times;
} unit;

static const unit times[] = {{"us", 1}, {"ms", 1e3}, {"s", 1e6}, {NULL, 0}};
static const unit speeds[] = {{"B/s", 1},         {"KB/s", 1e3},       {"MB/s", 1e6},
                              {"GB/s", 1e9},      {"Mbit/s", 1e6 / 8}, {"Gbit/s", 1e9 / 8},
                              {"MiB/s", 1 << 20}, {"GiB/s", 1 << 30},  {NULL, 0}};

/* "20 us": a number and its unit, with or without a space between them. */
static gp_status read_measure(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                              const unit *units, const char *rule, gp_error *err) {
    double *out = (double *)((char *)base + key->offset);
    const char *text = node->kind == GP_YAML_SCALAR ? node->text : "";
    char *end = NULL;
    double value = isdigit((unsigned char)*text) ? strtod(text, &end) : -1;
    const char *name = end ? end + strspn(end, " ") : "";
    while (units->name && strcmp(units->name, name) != 0) units++;
    if (!end || !units->name)
        return gp_refuse(node->place, at->what, err, "needs %s, not %s", rule, gp_show_node(node).text);
    *out = value * units->times;
    if (!(*out < 1e18) || *out < key->number.low || (*out <= 0 && key->number.open))
        return gp_refuse(node->place, at->what, err, "%.40s is too %s", text, *out < 1e18 ? "small" : "large");
    return GP_OK;
}

static gp_status read_latency(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                              gp_error *err) {
    return read_measure(key, node, at, base, times, "a time, as in 20 us; units are us, ms and s", err);
}

static gp_status read_bandwidth(const gp_key *key, const gp_yaml *node, const gp_key_context *at, void *base,
                                gp_error *err) {
    return read_measure(key, node, at, base, speeds,
                        "a rate, as in 10 GB/s; units are B/s, KB/s, MB/s, GB/s, MiB/s, GiB/s, Mbit/s and Gbit/s", err);
}

static void write_latency(FILE *file, const gp_key *key, const void *base) {
    gp_write_number(file, *(const double *)((const char *)base + key->offset));
    fputs(" us", file);
}

static void write_bandwidth(FILE *file, const gp_key *key, const void *base) {
    gp_write_number(file, *(const double *)((const char *)base + key->offset));
    fputs(" B/s", file);
}

static const gp_key_type latency_type = {"time with a unit", read_latency, write_latency, NULL};
static const gp_key_type bandwidth_type = {"rate with a unit", read_bandwidth, write_bandwidth, NULL};

#define LATENCY                                                                                                        \
    { "latency", &latency_type, offsetof(gp_link_config, latency), .example = "latency: 20 us" }
#define BANDWIDTH                                                                                                      \
    {                                                                                                                  \
        "bandwidth", &bandwidth_type, offsetof(gp_link_config, bandwidth), .example = "bandwidth: 10 GB/s",            \
                                                                           .number = {                                 \
                                                                               .open = 1                               \
                                                                           }                                           \
    }

static const gp_key alone_keys[] = {
    LATENCY, BANDWIDTH, {"shared", &gp_boolean_type, offsetof(gp_link_config, shared), .unsaid = "false"}, {0}};
static const gp_key shared_keys[] = {
    LATENCY, BANDWIDTH, {"shared", &gp_boolean_type, offsetof(gp_link_config, shared), .unsaid = "true"}, {0}};
static const gp_key_table alone = {.keys = alone_keys}, shared = {.keys = shared_keys};

#define AT(field) offsetof(gp_links_config, field)
#define LINK(name, kind, table_of)                                                                                     \
    { name, &gp_table_type, AT(of[kind]), .table = &(table_of), GP_IF_GIVEN(AT(of[kind].given)) }

static const gp_key keys[] = {
    {"processes", &gp_int_type, AT(processes), .unsaid = "1", .integer = {1, GP_MAX_STAGES},
     GP_IF_GIVEN(AT(processes_given)), .place = AT(place)},
    {"processes_per_host", &gp_int_type, AT(per_host), .unsaid = "1", .integer = {1, GP_MAX_STAGES},
     GP_IF_GIVEN(AT(per_host_given))},
    LINK("process", GP_LINK_PROCESS, alone),
    LINK("host", GP_LINK_HOST, alone),
    LINK("network", GP_LINK_NETWORK, shared),
    {0},
};
const gp_key_table gp_links_table = {.keys = keys};
