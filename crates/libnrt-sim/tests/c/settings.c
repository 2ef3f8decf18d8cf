/* What the environment changes: each section sets a variable and initialises. */
#include <glob.h>
#include <sys/stat.h>

#include "check.h"

/* The public header of it does not stand alone in C. */
int nec_get_device_count(int *, uint32_t);

/* Opens a runtime with one variable set. */
static void with(const char *name, const char *value) {
    CHECK(setenv(name, value, 1) == 0);
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
}

static void without(const char *name) {
    nrt_close();
    CHECK(unsetenv(name) == 0);
}

static NRT_STATUS attempt(const char *path, int flip) {
    size_t size;
    char *neff = slurp(path, &size);
    if (flip >= 0) {
        neff[flip] ^= 1;
    }
    nrt_model_t *model = NULL;
    NRT_STATUS status = nrt_load(neff, size, 0, -1, &model);
    CHECK((status == NRT_SUCCESS) == (model != NULL));
    free(neff);
    return status;
}

static uint32_t visible(void) {
    uint32_t count = 0;
    OK(nrt_get_visible_vnc_count(&count));
    return count;
}

int main(void) {
    const float zero[4] = {0};
    nrt_tensor_t *first = NULL, *second = NULL;

    with("METANEFF_SIM_MEMORY", "1MiB");
    OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 600 << 10, "a", &first));
    EXPECT(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 600 << 10, "b", &second),
           NRT_RESOURCE);
    CHECK(!second);
    OK(nrt_tensor_write(first, zero, 0, sizeof zero));
    nrt_tensor_free(&first);
    OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 600 << 10, "b", &second));
    nrt_vnc_memory_stats_t stats;
    OK(nrt_get_vnc_memory_stats(0, &stats, sizeof stats, NULL));
    CHECK(stats.bytes_limit == 1 << 20 && stats.bytes_used >= 600 << 10);
    without("METANEFF_SIM_MEMORY");

    with("METANEFF_SIM_INSTANCE", "trn2.48xlarge");
    CHECK(visible() == 64);
    nrt_instance_info_t info;
    OK(nrt_get_instance_info(&info, sizeof info));
    CHECK(info.family == 5 && info.size == 7);
    without("METANEFF_SIM_INSTANCE");

    /* Chips that cannot be opened count nowhere. */
    CHECK(mkdir("dev", 0700) == 0);
    for (int chip = 0; chip < 3; chip++) {
        char path[32];
        snprintf(path, sizeof path, "dev/neuron%d", chip);
        FILE *node = fopen(path, "w");
        CHECK(node && fclose(node) == 0);
    }
    CHECK(setenv("METANEFF_SIM_INSTANCE", "trn2.48xlarge", 1) == 0);
    with("METANEFF_SIM_DEV_DIR", "dev");
    uint32_t host = 9, entries = 5, map[5] = {9, 9, 9, 9, 9};
    CHECK(visible() == 12 && nec_get_device_count(NULL, 0) == 3);
    OK(nrt_host_device_id_get(2, &host));
    CHECK(host == 2);
    EXPECT(nrt_host_device_id_get(3, &host), NRT_INVALID);
    OK(nrt_host_device_id_rid_map_get(&entries, map));
    CHECK(entries == 3 && map[2] == 2 && map[3] == 9);
    CHECK(unsetenv("METANEFF_SIM_INSTANCE") == 0);
    without("METANEFF_SIM_DEV_DIR");

    /* Core 0 of the process is the first visible one. */
    with("NEURON_RT_VISIBLE_CORES", "1");
    CHECK(visible() == 1);
    nrt_tensor_t *only = tensor(0, 16);
    EXPECT(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 1, 16, "", &second), NRT_INVALID);
    CHECK(only);
    without("NEURON_RT_VISIBLE_CORES");
    CHECK(setenv("NEURON_RT_VISIBLE_CORES", "1,0", 1) == 0);
    EXPECT(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_INVALID);
    uint32_t count = 7;
    EXPECT(nrt_get_visible_vnc_count(&count), NRT_INVALID);
    CHECK(count == 7);
    CHECK(unsetenv("NEURON_RT_VISIBLE_CORES") == 0);
    CHECK(setenv("METANEFF_SIM_MEMROY", "1", 1) == 0);
    EXPECT(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_INVALID);
    CHECK(unsetenv("METANEFF_SIM_MEMROY") == 0);
    CHECK(setenv("NEURON_RT_LOG_LEVEL", "loud", 1) == 0);
    EXPECT(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_INVALID);
    CHECK(unsetenv("NEURON_RT_LOG_LEVEL") == 0);

    /* The hash stands at byte 172 of the header. */
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    OK(attempt("add.neff", 172));
    nrt_close();
    with("NEURON_RT_VALIDATE_HASH", "1");
    OK(attempt("add.neff", -1));
    EXPECT(attempt("add.neff", 172), NRT_INVALID);
    EXPECT(attempt("legacy.neff", -1), NRT_INVALID);
    without("NEURON_RT_VALIDATE_HASH");
    with("NEURON_RT_ALLOW_LEGACY_NEFF", "1");
    OK(attempt("legacy.neff", -1));
    without("NEURON_RT_ALLOW_LEGACY_NEFF");

    CHECK(setenv("NEURON_RT_DBG_DUMP_INPUTS_ON_ERR", "1003", 1) == 0);
    with("METANEFF_SIM_DUMP_DIR", "dumps");
    struct adder a = adder(0);
    nrt_model_t *divide = load("divide.neff", 0);
    OK(nrt_tensor_write(a.a, zero, 0, sizeof zero));
    OK(nrt_tensor_write(a.b, zero, 0, sizeof zero));
    OK(nrt_execute(a.model, a.in, a.out));
    EXPECT(nrt_execute(divide, a.in, a.out), NRT_EXEC_COMPLETED_WITH_NUM_ERR);
    without("METANEFF_SIM_DUMP_DIR");
    glob_t paths;
    CHECK(glob("dumps/input_dump_*_h_nn_*/*", 0, NULL, &paths) == 0);
    CHECK(paths.gl_pathc == 3);
    globfree(&paths);

    with("METANEFF_SIM_NAN", "ignore");
    a = adder(0);
    divide = load("divide.neff", 0);
    OK(nrt_tensor_write(a.a, zero, 0, sizeof zero));
    OK(nrt_tensor_write(a.b, zero, 0, sizeof zero));
    OK(nrt_execute(divide, a.in, a.out));
    without("METANEFF_SIM_NAN");

    /* What takes longer than it may ends in time; the next call is as ever. */
    CHECK(setenv("NEURON_RT_EXEC_TIMEOUT", "3", 1) == 0);
    with("METANEFF_SIM_FAULTS", "execute@1=delay:30s");
    a = adder(0);
    EXPECT(nrt_execute(a.model, a.in, a.out), NRT_TIMEOUT);
    OK(nrt_execute(a.model, a.in, a.out));
    check_sum(a.sum, 44);
    CHECK(unsetenv("NEURON_RT_EXEC_TIMEOUT") == 0);
    without("METANEFF_SIM_FAULTS");
    with("METANEFF_SIM_LATENCY", "1ms");
    a = adder(0);
    OK(nrt_execute(a.model, a.in, a.out));
    without("METANEFF_SIM_LATENCY");
    return 0;
}
