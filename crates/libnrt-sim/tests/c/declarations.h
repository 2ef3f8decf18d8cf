/* What the programs need of the runtime's interface: facts of the public headers
 * of AWS Neuron (names, numbers, layouts), or those headers themselves. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef PUBLIC_HEADERS

#include <nrt/nrt_status.h>
#include <nrt/nrt.h>
#include <nrt/nrt_version.h>
#include <nrt/nrt_experimental.h>
#include <nrt/nrt_async.h>
#include <nrt/nrt_async_sendrecv.h>
#include <nrt/nrt_profile.h>
#include <nrt/nrt_sys_trace.h>
#include <nrt/ndebug_stream.h>

#else

typedef enum {
    NRT_SUCCESS = 0,
    NRT_FAILURE = 1,
    NRT_INVALID = 2,
    NRT_INVALID_HANDLE = 3,
    NRT_RESOURCE = 4,
    NRT_TIMEOUT = 5,
    NRT_QUEUE_FULL = 7,
    NRT_LOAD_NOT_ENOUGH_NC = 9,
    NRT_UNINITIALIZED = 13,
    NRT_CLOSED = 14,
    NRT_QUEUE_EMPTY = 15,
    NRT_EXEC_BAD_INPUT = 1002,
    NRT_EXEC_COMPLETED_WITH_NUM_ERR = 1003,
    NRT_EXEC_COMPLETED_WITH_ERR = 1004,
    NRT_EXEC_NC_BUSY = 1005,
    NRT_EXEC_HW_ERR_DMA_ABORT = 1203,
} NRT_STATUS;

typedef struct nrt_model nrt_model_t;
typedef struct nrt_tensor nrt_tensor_t;
typedef struct nrt_cc_context nrt_cc_context_t;
typedef void nrt_tensor_set_t;

typedef enum {
    NRT_TENSOR_PLACEMENT_DEVICE,
    NRT_TENSOR_PLACEMENT_HOST,
    NRT_TENSOR_PLACEMENT_VIRTUAL,
} nrt_tensor_placement_t;

typedef enum { NRT_FRAMEWORK_TYPE_NO_FW = 1 } nrt_framework_type_t;
typedef enum nrt_op_type { NRT_OP_ADD, NRT_OP_FMA, NRT_OP_MAX, NRT_OP_MIN } nrt_op_type_t;
typedef enum nrt_dtype { NRT_DTYPE_FLOAT32 = 10, NRT_DTYPE_INT32 = 8 } nrt_dtype_t;
typedef enum nrt_cc_op_type {
    NRT_CC_ALLGATHER,
    NRT_CC_ALLREDUCE,
    NRT_CC_REDUCESCATTER
} nrt_cc_op_type_t;

typedef struct {
    uint32_t family, size;
    char arch_name[16], device_revision[8];
} nrt_instance_info_t;

typedef struct {
    uint64_t rt_major, rt_minor, rt_patch, rt_maintenance;
    char rt_detail[128], git_hash[64];
} nrt_version_t;

typedef struct {
    uint64_t offset, size;
    void *buffer;
} nrt_tensor_batch_op_t;

typedef struct {
    const nrt_tensor_t *tensor;
    const nrt_tensor_batch_op_t *ops;
    uint32_t num_ops;
} nrt_tensor_batch_t;

typedef struct {
    uint64_t physical_address;
    size_t size;
    int hbm_index;
} nrt_tensor_device_allocation_info_t;

typedef struct {
    size_t bytes_used, bytes_limit;
} nrt_vnc_memory_stats_t;

typedef struct {
    uint32_t *replica_group, rank, rank_n, ctx_device_id, ctx_device_count, vnc;
} nrt_cc_comm_t;

typedef struct {
    nrt_tensor_t **tensors;
    size_t num_tensors;
} nrt_tensor_list_t;

NRT_STATUS nrt_init(nrt_framework_type_t, const char *, const char *);
void nrt_close(void);
NRT_STATUS nrt_get_version(nrt_version_t *, size_t);
const char *nrt_get_status_as_str(NRT_STATUS);
NRT_STATUS nrt_get_instance_info(nrt_instance_info_t *, size_t);
NRT_STATUS nrt_get_total_nc_count(uint32_t *);
NRT_STATUS nrt_get_total_vnc_count(uint32_t *);
NRT_STATUS nrt_get_visible_nc_count(uint32_t *);
NRT_STATUS nrt_get_visible_vnc_count(uint32_t *);
NRT_STATUS nrt_host_device_id_get(int, uint32_t *);
NRT_STATUS nrt_host_device_id_rid_map_get(uint32_t *, uint32_t *);
NRT_STATUS nrt_get_dmabuf_fd(uint64_t, uint64_t, int *);
NRT_STATUS nrt_get_hbm_mmap_va(int, int, void **, size_t *);
NRT_STATUS nrt_get_attached_efa_bdf(const void *, char *, size_t *);
NRT_STATUS nrt_load(const void *, size_t, int32_t, int32_t, nrt_model_t **);
NRT_STATUS nrt_load_collectives(const void *, size_t, int32_t, int32_t, uint32_t, uint32_t,
                                nrt_model_t **);
NRT_STATUS nrt_unload(nrt_model_t *);
NRT_STATUS nrt_get_model_nc_count(const nrt_model_t *, uint32_t *);
NRT_STATUS nrt_get_model_vnc_count(const nrt_model_t *, uint32_t *);
NRT_STATUS nrt_allocate_tensor_set(nrt_tensor_set_t **);
void nrt_destroy_tensor_set(nrt_tensor_set_t **);
NRT_STATUS nrt_add_tensor_to_tensor_set(nrt_tensor_set_t *, const char *, nrt_tensor_t *);
NRT_STATUS nrt_get_tensor_from_tensor_set(nrt_tensor_set_t *, const char *, nrt_tensor_t **);
NRT_STATUS nrt_execute(nrt_model_t *, const nrt_tensor_set_t *, nrt_tensor_set_t *);
NRT_STATUS nrt_execute_repeat(nrt_model_t *, const nrt_tensor_set_t *, nrt_tensor_set_t *, int);
NRT_STATUS nrt_tensor_allocate(nrt_tensor_placement_t, int, size_t, const char *, nrt_tensor_t **);
void nrt_tensor_free(nrt_tensor_t **);
NRT_STATUS nrt_tensor_read(const nrt_tensor_t *, void *, size_t, size_t);
NRT_STATUS nrt_tensor_write(nrt_tensor_t *, const void *, size_t, size_t);
NRT_STATUS nrt_tensor_read_batch(const nrt_tensor_batch_t *, uint64_t, bool);
NRT_STATUS nrt_tensor_write_batch(const nrt_tensor_batch_t *, uint64_t, bool);
NRT_STATUS nrt_tensor_copy(const nrt_tensor_t *, size_t, nrt_tensor_t *, size_t, size_t);
size_t nrt_tensor_get_size(const nrt_tensor_t *);
NRT_STATUS nrt_tensor_memset(nrt_tensor_t *, uint64_t, int, size_t);
NRT_STATUS nrt_tensor_allocate_empty(const char *, nrt_tensor_t **);
NRT_STATUS nrt_tensor_attach_buffer(nrt_tensor_t *, void *, size_t);
NRT_STATUS nrt_tensor_allocate_slice(const nrt_tensor_t *, size_t, size_t, const char *,
                                     nrt_tensor_t **);
void *nrt_tensor_get_va(const nrt_tensor_t *);
NRT_STATUS nrt_tensor_get_device_allocation_info(const nrt_tensor_t *,
                                                 nrt_tensor_device_allocation_info_t *);
NRT_STATUS nrt_tensor_check_output_completion(const nrt_tensor_t *, int64_t, uint64_t);
NRT_STATUS nrt_tensor_reset_output_completion(nrt_tensor_t *);
NRT_STATUS nrt_get_vnc_memory_stats(uint32_t, nrt_vnc_memory_stats_t *, size_t, size_t *);
NRT_STATUS nrt_build_global_comm(int32_t, uint32_t, uint32_t);
NRT_STATUS nrt_cc_global_comm_init(uint32_t, uint32_t, uint32_t);

typedef enum { NRT_TENSOR_USAGE_INPUT, NRT_TENSOR_USAGE_OUTPUT } nrt_tensor_usage_t;

typedef struct {
    char name[256];
    nrt_tensor_usage_t usage;
    size_t size;
    nrt_dtype_t dtype;
    uint32_t *shape, ndim;
} nrt_tensor_info_t;

typedef struct {
    uint64_t tensor_count;
    nrt_tensor_info_t tensor_array[];
} nrt_tensor_info_array_t;

typedef struct {
    uint32_t vnc;
} nrt_model_info_t;

typedef struct {
    uint8_t *bin;
    size_t size;
} nrt_ucode_img;

typedef struct {
    nrt_ucode_img iram, dram;
} nrt_ucode_info;

typedef void (*NRT_ASYNC_EXEC_STATUS_CALLBACK)(void *, uint32_t, uint32_t, uint64_t, NRT_STATUS);

NRT_STATUS nrt_get_model_tensor_info(nrt_model_t *, nrt_tensor_info_array_t **);
NRT_STATUS nrt_free_model_tensor_info(nrt_tensor_info_array_t *);
NRT_STATUS nrt_get_model_instance_count(nrt_model_t *, uint32_t *);
NRT_STATUS nrt_get_model_info(const nrt_model_t *, nrt_model_info_t *, size_t, size_t *);
NRT_STATUS nrt_trace_start(bool);
NRT_STATUS nrt_trace_stop(const char *);
void *nrt_get_libnccl_net(int *, char *, size_t);
NRT_STATUS nrt_set_pool_eng_ucode(const nrt_ucode_info *);
NRT_STATUS nrt_memcpy_to_device(void *, const void *, size_t);
NRT_STATUS nrt_register_async_exec_callback(NRT_ASYNC_EXEC_STATUS_CALLBACK, void *);
NRT_STATUS nrt_barrier(int32_t, uint32_t, uint32_t);
NRT_STATUS nrt_all_gather(int32_t, uint32_t, uint32_t, uint32_t, void *, void *);
NRT_STATUS nrt_async_drain_queued_execs(int32_t);

typedef enum {
    NRTA_XU_TENSOR_READ,
    NRTA_XU_TENSOR_WRITE,
    NRTA_XU_TENSOR_OP,
    NRTA_XU_COMPUTE,
    NRTA_XU_COLLECTIVES
} nrta_xu_t;

typedef uint64_t nrta_seq_t;
typedef struct nrta_error_tracker nrta_error_tracker_t;

typedef struct {
    nrta_seq_t seq_id;
    uint64_t error_code;
} nrta_error_t;

NRT_STATUS nrta_tensor_write(nrt_tensor_t *, const void *, uint64_t, uint64_t, int,
                             nrta_error_tracker_t *, nrta_seq_t *);
NRT_STATUS nrta_tensor_read(void *, nrt_tensor_t *, uint64_t, uint64_t, int,
                            nrta_error_tracker_t *, nrta_seq_t *);
NRT_STATUS nrta_tensor_copy(nrt_tensor_t *, uint64_t, nrt_tensor_t *, uint64_t, uint64_t, int,
                            nrta_error_tracker_t *, nrta_seq_t *);
NRT_STATUS nrta_execute_schedule(nrt_model_t *, const nrt_tensor_set_t *, nrt_tensor_set_t *, int,
                                 nrta_error_tracker_t *, nrta_seq_t *);
NRT_STATUS nrta_cc_prepare(nrt_cc_comm_t *, nrt_tensor_list_t *, nrt_tensor_list_t *, nrt_dtype_t,
                           nrt_op_type_t, nrt_cc_op_type_t, nrt_cc_context_t **);
NRT_STATUS nrta_cc_schedule(nrt_cc_context_t **, int, nrta_error_tracker_t *, nrta_seq_t *);
NRT_STATUS nrta_is_completed(nrta_seq_t, bool *);
NRT_STATUS nrta_get_sequence(uint32_t, nrta_xu_t, int, nrta_seq_t *);
NRT_STATUS nrta_get_completion_handle(nrta_seq_t, int *);
NRT_STATUS nrta_error_tracker_create(uint32_t, nrta_error_tracker_t **);
void nrta_error_tracker_destroy(nrta_error_tracker_t *);
NRT_STATUS nrta_error_tracker_get_list(nrta_error_tracker_t *, const nrta_error_t **, size_t *);

typedef struct nrt_async_sendrecv_comm nrt_async_sendrecv_comm_t;
typedef struct nrt_async_sendrecv_request nrt_async_sendrecv_request_t;

NRT_STATUS nrt_async_sendrecv_get_max_num_communicators_per_lnc(int *);
NRT_STATUS nrt_async_sendrecv_get_max_num_pending_request(int *);
NRT_STATUS nrt_async_sendrecv_init(int);
NRT_STATUS nrt_async_sendrecv_close(int);
NRT_STATUS nrt_async_sendrecv_connect(const char *, int, int, nrt_async_sendrecv_comm_t **);
NRT_STATUS nrt_async_sendrecv_accept(const char *, int, int, nrt_async_sendrecv_comm_t **);
NRT_STATUS nrt_async_sendrecv_test_comm(nrt_async_sendrecv_comm_t *, bool *);
NRT_STATUS nrt_async_sendrecv_send_tensor(nrt_tensor_t *, size_t, size_t,
                                          nrt_async_sendrecv_comm_t *,
                                          nrt_async_sendrecv_request_t **);
NRT_STATUS nrt_async_sendrecv_recv_tensor(nrt_tensor_t *, size_t, size_t,
                                          nrt_async_sendrecv_comm_t *,
                                          nrt_async_sendrecv_request_t **);
NRT_STATUS nrt_async_sendrecv_test_request(nrt_async_sendrecv_request_t *, bool *, size_t *);
NRT_STATUS nrt_async_sendrecv_flush(int);

typedef struct nrt_profile_continuous_options nrt_profile_continuous_options_t;
typedef struct nrt_inspect_config nrt_inspect_config_t;

NRT_STATUS nrt_profile_start(nrt_model_t *, const char *);
NRT_STATUS nrt_profile_stop(const char *);
NRT_STATUS nrt_profile_continuous_options_allocate(nrt_profile_continuous_options_t **);
NRT_STATUS nrt_profile_continuous_options_free(nrt_profile_continuous_options_t *);
NRT_STATUS nrt_profile_continuous_options_set_output_dir(nrt_profile_continuous_options_t *,
                                                         const char *);
NRT_STATUS nrt_profile_continuous_start(nrt_profile_continuous_options_t *);
NRT_STATUS nrt_profile_continuous_save(uint32_t, nrt_profile_continuous_options_t *);
NRT_STATUS nrt_profile_continuous_stop(void);
NRT_STATUS nrt_inspect_begin(void);
NRT_STATUS nrt_inspect_stop(void);
NRT_STATUS nrt_inspect_begin_with_options(nrt_inspect_config_t *);
NRT_STATUS nrt_inspect_config_allocate(nrt_inspect_config_t **);
NRT_STATUS nrt_inspect_config_set_defaults(nrt_inspect_config_t *);
NRT_STATUS nrt_inspect_config_set_capture_enabled_for_nc(nrt_inspect_config_t *, uint32_t, bool);
NRT_STATUS nrt_inspect_config_set_capture_enabled_for_event_type_string(nrt_inspect_config_t *,
                                                                        const char *, bool);
NRT_STATUS nrt_inspect_config_set_enable_inspect_on_fail(nrt_inspect_config_t *, bool);
NRT_STATUS nrt_inspect_config_set_sys_trace_max_events_per_nc(nrt_inspect_config_t *, uint64_t);
NRT_STATUS nrt_inspect_config_free(nrt_inspect_config_t *);
NRT_STATUS nrt_inspect_config_set_session_id(nrt_inspect_config_t *, int);
NRT_STATUS nrt_inspect_config_set_output_dir(nrt_inspect_config_t *, const char *);
NRT_STATUS nrt_inspect_config_set_enable_inspect(nrt_inspect_config_t *, bool);
NRT_STATUS nrt_inspect_config_set_activity(nrt_inspect_config_t *, const char *, bool);
NRT_STATUS nrt_inspect_config_get_enabled_activity_types(nrt_inspect_config_t *, const char ***,
                                                         size_t *);
NRT_STATUS nrt_inspect_config_get_all_activity_types(const char ***, size_t *);
void nrt_inspect_config_free_activity_types(const char **, size_t);

typedef struct nrt_sys_trace_config nrt_sys_trace_config_t;
typedef struct nrt_sys_trace_fetch_options nrt_sys_trace_fetch_options_t;

NRT_STATUS nrt_sys_trace_config_allocate(nrt_sys_trace_config_t **);
void nrt_sys_trace_config_set_defaults(nrt_sys_trace_config_t *);
void nrt_sys_trace_config_free(nrt_sys_trace_config_t *);
void nrt_sys_trace_config_set_max_events_per_nc(nrt_sys_trace_config_t *, uint64_t);
void nrt_sys_trace_config_set_capture_enabled_for_nc(nrt_sys_trace_config_t *, uint32_t, bool);
NRT_STATUS nrt_sys_trace_config_set_capture_enabled_for_event_type(nrt_sys_trace_config_t *,
                                                                   const char *, bool);
NRT_STATUS nrt_sys_trace_config_get_enabled_event_types(nrt_sys_trace_config_t *, const char ***,
                                                        size_t *);
NRT_STATUS nrt_sys_trace_get_event_types(const char ***, size_t *);
void nrt_sys_trace_free_event_types(const char **, size_t);
NRT_STATUS nrt_sys_trace_start(nrt_sys_trace_config_t *);
NRT_STATUS nrt_sys_trace_stop(void);
NRT_STATUS nrt_sys_trace_fetch_options_allocate(nrt_sys_trace_fetch_options_t **);
void nrt_sys_trace_fetch_options_set_defaults(nrt_sys_trace_fetch_options_t *);
void nrt_sys_trace_fetch_options_free(nrt_sys_trace_fetch_options_t *);
void nrt_sys_trace_fetch_options_set_max_events_per_nc(nrt_sys_trace_fetch_options_t *, uint64_t);
void nrt_sys_trace_fetch_options_set_nc_idx(nrt_sys_trace_fetch_options_t *, uint64_t);
NRT_STATUS nrt_sys_trace_fetch_events(char **, size_t *, const nrt_sys_trace_fetch_options_t *);
void nrt_sys_trace_buffer_free(char *);

typedef struct {
    uint64_t data_size;
    uint32_t type;
    char reserved[52];
} ndebug_stream_event_header_t;

NRT_STATUS nrt_debug_client_connect(int, int *);
void nrt_debug_client_connect_close(int);
NRT_STATUS nrt_debug_client_read_one_event(int, ndebug_stream_event_header_t *, void **);

#endif
