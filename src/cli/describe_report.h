/*
 * describe_report.h: the body of GET /status as the report of `describe kvcache`.
 */
#ifndef LMC_CLI_DESCRIBE_REPORT_H
#define LMC_CLI_DESCRIBE_REPORT_H

#include "base/error.h"
#include "cli/report.h"

/* The body must be terminated. What it lacks shows as N/A, what is there in part is skipped. */
lmc_status lmc_describe_status(lmc_report *report, const char *url, lmc_slice body,
                               lmc_error *error);

#endif
