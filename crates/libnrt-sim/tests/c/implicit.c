/* Implicit asynchronous execution: nrt_execute that does not wait. */
#include <stdatomic.h>

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

int main(void) {
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
