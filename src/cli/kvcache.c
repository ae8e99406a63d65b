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

static void tell_failure(lmc_cli *cli, const lmc_enquiry *enquiry) {
    static const char *const names[] = {"message", "error", "detail"};
    lmc_buffer text = LMC_BUFFER_INIT;
    if (enquiry->status != LMC_OK)
        fprintf(cli->err, "Cannot reach %s \xe2\x80\x94 is the server running? (%s)\n",
                enquiry->shown, enquiry->error.text);
    else if (lmc_enquiry_member(enquiry, names, 3, &text))
        fprintf(cli->err, "%s\n", text.data);
    else
        fprintf(cli->err, "HTTP %d: %s\n", enquiry->response.status,
                lmc_enquiry_reason(enquiry));
    lmc_buffer_fini(&text);
}

static bool show(lmc_cli *cli, const lmc_client_options *options) {
    lmc_report report;
    lmc_report_init(&report, "KV Cache Clear", KVCACHE_WIDTH);
    lmc_report_text(&report, "status", "Status", lmc_text("OK"));
    bool shown = lmc_client_show(cli, options, &report);
    lmc_report_fini(&report);
    return shown;
}

int lmc_command_kvcache(lmc_cli *cli, int count, char *const *words) {
    lmc_client_options options;
    lmc_enquiry enquiry;
    int status = LMC_EXIT_FAILED;
    if (!lmc_client_parse(cli, &kvcache, count, words, &options, &status))
        return status;
    status = LMC_EXIT_FAILED;
    if (send_clear(cli, options.url, &enquiry) == LMC_OK) {
        if (enquiry.status != LMC_OK || enquiry.response.status != 200)
            tell_failure(cli, &enquiry);
        else if (show(cli, &options))
            status = 0;
    }
    lmc_enquiry_fini(&enquiry);
    return status;
}
