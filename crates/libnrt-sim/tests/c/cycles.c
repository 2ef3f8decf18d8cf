/* init and close, load and unload, a thousand times, without growth. */
#include <unistd.h>

#include "check.h"

static long resident(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = 0;
    CHECK(file && fscanf(file, "%*d %ld", &pages) == 1);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

static void cycle(int round) {
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    struct adder a = adder(0);
    OK(nrt_execute(a.model, a.in, a.out));
    nrta_error_tracker_t *errors = NULL;
    OK(nrta_error_tracker_create(0, &errors));
    nrta_seq_t sequence;
    OK(nrta_execute_schedule(a.model, a.in, a.out, 0, errors, &sequence));
    /* Every other time, nrt_close has to take all of it back. */
    if (round % 2) {
        discard(&a);
        nrta_error_tracker_destroy(errors);
    }
    nrt_close();
    nrt_tensor_free(&a.a);
    nrt_destroy_tensor_set(&a.in);
}

int main(void) {
    int rounds = times(1000, 20);
    long before = 0;
    for (int round = 0; round < rounds; round++) {
        if (round == rounds / 5) {
            before = resident();
        }
        cycle(round);
    }
    long grown = resident() - before;
    OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    for (int round = 0; round < rounds; round++) {
        if (round == rounds / 5) {
            before = resident();
        }
        struct adder a = adder(0);
        OK(nrt_execute(a.model, a.in, a.out));
        discard(&a);
    }
    long reloaded = resident() - before;
    nrt_vnc_memory_stats_t stats;
    OK(nrt_get_vnc_memory_stats(0, &stats, sizeof stats, NULL));
    CHECK(stats.bytes_used == 0);
    nrt_close();
    /* The checkers keep memory of their own. */
    if (!getenv("SLOW")) {
        printf("init and close: %ld bytes more, load and unload: %ld\n", grown, reloaded);
        CHECK(grown < 1 << 20 && reloaded < 1 << 20);
    }
    return 0;
}
