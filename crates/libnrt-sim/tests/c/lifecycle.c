/* Versions, counts, identities, and the states of the runtime. */
#include "check.h"

int main(void) {
    nrt_version_t version;
    OK(nrt_get_version(&version, sizeof version));
    CHECK(version.rt_major == 2 && strstr(version.rt_detail, "simulator"));
    struct {
        nrt_version_t known;
        char more[64];
    } newer = {.more = "untouched"};
    OK(nrt_get_version(&newer.known, sizeof newer));
    CHECK(strcmp(newer.more, "untouched") == 0);
    uint64_t major = 0;
    OK(nrt_get_version((nrt_version_t *)&major, sizeof major));
    CHECK(major == 2);
    EXPECT(nrt_get_version(NULL, sizeof version), NRT_INVALID);

    CHECK(strcmp(nrt_get_status_as_str(NRT_EXEC_NC_BUSY), "NRT_EXEC_NC_BUSY") == 0);
    CHECK(nrt_get_status_as_str((NRT_STATUS)12345));

    uint32_t total = 0, visible = 0;
    OK(nrt_get_total_nc_count(&total));
    OK(nrt_get_total_vnc_count(&total));
    OK(nrt_get_visible_nc_count(&visible));
    CHECK(total == 2 && visible == 2);
    EXPECT(nrt_get_visible_vnc_count(NULL), NRT_INVALID);
    nrt_instance_info_t info;
    OK(nrt_get_instance_info(&info, sizeof info));
    CHECK(info.family != 0 && info.arch_name[0]);

    /* Microcode is given before the runtime is there. */
    uint8_t code[4] = {1, 2, 3, 4};
    const nrt_ucode_info ucode = {{code, 4}, {code, 4}};
    EXPECT(nrt_set_pool_eng_ucode(&ucode), NRT_FAILURE);
    EXPECT(nrt_set_pool_eng_ucode(NULL), NRT_INVALID);

    /* The environment counts when it is asked for, and not once it is in use. */
    CHECK(setenv("NEURON_RT_NUM_CORES", "1", 1) == 0);
    OK(nrt_get_visible_vnc_count(&visible));
    CHECK(visible == 1);
    EXPECT(nrt_init((nrt_framework_type_t)0, "", ""), NRT_INVALID);
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, NULL, "any"));
    EXPECT(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_INVALID);
    CHECK(setenv("NEURON_RT_NUM_CORES", "2", 1) == 0);
    OK(nrt_get_visible_vnc_count(&visible));
    CHECK(visible == 1);

    EXPECT(nrt_set_pool_eng_ucode(&ucode), NRT_FAILURE);
    uint32_t host = 9, count = 1, map[2] = {7, 7};
    OK(nrt_host_device_id_get(0, &host));
    CHECK(host == 0);
    EXPECT(nrt_host_device_id_get(-1, &host), NRT_INVALID);
    OK(nrt_host_device_id_rid_map_get(&count, map));
    CHECK(count == 1 && map[0] == 0 && map[1] == 7);

    /* What there is no device for fails, and never as a lack of memory. */
    int fd = -7, error = 0;
    EXPECT(nrt_get_dmabuf_fd(0, 16, &fd), NRT_FAILURE);
    CHECK(fd == -7);
    void *address = &fd;
    size_t size = 3;
    EXPECT(nrt_get_hbm_mmap_va(0, 0, &address, &size), NRT_INVALID);
    CHECK(address == &fd && size == 3);
    char text[8] = "";
    EXPECT(nrt_get_attached_efa_bdf(&fd, text, &size), NRT_FAILURE);
    CHECK(!nrt_get_libnccl_net(&error, text, sizeof text));
    CHECK(error != 0 && strlen(text) == sizeof text - 1);

    nrt_close();
    nrt_close();
    nrt_tensor_t *tensor = NULL;
    EXPECT(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_HOST, -1, 4, NULL, &tensor), NRT_CLOSED);
    CHECK(!tensor);
    OK(nrt_get_visible_nc_count(&visible));
    CHECK(visible == 2);
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    nrt_close();
    return 0;
}
