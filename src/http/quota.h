/*
 * quota.h: the table behind /quota: budgets per cache salt, bounded, forgotten at the end.
 *
 * Without a policy that isolates tenants the table is kept and not enforced. All functions may
 * be called from any thread.
 */
#ifndef LMC_HTTP_QUOTA_H
#define LMC_HTTP_QUOTA_H

#include <lmcached/types.h>

typedef struct lmc_http_quotas lmc_http_quotas;

lmc_http_quotas *lmc_http_quotas_create(void); /* NULL: out of memory */
void lmc_http_quotas_destroy(lmc_http_quotas *quotas);

/* LMC_BUSY: the table is full. LMC_INVALID: the salt, see the text. */
lmc_status lmc_http_quota_set(lmc_http_quotas *quotas, lmc_slice salt, double limit_gb,
                              lmc_error *error);
bool lmc_http_quota_get(lmc_http_quotas *quotas, lmc_slice salt, double *limit_gb);
bool lmc_http_quota_remove(lmc_http_quotas *quotas, lmc_slice salt);
/* In the order of the salts' bytes; visit runs under the table's lock and must not call back.
 */
void lmc_http_quota_each(lmc_http_quotas *quotas,
                         void (*visit)(void *arg, lmc_slice salt, double limit_gb), void *arg);

#endif
