#include "pickle/pickle.h"

#include <string.h>

#include "base/bytes.h"

typedef lmc_pickle_value value;

/* The unpickling machine: a stack, marks in it, and the memo. */
typedef struct machine {
    lmc_pickle_reader *in;
    const value **stack;
    size_t height, stack_capacity;
    size_t marks[LMC_PICKLE_MARKS_MAX]; /* heights */
    size_t mark_count;
    const value **memo;
    size_t memo_capacity, memo_count;
    bool no_memory;
} machine;

typedef bool opcode(machine *m);

lmc_pickle_reader lmc_pickle_reader_of(lmc_slice bytes, lmc_arena *arena) {
    const uint8_t *data = bytes.data;
    return (lmc_pickle_reader){data, bytes.size == 0 ? data : data + bytes.size, arena, 0};
}

/* ---- memory ---- */

static void *allocate(machine *m, size_t count, size_t size) {
    void *memory = lmc_arena_array(m->in->arena, count, size);
    m->no_memory = m->no_memory || memory == NULL;
    return memory;
}

static value *new_value(machine *m, lmc_pickle_type type) {
    if (m->in->values == LMC_PICKLE_VALUES_MAX)
        return NULL;
    value *v = allocate(m, 1, sizeof *v);
    if (v == NULL)
        return NULL;
    m->in->values++;
    memset(v, 0, sizeof *v);
    v->type = type;
    return v;
}

/* Makes room for `needed` pointers, at least doubling; new ones are NULL. */
static bool reserve(machine *m, const value ***items, size_t *capacity, size_t needed) {
    if (needed <= *capacity)
        return true;
    size_t larger = *capacity * 2 > needed ? *capacity * 2 : needed;
    larger = larger < 8 ? 8 : larger;
    const value **grown = allocate(m, larger, sizeof *grown);
    if (grown == NULL)
        return false;
    if (*capacity > 0)
        memcpy(grown, *items, *capacity * sizeof *grown);
    memset(grown + *capacity, 0, (larger - *capacity) * sizeof *grown);
    *items = grown;
    *capacity = larger;
    return true;
}

/* ---- input ---- */

static bool take(machine *m, size_t size, const uint8_t **bytes) {
    if ((size_t)(m->in->end - m->in->at) < size)
        return false;
    *bytes = m->in->at;
    m->in->at += size;
    return true;
}

static bool take_number(machine *m, size_t width, uint64_t *number) {
    const uint8_t *bytes;
    if (!take(m, width, &bytes))
        return false;
    *number = 0;
    for (size_t i = 0; i < width; i++)
        *number |= (uint64_t)bytes[i] << (8 * i);
    return true;
}

/* A run of bytes behind its length. */
static bool take_run(machine *m, size_t width, lmc_slice *run) {
    uint64_t size;
    const uint8_t *bytes;
    if (!take_number(m, width, &size) || size > (uint64_t)(m->in->end - m->in->at) ||
        !take(m, (size_t)size, &bytes))
        return false;
    *run = lmc_slice_of(bytes, (size_t)size);
    return true;
}

static bool take_line(machine *m, lmc_slice *line) {
    size_t left = (size_t)(m->in->end - m->in->at);
    size_t window = left < LMC_PICKLE_NAME_MAX ? left : LMC_PICKLE_NAME_MAX;
    const uint8_t *newline = window > 0 ? memchr(m->in->at, '\n', window) : NULL;
    if (newline == NULL)
        return false;
    *line = lmc_slice_of(m->in->at, (size_t)(newline - m->in->at));
    m->in->at = newline + 1;
    return true;
}

/* ---- stack ---- */

static bool push(machine *m, const value *v) {
    if (v == NULL || !reserve(m, &m->stack, &m->stack_capacity, m->height + 1))
        return false;
    m->stack[m->height++] = v;
    return true;
}

