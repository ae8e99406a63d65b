/*
 * p2p_controller.c: sharing objects with other servers. Inert: it says in the status that it is
 * off (D28), and answers nothing.
 */
#include "base/bytes.h"
#include "modules/modules.h"

static lmc_status create_p2p(lmc_build *build, void **self, lmc_error *error) {
    (void)build;
    (void)self;
    (void)error;
    return LMC_OK;
}

static lmc_status report_p2p(void *self, lmc_writer *writer) {
    (void)self;
    lmc_write_int(writer, "active_p2p_lookup_jobs", 0);
    lmc_write_bool(writer, "p2p_enabled", false);
    lmc_write_text(writer, "p2p_state", lmc_text("disabled"));
    lmc_write_int(writer, "p2p_peer_count", 0);
    lmc_write_list_begin(writer, "p2p_peers");
    lmc_write_list_end(writer);
    return LMC_OK;
}

const lmc_module_class lmc_p2p_controller = {
    .size = sizeof(lmc_module_class),
    .name = "P2PController",
    .create = create_p2p,
    .report_status = report_p2p,
};
