/* Eight threads, two models, ten thousand executions each. */
#include <pthread.h>

#include "check.h"

enum { THREADS = 8 };

static void *run(void *argument) {
    int index = (int)(intptr_t)argument;
    struct adder a = adder(index % 2);
    float values[4] = {0};
    int rounds = times(10000, 50);
    for (int round = 0; round < rounds; round++) {
        values[0] = (float)(round * THREADS + index);
        OK(nrt_tensor_write(a.a, values, 0, sizeof values));
        OK(nrt_execute(a.model, a.in, a.out));
        float sum[4];
        OK(nrt_tensor_read(a.sum, sum, 0, sizeof sum));
        CHECK(sum[0] == values[0] + 10 && sum[3] == 40);
    }
    OK(nrt_tensor_check_output_completion(a.sum, 0, (uint64_t)rounds));
    discard(&a);
    return NULL;
}

int main(void) {
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    pthread_t threads[THREADS];
    /* Stacks of 64 KiB: the library computes on its own. */
    pthread_attr_t small;
    CHECK(pthread_attr_init(&small) == 0);
    CHECK(pthread_attr_setstacksize(&small, getenv("SLOW") ? 1 << 20 : 1 << 16) == 0);
    for (intptr_t index = 0; index < THREADS; index++) {
        CHECK(pthread_create(&threads[index], &small, run, (void *)index) == 0);
    }
    for (int index = 0; index < THREADS; index++) {
        CHECK(pthread_join(threads[index], NULL) == 0);
    }
    nrt_close();
    return 0;
}
