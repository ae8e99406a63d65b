/*
 * process_metrics.h: what every scrape tells about the process itself.
 *
 * Read from /proc at the scrape; what cannot be read is left out. Any thread.
 */
#ifndef LMC_OBSERVE_PROCESS_METRICS_H
#define LMC_OBSERVE_PROCESS_METRICS_H

#include "base/bytes.h"

/* process_* families, and target_info with the instance's id. Failure shows in out->failed. */
void lmc_process_metrics_write(lmc_buffer *out, const char *instance_id);

#endif
