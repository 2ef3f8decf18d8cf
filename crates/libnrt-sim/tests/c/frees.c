/* Everything is given back in every order, before and after nrt_close. */
#include "check.h"

enum { THINGS = 7 };

static struct adder a;
static nrt_tensor_t *slice;

static void give_back(int thing) {
    switch (thing) {
    case 0:
        nrt_unload(a.model);
        break;
    case 1:
        nrt_tensor_free(&a.a);
        break;
    case 2:
        nrt_tensor_free(&a.sum);
        break;
    case 3:
        nrt_destroy_tensor_set(&a.in);
        break;
    case 4:
        nrt_destroy_tensor_set(&a.out);
        break;
    case 5:
        nrt_tensor_free(&slice);
        break;
    case 6:
        nrt_close();
        break;
    }
}

/* The next order of the things, if there is one. */
static bool advance(int order[THINGS]) {
    int last = THINGS - 2;
    while (last >= 0 && order[last] > order[last + 1]) {
        last--;
    }
    if (last < 0) {
        return false;
    }
    int other = THINGS - 1;
    while (order[other] < order[last]) {
        other--;
    }
    int swapped = order[last];
    order[last] = order[other];
    order[other] = swapped;
    for (int low = last + 1, high = THINGS - 1; low < high; low++, high--) {
        swapped = order[low];
        order[low] = order[high];
        order[high] = swapped;
    }
    return true;
}

int main(void) {
    int order[THINGS] = {0, 1, 2, 3, 4, 5, 6}, step = times(1, 61), number = 0;
    do {
        if (number++ % step) {
            continue;
        }
        OK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
        a = adder(0);
        OK(nrt_tensor_allocate_slice(a.a, 4, 8, "slice", &slice));
        OK(nrt_execute(a.model, a.in, a.out));
        for (int index = 0; index < THINGS; index++) {
            give_back(order[index]);
        }
        CHECK(!a.a && !a.sum && !a.in && !a.out && !slice);
        /* The other tensor was left to nrt_close; freeing it late is harmless. */
        nrt_tensor_free(&a.b);
        EXPECT(nrt_unload(a.model), NRT_CLOSED);
    } while (advance(order));
    CHECK(number == 5040);
    return 0;
}
