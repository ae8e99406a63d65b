#include <string.h>

#include "base/bytes.h"
#include "pickle/dtypes.h"
#include "pickle/tensors.h"

/* Counts, or writes into memory that a counting run has sized. */
typedef struct writer {
    uint8_t *out; /* NULL: count only */
    size_t size;
} writer;

static void put(writer *w, const void *data, size_t size) {
    if (w->out != NULL)
        memcpy(w->out + w->size, data, size);
    w->size += size;
}

#define PUT(w, literal) put((w), (literal), sizeof(literal) - 1)

static void put_opcode(writer *w, uint8_t opcode, uint64_t number, unsigned width) {
    uint8_t bytes[9] = {opcode};
    for (unsigned i = 0; i < width; i++)
        bytes[1 + i] = (uint8_t)(number >> (8 * i));
    put(w, bytes, 1 + width);
}

static void put_int(writer *w, uint64_t number) {
    if (number < 256)
        put_opcode(w, 0x4b, number, 1);
    else if (number < 65536)
        put_opcode(w, 0x4d, number, 2);
    else if (number < UINT64_C(1) << 31)
        put_opcode(w, 0x4a, number, 4);
    else {
        PUT(w, "\x8a\x08");
        put(w,
            (const uint8_t[]){number & 255, number >> 8 & 255, number >> 16 & 255,
                              number >> 24 & 255, number >> 32 & 255, number >> 40 & 255,
                              number >> 48 & 255, number >> 56 & 255},
            8);
    }
}

static void put_global(writer *w, const char *module, const char *name) {
    PUT(w, "c");
    put(w, module, strlen(module));
    PUT(w, "\n");
    put(w, name, strlen(name));
    PUT(w, "\n");
}

static void put_ints(writer *w, const int64_t *numbers, size_t count) {
    PUT(w, "(");
    for (size_t i = 0; i < count; i++)
        put_int(w, (uint64_t)numbers[i]);
    PUT(w, "t");
}

/* The four pickles and the count in front of a storage's bytes: magic number, protocol 1001,
 * {"protocol_version": 1001, "little_endian": True, "type_sizes": {...}}, record, keys. */
static void put_stream_head(writer *w, const lmc_dtype *dtype, size_t size) {
    uint64_t elements = dtype->storage != NULL ? size / dtype->size : size;
    PUT(w, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.");
    PUT(w, "\x80\x02M\xe9\x03.");
    PUT(w, "\x80\x02}(X\x10\0\0\0protocol_versionM\xe9\x03X\x0d\0\0\0little_endian\x88");
    PUT(w, "X\x0a\0\0\0type_sizes}(X\x05\0\0\0shortK\x02X\x03\0\0\0intK\x04");
    PUT(w, "X\x04\0\0\0longK\x04uu.");
    PUT(w, "\x80\x02(X\x07\0\0\0storage");
    put_global(w, "torch", dtype->storage != NULL ? dtype->storage : "UntypedStorage");
    PUT(w, "X\x01\0\0\0"
           "0"
           "X\x03\0\0\0cpu");
    put_int(w, elements);
    PUT(w, "NtQ.");
    PUT(w, "\x80\x02](X\x01\0\0\0"
           "0"
           "e.");
    uint8_t count[8];
    for (unsigned i = 0; i < 8; i++)
        count[i] = (uint8_t)(elements >> (8 * i));
    put(w, count, sizeof count);
}

/* Up to the tensor's first byte. */
static void put_head(writer *w, const lmc_dtype *dtype, size_t size) {
    bool typed = dtype->storage != NULL;
    put_global(w, "torch._utils", typed ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    PUT(w, "(");
    put_global(w, "torch.storage", "_load_from_bytes");
    writer stream = {0};
    put_stream_head(&stream, dtype, size);
    uint64_t length = (uint64_t)stream.size + size;
    if (length <= UINT32_MAX)
        put_opcode(w, 0x42, length, 4);
    else
        put_opcode(w, 0x8e, length, 8);
    put_stream_head(w, dtype, size);
}

/* From behind the tensor's last byte. */
static void put_tail(writer *w, const lmc_dtype *dtype, const lmc_tensor *tensor) {
    lmc_tensor dense = *tensor;
    lmc_tensor_set_strides(&dense);
    PUT(w, "\x85RK\0");
    put_ints(w, dense.shape, dense.rank);
    put_ints(w, dense.strides, dense.rank);
    PUT(w, "\x89");
    put_global(w, "collections", "OrderedDict");
    PUT(w, ")R");
    if (dtype->storage == NULL)
        put_global(w, "torch", dtype->name);
    PUT(w, "tR");
}

/* The pickle in order; between the runs of opcodes lie the tensors' own bytes. */
typedef struct assembly {
    writer w;
    size_t start;     /* of the run of opcodes that is being written */
    lmc_slice *items; /* NULL: count only */
    size_t count, size;
} assembly;

static void add_piece(assembly *a, lmc_slice piece) {
    if (a->items != NULL)
        a->items[a->count] = piece;
    a->count++;
    a->size += piece.size;
}

static void end_run(assembly *a) {
    const uint8_t *out = a->w.out;
    add_piece(a, lmc_slice_of(out != NULL ? out + a->start : NULL, a->w.size - a->start));
    a->start = a->w.size;
}

static void add_tensor(assembly *a, const lmc_tensor *tensor) {
    const lmc_dtype *dtype = lmc_dtype_named(tensor->dtype);
    put_head(&a->w, dtype, tensor->storage.size);
    end_run(a);
    add_piece(a, tensor->storage);
    put_tail(&a->w, dtype, tensor);
}

static void assemble(assembly *a, const lmc_tensor_lists *lists) {
    PUT(&a->w, "\x80\x03](");
    for (size_t i = 0; i < lists->count; i++) {
        if (lists->nested)
            PUT(&a->w, "](");
        for (size_t j = 0; j < lists->items[i].count; j++)
            add_tensor(a, &lists->items[i].items[j]);
        if (lists->nested)
            PUT(&a->w, "e");
    }
    PUT(&a->w, "e.");
    end_run(a);
}

static bool can_write(const lmc_tensor *tensor) {
    size_t size;
    const lmc_dtype *dtype = lmc_dtype_named(tensor->dtype);
    return dtype != NULL && dtype->size == tensor->item_size &&
           tensor->rank <= LMC_TENSOR_RANK_MAX && lmc_tensor_size(tensor, &size) &&
           size == tensor->storage.size;
}

lmc_status lmc_tensors_write(const lmc_tensor_lists *lists, lmc_arena *arena,
                             lmc_pieces *pieces) {
    for (size_t i = 0; i < lists->count; i++) {
        if (!lists->nested && lists->items[i].count != 1)
            return LMC_INVALID;
        for (size_t j = 0; j < lists->items[i].count; j++)
            if (!can_write(&lists->items[i].items[j]))
                return LMC_INVALID;
    }
    assembly counted = {0};
    assemble(&counted, lists);
    assembly a = {
        .items = lmc_arena_array(arena, counted.count, sizeof *a.items),
        .w.out = lmc_arena_alloc(arena, counted.w.size),
    };
    if (a.items == NULL || a.w.out == NULL)
        return LMC_NO_MEMORY;
    assemble(&a, lists);
    *pieces = (lmc_pieces){a.items, a.count, a.size};
    return LMC_OK;
}
