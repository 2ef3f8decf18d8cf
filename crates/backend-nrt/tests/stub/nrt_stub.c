/*
 * A libnrt of the tests' own: the calls that metaneff-backend-nrt makes, in host
 * memory, with a record of them and faults on demand.
 *
 * The model is fixed: `output0` is `input0` plus one, byte by byte, 8 bytes each.
 * The NEFF bytes are not looked at, but for a model that needs more cores.
 *
 * Variants, by definition at compile time:
 *   STUB_OLD        without the functions that older libraries lack
 *   STUB_NO_EXECUTE without a function that every library has
 *   STUB_MAJOR      major version
 *   STUB_SOME_ASYNC with 8 functions of nrt_async.h, which cannot be called
 *   STUB_ASYNC      with all functions of nrt_async.h but those for collectives
 *   STUB_NO_HANDLES with STUB_ASYNC, but without completion handles
 */
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef STUB_MAJOR
#define STUB_MAJOR 2
#endif

enum { OK = 0, INVALID = 2, INVALID_HANDLE = 3, UNINITIALIZED = 13, CLOSED = 14 };
enum { CORES = 4, BYTES = 8, DEEP = 4194016 };

typedef struct storage {
    uint8_t *bytes;
    long users;
    bool attached;
} storage;

typedef struct tensor {
    uint32_t magic;
    storage *memory;
    size_t offset, size;
    int placement, vnc;
    uint64_t completions;
} tensor;

typedef struct entry {
    char name[256];
    tensor *tensor;
    struct entry *next;
} entry;

typedef struct set {
    entry *first;
} set;

typedef struct model {
    uint32_t vnc;
} model;

typedef struct info {
    char name[256];
    uint32_t usage;
    size_t size;
    uint32_t dtype;
    uint32_t *shape;
    uint32_t ndim;
} info;

typedef struct array {
    uint64_t count;
    info entries[];
} array;

/* What the tests set and ask. All of it is guarded by `lock`. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char record[1 << 16];
static char fault_call[64];
static long fault_after;
static int fault_status;
static int fault_null;
static int touch_stack;
static int hostile;
static size_t stats_written = 16;
static long execution_ms;
static long live_models, live_tensors, live_sets, live_arrays, inits, closes, executions;
static long live_trackers, live_handles;
static int state;
static uint32_t visible_at_init;

enum hostility {
    HOSTILE_NULL = 1,
    HOSTILE_COUNT,
    HOSTILE_NAME,
    HOSTILE_UTF8,
    HOSTILE_RANK,
    HOSTILE_SHAPE,
    HOSTILE_USAGE,
};

/* Notes a call; true if it has to fail with `*status`. */
static bool enter(const char *call, int *status)
{
    bool fails = false;
    pthread_mutex_lock(&lock);
    size_t used = strlen(record);
    snprintf(record + used, sizeof record - used, "%s ", call);
    if (strcmp(call, fault_call) == 0 && fault_after-- <= 0) {
        fails = !fault_null;
        *status = fault_status;
        fault_call[0] = 0;
    }
    if (!fails && state != 1) {
        fails = true;
        *status = state == 0 ? UNINITIALIZED : CLOSED;
    }
    pthread_mutex_unlock(&lock);
    return fails;
}

#define ENTER()                            \
    do {                                   \
        int status_ = OK;                  \
        if (enter(__func__, &status_))     \
            return status_;                \
    } while (0)

static void count(long *counter, long change)
{
    __atomic_add_fetch(counter, change, __ATOMIC_SEQ_CST);
}

/* Whether a call that succeeds has to hand out nothing. */
static bool takes_null(void)
{
    pthread_mutex_lock(&lock);
    bool null = fault_null && fault_call[0] == 0;
    if (null)
        fault_null = 0;
    pthread_mutex_unlock(&lock);
    return null;
}

/* ---- for the tests ---- */

void stub_fail(const char *call, long after, int status)
{
    pthread_mutex_lock(&lock);
    snprintf(fault_call, sizeof fault_call, "%s", call);
    fault_after = after;
    fault_status = status;
    fault_null = 0;
    pthread_mutex_unlock(&lock);
}

