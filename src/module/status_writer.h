/*
 * status_writer.h: the lmc_writer behind report_status: members of one JSON object, kept apart.
 *
 * Each top-level member keeps its own text, so that members of several modules can be merged.
 * One thread at a time. Nothing fails on the way; lmc_writer_finish() tells once.
 */
#ifndef LMC_MODULE_STATUS_WRITER_H
#define LMC_MODULE_STATUS_WRITER_H

#include <lmcached/module.h>

#include "base/json_writer.h"

typedef struct lmc_status_member {
    size_t name_at, name_size;   /* in the writer's bytes */
    size_t value_at, value_size; /* JSON text */
    bool is_bool, is_true;
} lmc_status_member;

struct lmc_writer {
    lmc_buffer bytes;
    lmc_json_writer json; /* of the member being written */
    lmc_status_member *members;
    size_t count, capacity;
    uint32_t depth; /* 0: between top-level members */
    bool misused, failed;
    char *failure; /* text of lmc_writer_fail(); NULL: none */
};

void lmc_writer_init(lmc_writer *writer);
void lmc_writer_fini(lmc_writer *writer);
/* What /status says of a report that then ends with a failure, for hosts of modules. */
void lmc_writer_fail(lmc_writer *writer, const char *text);
/* LMC_OK, LMC_NO_MEMORY, or LMC_INVALID when begin, end and names did not fit together. */
lmc_status lmc_writer_finish(lmc_writer *writer);

static inline lmc_slice lmc_writer_name(const lmc_writer *writer, size_t index) {
    const lmc_status_member *member = &writer->members[index];
    return lmc_slice_of(writer->bytes.data + member->name_at, member->name_size);
}
static inline lmc_slice lmc_writer_value(const lmc_writer *writer, size_t index) {
    const lmc_status_member *member = &writer->members[index];
    return lmc_slice_of(writer->bytes.data + member->value_at, member->value_size);
}

#endif
