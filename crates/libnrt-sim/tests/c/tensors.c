/* Tensors: memory, transfers, slices, buffers, and what is refused. */
#include "check.h"

int main(void) {
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    nrt_tensor_t *none = (nrt_tensor_t *)1;
    EXPECT(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 0, "", &none), NRT_INVALID);
    EXPECT(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, -1, 4, "", &none), NRT_INVALID);
    EXPECT(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 9, 4, "", &none), NRT_INVALID);
    EXPECT(nrt_tensor_allocate((nrt_tensor_placement_t)7, 0, 4, "", &none), NRT_INVALID);
    EXPECT(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 4, "", NULL), NRT_INVALID);
    CHECK(none == (nrt_tensor_t *)1);

    nrt_tensor_t *device = tensor(0, 16), *host = NULL;
    OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_HOST, -1, 16, NULL, &host));
    CHECK(nrt_tensor_get_size(device) == 16 && nrt_tensor_get_size(NULL) == 0);
    char bytes[17] = "0123456789abcdef", back[17] = "";
    OK(nrt_tensor_read(device, back, 0, 16));
    for (int index = 0; index < 16; index++) {
        CHECK(back[index] == 0);
    }
    OK(nrt_tensor_write(device, bytes, 0, 16));
    OK(nrt_tensor_read(device, back, 10, 6));
    CHECK(memcmp(back, "abcdef", 6) == 0);
    EXPECT(nrt_tensor_read(device, back, 11, 6), NRT_INVALID);
    EXPECT(nrt_tensor_write(device, bytes, SIZE_MAX, 2), NRT_INVALID);
    EXPECT(nrt_tensor_read(device, NULL, 0, 1), NRT_INVALID);
    EXPECT(nrt_tensor_read(NULL, back, 0, 1), NRT_INVALID);
    EXPECT(nrt_tensor_read((nrt_tensor_t *)back, back, 0, 1), NRT_INVALID_HANDLE);

    OK(nrt_tensor_copy(device, 8, host, 0, 8));
    OK(nrt_tensor_memset(host, 8, '*' + 256, 4));
    OK(nrt_tensor_read(host, back, 0, 16));
    CHECK(memcmp(back, "89abcdef****\0\0\0\0", 16) == 0);
    EXPECT(nrt_tensor_memset(host, 8, 0, 9), NRT_INVALID);
    nrt_tensor_t *other = tensor(1, 16);
    EXPECT(nrt_tensor_copy(device, 0, other, 0, 16), NRT_INVALID);
    OK(nrt_tensor_copy(host, 0, other, 0, 16));

    /* A batch is checked as a whole before the first byte moves. */
    char first[4] = "", second[4] = "";
    nrt_tensor_batch_op_t ops[] = {{0, 3, first}, {14, 3, second}};
    nrt_tensor_batch_t batch = {device, ops, 2};
    EXPECT(nrt_tensor_read_batch(&batch, 1, false), NRT_INVALID);
    CHECK(first[0] == 0);
    ops[1].offset = 13;
    OK(nrt_tensor_read_batch(&batch, 1, false));
    CHECK(strcmp(first, "012") == 0 && strcmp(second, "def") == 0);
    memcpy(first, "xyz", 3);
    OK(nrt_tensor_write_batch(&batch, 1, true));
    EXPECT(nrt_tensor_write_batch(NULL, 1, false), NRT_INVALID);
    OK(nrt_tensor_write_batch(NULL, 0, false));

    nrt_tensor_t *slice = NULL;
    OK(nrt_tensor_allocate_slice(device, 2, 4, "part", &slice));
    OK(nrt_tensor_read(slice, back, 0, 4));
    CHECK(memcmp(back, "z345", 4) == 0);
    nrt_tensor_t *beyond = NULL;
    EXPECT(nrt_tensor_allocate_slice(device, 13, 4, "", &beyond), NRT_INVALID);
    EXPECT(nrt_tensor_allocate_slice(device, SIZE_MAX, 4, "", &beyond), NRT_INVALID);
    CHECK(!beyond);

    /* The address stays, whatever is written, and can be written to. */
    char *address = nrt_tensor_get_va(device);
    CHECK(address && memcmp(address, "xyz3", 4) == 0);
    OK(nrt_tensor_write(device, "QQ", 4, 2));
    CHECK(nrt_tensor_get_va(device) == address && address[4] == 'Q');
    OK(nrt_memcpy_to_device(address + 12, "WXYZ", 4));
    EXPECT(nrt_memcpy_to_device(address + 13, "WXYZ", 4), NRT_INVALID);
    OK(nrt_tensor_read(slice, back, 2, 2));
    CHECK(memcmp(back, "QQ", 2) == 0 && memcmp(address + 12, "WXYZ", 4) == 0);

    nrt_tensor_device_allocation_info_t where, part;
    OK(nrt_tensor_get_device_allocation_info(device, &where));
    OK(nrt_tensor_get_device_allocation_info(slice, &part));
    CHECK(where.size >= 16 && part.physical_address == where.physical_address + 2);
    EXPECT(nrt_tensor_get_device_allocation_info(host, &where), NRT_INVALID);

    struct {
        nrt_vnc_memory_stats_t known;
        size_t more;
    } stats = {.more = 42};
    size_t written = 0;
    OK(nrt_get_vnc_memory_stats(0, &stats.known, sizeof stats, &written));
    CHECK(written == sizeof stats.known && stats.more == 42);
    size_t used = stats.known.bytes_used;
    CHECK(used >= 16 && used < stats.known.bytes_limit);
    EXPECT(nrt_get_vnc_memory_stats(9, &stats.known, sizeof stats, &written), NRT_INVALID);

    /* A slice keeps its parent's memory. */
    nrt_tensor_free(&device);
    CHECK(!device);
    nrt_tensor_free(&device);
    nrt_tensor_free(NULL);
    OK(nrt_tensor_read(slice, back, 0, 2));
    nrt_tensor_free(&slice);
    OK(nrt_get_vnc_memory_stats(0, &stats.known, sizeof stats.known, NULL));
    CHECK(stats.known.bytes_used < used);

    nrt_tensor_t *empty = NULL;
    OK(nrt_tensor_allocate_empty("empty", &empty));
    CHECK(nrt_tensor_get_size(empty) == 0 && !nrt_tensor_get_va(empty));
    char mine[8] = "original";
    EXPECT(nrt_tensor_attach_buffer(empty, NULL, 8), NRT_INVALID);
    EXPECT(nrt_tensor_attach_buffer(empty, mine, SIZE_MAX), NRT_INVALID);
    OK(nrt_tensor_attach_buffer(empty, mine, sizeof mine));
    OK(nrt_tensor_write(empty, "X", 0, 1));
    CHECK(mine[0] == 'X' && nrt_tensor_get_va(empty) == mine);
    nrt_tensor_free(&empty);
    CHECK(memcmp(mine, "Xriginal", 8) == 0);

    OK(nrt_tensor_reset_output_completion(host));
    OK(nrt_tensor_check_output_completion(host, 0, 0));
    EXPECT(nrt_tensor_check_output_completion(host, 1000, 1), NRT_TIMEOUT);
    EXPECT(nrt_tensor_check_output_completion(NULL, 0, 0), NRT_INVALID);
    nrt_tensor_free(&host);
    nrt_tensor_free(&other);
    nrt_close();
    return 0;
}
