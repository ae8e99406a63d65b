/* kvcache clear: forget everything that is cached. */
#include "cli/client_options.h"
#include "cli/enquiry.h"

#define KVCACHE_WIDTH 48

static const lmc_client_command kvcache = {
    .name = "kvcache",
    .choices = "clear",
    .summary = "clear: drops every cached chunk of a server.",
    .url_help = "address of the server's HTTP API, required",
    .url_required = true,
    .choice_required = false, /* a bare `kvcache` shows its help, with status 1 */
};

/* Servers before /cache/clear know this one only. */
static bool is_unknown_path(const lmc_enquiry *enquiry) {
    return enquiry->status == LMC_OK &&
           (enquiry->response.status == 404 || enquiry->response.status == 405);
}

static lmc_status send_clear(lmc_cli *cli, const char *url, lmc_enquiry *enquiry) {
    lmc_status status = lmc_enquiry_run(cli, enquiry, "POST", url, "/cache/clear");
    if (status != LMC_OK || !is_unknown_path(enquiry))
        return status;
    lmc_enquiry_fini(enquiry);
    return lmc_enquiry_run(cli, enquiry, "POST", url, "/api/clear-cache");
}

static bool show(lmc_cli *cli, const lmc_client_options *options) {
    lmc_report report;
    lmc_report_init(&report, "KV Cache Clear", KVCACHE_WIDTH);
    lmc_report_text(&report, "status", "Status", lmc_text("OK"));
    bool shown = lmc_client_show(cli, options, &report);
    lmc_report_fini(&report);
    return shown;
}

/* Where the routes put what went wrong, the most likely first. */
static const char *const complaints[] = {"message", "error", "detail"};

int lmc_command_kvcache(lmc_cli *cli, int count, char *const *words) {
    lmc_client_options options;
    lmc_enquiry enquiry;
    int status = LMC_EXIT_FAILED;
    if (!lmc_client_parse(cli, &kvcache, count, words, &options, &status))
        return status;
    status = LMC_EXIT_FAILED;
    if (send_clear(cli, options.url, &enquiry) == LMC_OK) {
        if (enquiry.status != LMC_OK || enquiry.response.status != 200)
            lmc_enquiry_tell(cli, &enquiry, complaints, 3);
        else if (show(cli, &options))
            status = 0;
    }
    lmc_enquiry_fini(&enquiry);
    return status;
}