void stub_null(const char *call)
{
    stub_fail(call, 0, 0);
    fault_null = 1;
}

void stub_touch_stack(int on) { touch_stack = on; }
void stub_hostile(int kind) { hostile = kind; }
void stub_stats_written(long bytes) { stats_written = (size_t)bytes; }
void stub_execution_ms(long ms) { execution_ms = ms; }

/* Copies the record of calls and clears it. */
void stub_record(char *out, size_t size)
{
    pthread_mutex_lock(&lock);
    snprintf(out, size, "%s", record);
    record[0] = 0;
    pthread_mutex_unlock(&lock);
}

long stub_counter(const char *name)
{
    const struct {
        const char *name;
        long *value;
    } all[] = {
        {"models", &live_models}, {"tensors", &live_tensors}, {"sets", &live_sets},
        {"arrays", &live_arrays}, {"inits", &inits},          {"closes", &closes},
        {"executions", &executions}, {"trackers", &live_trackers},
        {"handles", &live_handles},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].name, name) == 0)
            return __atomic_load_n(all[i].value, __ATOMIC_SEQ_CST);
    return -1;
}

/* ---- libnrt ---- */

static void __attribute__((noinline)) touch(void)
{
    volatile uint8_t block[DEEP];
    /* From the top down, as a stack grows: a guard page is met first. */
    for (size_t i = sizeof block; i >= 1024; i -= 1024)
        block[i - 1] = (uint8_t)i;
    block[0] = 1;
}

static uint32_t visible(void)
{
    const char *list = getenv("NEURON_RT_VISIBLE_CORES");
    const char *number = getenv("NEURON_RT_NUM_CORES");
    unsigned first, last;
    if (list && sscanf(list, "%u-%u", &first, &last) == 2)
        return last - first + 1;
    if (list)
        return 1;
    if (number && atoi(number) > 0)
        return (uint32_t)atoi(number);
    return CORES;
}

int nrt_init(uint32_t framework, const char *fw, const char *fal)
{
    int status = OK;
    bool fails = enter(__func__, &status);
    if (fails && status != UNINITIALIZED && status != CLOSED)
        return status;
    if (framework == 0 || !fw || !fal || state == 1)
        return INVALID;
    if (touch_stack)
        touch();
    visible_at_init = visible();
    count(&inits, 1);
    state = 1;
    return OK;
}

void nrt_close(void)
{
    int status;
    enter(__func__, &status);
    count(&closes, 1);
    state = 2;
}

#ifndef STUB_OLD
typedef struct version {
    uint64_t numbers[4];
    char detail[128];
    char hash[64];
} version;

int nrt_get_version(version *out, size_t size)
{
    version own = {{STUB_MAJOR, 20, 1, 7}, "stub", ""};
    memset(own.hash, 'f', sizeof own.hash);
    memcpy(out, &own, size < sizeof own ? size : sizeof own);
    return OK;
}

typedef struct instance {
    uint32_t family, size;
    char arch[16];
    char revision[8];
} instance;

int nrt_get_instance_info(instance *out, size_t size)
{
    instance own = {2, 1, "NCv2", "rev1"};
    memcpy(out, &own, size < sizeof own ? size : sizeof own);
    return OK;
}

int nrt_get_total_vnc_count(uint32_t *out)
{
    *out = CORES;
    return OK;
}

int nrt_get_visible_vnc_count(uint32_t *out)
{
    *out = state == 1 ? visible_at_init : visible();
    return OK;
}

int nrt_get_visible_nc_count(uint32_t *out) { return nrt_get_visible_vnc_count(out); }
#endif

int nrt_get_total_nc_count(uint32_t *out)
{
    *out = CORES;
    return OK;
}

static int load(const void *neff, size_t size, int32_t vnc, model **out)
{
    if (!neff || size == 0 || vnc < -1)
        return INVALID;
    if (touch_stack)
        touch();
    if (takes_null()) {
        *out = NULL;
        return OK;
    }
    model *made = malloc(sizeof *made);
    made->vnc = vnc < 0 ? 0 : (uint32_t)vnc;
    count(&live_models, 1);
    *out = made;
    return OK;
}