/* Values below the latest mark are out of reach. */
static const value *pop(machine *m) {
    size_t floor = m->mark_count > 0 ? m->marks[m->mark_count - 1] : 0;
    return m->height > floor ? m->stack[--m->height] : NULL;
}

/* The values above the latest mark, which goes. */
static bool pop_mark(machine *m, const value ***items, size_t *count) {
    if (m->mark_count == 0)
        return false;
    size_t floor = m->marks[--m->mark_count];
    *items = m->stack != NULL ? m->stack + floor : NULL;
    *count = m->height - floor;
    m->height = floor;
    return true;
}

/* The value on top, to be changed; every value is ours. */
static value *top(machine *m, lmc_pickle_type type) {
    size_t floor = m->mark_count > 0 ? m->marks[m->mark_count - 1] : 0;
    if (m->height == floor)
        return NULL;
    value *v = (value *)(uintptr_t)m->stack[m->height - 1];
    return v->type == type ? v : NULL;
}

/* ---- scalars ---- */

static bool op_none(machine *m) { return push(m, new_value(m, LMC_PICKLE_NONE)); }

static bool push_bool(machine *m, bool truth) {
    value *v = new_value(m, LMC_PICKLE_BOOL);
    if (v != NULL)
        v->truth = truth;
    return push(m, v);
}

static bool op_true(machine *m) { return push_bool(m, true); }
static bool op_false(machine *m) { return push_bool(m, false); }

static bool push_int(machine *m, int64_t number) {
    value *v = new_value(m, LMC_PICKLE_INT);
    if (v != NULL)
        v->number = number;
    return push(m, v);
}

static bool op_int1(machine *m) {
    uint64_t number;
    return take_number(m, 1, &number) && push_int(m, (int64_t)number);
}

static bool op_int2(machine *m) {
    uint64_t number;
    return take_number(m, 2, &number) && push_int(m, (int64_t)number);
}

static bool op_int4(machine *m) {
    uint64_t number;
    return take_number(m, 4, &number) && push_int(m, (int32_t)(uint32_t)number);
}

/* Two's complement of any length up to 255, low byte first. */
static bool op_long1(machine *m) {
    lmc_slice run;
    if (!take_run(m, 1, &run))
        return false;
    const uint8_t *bytes = run.data;
    if (run.size > 8) {
        value *v = new_value(m, LMC_PICKLE_BIG);
        if (v != NULL)
            v->bytes = run;
        return push(m, v);
    }
    uint64_t number = run.size > 0 && bytes[run.size - 1] >= 0x80 ? UINT64_MAX : 0;
    for (size_t i = run.size; i-- > 0;)
        number = number << 8 | bytes[i];
    return push_int(m, (int64_t)number);
}

static bool op_float(machine *m) {
    const uint8_t *bytes;
    if (!take(m, 8, &bytes))
        return false;
    uint64_t bits = 0;
    for (size_t i = 0; i < 8; i++)
        bits = bits << 8 | bytes[i];
    value *v = new_value(m, LMC_PICKLE_FLOAT);
    if (v != NULL)
        memcpy(&v->real, &bits, sizeof bits);
    return push(m, v);
}

static bool push_run(machine *m, lmc_pickle_type type, size_t width) {
    lmc_slice run;
    if (!take_run(m, width, &run) || (type == LMC_PICKLE_TEXT && !lmc_slice_is_utf8(run)))
        return false;
    value *v = new_value(m, type);
    if (v != NULL)
        v->bytes = run;
    return push(m, v);
}

static bool op_text1(machine *m) { return push_run(m, LMC_PICKLE_TEXT, 1); }
static bool op_text4(machine *m) { return push_run(m, LMC_PICKLE_TEXT, 4); }
static bool op_text8(machine *m) { return push_run(m, LMC_PICKLE_TEXT, 8); }
static bool op_bytes1(machine *m) { return push_run(m, LMC_PICKLE_BYTES, 1); }
static bool op_bytes4(machine *m) { return push_run(m, LMC_PICKLE_BYTES, 4); }
static bool op_bytes8(machine *m) { return push_run(m, LMC_PICKLE_BYTES, 8); }

