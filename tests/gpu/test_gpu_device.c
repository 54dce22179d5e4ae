/* The CUDA device on a GPU: memory, copies of all sizes and between devices that are open at the same time, streams
 * that wait for each other, time, and what it says of what is not there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "device/cuda/cuda.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_staging.h"
#include "gpu/gpu.h"

#define ASSERT_OK(expression)                                                                                          \
    do {                                                                                                               \
        if ((expression) != GP_OK) fail_msg("%s", err.text);                                                           \
    } while (0)

static const gp_device_kind *const cuda = &gp_cuda_kind;
static gp_error err;

/* An open device with a stream for computing and one for copies. */
typedef struct fixture {
    gp_device *device;
    gp_stream *stream, *copies;
} fixture;

static void open_fixture(fixture *f, int index) {
    gp_device_spec spec = {cuda, index, 1, 0};
    ASSERT_OK(cuda->open(&spec, &f->device, &err));
    ASSERT_OK(cuda->stream_create(f->device, false, &f->stream, &err));
    ASSERT_OK(cuda->stream_create(f->device, true, &f->copies, &err));
}

static void close_fixture(fixture *f) {
    cuda->stream_destroy(f->copies);
    cuda->stream_destroy(f->stream);
    cuda->close(f->device);
}

static unsigned char *take_memory(const fixture *f, size_t bytes) {
    void *block;
    ASSERT_OK(cuda->reserve(f->device, bytes, &block, &err));
    assert_int_equal((uintptr_t)block % GP_ALIGNMENT, 0);
    return block;
}

/* Bytes that differ from place to place and from seed to seed. */
static unsigned char *make_bytes(size_t count, uint32_t seed) {
    unsigned char *bytes = malloc(count ? count : 1);
    assert_non_null(bytes);
    uint32_t state = seed * 2654435761U + 1;
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525U + 1013904223U;
        bytes[i] = (unsigned char)(state >> 24);
    }
    return bytes;
}

static void finish(gp_stream *stream) {
    ASSERT_OK(cuda->stream_finish(stream, NULL, &err));
}

/* ---- what is not there --------------------------------------------------------------------------------------------
 */

static void test_no_such_device(void **state) {
    (void)state;
    char expected[128];
    gp_device *device;
    gp_device_spec spec = {cuda, gpu_count(), 1, 0};
    assert_int_equal(cuda->open(&spec, &device, &err), GP_DEVICE);
    snprintf(expected, sizeof expected, "cuda:%d: there is no such device: the machine has %d", gpu_count(),
             gpu_count());
    assert_string_equal(err.text, expected);
}

static void test_more_than_is_free(void **state) {
    (void)state;
    fixture f;
    void *block;
    gp_cuda_memory memory;
    char expected[160], asked[32];
    open_fixture(&f, 0);
    ASSERT_OK(gp_cuda->memory(&memory, &err));
    assert_true(memory.free > 0 && memory.free <= memory.total);
    assert_int_equal(cuda->reserve(f.device, memory.total + 1, &block, &err), GP_MEMORY);
    snprintf(expected, sizeof expected, "cuda:0: needs %s, and ", gp_bytes_text(asked, memory.total + 1));
    assert_memory_equal(err.text, expected, strlen(expected));
    const char *end = " for this worker), other workers and other programs use the rest";
    assert_string_equal(err.text + strlen(err.text) - strlen(end), end);
    close_fixture(&f);

    gp_device_spec spec = {cuda, 0, 1, cuda->beside + 1000};
    ASSERT_OK(cuda->open(&spec, &f.device, &err));
    assert_int_equal(cuda->reserve(f.device, 1001, &block, &err), GP_MEMORY);
    assert_string_equal(err.text,
                        "cuda:0: needs 1001 B, and 256.0 MiB for libraries and their code (0 B of it is already "
                        "used), but may use only 256.0 MiB");
    cuda->close(f.device);
}