int nrt_load(const void *neff, size_t size, int32_t vnc, int32_t n, model **out)
{
    ENTER();
    return n == -1 ? load(neff, size, vnc, out) : INVALID;
}

int nrt_unload(model *gone)
{
    ENTER();
    if (touch_stack)
        touch();
    free(gone);
    count(&live_models, -1);
    return OK;
}

static void describe(info *entry, const char *name, uint32_t usage, uint32_t *shape)
{
    snprintf(entry->name, sizeof entry->name, "%s", name);
    entry->usage = usage;
    entry->size = BYTES;
    entry->dtype = 3;
    entry->shape = shape;
    entry->ndim = 2;
}

int nrt_get_model_tensor_info(model *asked, array **out)
{
    (void)asked;
    ENTER();
    if (hostile == HOSTILE_NULL) {
        *out = NULL;
        return OK;
    }
    array *made = calloc(1, sizeof *made + 2 * sizeof(info) + 2 * sizeof(uint32_t));
    uint32_t *shape = (uint32_t *)&made->entries[2];
    shape[0] = 2;
    shape[1] = 4;
    made->count = 2;
    describe(&made->entries[0], "input0", 0, shape);
    describe(&made->entries[1], "output0", 1, shape);
    switch (hostile) {
    case HOSTILE_COUNT: made->count = UINT64_MAX; break;
    case HOSTILE_NAME: memset(made->entries[1].name, 'x', 256); break;
    case HOSTILE_UTF8: made->entries[1].name[0] = (char)0xff; break;
    case HOSTILE_RANK: made->entries[1].ndim = UINT32_MAX; break;
    case HOSTILE_SHAPE: made->entries[1].shape = NULL; break;
    case HOSTILE_USAGE: made->entries[1].usage = 7; break;
    }
    count(&live_arrays, 1);
    *out = made;
    return OK;
}

int nrt_free_model_tensor_info(array *gone)
{
    ENTER();
    free(gone);
    count(&live_arrays, -1);
    return OK;
}

static int hand_out(storage *memory, size_t offset, size_t size, int placement, int vnc,
                    tensor **out)
{
    if (takes_null()) {
        *out = NULL;
        return OK;
    }
    tensor *made = malloc(sizeof *made);
    *made = (tensor){0x7e50, memory, offset, size, placement, vnc, 0};
    count(&memory->users, 1);
    count(&live_tensors, 1);
    *out = made;
    return OK;
}

int nrt_tensor_allocate(int placement, int vnc, size_t size, const char *name, tensor **out)
{
    (void)name;
    ENTER();
    if (size == 0 || vnc < 0 || !out)
        return INVALID;
    storage *memory = malloc(sizeof *memory);
    memory->bytes = calloc(1, size);
    memory->users = 0;
    memory->attached = false;
    return hand_out(memory, 0, size, placement, vnc, out);
}

void nrt_tensor_free(tensor **gone)
{
    int status;
    enter(__func__, &status);
    tensor *own = *gone;
    if (own->magic != 0x7e50)
        abort();
    own->magic = 0;
    if (__atomic_sub_fetch(&own->memory->users, 1, __ATOMIC_SEQ_CST) == 0) {
        if (!own->memory->attached)
            free(own->memory->bytes);
        free(own->memory);
    }
    free(own);
    *gone = NULL;
    count(&live_tensors, -1);
}

static uint8_t *place(const tensor *own, size_t offset, size_t size)
{
    if (offset > own->size || size > own->size - offset)
        return NULL;
    return own->memory->bytes + own->offset + offset;
}

int nrt_tensor_read(const tensor *from, void *buffer, size_t offset, size_t size)
{
    ENTER();
    const uint8_t *bytes = place(from, offset, size);
    if (!bytes)
        return INVALID;
    memcpy(buffer, bytes, size);
    return OK;
}

int nrt_tensor_write(tensor *to, const void *buffer, size_t offset, size_t size)
{
    ENTER();
    uint8_t *bytes = place(to, offset, size);
    if (!bytes)
        return INVALID;
    memcpy(bytes, buffer, size);
    return OK;
}

