/* Debug streams. */
#include <poll.h>

#include "check.h"

static bool readable(int fd) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    return poll(&ready, 1, 0) == 1;
}

int main(void) {
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    int stream = -1, second = -1;
    EXPECT(nrt_debug_client_connect(9, &stream), NRT_INVALID);
    EXPECT(nrt_debug_client_connect(0, NULL), NRT_INVALID);
    OK(nrt_debug_client_connect(0, &stream));
    EXPECT(nrt_debug_client_connect(0, &second), NRT_INVALID);
    CHECK(second == -1);
    OK(nrt_debug_client_connect(1, &second));
    struct adder a = adder(0);
    CHECK(!readable(stream));
    ndebug_stream_event_header_t header;
    char *payload = NULL;
    EXPECT(nrt_debug_client_read_one_event(stream, &header, (void **)&payload), NRT_QUEUE_EMPTY);
    CHECK(!payload);
    int rounds = 300;
    OK(nrt_execute_repeat(a.model, a.in, a.out, rounds));
    for (int round = 1; round <= rounds; round++) {
        CHECK(readable(stream));
        OK(nrt_debug_client_read_one_event(stream, &header, (void **)&payload));
        CHECK(header.type == 1 && header.data_size == 1024 + 16);
        CHECK(strcmp(payload, "output0") == 0 && strcmp(payload + 520, "float32") == 0);
        uint64_t dimension, size;
        memcpy(&dimension, payload + 536, 8);
        memcpy(&size, payload + 600, 8);
        float first;
        memcpy(&first, payload + 1024, 4);
        CHECK(dimension == 4 && size == 16 && first == 1 + 10 * (float)round);
        free(payload);
    }
    CHECK(!readable(stream) && !readable(second));
    EXPECT(nrt_debug_client_read_one_event(-3, &header, (void **)&payload), NRT_INVALID);
    nrt_debug_client_connect_close(stream);
    nrt_debug_client_connect_close(stream);
    EXPECT(nrt_debug_client_read_one_event(stream, &header, (void **)&payload), NRT_INVALID);
    /* What happened while no one was connected is not shown. */
    OK(nrt_execute(a.model, a.in, a.out));
    OK(nrt_debug_client_connect(0, &stream));
    EXPECT(nrt_debug_client_read_one_event(stream, &header, (void **)&payload), NRT_QUEUE_EMPTY);
    nrt_close();
    nrt_debug_client_connect_close(second);
    return 0;
}
