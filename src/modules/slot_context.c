#include "modules/engine_driven.h"

#include "rpc/msgpack.h"

static void write_slot(lmc_mp_writer *writer, const lmc_transfer *transfer,
                       const lmc_slot *slot) {
    const lmc_chunk_layout *layout = &transfer->groups[slot->group];
    lmc_mp_write_map(writer, 4);
    lmc_mp_write_name(writer, "offset");
    lmc_mp_write_int(writer, (int64_t)slot->offset);
    lmc_mp_write_name(writer, "length");
    lmc_mp_write_int(writer, (int64_t)layout->size);
    lmc_mp_write_name(writer, "shape");
    lmc_mp_write_array(writer, layout->dim_count);
    for (uint32_t i = 0; i < layout->dim_count; i++)
        lmc_mp_write_int(writer, layout->dims[i]);
    lmc_mp_write_name(writer, "dtype");
    lmc_mp_write_name(writer, layout->dtype);
}

static void write_context(lmc_mp_writer *writer, const lmc_transfer *transfer, unsigned parts) {
    size_t slots = (parts & LMC_CONTEXT_SLOTS) != 0 ? transfer->slot_count : 0;
    lmc_mp_write_map(writer, (parts & LMC_CONTEXT_INDICES) != 0 ? 2 : 1);
    lmc_mp_write_name(writer, "slots");
    lmc_mp_write_array(writer, slots);
    for (size_t i = 0; i < slots; i++)
        write_slot(writer, transfer, &transfer->slots[i]);
    if ((parts & LMC_CONTEXT_INDICES) == 0)
        return;
    lmc_mp_write_name(writer, "chunk_indices");
    lmc_mp_write_array(writer, transfer->slot_count);
    for (size_t i = 0; i < transfer->slot_count; i++)
        lmc_mp_write_int(writer, transfer->slots[i].chunk_index);
}

lmc_slice lmc_slot_context(const lmc_transfer *transfer, unsigned parts, lmc_arena *arena) {
    lmc_mp_writer writer = {0};
    write_context(&writer, transfer, parts);
    size_t size = writer.size;
    uint8_t *bytes = lmc_arena_alloc(arena, size);
    if (bytes == NULL)
        return (lmc_slice){0};
    writer = (lmc_mp_writer){.out = bytes};
    write_context(&writer, transfer, parts);
    return (lmc_slice){bytes, size};
}
