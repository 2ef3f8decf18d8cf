/* A program with the structure of the developer guide's first application: the
 * NEFF and files with the inputs are named on the command line; inputs and
 * outputs are found by the model's own description; outputs go to files. */
#include "check.h"

struct handler {
    nrt_tensor_set_t *set;
    nrt_tensor_usage_t usage;
    int argc;
    char **argv;
};

typedef void (*visit)(const nrt_tensor_info_t *, struct handler *);

static void each(const nrt_tensor_info_array_t *infos, struct handler *handler, visit visit) {
    for (uint64_t index = 0; index < infos->tensor_count; index++) {
        if (infos->tensor_array[index].usage == handler->usage) {
            visit(&infos->tensor_array[index], handler);
        }
    }
}

static void allocate(const nrt_tensor_info_t *info, struct handler *handler) {
    nrt_tensor_t *made = NULL;
    OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, info->size, info->name, &made));
    OK(nrt_add_tensor_to_tensor_set(handler->set, info->name, made));
}

static nrt_tensor_t *find(const nrt_tensor_info_t *info, struct handler *handler) {
    nrt_tensor_t *found = NULL;
    OK(nrt_get_tensor_from_tensor_set(handler->set, info->name, &found));
    return found;
}

static void fill(const nrt_tensor_info_t *info, struct handler *handler) {
    for (int index = 2; index + 1 < handler->argc; index += 2) {
        if (strcmp(handler->argv[index], info->name) == 0) {
            size_t size;
            void *bytes = slurp(handler->argv[index + 1], &size);
            CHECK(size == info->size);
            OK(nrt_tensor_write(find(info, handler), bytes, 0, size));
            free(bytes);
            return;
        }
    }
    fprintf(stderr, "there is no file for %s\n", info->name);
    exit(2);
}

static void save(const nrt_tensor_info_t *info, struct handler *handler) {
    void *bytes = malloc(info->size);
    CHECK(bytes);
    OK(nrt_tensor_read(find(info, handler), bytes, 0, info->size));
    char name[300];
    snprintf(name, sizeof name, "%s.out", info->name);
    FILE *file = fopen(name, "wb");
    CHECK(file && fwrite(bytes, 1, info->size, file) == info->size && fclose(file) == 0);
    free(bytes);
}

static void release(const nrt_tensor_info_t *info, struct handler *handler) {
    nrt_tensor_t *found = find(info, handler);
    nrt_tensor_free(&found);
}

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    size_t size;
    void *neff = slurp(argv[1], &size);
    nrt_model_t *model = NULL;
    OK(nrt_load(neff, size, -1, -1, &model));
    free(neff);
    nrt_tensor_info_array_t *infos = NULL;
    OK(nrt_get_model_tensor_info(model, &infos));
    struct handler inputs = {NULL, NRT_TENSOR_USAGE_INPUT, argc, argv};
    struct handler outputs = {NULL, NRT_TENSOR_USAGE_OUTPUT, argc, argv};
    OK(nrt_allocate_tensor_set(&inputs.set));
    OK(nrt_allocate_tensor_set(&outputs.set));
    each(infos, &inputs, allocate);
    each(infos, &outputs, allocate);
    each(infos, &inputs, fill);
    OK(nrt_execute(model, inputs.set, outputs.set));
    each(infos, &outputs, save);
    OK(nrt_unload(model));
    each(infos, &inputs, release);
    each(infos, &outputs, release);
    nrt_destroy_tensor_set(&inputs.set);
    nrt_destroy_tensor_set(&outputs.set);
    OK(nrt_free_model_tensor_info(infos));
    nrt_close();
    return 0;
}
