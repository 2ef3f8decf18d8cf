/* Ranks of one process that meet: barrier, all-gather, collectives outside of a
 * model. */
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "check.h"

enum { RANKS = 2 };

static void collective(uint32_t rank, nrt_cc_op_type_t kind, nrt_tensor_t *in, nrt_tensor_t *out) {
    uint32_t group[RANKS] = {0, 1};
    nrt_cc_comm_t comm = {group, rank, RANKS, rank, RANKS, rank};
    nrt_tensor_list_t input = {&in, 1}, output = {&out, 1};
    nrt_cc_context_t *context = NULL;
    OK(nrta_cc_prepare(&comm, &input, &output, NRT_DTYPE_FLOAT32, NRT_OP_ADD, kind, &context));
    nrta_error_tracker_t *errors = NULL;
    OK(nrta_error_tracker_create(rank, &errors));
    nrta_seq_t sequence = 0;
    OK(nrta_cc_schedule(&context, 0, errors, &sequence));
    int fd = -1;
    OK(nrta_get_completion_handle(sequence, &fd));
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    CHECK(poll(&ready, 1, 60 * 1000) == 1);
    close(fd);
    const nrta_error_t *list;
    size_t count = 9;
    OK(nrta_error_tracker_get_list(errors, &list, &count));
    CHECK(count == 0);
    nrta_error_tracker_destroy(errors);
    /* The context is gone. */
    EXPECT(nrta_cc_schedule(&context, 0, NULL, &sequence), NRT_INVALID_HANDLE);
}

static void *run(void *argument) {
    uint32_t rank = (uint32_t)(uintptr_t)argument;
    for (int round = 0; round < 50; round++) {
        OK(nrt_barrier((int)rank, rank, RANKS));
        char mine[4] = {(char)('a' + rank), (char)round, 0, 0}, all[4 * RANKS];
        OK(nrt_all_gather((int)rank, rank, RANKS, sizeof mine, mine, all));
        for (int other = 0; other < RANKS; other++) {
            CHECK(all[4 * other] == 'a' + other && all[4 * other + 1] == round);
        }
    }
    const float values[] = {1 + (float)rank, 10, 100, 1000};
    nrt_tensor_t *in = floats((int)rank, values, 4), *out = tensor((int)rank, 16);
    float result[8];
    collective(rank, NRT_CC_ALLREDUCE, in, out);
    OK(nrt_tensor_read(out, result, 0, 16));
    CHECK(result[0] == 3 && result[1] == 20 && result[3] == 2000);
    nrt_tensor_t *wide = tensor((int)rank, 32), *narrow = tensor((int)rank, 8);
    collective(rank, NRT_CC_ALLGATHER, in, wide);
    OK(nrt_tensor_read(wide, result, 0, 32));
    CHECK(result[0] == 1 && result[4] == 2 && result[7] == 1000);
    collective(rank, NRT_CC_REDUCESCATTER, in, narrow);
    OK(nrt_tensor_read(narrow, result, 0, 8));
    CHECK(result[0] == (rank == 0 ? 3 : 200) && result[1] == (rank == 0 ? 20 : 2000));

    /* What does not fit is refused before anyone waits. */
    nrt_cc_comm_t comm = {NULL, rank, RANKS, rank, RANKS, rank};
    nrt_tensor_list_t input = {&in, 1}, output = {&narrow, 1}, empty = {NULL, 0};
    nrt_cc_context_t *context = NULL;
    EXPECT(nrta_cc_prepare(&comm, &input, &output, NRT_DTYPE_FLOAT32, NRT_OP_ADD,
                           NRT_CC_ALLREDUCE, &context), NRT_INVALID);
    EXPECT(nrta_cc_prepare(&comm, &empty, &output, NRT_DTYPE_FLOAT32, NRT_OP_ADD,
                           NRT_CC_ALLREDUCE, &context), NRT_INVALID);
    EXPECT(nrta_cc_prepare(NULL, &input, &output, NRT_DTYPE_FLOAT32, NRT_OP_ADD,
                           NRT_CC_ALLREDUCE, &context), NRT_INVALID);
    comm.rank = RANKS;
    EXPECT(nrta_cc_prepare(&comm, &input, &input, NRT_DTYPE_FLOAT32, NRT_OP_ADD,
                           NRT_CC_ALLREDUCE, &context), NRT_INVALID);
    /* And so is another rank than the core's, or another world. */
    comm.rank = 1 - rank;
    EXPECT(nrta_cc_prepare(&comm, &input, &input, NRT_DTYPE_FLOAT32, NRT_OP_ADD,
                           NRT_CC_ALLREDUCE, &context), NRT_INVALID);
    comm.rank = rank;
    comm.ctx_device_count = RANKS + 1;
    EXPECT(nrta_cc_prepare(&comm, &input, &input, NRT_DTYPE_FLOAT32, NRT_OP_ADD,
                           NRT_CC_ALLREDUCE, &context), NRT_INVALID);
    CHECK(!context);
    return NULL;
}