/* A block that went back can be had again, until the end of time. */
static void test_memory_comes_back(void **state) {
    (void)state;
    if (!gpu_is_real()) skip();
    fixture f;
    gp_cuda_memory memory;
    open_fixture(&f, 0);
    ASSERT_OK(gp_cuda->memory(&memory, &err));
    for (int i = 0; i < 5; i++) {
        void *block;
        ASSERT_OK(cuda->reserve(f.device, memory.free / 2, &block, &err));
        cuda->unreserve(f.device, block);
    }
    close_fixture(&f);
}

/* ---- copies -------------------------------------------------------------------------------------------------------
 */

/* In, within the device to an odd place, and out. */
static void check_round(const fixture *f, size_t bytes, size_t offset) {
    unsigned char *host = make_bytes(bytes, (uint32_t)bytes), *back = make_bytes(bytes, 1);
    unsigned char *a = take_memory(f, bytes + offset), *b = take_memory(f, bytes + offset);
    ASSERT_OK(cuda->copy_in(f->stream, a + offset, host, bytes, &err));
    ASSERT_OK(cuda->pull(f->stream, b, f->device, a + offset, bytes, &err));
    ASSERT_OK(cuda->copy_out(f->stream, back, b, bytes, &err));
    finish(f->stream);
    if (memcmp(host, back, bytes) != 0) fail_msg("%zu bytes at %zu came back changed", bytes, offset);
    cuda->unreserve(f->device, a);
    cuda->unreserve(f->device, b);
    free(host);
    free(back);
}

static void test_copies(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 3, 4, 255, 256, 1000, 65535, 65536, 65537, 1 << 20};
    fixture f;
    open_fixture(&f, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t offset = 0; offset < 5; offset += 2) check_round(&f, sizes[i], offset);
    close_fixture(&f);
}

/* One copy that goes through the staging block piece by piece, in and out. */
static void test_copy_larger_than_staging(void **state) {
    (void)state;
    fixture f;
    open_fixture(&f, 0);
    size_t block = gp_cuda_staging_block, most = gp_cuda_staging_most;
    gp_cuda_staging_block = 1 << 16;
    gp_cuda_staging_most = 1 << 18;
    check_round(&f, 2 * gp_cuda_staging_most + 12345, 3);
    gp_cuda_staging_block = block;
    gp_cuda_staging_most = most;
    close_fixture(&f);
}

/* Many that are under way together: the block is taken in parts, overflows, and grows; twice, since the second round
 * finds it grown. */
static void test_many_copies(void **state) {
    (void)state;
    enum { COPIES = 200, BYTES = 3001 };
    fixture f;
    open_fixture(&f, 0);
    unsigned char *device = take_memory(&f, (size_t)COPIES * BYTES), *back = make_bytes((size_t)COPIES * BYTES, 0);
    for (uint32_t round = 0; round < 3; round++) {
        unsigned char *host = make_bytes((size_t)COPIES * BYTES, 7 + round);
        for (size_t i = 0; i < COPIES; i++)
            ASSERT_OK(cuda->copy_in(f.stream, device + i * BYTES, host + i * BYTES, BYTES, &err));
        for (size_t i = 0; i < COPIES; i++)
            ASSERT_OK(cuda->copy_out(f.stream, back + i * BYTES, device + i * BYTES, BYTES, &err));
        finish(f.stream);
        assert_memory_equal(host, back, (size_t)COPIES * BYTES);
        free(host);
    }
    free(back);
    cuda->unreserve(f.device, device);
    close_fixture(&f);
}

/* From a GPU to itself opened once more, as stages on one GPU do, and to others where there are any. */
static void check_between(int from_index, int to_index) {
    enum { BYTES = 1 << 20 };
    fixture from, to;
    gp_event *there;
    open_fixture(&from, from_index);
    open_fixture(&to, to_index);
    unsigned char *host = make_bytes(BYTES, 5), *back = make_bytes(BYTES, 6);
    unsigned char *a = take_memory(&from, BYTES), *b = take_memory(&to, BYTES);
    ASSERT_OK(cuda->event_create(from.device, false, &there, &err));
    ASSERT_OK(cuda->copy_in(from.stream, a, host, BYTES, &err));
    ASSERT_OK(cuda->event_record(there, from.stream, &err));
    ASSERT_OK(cuda->stream_wait(to.copies, there, &err));
    ASSERT_OK(cuda->pull(to.copies, b + 1, from.device, a + 1, BYTES - 1, &err));
    ASSERT_OK(cuda->copy_out(to.copies, back, b + 1, BYTES - 1, &err));
    finish(to.copies);
    assert_memory_equal(back, host + 1, BYTES - 1);
    cuda->event_destroy(there);
    cuda->unreserve(from.device, a);
    cuda->unreserve(to.device, b);
    free(host);
    free(back);
    close_fixture(&to);
    close_fixture(&from);
}

