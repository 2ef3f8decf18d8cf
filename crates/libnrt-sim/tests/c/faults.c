/* Faults that the environment plans. */
#include "check.h"

int main(void) {
    CHECK(setenv("METANEFF_SIM_FAULTS",
                 "init@1=fail:1; load@2=fail:4; read@2=fail:6; execute@2=fail:1004;"
                 "execute@3=delay:1ms; execute@4=hang:20ms; execute@5=poison:1203", 1) == 0);
    EXPECT(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""), NRT_FAILURE);
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    struct adder a = adder(0);
    size_t size;
    void *neff = slurp("add.neff", &size);
    nrt_model_t *model = NULL;
    EXPECT(nrt_load(neff, size, 0, -1, &model), NRT_RESOURCE);
    CHECK(!model);
    OK(nrt_execute(a.model, a.in, a.out));
    check_sum(a.sum, 44);
    EXPECT(nrt_tensor_read(a.sum, &size, 0, sizeof size), (NRT_STATUS)6);
    /* 1004 comes with outputs. */
    OK(nrt_tensor_memset(a.sum, 0, 0, 16));
    EXPECT(nrt_execute(a.model, a.in, a.out), NRT_EXEC_COMPLETED_WITH_ERR);
    check_sum(a.sum, 44);
    OK(nrt_execute(a.model, a.in, a.out));
    EXPECT(nrt_execute(a.model, a.in, a.out), NRT_TIMEOUT);
    /* A poisoned core stays so until the runtime is set up anew. */
    for (int round = 0; round < 3; round++) {
        EXPECT(nrt_execute(a.model, a.in, a.out), NRT_EXEC_HW_ERR_DMA_ABORT);
    }
    EXPECT(nrt_load(neff, size, 0, -1, &model), NRT_EXEC_HW_ERR_DMA_ABORT);
    OK(nrt_load(neff, size, 1, -1, &model));
    free(neff);
    nrt_close();
    CHECK(unsetenv("METANEFF_SIM_FAULTS") == 0);
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    a = adder(0);
    OK(nrt_execute(a.model, a.in, a.out));
    nrt_close();
    return 0;
}
