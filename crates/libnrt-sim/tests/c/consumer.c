/* A library that opens the runtime, uses it and closes it, again and again, while
 * a thread lives on; and a child process after a fork. */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

/* Uses the library before and after everyone has closed it. */
static void *lives_on(void *argument) {
    NRT_STATUS (*count)(uint32_t *) = (NRT_STATUS(*)(uint32_t *))(uintptr_t)argument;
    uint32_t cores = 0;
    CHECK(count(&cores) == NRT_SUCCESS);
    pthread_mutex_lock(&gate);
    CHECK(count(&cores) == NRT_SUCCESS && cores == 2);
    pthread_mutex_unlock(&gate);
    return NULL;
}

int main(void) {
    pthread_t thread;
    pthread_mutex_lock(&gate);
    for (int round = 0; round < 100; round++) {
        void *library = dlopen("libnrt.so.1", RTLD_NOW);
        CHECK(library);
        void *count = dlsym(library, "nrt_get_total_nc_count");
        CHECK(count && dlsym(library, "nrt_memcpy_to_device"));
        CHECK(!dlsym(library, "nrt_get_dmabuf_fd_v2"));
        if (round == 0) {
            CHECK(pthread_create(&thread, NULL, lives_on, count) == 0);
        }
        CHECK(dlclose(library) == 0);
    }
    pthread_mutex_unlock(&gate);
    CHECK(pthread_join(thread, NULL) == 0);

    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    struct adder a = adder(0);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        /* The parent's runtime is not the child's, and it harms no one. */
        EXPECT(nrt_execute(a.model, a.in, a.out), NRT_UNINITIALIZED);
        EXPECT(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_UNINITIALIZED);
        nrt_tensor_free(&a.a);
        nrt_close();
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    OK(nrt_execute(a.model, a.in, a.out));
    check_sum(a.sum, 44);
    discard(&a);
    nrt_close();
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        /* Nothing is shared any more. */
        OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
        nrt_close();
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return 0;
}
