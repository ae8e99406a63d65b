/*
 * enquiry.h: asking a server for something and telling a person why it did not answer.
 *
 * One thread.
 */
#ifndef LMC_CLI_ENQUIRY_H
#define LMC_CLI_ENQUIRY_H

#include "cli/cli.h"

typedef struct lmc_enquiry {
    char *base;  /* the address with a scheme; passwords in it are still there */
    char *shown; /* the same for messages, passwords masked */
    lmc_http_response response;
    lmc_error error;   /* when no response came */
    lmc_status status; /* of the sending */
} lmc_enquiry;

/* Sends to url + path. LMC_NO_MEMORY is told already; everything else is in the enquiry. */
lmc_status lmc_enquiry_run(lmc_cli *cli, lmc_enquiry *enquiry, const char *method,
                           const char *url, const char *path);
void lmc_enquiry_fini(lmc_enquiry *enquiry);

/* The phrase of the status line, never empty. */
const char *lmc_enquiry_reason(const lmc_enquiry *enquiry);
/* Appends the first of these members of the body that is a text; false: there is none. */
bool lmc_enquiry_member(const lmc_enquiry *enquiry, const char *const *names, size_t count,
                        lmc_buffer *out);
/* Why it has failed, on one line of cli->err: no connection, the text of the first of these
 * members, or the status line. */
void lmc_enquiry_tell(lmc_cli *cli, const lmc_enquiry *enquiry, const char *const *names,
                      size_t count);

#endif