static void test_between_devices(void **state) {
    (void)state;
    check_between(0, 0);
    for (int i = 1; i < gpu_count(); i++) {
        check_between(0, i);
        check_between(i, 0);
    }
}

/* The call for two GPUs, which one GPU takes, too. */
static void test_peer_copy(void **state) {
    (void)state;
    enum { BYTES = 100001 };
    fixture f;
    bool direct = false;
    open_fixture(&f, 0);
    unsigned char *host = make_bytes(BYTES, 8), *back = make_bytes(BYTES, 9);
    unsigned char *a = take_memory(&f, BYTES), *b = take_memory(&f, BYTES);
    ASSERT_OK(gp_cuda->reach(0, &direct, &err));
    assert_true(direct);
    ASSERT_OK(cuda->copy_in(f.stream, a, host, BYTES, &err));
    ASSERT_OK(gp_cuda->copy_peer(b, 0, a, 0, BYTES, f.stream->handle, &err));
    ASSERT_OK(cuda->copy_out(f.stream, back, b, BYTES, &err));
    finish(f.stream);
    assert_memory_equal(host, back, BYTES);
    cuda->unreserve(f.device, a);
    cuda->unreserve(f.device, b);
    free(host);
    free(back);
    close_fixture(&f);
}

static void wait_for_comm(gp_cuda_comm *comm) {
    for (bool busy = true; busy;) ASSERT_OK(gp_cuda->comm_busy(comm, &busy, &err));
}

/* A group of one, which sends to itself: NCCL connects no two on one GPU. Every call of a line, in its order. */
static void test_message_to_itself(void **state) {
    (void)state;
    enum { BYTES = 1 << 20, MESSAGES = 3 };
    fixture f;
    gp_cuda_comm *comm = NULL;
    char id[GP_LINE_ID];
    if (!gp_cuda->comm_id) skip(); /* built without NCCL */
    if (gp_cuda->comm_id(id, &err) != GP_OK) {
        print_message("%s\n", err.text);
        skip(); /* the machine has no NCCL */
    }
    open_fixture(&f, 0);
    unsigned char *host = make_bytes(BYTES, 18), *back = make_bytes(BYTES, 19);
    unsigned char *a = take_memory(&f, BYTES), *b = take_memory(&f, BYTES);
    ASSERT_OK(gp_cuda->comm_create(id, 0, 1, 4, &comm, &err));
    wait_for_comm(comm);
    ASSERT_OK(cuda->copy_in(f.stream, a, host, BYTES, &err));
    for (int message = 0; message < MESSAGES; message++) {
        size_t at = (size_t)message * (BYTES / MESSAGES), bytes = BYTES / MESSAGES + (message == MESSAGES - 1);
        ASSERT_OK(gp_cuda->group_begin(&err));
        ASSERT_OK(gp_cuda->comm_send(comm, 0, a + at, bytes, f.stream->handle, &err));
        ASSERT_OK(gp_cuda->comm_receive(comm, 0, b + at, bytes, f.stream->handle, &err));
        ASSERT_OK(gp_cuda->group_end(&err));
        wait_for_comm(comm);
    }
    ASSERT_OK(cuda->copy_out(f.stream, back, b, BYTES, &err));
    finish(f.stream);
    assert_memory_equal(host, back, BYTES);
    ASSERT_OK(gp_cuda->comm_finish(comm, &err));
    wait_for_comm(comm);
    gp_cuda->comm_destroy(comm);
    cuda->unreserve(f.device, a);
    cuda->unreserve(f.device, b);
    free(host);
    free(back);
    close_fixture(&f);
}

