#include "cache/slab.h"

#include <stdlib.h>
#include <string.h>

#define LMC_SLAB_LIMIT UINT32_C(0xfffffc00)

lmc_status lmc_slab_init(lmc_slab *slab, size_t record_size, uint64_t max_records) {
    uint64_t limit = max_records + 1; /* index 0 means none */
    if (limit > LMC_SLAB_LIMIT)
        limit = LMC_SLAB_LIMIT;
    *slab = (lmc_slab){.record_size = record_size, .limit = (uint32_t)limit, .top = 1};
    size_t blocks = (size_t)((limit + LMC_SLAB_BLOCK - 1) >> LMC_SLAB_BLOCK_BITS);
    slab->blocks = calloc(blocks, sizeof *slab->blocks);
    return slab->blocks != NULL ? LMC_OK : LMC_NO_MEMORY;
}

void lmc_slab_fini(lmc_slab *slab) {
    for (uint32_t i = 0; i < slab->block_count; i++)
        free(slab->blocks[i]);
    free(slab->blocks);
    *slab = (lmc_slab){0};
}

static bool add_block(lmc_slab *slab) {
    unsigned char *block = aligned_alloc(64, LMC_SLAB_BLOCK * slab->record_size);
    if (block == NULL)
        return false;
    slab->blocks[slab->block_count++] = block;
    return true;
}

uint32_t lmc_slab_take(lmc_slab *slab) {
    uint32_t index = slab->free_head;
    if (index != 0) {
        memcpy(&slab->free_head, lmc_slab_at(slab, index), sizeof slab->free_head);
        return index;
    }
    if (slab->top >= slab->limit)
        return 0;
    if (slab->top >> LMC_SLAB_BLOCK_BITS >= slab->block_count && !add_block(slab))
        return 0;
    index = slab->top++;
    memset(lmc_slab_at(slab, index), 0, slab->record_size);
    return index;
}

void lmc_slab_give(lmc_slab *slab, uint32_t index) {
    memcpy(lmc_slab_at(slab, index), &slab->free_head, sizeof slab->free_head);
    slab->free_head = index;
}

size_t lmc_slab_bytes(const lmc_slab *slab) {
    size_t directory = (((size_t)slab->limit - 1) >> LMC_SLAB_BLOCK_BITS) + 1;
    return directory * sizeof *slab->blocks +
           (size_t)slab->block_count * LMC_SLAB_BLOCK * slab->record_size;
}
