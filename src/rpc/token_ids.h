/*
 * token_ids.h: the one long thing in a request, decoded at close to the speed of memory.
 *
 * A prompt's token ids arrive as tens of thousands of small integers of one to five bytes.
 * Where the processor can, twelve are taken at a time; else a loop branches on the width. Rare
 * widths go through the general reader. Internal to this room; any thread.
 */
#ifndef LMC_RPC_TOKEN_IDS_H
#define LMC_RPC_TOKEN_IDS_H

#include "rpc/msgpack.h"

/* Reads `count` integers. *out_of_range is set when one does not fit 32 bits; the rest is read
 * all the same. `ids` may be NULL: then they are only stepped over. False: not all are
 * integers. */
bool lmc_mp_read_token_ids(lmc_mp_reader *reader, size_t count, uint32_t *ids,
                           bool *out_of_range);
/*
 * As many as can be taken twelve at a time: stops before the end of the input and before
 * anything that is not an unsigned integer of at most 32 bits. Only where it works.
 */
bool lmc_token_ids_wide_works(void);
size_t lmc_token_ids_wide(lmc_mp_reader *reader, size_t count, uint32_t *ids);

/* The array of them, head included. */
void lmc_mp_write_token_ids(lmc_mp_writer *writer, const uint32_t *ids, size_t count);

#endif
