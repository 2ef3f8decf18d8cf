/* System traces, profiles, traces, inspections. */
#include <glob.h>
#include <unistd.h>

#include "check.h"

static int count_of(const char *text, const char *part) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part)) {
        count++;
    }
    return count;
}

/* How often the files of the pattern have the text; -1 if there are none. */
static int count_in(const char *pattern, const char *text) {
    glob_t paths;
    if (glob(pattern, 0, NULL, &paths) != 0) {
        return -1;
    }
    int count = 0;
    for (size_t index = 0; index < paths.gl_pathc; index++) {
        size_t size;
        char *bytes = slurp(paths.gl_pathv[index], &size);
        bytes = realloc(bytes, size + 1);
        CHECK(bytes);
        bytes[size] = 0;
        count += count_of(bytes, text);
        free(bytes);
    }
    globfree(&paths);
    return count;
}

/* Whether a file of the pattern has the text. */
static bool found(const char *pattern, const char *text) {
    return count_in(pattern, text) > 0;
}

/* Executes while an inspection writes to a folder of its own: `often` times, and
 * once more without inputs if `fail`. Answers how many executions it shows. */
static int inspect(nrt_inspect_config_t *config, struct adder *a, int often, bool fail) {
    static int session = 100;
    char pattern[64];
    OK(nrt_inspect_config_set_output_dir(config, "sessions"));
    OK(nrt_inspect_config_set_session_id(config, ++session));
    OK(nrt_inspect_begin_with_options(config));
    for (int round = 0; round < often; round++) {
        OK(nrt_execute(a->model, a->in, a->out));
    }
    check_sum(a->sum, 44);
    if (fail) {
        nrt_tensor_set_t *none = NULL;
        OK(nrt_allocate_tensor_set(&none));
        CHECK(nrt_execute(a->model, none, a->out) != NRT_SUCCESS);
        nrt_destroy_tensor_set(&none);
    }
    OK(nrt_inspect_stop());
    snprintf(pattern, sizeof pattern, "sessions/inspect_session_%d_pid_*.json", session);
    return count_in(pattern, "\"nc_exec_running\"");
}

static void inspections(struct adder *a) {
    nrt_inspect_config_t *config = NULL;
    OK(nrt_inspect_config_allocate(&config));
    OK(nrt_inspect_config_set_enable_inspect(config, true));
    CHECK(inspect(config, a, 3, false) == 3);
    /* The last three calls are two executions and a read. */
    OK(nrt_inspect_config_set_sys_trace_max_events_per_nc(config, 3));
    CHECK(inspect(config, a, 3, false) == 2);
    OK(nrt_inspect_config_set_sys_trace_max_events_per_nc(config, 0));
    CHECK(inspect(config, a, 3, false) == 0);
    OK(nrt_inspect_config_set_sys_trace_max_events_per_nc(config, 100));
    OK(nrt_inspect_config_set_capture_enabled_for_nc(config, 0, false));
    CHECK(inspect(config, a, 3, false) == 0);
    OK(nrt_inspect_config_set_capture_enabled_for_nc(config, 0, true));
    CHECK(inspect(config, a, 3, false) == 3);
    EXPECT(nrt_inspect_config_set_capture_enabled_for_event_type_string(config, "none", true),
           NRT_INVALID);
    OK(nrt_inspect_config_set_capture_enabled_for_event_type_string(config, "nc_exec_running",
                                                                    false));
    CHECK(inspect(config, a, 3, false) == 0);
    /* The defaults record all events, but no execution until it is asked for. */
    OK(nrt_inspect_config_set_defaults(config));
    CHECK(inspect(config, a, 3, false) == 0);
    /* Failures only: without one there is no file. */
    OK(nrt_inspect_config_set_enable_inspect_on_fail(config, true));
    CHECK(inspect(config, a, 3, false) == -1);
    CHECK(inspect(config, a, 3, true) == 4);
    OK(nrt_inspect_config_free(config));
    EXPECT(nrt_inspect_config_set_defaults(NULL), NRT_INVALID);
    EXPECT(nrt_inspect_config_set_defaults(config), NRT_INVALID_HANDLE);
}

static char *fetch(const nrt_sys_trace_fetch_options_t *options) {
    char *text = NULL;
    size_t size = 0;
    OK(nrt_sys_trace_fetch_events(&text, &size, options));
    CHECK(text && strlen(text) == size);
    return text;
}

