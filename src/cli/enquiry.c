#include "cli/enquiry.h"

#include <stdlib.h>
#include <string.h>

#include "cli/shown.h"
#include "config/json_value.h"
#include "config/secret.h"

lmc_status lmc_enquiry_run(lmc_cli *cli, lmc_enquiry *enquiry, const char *method,
                           const char *url, const char *path) {
    lmc_buffer address = LMC_BUFFER_INIT, shown = LMC_BUFFER_INIT;
    *enquiry = (lmc_enquiry){.base = lmc_http_base(url)};
    if (enquiry->base != NULL) {
        lmc_buffer_printf(&address, "%s%s", enquiry->base, path);
        lmc_mask_urls(&shown, lmc_text(enquiry->base));
        enquiry->shown = lmc_buffer_take(&shown);
    }
    if (enquiry->shown == NULL || address.failed) {
        fprintf(cli->err, "Command failed: out of memory\n");
        enquiry->status = LMC_NO_MEMORY;
    } else {
        enquiry->status = cli->send(method, address.data, &enquiry->response, &enquiry->error);
    }
    lmc_buffer_fini(&address);
    lmc_buffer_fini(&shown);
    return enquiry->status == LMC_NO_MEMORY ? LMC_NO_MEMORY : LMC_OK;
}

void lmc_enquiry_fini(lmc_enquiry *enquiry) {
    lmc_http_response_fini(&enquiry->response);
    free(enquiry->base);
    free(enquiry->shown);
}

const char *lmc_enquiry_reason(const lmc_enquiry *enquiry) {
    return enquiry->response.reason[0] != '\0' ? enquiry->response.reason : "no reason given";
}

bool lmc_enquiry_member(const lmc_enquiry *enquiry, const char *const *names, size_t count,
                        lmc_buffer *out) {
    const lmc_json_value *body = NULL;
    const lmc_buffer *text = &enquiry->response.body;
    bool found = false;
    lmc_arena arena;
    lmc_arena_init(&arena, 0);
    if (text->size > 0 &&
        lmc_json_read(&arena, lmc_slice_of(text->data, text->size), &body, NULL) == LMC_OK) {
        for (size_t i = 0; i < count && !found; i++) {
            const lmc_json_value *member = lmc_json_get(body, names[i]);
            found = lmc_json_filled_text(member);
            if (found)
                lmc_shown(out, member->text);
        }
    }
    lmc_arena_fini(&arena);
    return found && !out->failed;
}

void lmc_enquiry_tell(lmc_cli *cli, const lmc_enquiry *enquiry, const char *const *names,
                      size_t count) {
    lmc_buffer text = LMC_BUFFER_INIT;
    if (enquiry->status != LMC_OK)
        fprintf(cli->err, "Cannot reach %s \xe2\x80\x94 is the server running? (%s)\n",
                enquiry->shown, enquiry->error.text);
    else if (lmc_enquiry_member(enquiry, names, count, &text) &&
             strcmp(text.data, lmc_enquiry_reason(enquiry)) != 0)
        fprintf(cli->err, "%s\n", text.data);
    else /* nothing is said, or the phrase once more: whose answer it is helps then */
        fprintf(cli->err, "HTTP %d from %s: %s\n", enquiry->response.status, enquiry->shown,
                lmc_enquiry_reason(enquiry));
    lmc_buffer_fini(&text);
}
