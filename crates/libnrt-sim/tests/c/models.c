/* Models and sets: loading, describing, executing. */
#include "check.h"

int main(void) {
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    nrt_model_t *model = NULL;
    size_t size;
    char *neff = slurp("add.neff", &size);
    EXPECT(nrt_load(neff, 100, 0, -1, &model), NRT_INVALID);
    EXPECT(nrt_load(neff, 0, 0, -1, &model), NRT_INVALID);
    EXPECT(nrt_load(NULL, size, 0, -1, &model), NRT_INVALID);
    EXPECT(nrt_load(neff, size, 2, -1, &model), NRT_INVALID);
    EXPECT(nrt_load(neff, size, 0, 3, &model), NRT_LOAD_NOT_ENOUGH_NC);
    EXPECT(nrt_load(neff, size, 0, -1, NULL), NRT_INVALID);
    CHECK(!model);
    OK(nrt_load(neff, size, 1, 1, &model));
    /* The bytes were copied. */
    memset(neff, 0xff, size);
    free(neff);

    uint32_t cores = 0, instances = 0;
    OK(nrt_get_model_nc_count(model, &cores));
    OK(nrt_get_model_vnc_count(model, &cores));
    OK(nrt_get_model_instance_count(model, &instances));
    CHECK(cores == 1 && instances >= 1);
    nrt_model_info_t info = {77};
    size_t written = 0;
    OK(nrt_get_model_info(model, &info, sizeof info, &written));
    CHECK(info.vnc == 1 && written == sizeof info);
    EXPECT(nrt_get_model_info(model, &info, 0, &written), NRT_INVALID);

    nrt_tensor_info_array_t *tensors = NULL;
    OK(nrt_get_model_tensor_info(model, &tensors));
    CHECK(tensors->tensor_count == 3);
    nrt_tensor_info_t *last = &tensors->tensor_array[2];
    CHECK(strcmp(tensors->tensor_array[0].name, "input0") == 0);
    CHECK(strcmp(last->name, "output0") == 0);
    CHECK(last->usage == NRT_TENSOR_USAGE_OUTPUT && last->size == 16);
    CHECK(last->dtype == NRT_DTYPE_FLOAT32 && last->ndim == 1 && last->shape[0] == 4);

    /* On the wrong core, nothing happens. */
    struct adder here = adder(0);
    EXPECT(nrt_execute(model, here.in, here.out), NRT_INVALID);
    OK(nrt_unload(model));
    EXPECT(nrt_unload(model), NRT_INVALID_HANDLE);
    EXPECT(nrt_unload(NULL), NRT_INVALID);
    /* What was said of the model stays. */
    CHECK(strcmp(last->name, "output0") == 0);
    OK(nrt_free_model_tensor_info(tensors));
    EXPECT(nrt_free_model_tensor_info(NULL), NRT_INVALID);

    OK(nrt_execute(here.model, here.in, here.out));
    check_sum(here.sum, 44);
    OK(nrt_tensor_check_output_completion(here.sum, 0, 1));
    /* The output is the next input: 1 + 4 * 10. */
    OK(nrt_execute_repeat(here.model, here.in, here.out, 4));
    float values[4];
    OK(nrt_tensor_read(here.sum, values, 0, sizeof values));
    CHECK(values[0] == 41 && values[3] == 164);
    OK(nrt_tensor_check_output_completion(here.sum, -1, 5));
    EXPECT(nrt_execute_repeat(here.model, here.in, here.out, 0), NRT_INVALID);
    /* In place: the output is one of the inputs. */
    OK(nrt_add_tensor_to_tensor_set(here.out, "output0", here.a));
    OK(nrt_execute(here.model, here.in, here.out));
    check_sum(here.a, 44);

    nrt_tensor_t *found = (nrt_tensor_t *)3;
    OK(nrt_get_tensor_from_tensor_set(here.in, "input1", &found));
    CHECK(found == here.b);
    found = NULL;
    EXPECT(nrt_get_tensor_from_tensor_set(here.in, "input2", &found), NRT_FAILURE);
    CHECK(!found);
    EXPECT(nrt_get_tensor_from_tensor_set(here.in, NULL, &found), NRT_INVALID);
    EXPECT(nrt_add_tensor_to_tensor_set(here.in, NULL, here.a), NRT_INVALID);
    EXPECT(nrt_add_tensor_to_tensor_set(here.in, "input1", NULL), NRT_INVALID);
    nrt_tensor_set_t *none = NULL;
    OK(nrt_allocate_tensor_set(&none));
    EXPECT(nrt_execute(here.model, none, here.out), NRT_INVALID);
    EXPECT(nrt_execute(here.model, NULL, here.out), NRT_INVALID);
    EXPECT(nrt_execute(NULL, here.in, here.out), NRT_INVALID);
    nrt_destroy_tensor_set(&none);
    CHECK(!none);
    nrt_destroy_tensor_set(&none);
    nrt_destroy_tensor_set(NULL);

    /* A NaN is an outcome; the outputs are there. */
    nrt_model_t *divide = load("divide.neff", 0);
    const float zero[4] = {0};
    OK(nrt_tensor_write(here.a, zero, 0, sizeof zero));
    OK(nrt_tensor_write(here.b, zero, 0, sizeof zero));
    OK(nrt_add_tensor_to_tensor_set(here.out, "output0", here.sum));
    EXPECT(nrt_execute(divide, here.in, here.out), NRT_EXEC_COMPLETED_WITH_NUM_ERR);
    OK(nrt_tensor_read(here.sum, values, 0, sizeof values));
    CHECK(values[0] != values[0]);
    OK(nrt_unload(divide));

    /* A tensor that is gone is found out. */
    nrt_tensor_free(&here.b);
    EXPECT(nrt_execute(here.model, here.in, here.out), NRT_EXEC_BAD_INPUT);
    discard(&here);

    /* -1 takes the first core that is free. */
    nrt_model_t *first = load("add.neff", -1), *second = load("add.neff", -1);
    OK(nrt_get_model_info(first, &info, sizeof info, NULL));
    CHECK(info.vnc == 0);
    OK(nrt_get_model_info(second, &info, sizeof info, NULL));
    CHECK(info.vnc == 1);
    nrt_close();
    return 0;
}
