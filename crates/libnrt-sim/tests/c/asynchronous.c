/* Explicit asynchronous calls: sequence ids, queues, errors, handles. */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "check.h"

static void await(nrta_seq_t sequence) {
    int fd = -1;
    OK(nrta_get_completion_handle(sequence, &fd));
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    int count;
    do {
        count = poll(&ready, 1, 60 * 1000);
    } while (count < 0 && errno == EINTR);
    CHECK(count == 1 && (ready.revents & POLLIN));
    CHECK(close(fd) == 0);
    bool done = false;
    OK(nrta_is_completed(sequence, &done));
    CHECK(done);
}

int main(void) {
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    nrta_error_tracker_t *errors = NULL;
    EXPECT(nrta_error_tracker_create(9, &errors), NRT_INVALID);
    OK(nrta_error_tracker_create(0, &errors));
    struct adder adder_ = adder(0);
    nrta_seq_t sequence = 0, before = 0;
    OK(nrta_get_sequence(0, NRTA_XU_COMPUTE, 0, &before));
    CHECK((before & 0xffffffffffffull) == 0 && before >> 48 != 0);

    const float a[] = {1, 2, 3, 5};
    OK(nrta_tensor_write(adder_.a, a, 0, sizeof a, 0, errors, &sequence));
    await(sequence);
    nrta_seq_t last = 0;
    OK(nrta_get_sequence(0, NRTA_XU_TENSOR_WRITE, 0, &last));
    CHECK(last == sequence && (last & 0xffffffffffffull) == 1);

    for (int round = 1; round <= 20; round++) {
        OK(nrta_execute_schedule(adder_.model, adder_.in, adder_.out, 0, errors, &sequence));
        CHECK(sequence == before + (nrta_seq_t)round);
    }
    await(sequence);
    float values[4] = {0};
    OK(nrta_tensor_read(values, adder_.sum, 0, sizeof values, 1, errors, &sequence));
    await(sequence);
    CHECK(values[0] == 11 && values[3] == 45);
    OK(nrta_tensor_copy(adder_.sum, 0, adder_.a, 8, 8, 0, errors, &sequence));
    await(sequence);
    OK(nrt_tensor_read(adder_.a, values, 0, sizeof values));
    CHECK(values[0] == 1 && values[2] == 11 && values[3] == 22);

    const nrta_error_t *list = (const nrta_error_t *)1;
    size_t count = 9;
    OK(nrta_error_tracker_get_list(errors, &list, &count));
    CHECK(count == 0);
    /* A request that fails is done, and its error says which it was. */
    nrt_tensor_set_t *none = NULL;
    OK(nrt_allocate_tensor_set(&none));
    nrta_seq_t failing = 0;
    OK(nrta_execute_schedule(adder_.model, none, adder_.out, 0, errors, &failing));
    await(failing);
    OK(nrta_error_tracker_get_list(errors, &list, &count));
    CHECK(count == 1 && list[0].seq_id == failing && list[0].error_code == NRT_INVALID);
    OK(nrta_execute_schedule(adder_.model, none, adder_.out, 0, errors, &failing));
    await(failing);
    const nrta_error_t *longer = NULL;
    OK(nrta_error_tracker_get_list(errors, &longer, &count));
    CHECK(count == 2 && longer[1].seq_id == failing && list[0].seq_id == failing - 1);

    /* What can be checked at once is. */
    sequence = 42;
    EXPECT(nrta_tensor_write(adder_.a, a, 8, 9, 0, errors, &sequence), NRT_INVALID);
    EXPECT(nrta_tensor_write(adder_.a, NULL, 0, 4, 0, errors, &sequence), NRT_INVALID);
    EXPECT(nrta_tensor_read(values, adder_.a, UINT64_MAX, 2, 0, errors, &sequence), NRT_INVALID);
    EXPECT(nrta_execute_schedule(adder_.model, adder_.in, adder_.out, 1, errors, &sequence),
           NRT_INVALID);
    EXPECT(nrta_execute_schedule(NULL, adder_.in, adder_.out, 0, errors, &sequence), NRT_INVALID);
    EXPECT(nrta_execute_schedule(adder_.model, adder_.in, adder_.out, 0, errors, NULL),
           NRT_INVALID);
    CHECK(sequence == 42);
    bool done;
    EXPECT(nrta_is_completed(0, &done), NRT_INVALID);
    EXPECT(nrta_is_completed(failing + 1, &done), NRT_INVALID);
    EXPECT(nrta_is_completed(failing, NULL), NRT_INVALID);
    int fd = -5;
    EXPECT(nrta_get_completion_handle(failing + 1, &fd), NRT_INVALID);
    CHECK(fd == -5);
    EXPECT(nrta_get_sequence(0, (nrta_xu_t)99, 0, &sequence), NRT_INVALID);
    EXPECT(nrta_get_sequence(7, NRTA_XU_COMPUTE, 0, &sequence), NRT_INVALID);

    /* Tensors may be freed, trackers destroyed, while requests are under way. */
    for (int round = 0; round < 50; round++) {
        nrt_tensor_t *brief = tensor(0, 1 << 16);
        static char many[1 << 16];
        OK(nrta_tensor_write(brief, many, 0, sizeof many, 2, errors, &sequence));
        nrt_tensor_free(&brief);
    }
    nrta_error_tracker_destroy(errors);
    nrta_error_tracker_destroy(errors);
    nrta_error_tracker_destroy(NULL);
    await(sequence);
    nrt_destroy_tensor_set(&none);
    OK(nrta_execute_schedule(adder_.model, adder_.in, adder_.out, 0, NULL, &sequence));
    /* Closing does not leave those who poll waiting. */
    OK(nrta_get_completion_handle(sequence, &fd));
    nrt_close();
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    CHECK(poll(&ready, 1, 60 * 1000) == 1);
    close(fd);
    EXPECT(nrta_is_completed(sequence, &done), NRT_CLOSED);
    return 0;
}
