/*
 * copy.h: copying what is not read again soon, past the processor's caches.
 *
 * A plain copy first reads the lines that it overwrites and throws out what the caches hold;
 * into a large pool of small pages that takes four times as long. Large copies are shared with
 * the copy crew (copy_crew.h), if there is one. Any thread.
 */
#ifndef LMC_BASE_COPY_H
#define LMC_BASE_COPY_H

#include <stddef.h>

/* memcpy() for buffers that do not overlap; small ones are copied as usual. */
void lmc_copy_cold(void *to, const void *from, size_t size);

#endif