int nrt_allocate_tensor_set(set **out)
{
    ENTER();
    if (takes_null()) {
        *out = NULL;
        return OK;
    }
    *out = calloc(1, sizeof(set));
    count(&live_sets, 1);
    return OK;
}

void nrt_destroy_tensor_set(set **gone)
{
    int status;
    enter(__func__, &status);
    for (entry *at = (*gone)->first; at;) {
        entry *next = at->next;
        free(at);
        at = next;
    }
    free(*gone);
    *gone = NULL;
    count(&live_sets, -1);
}

static entry *find(const set *in, const char *name)
{
    entry *at = in->first;
    while (at && strcmp(at->name, name) != 0)
        at = at->next;
    return at;
}

int nrt_add_tensor_to_tensor_set(set *to, const char *name, tensor *added)
{
    ENTER();
    entry *bound = find(to, name);
    if (!bound) {
        bound = calloc(1, sizeof *bound);
        snprintf(bound->name, sizeof bound->name, "%s", name);
        bound->next = to->first;
        to->first = bound;
    }
    bound->tensor = added;
    return OK;
}

static int run(model *loaded, const set *inputs, const set *outputs)
{
    entry *in = find(inputs, "input0"), *out = find(outputs, "output0");
    if (!in || !out || in->tensor->size != BYTES || out->tensor->size != BYTES)
        return INVALID;
    if (in->tensor->placement == 0 && (uint32_t)in->tensor->vnc != loaded->vnc)
        return INVALID;
    if (touch_stack)
        touch();
    if (execution_ms > 0) {
        struct timespec pause = {execution_ms / 1000, execution_ms % 1000 * 1000000};
        nanosleep(&pause, NULL);
    }
    if (in->tensor->magic != 0x7e50 || out->tensor->magic != 0x7e50)
        abort();
    const uint8_t *from = place(in->tensor, 0, BYTES);
    uint8_t *to = place(out->tensor, 0, BYTES);
    for (size_t i = 0; i < BYTES; i++)
        to[i] = (uint8_t)(from[i] + 1);
    out->tensor->completions++;
    count(&executions, 1);
    return OK;
}

#ifndef STUB_NO_EXECUTE
int nrt_execute(model *loaded, const set *inputs, set *outputs)
{
    int status = OK, done;
    if (enter(__func__, &status)) {
        /* A completion has outputs. */
        if (status == 1003 && (done = run(loaded, inputs, outputs)) != OK)
            return done;
        return status;
    }
    return run(loaded, inputs, outputs);
}
#endif

#ifndef STUB_OLD
int nrt_load_collectives(const void *neff, size_t size, int32_t vnc, int32_t n, uint32_t rank,
                         uint32_t ranks, model **out)
{
    ENTER();
    return n == -1 && rank < ranks ? load(neff, size, vnc, out) : INVALID;
}

int nrt_get_model_info(const model *asked, uint32_t *out, size_t size_in, size_t *size_out)
{
    ENTER();
    *size_out = size_in < 4 ? size_in : 4;
    memcpy(out, &asked->vnc, *size_out);
    return OK;
}

int nrt_execute_repeat(model *loaded, const set *inputs, set *outputs, int times)
{
    ENTER();
    entry *in = find(inputs, "input0"), *out = find(outputs, "output0");
    for (int i = 0; i < times; i++) {
        int status = run(loaded, inputs, outputs);
        if (status != OK)
            return status;
        if (i + 1 < times)
            memcpy(place(in->tensor, 0, BYTES), place(out->tensor, 0, BYTES), BYTES);
    }
    return OK;
}

int nrt_tensor_allocate_slice(const tensor *from, size_t offset, size_t size, const char *name,
                              tensor **out)
{
    (void)name;
    ENTER();
    if (!place(from, offset, size))
        return INVALID;
    return hand_out(from->memory, from->offset + offset, size, from->placement, from->vnc, out);
}