int main(void) {
    /* Options need no runtime. */
    nrt_sys_trace_config_t *config = NULL;
    OK(nrt_sys_trace_config_allocate(&config));
    nrt_sys_trace_config_set_defaults(config);
    nrt_sys_trace_config_set_max_events_per_nc(config, 1000);
    const char **types = NULL;
    size_t count = 0;
    OK(nrt_sys_trace_get_event_types(&types, &count));
    CHECK(count >= 1 && strcmp(types[0], "nc_exec_running") == 0);
    for (size_t index = 1; index < count; index++) {
        OK(nrt_sys_trace_config_set_capture_enabled_for_event_type(config, types[index], false));
    }
    nrt_sys_trace_free_event_types(types, count);
    OK(nrt_sys_trace_config_get_enabled_event_types(config, &types, &count));
    CHECK(count == 1);
    /* Each text and the array may be freed by hand. */
    free((void *)types[0]);
    free((void *)types);
    EXPECT(nrt_sys_trace_config_set_capture_enabled_for_event_type(config, "none", true),
           NRT_INVALID);
    nrt_sys_trace_fetch_options_t *options = NULL;
    OK(nrt_sys_trace_fetch_options_allocate(&options));
    nrt_sys_trace_fetch_options_set_defaults(options);
    nrt_sys_trace_fetch_options_set_nc_idx(options, 0);
    nrt_sys_trace_fetch_options_set_max_events_per_nc(options, 2);

    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    struct adder a = adder(0);
    EXPECT(nrt_sys_trace_stop(), NRT_INVALID);
    OK(nrt_sys_trace_start(config));
    for (int round = 0; round < 3; round++) {
        OK(nrt_execute(a.model, a.in, a.out));
    }
    check_sum(a.sum, 44);
    char *text = fetch(options);
    CHECK(count_of(text, "nc_exec_running") == 2 && count_of(text, "\"stop\"") == 1);
    nrt_sys_trace_buffer_free(text);
    text = fetch(NULL);
    CHECK(count_of(text, "nc_exec_running") == 4 && count_of(text, "nc_timestamp_ns") == 4);
    CHECK(count_of(text, "nrt_tensor_read") == 0);
    nrt_sys_trace_buffer_free(text);
    text = fetch(NULL);
    CHECK(strstr(text, "\"events\":[]"));
    nrt_sys_trace_buffer_free(text);
    nrt_sys_trace_buffer_free(text);
    nrt_sys_trace_buffer_free(NULL);
    nrt_sys_trace_config_set_capture_enabled_for_nc(config, 0, false);
    OK(nrt_sys_trace_start(config));
    OK(nrt_execute(a.model, a.in, a.out));
    text = fetch(NULL);
    CHECK(strstr(text, "\"events\":[]"));
    nrt_sys_trace_buffer_free(text);
    OK(nrt_sys_trace_stop());
    nrt_sys_trace_config_free(config);
    nrt_sys_trace_fetch_options_free(options);

    EXPECT(nrt_profile_start(a.model, ""), NRT_INVALID);
    EXPECT(nrt_profile_start(NULL, "p.json"), NRT_INVALID);
    OK(nrt_profile_start(a.model, "p.json"));
    EXPECT(nrt_profile_start(a.model, "p.json"), NRT_INVALID);
    OK(nrt_execute_repeat(a.model, a.in, a.out, 3));
    OK(nrt_profile_stop("p.json"));
    EXPECT(nrt_profile_stop("p.json"), NRT_INVALID);
    CHECK(file_has("p.json", "traceEvents") && file_has("p.json", "nc_exec_running"));
    CHECK(file_has("p.json", "not NTFF"));
    EXPECT(nrt_profile_start(a.model, NULL), NRT_INVALID);
    OK(nrt_profile_start(a.model, "missing/p.json"));
    EXPECT(nrt_profile_stop("missing/p.json"), NRT_FAILURE);

    OK(nrt_trace_start(true));
    EXPECT(nrt_trace_start(true), NRT_INVALID);
    struct adder b = adder(1);
    OK(nrt_trace_stop("t.json"));
    EXPECT(nrt_trace_stop("t.json"), NRT_INVALID);
    CHECK(file_has("t.json", "nrt_load") && file_has("t.json", "nrt_tensor_write"));
    discard(&b);

    nrt_profile_continuous_options_t *continuous = NULL;
    OK(nrt_profile_continuous_options_allocate(&continuous));
    OK(nrt_profile_continuous_options_set_output_dir(continuous, "continuous"));
    OK(nrt_profile_continuous_start(continuous));
    EXPECT(nrt_profile_continuous_start(continuous), NRT_INVALID);
    EXPECT(nrt_profile_continuous_save(0, continuous), NRT_INVALID);
    OK(nrt_execute(a.model, a.in, a.out));
    OK(nrt_profile_continuous_save(0, continuous));
    OK(nrt_profile_continuous_stop());
    EXPECT(nrt_profile_continuous_stop(), NRT_INVALID);
    OK(nrt_profile_continuous_options_free(continuous));
    CHECK(found("continuous/profile_vnc_0_pid_*.json", "nc_exec_running"));

    nrt_inspect_config_t *inspect = NULL;
    OK(nrt_inspect_config_allocate(&inspect));
    OK(nrt_inspect_config_set_session_id(inspect, 12));
    EXPECT(nrt_inspect_config_set_output_dir(inspect, ""), NRT_INVALID);
    OK(nrt_inspect_config_set_output_dir(inspect, "inspected"));
    OK(nrt_inspect_config_set_enable_inspect(inspect, true));
    OK(nrt_inspect_config_set_activity(inspect, "all", false));
    OK(nrt_inspect_config_set_activity(inspect, "device_profile", true));
    EXPECT(nrt_inspect_config_set_activity(inspect, "nothing", true), NRT_INVALID);
    OK(nrt_inspect_config_get_enabled_activity_types(inspect, &types, &count));
    CHECK(count == 1 && strcmp(types[0], "device_profile") == 0);
    nrt_inspect_config_free_activity_types(types, count);
    OK(nrt_inspect_config_get_all_activity_types(&types, &count));
    CHECK(count == 4);
    nrt_inspect_config_free_activity_types(types, count);
    OK(nrt_inspect_begin_with_options(inspect));
    EXPECT(nrt_inspect_begin(), NRT_INVALID);
    OK(nrt_execute(a.model, a.in, a.out));
    OK(nrt_inspect_stop());
    EXPECT(nrt_inspect_stop(), NRT_INVALID);
    CHECK(found("inspected/inspect_session_12_pid_*.json", "nc_exec_running"));
    OK(nrt_inspect_config_free(inspect));
    EXPECT(nrt_inspect_config_free(NULL), NRT_INVALID);
    OK(nrt_inspect_begin());
    OK(nrt_execute(a.model, a.in, a.out));
    OK(nrt_inspect_stop());
    CHECK(found("output/inspect_session_1_pid_*.json", "nc_exec_running"));
    inspections(&a);
    discard(&a);
    nrt_close();
    return 0;
}