typedef struct fetcher {
    gp_device *device;
    const gp_event *written;
    const void *address;
    unsigned char *to;
    size_t bytes;
    gp_status status;
    gp_error err;
} fetcher;

static void *fetch(void *context) {
    fetcher *its = context;
    its->status = cuda->event_finish(its->written, NULL, &its->err);
    if (its->status == GP_OK)
        its->status = cuda->fetch(its->device, its->to, its->address, its->bytes, NULL, &its->err);
    return NULL;
}

/* As a worker of another kind does. */
static void test_fetch_from_other_threads(void **state) {
    (void)state;
    enum { FETCHERS = 3, BYTES = 100001 };
    fixture f;
    gp_event *written;
    fetcher its[FETCHERS];
    pthread_t thread[FETCHERS];
    open_fixture(&f, 0);
    unsigned char *host = make_bytes(BYTES, 11), *device = take_memory(&f, BYTES);
    ASSERT_OK(cuda->event_create(f.device, false, &written, &err));
    ASSERT_OK(cuda->copy_in(f.stream, device, host, BYTES, &err));
    ASSERT_OK(cuda->event_record(written, f.stream, &err));
    for (int i = 0; i < FETCHERS; i++) {
        its[i] = (fetcher){.device = f.device, .written = written, .address = device, .bytes = BYTES};
        its[i].to = make_bytes(BYTES, 0);
        assert_int_equal(pthread_create(&thread[i], NULL, fetch, &its[i]), 0);
    }
    for (int i = 0; i < FETCHERS; i++) {
        pthread_join(thread[i], NULL);
        if (its[i].status != GP_OK) fail_msg("%s", its[i].err.text);
        assert_memory_equal(its[i].to, host, BYTES);
        free(its[i].to);
    }
    free(host);
    cuda->event_destroy(written);
    cuda->unreserve(f.device, device);
    close_fixture(&f);
}

/* ---- streams and events -------------------------------------------------------------------------------------------
 */

static void test_wait_for_what_nobody_recorded(void **state) {
    (void)state;
    fixture f;
    gp_event *event;
    open_fixture(&f, 0);
    ASSERT_OK(cuda->event_create(f.device, false, &event, &err));
    assert_int_equal(cuda->stream_wait(f.stream, event, &err), GP_INTERNAL);
    assert_string_equal(err.text, "cuda: a stream waits for an event that was never recorded");
    cuda->event_destroy(event);
    close_fixture(&f);
}

enum { TURNS = 8 };

/* What a GPU needs a while to copy. */
static size_t large_bytes(void) {
    return gpu_is_real() ? 64 << 20 : 1 << 16;
}

/* The second stream reads what the first is long at writing: without the wait it reads what was there before. */
static void check_order(const fixture *writer, const fixture *reader, gp_stream *reading) {
    gp_event *written, *was_read;
    size_t bytes = large_bytes();
    unsigned char *large = take_memory(writer, bytes), *other = take_memory(writer, bytes);
    unsigned char got[4], expected[4] = {0};
    ASSERT_OK(cuda->event_create(writer->device, false, &written, &err));
    ASSERT_OK(cuda->event_create(reader->device, false, &was_read, &err));
    for (unsigned char turn = 1; turn <= TURNS; turn++) {
        memset(expected, turn, sizeof expected);
        ASSERT_OK(cuda->copy_in(writer->stream, large + bytes - 4, expected, 4, &err));
        for (int i = 0; i < 4; i++)
            ASSERT_OK(
                cuda->pull(writer->stream, i % 2 ? large : other, writer->device, i % 2 ? other : large, bytes, &err));
        ASSERT_OK(cuda->event_record(written, writer->stream, &err));
        ASSERT_OK(cuda->stream_wait(reading, written, &err));
        ASSERT_OK(cuda->copy_out(reading, got, large + bytes - 4, 4, &err));
        ASSERT_OK(cuda->event_record(was_read, reading, &err));
        ASSERT_OK(cuda->stream_wait(writer->stream, was_read, &err));
        finish(reading);
        assert_memory_equal(got, expected, sizeof got);
    }
    finish(writer->stream);
    cuda->event_destroy(written);
    cuda->event_destroy(was_read);
    cuda->unreserve(writer->device, large);
    cuda->unreserve(writer->device, other);
}

