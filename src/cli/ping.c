/* ping: is a server there; ping --ready: would it answer requests now. */
#include <string.h>

#include "cli/client_options.h"
#include "cli/enquiry.h"
#include "config/json_value.h"

#define PING_WIDTH 30

static const lmc_client_command ping = {
    .name = "ping",
    .choices = "kvcache,engine",
    .summary = "Asks a cache server or a serving engine whether it is alive.",
    .url_help = "default: http://localhost:8080 (kvcache), http://localhost:8000 (engine)",
    .ready = true,
    .choice_required = true,
};

/* The reasons of a readiness answer, each on a line of its own. */
static void tell_reasons(lmc_cli *cli, const lmc_http_response *response) {
    const lmc_json_value *body = NULL;
    lmc_arena arena;
    lmc_arena_init(&arena, 0);
    if (response->body.size > 0 &&
        lmc_json_read(&arena, lmc_slice_of(response->body.data, response->body.size), &body,
                      NULL) == LMC_OK) {
        const lmc_json_value *reasons = lmc_json_get(body, "reasons");
        for (const lmc_json_value *at = reasons != NULL ? reasons->first : NULL; at != NULL;
             at = at->next)
            if (at->kind == LMC_JSON_IS_TEXT)
                fprintf(cli->err, "not ready: %s\n", (const char *)at->text.data);
    }
    lmc_arena_fini(&arena);
}

static bool show(lmc_cli *cli, const lmc_client_options *options, const lmc_enquiry *enquiry,
                 bool engine) {
    lmc_report report;
    bool alive = enquiry->response.status == 200;
    lmc_report_init(&report, engine ? "Ping Engine" : "Ping KV Cache", PING_WIDTH);
    lmc_report_text(&report, "status", "Status", lmc_text(alive ? "OK" : "FAIL"));
    lmc_report_float(&report, "round_trip_time_ms", "Round trip time (ms)",
                     lmc_two_decimals(enquiry->response.milliseconds));
    bool shown = lmc_client_show(cli, options, &report);
    lmc_report_fini(&report);
    return shown;
}

int lmc_command_ping(lmc_cli *cli, int count, char *const *words) {
    lmc_client_options options;
    lmc_enquiry enquiry;
    int status = LMC_EXIT_FAILED;
    if (!lmc_client_parse(cli, &ping, count, words, &options, &status))
        return status;
    bool engine = options.choice != NULL && strcmp(options.choice, "engine") == 0;
    const char *url = options.url != NULL ? options.url
                      : engine            ? "http://localhost:8000"
                                          : "http://localhost:8080";
    const char *path = options.ready ? "/readiness" : engine ? "/health" : "/healthcheck";
    status = LMC_EXIT_FAILED;
    if (lmc_enquiry_run(cli, &enquiry, "GET", url, path) == LMC_OK) {
        bool shown = show(cli, &options, &enquiry, engine);
        if (enquiry.status != LMC_OK)
            fprintf(cli->err, "Cannot connect to %s: %s\n", enquiry.shown, enquiry.error.text);
        else if (enquiry.response.status != 200)
            fprintf(cli->err, "HTTP %d: %s\n", enquiry.response.status,
                    lmc_enquiry_reason(&enquiry));
        else if (shown)
            status = 0;
        if (options.ready)
            tell_reasons(cli, &enquiry.response);
    }
    lmc_enquiry_fini(&enquiry);
    return status;
}
