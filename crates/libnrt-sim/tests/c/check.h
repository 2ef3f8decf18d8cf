/* What all programs share: checks that say where they failed, and files. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "declarations.h"

#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);    \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

#define EXPECT(call, wanted)                                                   \
    do {                                                                       \
        NRT_STATUS status_ = (call);                                           \
        if (status_ != (wanted)) {                                             \
            fprintf(stderr, "%s:%d: %s answers %s (%d)\n", __FILE__, __LINE__, \
                    #call, nrt_get_status_as_str(status_), (int)status_);      \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

#define OK(call) EXPECT(call, NRT_SUCCESS)

/* How often something is done: less often where a checker makes it slow. */
static inline int times(int often, int seldom) {
    return getenv("SLOW") ? seldom : often;
}

static inline void *slurp(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    CHECK(file);
    CHECK(fseek(file, 0, SEEK_END) == 0);
    long length = ftell(file);
    CHECK(length > 0);
    rewind(file);
    void *bytes = malloc((size_t)length);
    CHECK(bytes && fread(bytes, 1, (size_t)length, file) == (size_t)length);
    CHECK(fclose(file) == 0);
    *size = (size_t)length;
    return bytes;
}

/* Whether a file is there and has a text in it. */
static inline bool file_has(const char *path, const char *text) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        return false;
    }
    static char bytes[1 << 20];
    size_t length = fread(bytes, 1, sizeof bytes - 1, file);
    bytes[length] = 0;
    fclose(file);
    return strstr(bytes, text) != NULL;
}

static inline nrt_model_t *load(const char *path, int core) {
    size_t size;
    void *neff = slurp(path, &size);
    nrt_model_t *model = NULL;
    OK(nrt_load(neff, size, core, -1, &model));
    CHECK(model);
    free(neff);
    return model;
}

static inline nrt_tensor_t *tensor(int core, size_t size) {
    nrt_tensor_t *made = NULL;
    OK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, core, size, "t", &made));
    CHECK(made);
    return made;
}

static inline nrt_tensor_t *floats(int core, const float *values, size_t count) {
    nrt_tensor_t *made = tensor(core, count * sizeof *values);
    OK(nrt_tensor_write(made, values, 0, count * sizeof *values));
    return made;
}

static inline nrt_tensor_set_t *set_of(const char *name, nrt_tensor_t *member) {
    nrt_tensor_set_t *set = NULL;
    OK(nrt_allocate_tensor_set(&set));
    OK(nrt_add_tensor_to_tensor_set(set, name, member));
    return set;
}

/* `output0 = input0 + input1` over four floats, ready to be executed. */
struct adder {
    nrt_model_t *model;
    nrt_tensor_t *a, *b, *sum;
    nrt_tensor_set_t *in, *out;
};

static inline struct adder adder(int core) {
    const float a[] = {1, 2, 3, 4}, b[] = {10, 20, 30, 40};
    struct adder adder = {.model = load("add.neff", core),
                          .a = floats(core, a, 4),
                          .b = floats(core, b, 4),
                          .sum = tensor(core, 16)};
    adder.in = set_of("input0", adder.a);
    OK(nrt_add_tensor_to_tensor_set(adder.in, "input1", adder.b));
    adder.out = set_of("output0", adder.sum);
    return adder;
}

static inline void check_sum(nrt_tensor_t *sum, float last) {
    float values[4];
    OK(nrt_tensor_read(sum, values, 0, sizeof values));
    CHECK(values[0] == 11 && values[1] == 22 && values[3] == last);
}

static inline void discard(struct adder *adder) {
    OK(nrt_unload(adder->model));
    nrt_tensor_free(&adder->a);
    nrt_tensor_free(&adder->b);
    nrt_tensor_free(&adder->sum);
    nrt_destroy_tensor_set(&adder->in);
    nrt_destroy_tensor_set(&adder->out);
}
