#include "cache/index_table.h"

#include <stdlib.h>

#define SEGMENT (UINT32_C(1) << LMC_INDEX_SEGMENT_BITS)

static bool add_segment(lmc_index_table *table) {
    if (table->segment_count == table->segment_limit)
        return false;
    uint32_t *segment = calloc(SEGMENT, sizeof *segment);
    if (segment == NULL)
        return false;
    table->segments[table->segment_count++] = segment;
    return true;
}

lmc_status lmc_index_table_init(lmc_index_table *table, uint64_t max_entries,
                                lmc_index_entries entries) {
    *table = (lmc_index_table){.bucket_count = SEGMENT, .mask = SEGMENT - 1};
    table->entries = entries;
    if (max_entries > UINT32_C(1) << 31)
        max_entries = UINT32_C(1) << 31;
    table->segment_limit = (size_t)(max_entries / SEGMENT) + 1;
    table->segments = calloc(table->segment_limit, sizeof *table->segments);
    if (table->segments == NULL)
        return LMC_NO_MEMORY;
    return add_segment(table) ? LMC_OK : LMC_NO_MEMORY;
}

void lmc_index_table_fini(lmc_index_table *table) {
    for (size_t i = 0; i < table->segment_count; i++)
        free(table->segments[i]);
    free(table->segments);
    *table = (lmc_index_table){0};
}

/* Opens one more bucket and moves to it what belongs there from the bucket it splits. */
static void split(lmc_index_table *table) {
    uint32_t bucket = table->bucket_count;
    if (bucket >> LMC_INDEX_SEGMENT_BITS >= table->segment_count && !add_segment(table))
        return;
    if (bucket == 2 * table->mask + 2)
        table->mask = 2 * table->mask + 1;
    uint32_t *from = lmc_index_table_bucket(table, bucket & table->mask);
    table->bucket_count++;
    uint32_t *to = lmc_index_table_bucket(table, bucket);
    while (*from != 0) {
        uint32_t index = *from;
        uint32_t *next = table->entries.next(table->entries.owner, index);
        uint64_t hash = table->entries.hash(table->entries.owner, index);
        if (lmc_index_table_bucket(table, hash) == to) {
            *from = *next;
            *next = *to;
            *to = index;
        } else {
            from = next;
        }
    }
}

void lmc_index_table_add(lmc_index_table *table, uint32_t index, uint64_t hash) {
    if (table->count >= table->bucket_count)
        split(table);
    uint32_t *head = lmc_index_table_bucket(table, hash);
    *table->entries.next(table->entries.owner, index) = *head;
    *head = index;
    table->count++;
}

void lmc_index_table_remove(lmc_index_table *table, uint32_t index, uint64_t hash) {
    uint32_t *link = lmc_index_table_bucket(table, hash);
    while (*link != index)
        link = table->entries.next(table->entries.owner, *link);
    *link = *table->entries.next(table->entries.owner, index);
    table->count--;
}

size_t lmc_index_table_bytes(const lmc_index_table *table) {
    return table->segment_limit * sizeof *table->segments +
           table->segment_count * SEGMENT * sizeof **table->segments;
}