int nrt_tensor_copy(const tensor *from, size_t at, tensor *to, size_t where, size_t size)
{
    ENTER();
    uint8_t *source = place(from, at, size), *target = place(to, where, size);
    if (!source || !target)
        return INVALID;
    if (from->placement == 0 && to->placement == 0 && from->vnc != to->vnc)
        return INVALID;
    memmove(target, source, size);
    return OK;
}

int nrt_tensor_memset(tensor *to, uint64_t offset, int value, size_t size)
{
    ENTER();
    uint8_t *bytes = place(to, offset, size);
    if (!bytes)
        return INVALID;
    memset(bytes, value, size);
    return OK;
}

void *nrt_tensor_get_va(const tensor *own)
{
    int status;
    if (enter(__func__, &status) || takes_null())
        return NULL;
    return own->memory->bytes + own->offset;
}

typedef struct allocation {
    uint64_t address;
    size_t size;
    int hbm;
} allocation;

int nrt_tensor_get_device_allocation_info(const tensor *own, allocation *out)
{
    ENTER();
    *out = (allocation){0x1000, own->size + 56, own->vnc};
    return OK;
}

typedef struct op {
    uint64_t offset, size;
    void *buffer;
} op;

typedef struct batch {
    tensor *tensor;
    const op *ops;
    uint32_t n;
} batch;

static int batched(const batch *batches, uint64_t n, bool unsafe, bool write)
{
    if (unsafe)
        return INVALID;
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < batches[i].n; j++) {
            const op *each = &batches[i].ops[j];
            uint8_t *bytes = place(batches[i].tensor, each->offset, each->size);
            if (!bytes)
                return INVALID;
            if (write)
                memcpy(bytes, each->buffer, each->size);
            else
                memcpy(each->buffer, bytes, each->size);
        }
    return OK;
}

int nrt_tensor_read_batch(const batch *batches, uint64_t n, bool unsafe)
{
    ENTER();
    return batched(batches, n, unsafe, false);
}

int nrt_tensor_write_batch(const batch *batches, uint64_t n, bool unsafe)
{
    ENTER();
    return batched(batches, n, unsafe, true);
}

int nrt_get_vnc_memory_stats(uint32_t vnc, size_t *out, size_t size_in, size_t *size_out)
{
    ENTER();
    const size_t own[] = {1000 + vnc, 2000};
    *size_out = size_in < stats_written ? size_in : stats_written;
    memcpy(out, own, *size_out < sizeof own ? *size_out : sizeof own);
    return OK;
}
int nrt_get_model_vnc_count(const model *asked, uint32_t *out)
{
    (void)asked;
    ENTER();
    *out = 1;
    return OK;
}

int nrt_get_model_instance_count(model *asked, uint32_t *out)
{
    (void)asked;
    ENTER();
    *out = 2;
    return OK;
}

int nrt_tensor_allocate_empty(const char *name, tensor **out)
{
    (void)name;
    ENTER();
    storage *memory = calloc(1, sizeof *memory);
    return hand_out(memory, 0, 0, 1, 0, out);
}

int nrt_tensor_attach_buffer(tensor *to, void *buffer, size_t size)
{
    ENTER();
    if (!buffer || size == 0)
        return INVALID;
    if (!to->memory->attached)
        free(to->memory->bytes);
    to->memory->bytes = buffer;
    to->memory->attached = true;
    to->size = size;
    return OK;
}

int nrt_tensor_check_output_completion(const tensor *own, int64_t timeout, uint64_t expected)
{
    ENTER();
    if (own->completions >= expected)
        return OK;
    return timeout < 0 ? INVALID : 5;
}

int nrt_tensor_reset_output_completion(tensor *own)
{
    ENTER();
    own->completions = 0;
    return OK;
}

static char world[64];

/* The rank and the world that were told last. */
void stub_world(char *out, size_t size) { snprintf(out, size, "%s", world); }

int nrt_build_global_comm(int32_t vnc, uint32_t rank, uint32_t ranks)
{
    ENTER();
    snprintf(world, sizeof world, "%d:%u/%u", vnc, rank, ranks);
    return OK;
}

int nrt_barrier(int32_t vnc, uint32_t rank, uint32_t ranks)
{
    ENTER();
    snprintf(world, sizeof world, "%d:%u/%u", vnc, rank, ranks);
    return OK;
}