static void *meet(void *argument) {
    uint32_t rank = (uint32_t)(uintptr_t)argument;
    OK(nrt_barrier((int)rank, rank, RANKS));
    return NULL;
}

int main(void) {
    /* Ranks meet without a world that was built, as they say they are. */
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    pthread_t other;
    CHECK(pthread_create(&other, NULL, meet, (void *)(uintptr_t)1) == 0);
    meet(NULL);
    CHECK(pthread_join(other, NULL) == 0);
    nrt_close();
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    /* One thread sets all ranks up, without waiting. */
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        OK(nrt_build_global_comm((int)rank, rank, RANKS));
        OK(nrt_cc_global_comm_init(rank, rank, RANKS));
    }
    /* Loading waits for no one either. */
    size_t size;
    void *neff = slurp("add.neff", &size);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        nrt_model_t *model = NULL;
        OK(nrt_load_collectives(neff, size, (int)rank, 1, rank, RANKS, &model));
        OK(nrt_unload(model));
    }
    nrt_model_t *none = NULL;
    EXPECT(nrt_load_collectives(neff, size, 0, 1, RANKS, RANKS, &none), NRT_INVALID);
    CHECK(!none);
    free(neff);
    EXPECT(nrt_build_global_comm(0, 1, RANKS), NRT_INVALID);
    EXPECT(nrt_build_global_comm(0, 2, RANKS), NRT_INVALID);
    EXPECT(nrt_build_global_comm(-1, 0, RANKS), NRT_INVALID);
    EXPECT(nrt_barrier(0, RANKS, RANKS), NRT_INVALID);
    /* Another rank than was built for the core, or another world. */
    char bytes[3] = "";
    EXPECT(nrt_barrier(0, 1, RANKS), NRT_INVALID);
    EXPECT(nrt_barrier(1, 1, RANKS + 1), NRT_INVALID);
    EXPECT(nrt_all_gather(1, 0, RANKS, 1, bytes, bytes), NRT_INVALID);
    EXPECT(nrt_all_gather(0, 0, 1, 1, bytes, bytes), NRT_INVALID);
    pthread_t threads[RANKS];
    for (uintptr_t rank = 0; rank < RANKS; rank++) {
        CHECK(pthread_create(&threads[rank], NULL, run, (void *)rank) == 0);
    }
    for (int rank = 0; rank < RANKS; rank++) {
        CHECK(pthread_join(threads[rank], NULL) == 0);
    }
    /* Who does not come is waited for so long and no longer. */
    EXPECT(nrt_barrier(0, 0, RANKS), NRT_TIMEOUT);
    char byte = 0, both[2];
    EXPECT(nrt_all_gather(0, 0, RANKS, 1, &byte, both), NRT_TIMEOUT);
    nrt_close();
    return 0;
}
