/* What a collectives library asks the runtime. The public header of these does
 * not stand alone in C; the declarations are the program's own. */
#include "check.h"

typedef struct {
    uint64_t major, minor, patch, maintenance;
    char git_hash[16];
    uint64_t compatibility_version;
    uint8_t future_fields[];
} version_t;

int nec_get_device_count(int *, uint32_t);
int nec_get_device_pci_bdf(int, uint32_t *, uint32_t *, uint8_t *, uint8_t *);
NRT_STATUS nec_get_virtual_core_size(uint32_t *);
NRT_STATUS nec_get_version_info(version_t *);
bool nec_is_mla_available(int, int);
int nec_mla_idx_to_rid(int, int);
int nec_rid_to_mla_idx(int, int);
int nec_get_peer_mla_idx(int, int, int);
NRT_STATUS nec_build_port_and_rid_map(int, int *, int *, int);
void nec_inc_semaphore(volatile uint32_t *, uint32_t);
size_t nec_get_dynamic_send_size_bytes(void *, size_t, int, int);
size_t nec_get_dynamic_send_offset_bytes(void *, size_t, int, int);
size_t nec_get_dynamic_recv_offset_bytes(void *, size_t, int, int);
void nec_set_recv_size_bytes(void *, size_t, size_t, int, int);
int nec_get_p2p_pod_peer_node(uint32_t, int, uint32_t, int *);
NRT_STATUS nec_pod_node_can_access_peer_node(int, uint32_t, uint32_t, uint32_t, uint32_t, int *);
void nec_ndl_printk(char *, uint32_t, uint32_t);

int main(void) {
    version_t version = {.major = 99};
    OK(nec_get_version_info(&version));
    CHECK(version.major == 2);
    EXPECT(nec_get_version_info(NULL), NRT_INVALID);
    CHECK(setenv("METANEFF_SIM_INSTANCE", "trn2.48xlarge", 1) == 0);
    uint32_t size = 0;
    OK(nec_get_virtual_core_size(&size));
    CHECK(size == 2);
    int devices[20];
    for (int index = 0; index < 20; index++) {
        devices[index] = -1;
    }
    CHECK(nec_get_device_count(devices, 10) == 16);
    CHECK(devices[0] == 0 && devices[9] == 9 && devices[10] == -1);
    CHECK(nec_get_device_count(NULL, 0) == 16);
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    CHECK(nec_is_mla_available(0, 15) && !nec_is_mla_available(0, 16));
    CHECK(!nec_is_mla_available(0, -1));
    CHECK(nec_mla_idx_to_rid(0, 7) == 7 && nec_rid_to_mla_idx(0, 7) == 7);
    CHECK(nec_mla_idx_to_rid(0, 16) == -1 && nec_rid_to_mla_idx(0, -2) == -1);
    /* There is no bus and no fabric. */
    uint32_t domain = 5;
    CHECK(nec_get_device_pci_bdf(0, &domain, &domain, NULL, NULL) == -1 && domain == 5);
    CHECK(nec_get_peer_mla_idx(0, 0, 0) == -1);
    EXPECT(nec_build_port_and_rid_map(0, devices, devices, 20), NRT_FAILURE);
    uint32_t semaphore = 1;
    nec_inc_semaphore(&semaphore, 2);
    CHECK(semaphore == 1);
    /* No network buffer is looked into, no pod answered for. */
    uint64_t buffer[4] = {1, 2, 3, 4};
    CHECK(nec_get_dynamic_send_size_bytes(buffer, 4, 0, 2) == 0);
    CHECK(nec_get_dynamic_send_offset_bytes(buffer, 4, 0, 2) == 0);
    CHECK(nec_get_dynamic_recv_offset_bytes(NULL, 4, 0, 2) == 0);
    nec_set_recv_size_bytes(buffer, 8, 4, 0, 2);
    CHECK(buffer[0] == 1 && buffer[1] == 2 && buffer[2] == 3 && buffer[3] == 4);
    int node = 7;
    CHECK(nec_get_p2p_pod_peer_node(0, 0, 1, &node) == -1 && node == 7);
    EXPECT(nec_pod_node_can_access_peer_node(0, 0, 0, 1, 1, &node), NRT_FAILURE);
    CHECK(node == 7);
    char text[] = "text";
    nec_ndl_printk(text, sizeof text, 0);
    nec_ndl_printk(NULL, 9, 0);
    CHECK(strcmp(text, "text") == 0);
    nrt_close();
    return 0;
}
