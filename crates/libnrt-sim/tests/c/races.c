/* The runtime comes and goes while threads use it: calls are answered, whatever
 * the moment, and nothing breaks. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "check.h"

enum { THREADS = 4 };

static atomic_bool over;
static _Atomic(nrt_model_t *) model;
static _Atomic(nrt_tensor_set_t *) in, out;
static _Atomic(nrt_tensor_t *) sum;
static atomic_int executed;

static void allow(NRT_STATUS status) {
    CHECK(status == NRT_SUCCESS || status == NRT_INVALID || status == NRT_INVALID_HANDLE ||
          status == NRT_UNINITIALIZED || status == NRT_CLOSED || status == NRT_EXEC_BAD_INPUT ||
          status == NRT_QUEUE_FULL);
}

static void *run(void *argument) {
    (void)argument;
    while (!atomic_load(&over)) {
        NRT_STATUS status = nrt_execute(atomic_load(&model), atomic_load(&in), atomic_load(&out));
        allow(status);
        if (status == NRT_SUCCESS) {
            atomic_fetch_add(&executed, 1);
        }
        float values[4];
        allow(nrt_tensor_read(atomic_load(&sum), values, 0, sizeof values));
        nrta_seq_t sequence;
        allow(nrta_execute_schedule(atomic_load(&model), atomic_load(&in), atomic_load(&out), 0,
                                    NULL, &sequence));
        nrt_tensor_t *brief = NULL;
        allow(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_HOST, -1, 64, "brief", &brief));
        nrt_tensor_free(&brief);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (int index = 0; index < THREADS; index++) {
        CHECK(pthread_create(&threads[index], NULL, run, NULL) == 0);
    }
    for (int round = 0; round < times(200, 20); round++) {
        OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
        struct adder a = adder(0);
        atomic_store(&model, a.model);
        atomic_store(&in, a.in);
        atomic_store(&out, a.out);
        atomic_store(&sum, a.sum);
        int before = atomic_load(&executed);
        while (atomic_load(&executed) == before) {
            sched_yield();
        }
        if (round % 3 == 0) {
            discard(&a);
        }
        nrt_close();
    }
    atomic_store(&over, true);
    for (int index = 0; index < THREADS; index++) {
        CHECK(pthread_join(threads[index], NULL) == 0);
    }
    return 0;
}
