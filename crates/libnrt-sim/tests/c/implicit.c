/* Implicit asynchronous execution: nrt_execute that does not wait. */
#include <stdatomic.h>
#include <unistd.h>

#include "check.h"

static atomic_int told, failed;
static atomic_ullong last_job;

static void callback(void *params, uint32_t model, uint32_t vnc, uint64_t job, NRT_STATUS status) {
    (void)model;
    CHECK(params == &told && vnc == 0);
    CHECK(job == atomic_load(&last_job) + 1);
    atomic_store(&last_job, job);
    if (status != NRT_SUCCESS) {
        atomic_fetch_add(&failed, 1);
    }
    /* Calls from here must not wait for this thread. */
    if (job % 10 == 1) {
        EXPECT(nrt_async_drain_queued_execs(0), NRT_FAILURE);
    }
    atomic_fetch_add(&told, 1);
}

static atomic_bool open_gate;
static atomic_int passed;

/* Keeps its queue from going on. */
static void gate(void *params, uint32_t model, uint32_t vnc, uint64_t job, NRT_STATUS status) {
    (void)params, (void)model, (void)vnc, (void)job;
    while (!atomic_load(&open_gate)) {
        usleep(1000);
    }
    CHECK(status == NRT_SUCCESS);
    atomic_fetch_add(&passed, 1);
}

/* Batches that are not checked wait for nothing that is queued. */
static void unchecked_batches(void) {
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    OK(nrt_register_async_exec_callback(gate, NULL));
    struct adder a = adder(0);
    nrt_tensor_t *other = tensor(0, 16);
    OK(nrt_execute(a.model, a.in, a.out));
    OK(nrt_execute(a.model, a.in, a.out));
    float values[] = {5, 6, 7, 8}, back[4] = {0};
    nrt_tensor_batch_op_t in = {0, sizeof values, values}, out = {0, sizeof back, back};
    nrt_tensor_batch_t writes = {other, &in, 1}, reads = {other, &out, 1};
    /* One that waited would never come back: the gate opens after it. */
    alarm(300);
    OK(nrt_tensor_write_batch(&writes, 1, true));
    OK(nrt_tensor_read_batch(&reads, 1, true));
    CHECK(atomic_load(&passed) == 0 && back[0] == 5 && back[3] == 8);
    atomic_store(&open_gate, true);
    /* The second execution began after the first one's callback. */
    OK(nrt_tensor_write_batch(&writes, 1, false));
    CHECK(atomic_load(&passed) >= 1);
    OK(nrt_async_drain_queued_execs(0));
    CHECK(atomic_load(&passed) == 2);
    alarm(0);
    check_sum(a.sum, 44);
    nrt_tensor_free(&other);
    discard(&a);
    nrt_close();
}

int main(void) {
    unchecked_batches();
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    OK(nrt_register_async_exec_callback(callback, &told));
    struct adder a = adder(0);
    int rounds = times(1000, 50);
    for (int round = 0; round < rounds; round++) {
        OK(nrt_execute(a.model, a.in, a.out));
    }
    /* A read waits for what was queued before it. */
    check_sum(a.sum, 44);
    OK(nrt_async_drain_queued_execs(0));
    OK(nrt_tensor_check_output_completion(a.sum, 60 * 1000 * 1000, (uint64_t)rounds));

    /* A failure reaches the callback; the queued call keeps its tensors. */
    nrt_tensor_set_t *none = NULL;
    OK(nrt_allocate_tensor_set(&none));
    OK(nrt_execute(a.model, none, a.out));
    nrt_destroy_tensor_set(&none);
    OK(nrt_execute(a.model, a.in, a.out));
    nrt_tensor_free(&a.b);
    EXPECT(nrt_execute(NULL, a.in, a.out), NRT_INVALID);
    EXPECT(nrt_async_drain_queued_execs(5), NRT_INVALID);
    discard(&a);
    OK(nrt_async_drain_queued_execs(0));
    CHECK(atomic_load(&told) == rounds + 2);
    nrt_close();
    CHECK(atomic_load(&told) == rounds + 2 && atomic_load(&failed) == 1);
    return 0;
}
