/* Tensors sent from core to core. */
#include <sched.h>

#include "check.h"

int main(void) {
    int most = 0, pending = 0;
    OK(nrt_async_sendrecv_get_max_num_communicators_per_lnc(&most));
    OK(nrt_async_sendrecv_get_max_num_pending_request(&pending));
    CHECK(most > 0 && pending > 0);
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    nrt_async_sendrecv_comm_t *send = NULL, *receive = NULL;
    EXPECT(nrt_async_sendrecv_connect("127.0.0.1", 1, 0, &send), NRT_FAILURE);
    OK(nrt_async_sendrecv_init(0));
    OK(nrt_async_sendrecv_init(1));
    EXPECT(nrt_async_sendrecv_init(1), NRT_FAILURE);
    EXPECT(nrt_async_sendrecv_init(-1), NRT_INVALID);
    OK(nrt_async_sendrecv_connect("127.0.0.1", 1, 0, &send));
    bool done = true;
    OK(nrt_async_sendrecv_test_comm(send, &done));
    CHECK(!done);
    OK(nrt_async_sendrecv_accept("127.0.0.1", 0, 1, &receive));
    OK(nrt_async_sendrecv_test_comm(send, &done));
    CHECK(done);
    OK(nrt_async_sendrecv_test_comm(receive, &done));
    CHECK(done);

    nrt_tensor_t *from = tensor(0, 1024), *to = tensor(1, 1024);
    nrt_async_sendrecv_request_t *sent = NULL, *received = NULL;
    for (int round = 0; round < 100; round++) {
        OK(nrt_tensor_memset(from, 0, round + 1, 1024));
        size_t size = 7;
        OK(nrt_async_sendrecv_send_tensor(from, 0, 1000, send, &sent));
        OK(nrt_async_sendrecv_test_request(sent, &done, &size));
        CHECK(!done && size == 0);
        OK(nrt_async_sendrecv_recv_tensor(to, 24, 1000, receive, &received));
        OK(nrt_async_sendrecv_test_request(received, &done, &size));
        CHECK(done && size == 1000);
        OK(nrt_async_sendrecv_test_request(sent, &done, &size));
        CHECK(done && size == 1000);
        /* A request is gone when it was done. */
        EXPECT(nrt_async_sendrecv_test_request(sent, &done, &size), NRT_INVALID_HANDLE);
        OK(nrt_async_sendrecv_flush(1));
        unsigned char bytes[1024];
        OK(nrt_tensor_read(to, bytes, 0, 1024));
        CHECK(bytes[23] == 0 && bytes[24] == round + 1 && bytes[1023] == round + 1);
    }
    EXPECT(nrt_async_sendrecv_send_tensor(from, 1000, 25, send, &sent), NRT_INVALID);
    EXPECT(nrt_async_sendrecv_send_tensor(from, 0, 4, receive, &sent), NRT_INVALID_HANDLE);
    EXPECT(nrt_async_sendrecv_send_tensor(from, 0, 4, NULL, &sent), NRT_INVALID);
    for (int round = 0; round < pending; round++) {
        OK(nrt_async_sendrecv_send_tensor(from, 0, 4, send, &sent));
    }
    EXPECT(nrt_async_sendrecv_send_tensor(from, 0, 4, send, &sent), NRT_RESOURCE);
    /* Closing with requests under way is an error, and so is what follows. */
    EXPECT(nrt_async_sendrecv_close(0), NRT_FAILURE);
    EXPECT(nrt_async_sendrecv_init(0), NRT_FAILURE);
    OK(nrt_async_sendrecv_close(1));
    EXPECT(nrt_async_sendrecv_flush(1), NRT_FAILURE);
    nrt_close();
    EXPECT(nrt_async_sendrecv_test_comm(send, &done), NRT_CLOSED);
    return 0;
}
