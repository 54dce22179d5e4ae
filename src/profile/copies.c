/* Measured times of copies, by size. */
#include "profile/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "profile/median.h"

enum { SIZES = 5, TIMES = 15, SMALLEST = 1 << 10, FACTOR = 8 }; /* 1 KiB … 4 MiB */

void gp_fit_copies(const double *bytes, const double *seconds, int count, double *latency, double *per_byte) {
    double w = 0, x = 0, y = 0, xx = 0, xy = 0;
    for (int i = 0; i < count; i++) {
        double weight = 1 / (seconds[i] * seconds[i]);
        w += weight;
        x += weight * bytes[i];
        y += weight * seconds[i];
        xx += weight * bytes[i] * bytes[i];
        xy += weight * bytes[i] * seconds[i];
    }
    double spread = w * xx - x * x;
    double slope = count > 1 && spread > 0 ? (w * xy - x * y) / spread : 0;
    double first = (y - slope * x) / w;
    if (slope < 0) {
        slope = 0;
        first = y / w;
    } else if (first < 0) {
        first = 0;
        slope = xy / xx;
    }
    *latency = first;
    *per_byte = slope;
}

/* A copy into `to`; from NULL: from the host. */
typedef struct route {
    gp_bench *from, *to;
    void *host; /* of the largest size */
} route;

/* As a worker pulls: through the host's memory where kinds differ. */
static gp_status copy(const route *r, size_t at, size_t bytes, gp_error *err) {
    const gp_device_kind *here = r->to->spec.kind, *there = r->from ? r->from->spec.kind : NULL;
    unsigned char *to = r->to->arena + r->to->arena_bytes / 2 + at;
    if (!there) return here->copy_in(r->to->stream, to, (unsigned char *)r->host, bytes, err);
    const unsigned char *from = r->from->arena + at;
    if (here == there) return here->pull(r->to->stream, to, r->from->device, from, bytes, err);
    if (there->on_host) return here->copy_in(r->to->stream, to, from, bytes, err);
    if (here->on_host) return there->fetch(r->from->device, to, from, bytes, NULL, err);
    return gp_fail(err, GP_UNSUPPORTED, "copies from %s to %s are not available", there->name, here->name);
}

/* From ever new places, as far as the arenas reach: what is sent was made some time ago. */
static gp_status time_copies(const route *r, size_t bytes, size_t room, double *out, gp_error *err) {
    const gp_bench *to = r->to;
    double times[TIMES];
    size_t at = 0;
    for (int i = 0; i < TIMES; i++) {
        uint64_t from = to->request->clock();
        GP_RETURN_IF_FAILED(copy(r, at, bytes, err));
        GP_RETURN_IF_FAILED(to->spec.kind->stream_finish(to->stream, NULL, err));
        times[i] = (double)(to->request->clock() - from) * 1e-9;
        at = at + 2 * bytes <= room ? gp_align_up(at + bytes, GP_ALIGNMENT) : 0;
        if (at + bytes > room) at = 0;
    }
    *out = gp_median_of(times, TIMES).median;
    return GP_OK;
}

static gp_status measure_route(const route *r, gp_profile_copy *out, gp_error *err) {
    double bytes[SIZES], seconds[SIZES];
    size_t room = r->to->arena_bytes / 2, size = SMALLEST;
    int count = 0;
    if (r->from && r->from->arena_bytes / 2 < room) room = r->from->arena_bytes / 2;
    if (size > room) size = room;
    for (; count < SIZES && size > 0 && size <= room; size *= FACTOR, count++) {
        bytes[count] = (double)size;
        GP_RETURN_IF_FAILED(time_copies(r, size, room, &seconds[count], err));
        if (!(seconds[count] > 0)) seconds[count] = 1e-9; /* less than the clock can tell */
    }
    if (count > 0) gp_fit_copies(bytes, seconds, count, &out->latency, &out->per_byte);
    return GP_OK;
}

static gp_status add_route(const route *r, gp_profile *profile, gp_error *err) {
    const char *from = r->from ? r->from->spec.kind->name : "host", *to = r->to->spec.kind->name;
    if (gp_profile_find_copy(profile, from, to)) return GP_OK;
    gp_profile_copy *copy = &profile->copies[profile->copy_count];
    GP_RETURN_IF_FAILED(measure_route(r, copy, err));
    snprintf(copy->from, sizeof copy->from, "%s", from);
    snprintf(copy->to, sizeof copy->to, "%s", to);
    profile->copy_count++;
    return GP_OK;
}

gp_status gp_measure_copies(gp_bench *benches, int count, gp_profile *profile, gp_error *err) {
    void *host = NULL;
    size_t largest = SMALLEST;
    for (int i = 1; i < SIZES; i++) largest *= FACTOR;
    GP_RETURN_IF_FAILED(GP_NEW(&profile->copies, (size_t)count * (size_t)(count + 1), err));
    GP_RETURN_IF_FAILED(gp_new_array(&host, largest, 1, err));
    gp_status status = GP_OK;
    for (int to = 0; to < count && status == GP_OK; to++) {
        benches[to].loaded = -1;
        status = add_route(&(route){NULL, &benches[to], host}, profile, err);
        for (int from = 0; from < count && status == GP_OK; from++)
            if (from != to) status = add_route(&(route){&benches[from], &benches[to], host}, profile, err);
    }
    /* Within a device only where its kind has no other: several stages may stand on it. */
    for (int i = 0; i < count && status == GP_OK; i++)
        status = add_route(&(route){&benches[i], &benches[i], host}, profile, err);
    free(host);
    return status;
}