/* Every rank has the bytes of the only caller. */
int nrt_all_gather(int32_t vnc, uint32_t rank, uint32_t ranks, uint32_t size, void *in, void *out)
{
    ENTER();
    snprintf(world, sizeof world, "%d:%u/%u", vnc, rank, ranks);
    for (uint32_t i = 0; i < ranks; i++)
        memcpy((uint8_t *)out + (size_t)i * size, in, size);
    return OK;
}

static char profiled[256];

int nrt_profile_start(model *asked, const char *file)
{
    (void)asked;
    ENTER();
    snprintf(profiled, sizeof profiled, "%s", file);
    return OK;
}

int nrt_profile_stop(const char *file)
{
    ENTER();
    return strcmp(profiled, file) == 0 ? OK : INVALID;
}
#endif

#ifdef STUB_SOME_ASYNC
void nrta_tensor_write(void) {}
void nrta_tensor_read(void) {}
void nrta_tensor_copy(void) {}
void nrta_execute_schedule(void) {}
void nrta_cc_prepare(void) {}
void nrta_cc_schedule(void) {}
void nrta_is_completed(void) {}
void nrta_get_sequence(void) {}
#endif

#ifdef STUB_ASYNC
/* A request, on a thread of its own that waits for `execution_ms` first. The
 * requests of one unit go one after the other, those of different units do not
 * wait for each other. */
enum { READ, WRITE, OP, COMPUTE, REQUESTS = 4096 };

typedef struct failure {
    uint64_t sequence, code;
} failure;

typedef struct tracker {
    pthread_mutex_t lock;
    failure list[16];
    size_t count;
} tracker;

typedef struct request {
    uint64_t sequence;
    int unit, status;
    tensor *from, *to;
    void *buffer;
    size_t at, onto, size;
    model *loaded;
    const set *inputs, *outputs;
    tracker *errors;
    uint64_t number;
} request;

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t next = PTHREAD_COND_INITIALIZER;
static uint64_t made[4], ended[4];

static int serve(const request *asked)
{
    if (asked->unit == COMPUTE)
        return run(asked->loaded, asked->inputs, asked->outputs);
    struct timespec pause = {execution_ms / 1000, execution_ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
    if ((asked->from && asked->from->magic != 0x7e50) || (asked->to && asked->to->magic != 0x7e50))
        abort();
    if (asked->unit == READ)
        memcpy(asked->buffer, place(asked->from, asked->at, asked->size), asked->size);
    else if (asked->unit == WRITE)
        memcpy(place(asked->to, asked->onto, asked->size), asked->buffer, asked->size);
    else
        memmove(place(asked->to, asked->onto, asked->size),
                place(asked->from, asked->at, asked->size), asked->size);
    return OK;
}

static void *worker(void *argument)
{
    request *asked = argument;
    pthread_mutex_lock(&turn);
    while (ended[asked->unit] + 1 != asked->number)
        pthread_cond_wait(&next, &turn);
    pthread_mutex_unlock(&turn);
    int status = serve(asked);
    if (asked->status)
        status = asked->status;
    if (status != OK) {
        pthread_mutex_lock(&asked->errors->lock);
        asked->errors->list[asked->errors->count++] = (failure){asked->sequence, (uint64_t)status};
        pthread_mutex_unlock(&asked->errors->lock);
    }
    pthread_mutex_lock(&turn);
    ended[asked->unit] = asked->number;
    pthread_cond_broadcast(&next);
    pthread_mutex_unlock(&turn);
    free(asked);
    return NULL;
}

static int schedule(request asked, int queue, tracker *errors, uint64_t *out)
{
    if (queue != 0 || !errors || !out)
        return INVALID;
    request *kept = malloc(sizeof *kept);
    *kept = asked;
    kept->errors = errors;
    /* A fault that is set for `request` is found when it is served. */
    pthread_mutex_lock(&lock);
    if (strcmp(fault_call, "request") == 0 && fault_after-- <= 0) {
        kept->status = fault_status;
        fault_call[0] = 0;
    }
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&turn);
    kept->number = ++made[asked.unit];
    pthread_mutex_unlock(&turn);
    kept->sequence = (uint64_t)asked.unit << 48 | kept->number;
    *out = kept->sequence;
    pthread_t thread;
    pthread_create(&thread, NULL, worker, kept);
    pthread_detach(thread);
    return OK;
}

