/*
 * A libnrt whose calls do next to nothing, so that what is measured over it is
 * the caller's own work. Written from the declarations of nrt.h; it hands out
 * handles, keeps no data and executes nothing.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static int handle;

int nrt_init(int framework, const char *version, const char *layer)
{
    (void)framework, (void)version, (void)layer;
    return 0;
}

void nrt_close(void) {}

int nrt_get_visible_vnc_count(uint32_t *count)
{
    *count = 1;
    return 0;
}

int nrt_get_total_vnc_count(uint32_t *count)
{
    *count = 1;
    return 0;
}

int nrt_load(const void *neff, size_t size, int32_t vnc, int32_t count, void **model)
{
    (void)neff, (void)size, (void)vnc, (void)count;
    *model = &handle;
    return 0;
}

int nrt_unload(void *model)
{
    (void)model;
    return 0;
}

/* Core 0, and zeros in every other field. */
int nrt_get_model_info(const void *model, void *info, size_t size, size_t *written)
{
    (void)model;
    memset(info, 0, size);
    *written = size;
    return 0;
}

/* The contract knows the tensors; nobody asks the library here. */
int nrt_get_model_tensor_info(void *model, void **info)
{
    (void)model, (void)info;
    return 1;
}

int nrt_free_model_tensor_info(void *info)
{
    (void)info;
    return 1;
}

int nrt_allocate_tensor_set(void **set)
{
    *set = &handle;
    return 0;
}

void nrt_destroy_tensor_set(void **set) { *set = NULL; }

int nrt_add_tensor_to_tensor_set(void *set, const char *name, void *tensor)
{
    (void)set, (void)name, (void)tensor;
    return 0;
}

int nrt_tensor_allocate(int placement, int vnc, size_t size, const char *name, void **tensor)
{
    (void)placement, (void)vnc, (void)size, (void)name;
    *tensor = &handle;
    return 0;
}

void nrt_tensor_free(void **tensor) { *tensor = NULL; }

int nrt_tensor_read(const void *tensor, void *buffer, size_t offset, size_t size)
{
    (void)tensor, (void)buffer, (void)offset, (void)size;
    return 0;
}

int nrt_tensor_write(void *tensor, const void *buffer, size_t offset, size_t size)
{
    (void)tensor, (void)buffer, (void)offset, (void)size;
    return 0;
}

int nrt_execute(void *model, const void *inputs, void *outputs)
{
    (void)model, (void)inputs, (void)outputs;
    return 0;
}