/* ---- containers ---- */

static bool op_mark(machine *m) {
    if (m->mark_count == LMC_PICKLE_MARKS_MAX)
        return false;
    m->marks[m->mark_count++] = m->height;
    return true;
}

static bool op_list(machine *m) { return push(m, new_value(m, LMC_PICKLE_LIST)); }
static bool op_dict(machine *m) { return push(m, new_value(m, LMC_PICKLE_DICT)); }
static bool op_tuple0(machine *m) { return push(m, new_value(m, LMC_PICKLE_TUPLE)); }

static bool append(machine *m, value *list, const value *const *items, size_t count) {
    if (list == NULL ||
        !reserve(m, &list->list.items, &list->list.capacity, list->list.count + count))
        return false;
    if (count > 0)
        memcpy(list->list.items + list->list.count, items, count * sizeof *items);
    list->list.count += count;
    return true;
}

static bool push_tuple(machine *m, const value *const *items, size_t count) {
    value *tuple = new_value(m, LMC_PICKLE_TUPLE);
    return append(m, tuple, items, count) && push(m, tuple);
}

static bool pop_tuple(machine *m, size_t count) {
    const value *items[3];
    for (size_t i = count; i-- > 0;)
        if ((items[i] = pop(m)) == NULL)
            return false;
    return push_tuple(m, items, count);
}

static bool op_tuple1(machine *m) { return pop_tuple(m, 1); }
static bool op_tuple2(machine *m) { return pop_tuple(m, 2); }
static bool op_tuple3(machine *m) { return pop_tuple(m, 3); }

static bool op_tuple(machine *m) {
    const value **items;
    size_t count;
    return pop_mark(m, &items, &count) && push_tuple(m, items, count);
}

static bool op_append(machine *m) {
    const value *item = pop(m);
    return item != NULL && append(m, top(m, LMC_PICKLE_LIST), &item, 1);
}

static bool op_appends(machine *m) {
    const value **items;
    size_t count;
    return pop_mark(m, &items, &count) && append(m, top(m, LMC_PICKLE_LIST), items, count);
}

static bool op_setitem(machine *m) {
    const value *pair[2];
    pair[1] = pop(m);
    pair[0] = pop(m);
    return pair[0] != NULL && append(m, top(m, LMC_PICKLE_DICT), pair, 2);
}

static bool op_setitems(machine *m) {
    const value **items;
    size_t count;
    return pop_mark(m, &items, &count) && count % 2 == 0 &&
           append(m, top(m, LMC_PICKLE_DICT), items, count);
}

/* ---- globals, calls, objects ---- */

static bool push_global(machine *m, lmc_slice module, lmc_slice name) {
    value *v = new_value(m, LMC_PICKLE_GLOBAL);
    if (v != NULL) {
        v->global.module = module;
        v->global.name = name;
    }
    return push(m, v);
}

static bool op_global(machine *m) {
    lmc_slice module, name;
    return take_line(m, &module) && take_line(m, &name) && push_global(m, module, name);
}

static bool op_stack_global(machine *m) {
    const value *name = pop(m);
    const value *module = pop(m);
    return name != NULL && module != NULL && name->type == LMC_PICKLE_TEXT &&
           module->type == LMC_PICKLE_TEXT && push_global(m, module->bytes, name->bytes);
}

static bool push_call(machine *m, lmc_pickle_type type) {
    const value *args = pop(m);
    const value *callee = pop(m);
    if (args == NULL || callee == NULL || args->type != LMC_PICKLE_TUPLE)
        return false;
    value *v = new_value(m, type);
    if (v != NULL) {
        v->call.callee = callee;
        v->call.args = args;
    }
    return push(m, v);
}

static bool op_reduce(machine *m) { return push_call(m, LMC_PICKLE_CALL); }
static bool op_new_object(machine *m) { return push_call(m, LMC_PICKLE_OBJECT); }