int nrta_tensor_write(tensor *to, const void *buffer, uint64_t offset, uint64_t size, int queue,
                      tracker *errors, uint64_t *out)
{
    ENTER();
    if (!place(to, offset, size))
        return INVALID;
    request asked = {.unit = WRITE, .to = to, .buffer = (void *)buffer, .onto = offset, .size = size};
    return schedule(asked, queue, errors, out);
}

int nrta_tensor_read(void *buffer, tensor *from, uint64_t offset, uint64_t size, int queue,
                     tracker *errors, uint64_t *out)
{
    ENTER();
    if (!place(from, offset, size))
        return INVALID;
    request asked = {.unit = READ, .from = from, .buffer = buffer, .at = offset, .size = size};
    return schedule(asked, queue, errors, out);
}

int nrta_tensor_copy(tensor *from, uint64_t at, tensor *to, uint64_t onto, uint64_t size, int queue,
                     tracker *errors, uint64_t *out)
{
    ENTER();
    if (!place(from, at, size) || !place(to, onto, size) || from->vnc != to->vnc)
        return INVALID;
    request asked = {.unit = OP, .from = from, .to = to, .at = at, .onto = onto, .size = size};
    return schedule(asked, queue, errors, out);
}

int nrta_execute_schedule(model *loaded, const set *inputs, set *outputs, int queue,
                          tracker *errors, uint64_t *out)
{
    ENTER();
    request asked = {.unit = COMPUTE, .loaded = loaded, .inputs = inputs, .outputs = outputs};
    return schedule(asked, queue, errors, out);
}

static bool is_over(uint64_t sequence)
{
    pthread_mutex_lock(&turn);
    bool over = ended[sequence >> 48] >= (sequence & 0xffffffffffff);
    pthread_mutex_unlock(&turn);
    return over;
}

int nrta_is_completed(uint64_t sequence, bool *out)
{
    ENTER();
    if (sequence >> 48 > COMPUTE)
        return INVALID;
    *out = is_over(sequence);
    return OK;
}

#ifndef STUB_NO_HANDLES
static void *teller(void *argument)
{
    uint64_t *told = argument;
    pthread_mutex_lock(&turn);
    while (ended[told[0] >> 48] < (told[0] & 0xffffffffffff))
        pthread_cond_wait(&next, &turn);
    pthread_mutex_unlock(&turn);
    /* The other end becomes readable when this one is closed. */
    close((int)told[1]);
    free(told);
    return NULL;
}

int nrta_get_completion_handle(uint64_t sequence, int *out)
{
    int ends[2];
    ENTER();
    if (pipe(ends) != 0)
        return INVALID;
    uint64_t *told = malloc(2 * sizeof *told);
    told[0] = sequence;
    told[1] = (uint64_t)ends[1];
    pthread_t thread;
    pthread_create(&thread, NULL, teller, told);
    pthread_detach(thread);
    count(&live_handles, 1);
    *out = ends[0];
    return OK;
}
#endif

int nrta_error_tracker_create(uint32_t vnc, tracker **out)
{
    (void)vnc;
    ENTER();
    if (takes_null()) {
        *out = NULL;
        return OK;
    }
    *out = calloc(1, sizeof(tracker));
    pthread_mutex_init(&(*out)->lock, NULL);
    count(&live_trackers, 1);
    return OK;
}

void nrta_error_tracker_destroy(tracker *gone)
{
    free(gone);
    count(&live_trackers, -1);
}

int nrta_error_tracker_get_list(tracker *asked, const failure **list, size_t *length)
{
    ENTER();
    pthread_mutex_lock(&asked->lock);
    *list = asked->list;
    *length = asked->count;
    pthread_mutex_unlock(&asked->lock);
    return OK;
}
#endif
