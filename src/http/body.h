/*
 * body.h: JSON request bodies: parsed, with typed members, complaints as 422.
 *
 * The caller owns the parsed value (json_decref). Any thread.
 */
#ifndef LMC_HTTP_BODY_H
#define LMC_HTTP_BODY_H

#include <jansson.h>

#include "http/request.h"

/*
 * Reads an optional JSON object. *object becomes NULL when there is no body or it is null.
 * False: unparsable or not an object, and rejected with 422 already.
 */
bool lmc_http_body_object(lmc_http_request *request, json_t **object);
/* Any JSON value; NULL when the body is not JSON. */
json_t *lmc_http_body_any(const lmc_http_request *request);

/* Optional boolean member: true/false, 0/1, or one of the words of query booleans. Absent
 * leaves *value. False: rejected. `object` may be NULL. */
bool lmc_http_body_bool(lmc_http_request *request, const json_t *object, const char *name,
                        bool *value);
/*
 * Optional text member out of `choices` (ends with NULL); absent leaves *choice. `expected`
 * lists them for the complaint: "'l1', 'l2' or 'all'".
 */
bool lmc_http_body_choice(lmc_http_request *request, const json_t *object, const char *name,
                          const char *const *choices, const char *expected,
                          const char **choice);

#endif