static void test_streams_wait_for_each_other(void **state) {
    (void)state;
    fixture f, same;
    open_fixture(&f, 0);
    open_fixture(&same, 0);
    check_order(&f, &f, f.copies);
    check_order(&f, &same, same.stream);
    close_fixture(&same);
    close_fixture(&f);
}

/* Times add up, and do not run backwards. */
static void test_elapsed(void **state) {
    (void)state;
    enum { EVENTS = 3 };
    fixture f;
    gp_event *event[EVENTS];
    double first, second, both;
    size_t bytes = large_bytes();
    open_fixture(&f, 0);
    unsigned char *large = take_memory(&f, bytes), *other = take_memory(&f, bytes);
    for (int i = 0; i < EVENTS; i++) {
        ASSERT_OK(cuda->event_create(f.device, true, &event[i], &err));
        ASSERT_OK(cuda->event_record(event[i], f.stream, &err));
        ASSERT_OK(cuda->pull(f.stream, other, f.device, large, bytes, &err));
    }
    ASSERT_OK(cuda->event_finish(event[EVENTS - 1], NULL, &err));
    ASSERT_OK(cuda->event_elapsed(event[0], event[1], &first, &err));
    ASSERT_OK(cuda->event_elapsed(event[1], event[2], &second, &err));
    ASSERT_OK(cuda->event_elapsed(event[0], event[2], &both, &err));
    if (gpu_is_real()) assert_true(first > 0 && second > 0);
    assert_true(both >= first && both - (first + second) < 5e3 && (first + second) - both < 5e3);
    finish(f.stream);
    for (int i = 0; i < EVENTS; i++) cuda->event_destroy(event[i]);
    cuda->unreserve(f.device, large);
    cuda->unreserve(f.device, other);
    close_fixture(&f);
}

/* A run that is cancelled does not stay for its work, and what goes away afterwards does. */
static void test_cancelled(void **state) {
    (void)state;
    fixture f;
    gp_cancel cancel;
    gp_error cause = {0};
    size_t bytes = large_bytes();
    open_fixture(&f, 0);
    ASSERT_OK(gp_cancel_init(&cancel, &err));
    (void)gp_fail(&cause, GP_CANCELLED, "enough");
    gp_cancel_raise(&cancel, &cause);
    unsigned char *large = take_memory(&f, bytes), *other = take_memory(&f, bytes);
    for (int i = 0; i < 100; i++) ASSERT_OK(cuda->pull(f.stream, other, f.device, large, bytes, &err));
    gp_status status = cuda->stream_finish(f.stream, &cancel, &err);
    assert_true(status == GP_CANCELLED || status == GP_OK);
    if (status == GP_CANCELLED) assert_string_equal(err.text, "cancelled");
    cuda->stream_destroy(f.stream);
    cuda->unreserve(f.device, large);
    cuda->unreserve(f.device, other);
    gp_cancel_fini(&cancel);
    cuda->stream_destroy(f.copies);
    cuda->close(f.device);
}

/* test_gpu_device [TEST]: one alone. */
int main(int argc, char **argv) {
    if (!gpu_is_there()) return GPU_SKIPPED;
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_such_device),
        cmocka_unit_test(test_more_than_is_free),
        cmocka_unit_test(test_memory_comes_back),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_copy_larger_than_staging),
        cmocka_unit_test(test_many_copies),
        cmocka_unit_test(test_between_devices),
        cmocka_unit_test(test_peer_copy),
        cmocka_unit_test(test_message_to_itself),
        cmocka_unit_test(test_fetch_from_other_threads),
        cmocka_unit_test(test_wait_for_what_nobody_recorded),
        cmocka_unit_test(test_streams_wait_for_each_other),
        cmocka_unit_test(test_elapsed),
        cmocka_unit_test(test_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
