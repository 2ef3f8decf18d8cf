/* Owns cores until its standard input ends; says which status it got. */
#include "check.h"

int main(void) {
    NRT_STATUS status = nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "");
    uint32_t visible = 0;
    OK(nrt_get_visible_nc_count(&visible));
    printf("%d %u\n", (int)status, visible);
    fflush(stdout);
    while (getchar() != EOF) {
    }
    nrt_close();
    return 0;
}