static bool op_build(machine *m) {
    const value *state = pop(m);
    value *object = top(m, LMC_PICKLE_OBJECT);
    if (object == NULL)
        object = top(m, LMC_PICKLE_CALL);
    if (state == NULL || object == NULL)
        return false;
    object->call.state = state;
    return true;
}

static bool op_persistent(machine *m) {
    const value *id = pop(m);
    if (id == NULL)
        return false;
    value *v = new_value(m, LMC_PICKLE_PERSISTENT);
    if (v != NULL)
        v->call.args = id;
    return push(m, v);
}

/* ---- memo ---- */

static bool put(machine *m, uint64_t index) {
    size_t floor = m->mark_count > 0 ? m->marks[m->mark_count - 1] : 0;
    if (m->height == floor || index >= LMC_PICKLE_VALUES_MAX ||
        !reserve(m, &m->memo, &m->memo_capacity, (size_t)index + 1))
        return false;
    m->memo_count += m->memo[index] == NULL;
    m->memo[index] = m->stack[m->height - 1];
    return true;
}

static bool get(machine *m, uint64_t index) {
    return index < m->memo_capacity && push(m, m->memo[index]);
}

static bool op_memoize(machine *m) { return put(m, m->memo_count); }

static bool op_put1(machine *m) {
    uint64_t index;
    return take_number(m, 1, &index) && put(m, index);
}

static bool op_put4(machine *m) {
    uint64_t index;
    return take_number(m, 4, &index) && put(m, index);
}

static bool op_get1(machine *m) {
    uint64_t index;
    return take_number(m, 1, &index) && get(m, index);
}

static bool op_get4(machine *m) {
    uint64_t index;
    return take_number(m, 4, &index) && get(m, index);
}

/* ---- framing ---- */

static bool op_proto(machine *m) {
    uint64_t version;
    return take_number(m, 1, &version) && version <= 5;
}

static bool op_frame(machine *m) {
    const uint8_t *length;
    return take(m, 8, &length);
}

#define STOP 0x2e

static opcode *const opcodes[256] = {
    [0x80] = op_proto,        [0x95] = op_frame,    [0x28] = op_mark,
    [0x4e] = op_none,         [0x88] = op_true,     [0x89] = op_false,
    [0x4b] = op_int1,         [0x4d] = op_int2,     [0x4a] = op_int4,
    [0x8a] = op_long1,        [0x47] = op_float,    [0x8c] = op_text1,
    [0x58] = op_text4,        [0x8d] = op_text8,    [0x43] = op_bytes1,
    [0x42] = op_bytes4,       [0x8e] = op_bytes8,   [0x96] = op_bytes8,
    [0x5d] = op_list,         [0x61] = op_append,   [0x65] = op_appends,
    [0x29] = op_tuple0,       [0x85] = op_tuple1,   [0x86] = op_tuple2,
    [0x87] = op_tuple3,       [0x74] = op_tuple,    [0x7d] = op_dict,
    [0x73] = op_setitem,      [0x75] = op_setitems, [0x63] = op_global,
    [0x93] = op_stack_global, [0x52] = op_reduce,   [0x81] = op_new_object,
    [0x62] = op_build,        [0x94] = op_memoize,  [0x71] = op_put1,
    [0x72] = op_put4,         [0x68] = op_get1,     [0x6a] = op_get4,
    [0x51] = op_persistent,
};

lmc_status lmc_pickle_read(lmc_pickle_reader *reader, const value **result) {
    machine m = {.in = reader};
    for (;;) {
        const uint8_t *code;
        if (!take(&m, 1, &code))
            return LMC_MALFORMED;
        if (*code == STOP)
            break;
        if (opcodes[*code] == NULL || !opcodes[*code](&m))
            return m.no_memory ? LMC_NO_MEMORY : LMC_MALFORMED;
    }
    if (m.height != 1 || m.mark_count != 0)
        return LMC_MALFORMED;
    *result = m.stack[0];
    return LMC_OK;
}
