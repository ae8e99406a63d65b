/* describe kvcache: what a running server says about itself. */
#include "cli/client_options.h"
#include "cli/describe_report.h"
#include "cli/enquiry.h"

#define DESCRIBE_WIDTH 50

static const lmc_client_command describe = {
    .name = "describe",
    .choices = "kvcache",
    .summary = "kvcache: shows the state of a cache server.",
    .url_help = "default: http://localhost:8080",
    .choice_required = true,
};

static void tell_failure(lmc_cli *cli, const lmc_enquiry *enquiry) {
    static const char *const names[] = {"error"};
    lmc_buffer text = LMC_BUFFER_INIT;
    if (enquiry->status != LMC_OK)
        fprintf(cli->err, "Cannot connect to %s: %s\n", enquiry->shown, enquiry->error.text);
    else if (enquiry->response.status == 503 && lmc_enquiry_member(enquiry, names, 1, &text))
        fprintf(cli->err, "Server unhealthy: %s\n", text.data);
    else
        fprintf(cli->err, "HTTP %d from %s: %s\n", enquiry->response.status, enquiry->shown,
                lmc_enquiry_reason(enquiry));
    lmc_buffer_fini(&text);
}

static bool show(lmc_cli *cli, const lmc_client_options *options, const char *url,
                 const lmc_buffer *body) {
    lmc_report report;
    lmc_error error = LMC_ERROR_INIT;
    bool shown = false;
    lmc_report_init(&report, "LMCache KV Cache Service", DESCRIBE_WIDTH);
    if (lmc_describe_status(&report, url, lmc_slice_of(body->data, body->size), &error) ==
        LMC_OK)
        shown = lmc_client_show(cli, options, &report);
    else
        fprintf(cli->err, "Command failed: the status of %s does not read: %s\n", url,
                error.text);
    lmc_report_fini(&report);
    return shown;
}

int lmc_command_describe(lmc_cli *cli, int count, char *const *words) {
    lmc_client_options options;
    lmc_enquiry enquiry;
    int status = LMC_EXIT_FAILED;
    if (!lmc_client_parse(cli, &describe, count, words, &options, &status))
        return status;
    const char *url = options.url != NULL ? options.url : "http://localhost:8080";
    status = LMC_EXIT_FAILED;
    if (lmc_enquiry_run(cli, &enquiry, "GET", url, "/status") == LMC_OK) {
        if (enquiry.status != LMC_OK || enquiry.response.status != 200)
            tell_failure(cli, &enquiry);
        else if (show(cli, &options, enquiry.shown, &enquiry.response.body))
            status = 0;
    }
    lmc_enquiry_fini(&enquiry);
    return status;
}
