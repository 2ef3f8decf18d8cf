/* Executes on a thread with a stack of as many KiB as the argument says. */
#include <pthread.h>

#include "check.h"

static void *run(void *argument) {
    struct adder *a = argument;
    OK(nrt_execute(a->model, a->in, a->out));
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    struct adder a = adder(0);
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, (size_t)atol(argv[1]) << 10) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, &attributes, run, &a) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    check_sum(a.sum, 44);
    nrt_close();
    return 0;
}
