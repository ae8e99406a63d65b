#include "module/status_writer.h"

#include <stdlib.h>
#include <string.h>

#include "config/json_value.h"

void lmc_writer_init(lmc_writer *writer) { *writer = (lmc_writer){0}; }

void lmc_writer_fini(lmc_writer *writer) {
    lmc_buffer_fini(&writer->bytes);
    free(writer->members);
    free(writer->failure);
    *writer = (lmc_writer){0};
}

void lmc_writer_fail(lmc_writer *writer, const char *text) {
    free(writer->failure);
    writer->failure = strdup(text);
}

lmc_status lmc_writer_finish(lmc_writer *writer) {
    if (writer->depth != 0)
        writer->misused = true;
    if (writer->misused)
        return LMC_INVALID;
    return writer->failed || writer->bytes.failed ? LMC_NO_MEMORY : LMC_OK;
}

static bool grow(lmc_writer *writer) {
    if (writer->count < writer->capacity)
        return true;
    size_t capacity = writer->capacity > 0 ? 2 * writer->capacity : 8;
    lmc_status_member *members = realloc(writer->members, capacity * sizeof *members);
    if (members == NULL)
        return false;
    writer->members = members;
    writer->capacity = capacity;
    return true;
}

/* Starts a top-level member: its name, then a JSON document of its own. */
static bool begin_member(lmc_writer *writer, const char *name) {
    if (name == NULL || !grow(writer)) {
        *(name == NULL ? &writer->misused : &writer->failed) = true;
        return false;
    }
    lmc_status_member *member = &writer->members[writer->count];
    *member = (lmc_status_member){.name_at = writer->bytes.size, .name_size = strlen(name)};
    lmc_buffer_append(&writer->bytes, name, member->name_size);
    member->value_at = writer->bytes.size;
    lmc_json_start(&writer->json, &writer->bytes, LMC_JSON_COMPACT, LMC_JSON_UTF8);
    return true;
}

static void end_member(lmc_writer *writer) {
    lmc_status status = lmc_json_finish(&writer->json);
    lmc_status_member *member = &writer->members[writer->count];
    if (status == LMC_INVALID)
        writer->misused = true;
    else if (status != LMC_OK || writer->bytes.failed)
        writer->failed = true;
    member->value_size = writer->bytes.size - member->value_at;
    writer->count++;
}

/* Announces a value. False when it must not be written. */
static bool begin_value(lmc_writer *writer, const char *name) {
    if (writer->misused || writer->failed)
        return false;
    if (writer->depth == 0)
        return begin_member(writer, name);
    if (name != NULL)
        lmc_json_name(&writer->json, name);
    return true;
}

static void end_value(lmc_writer *writer) {
    if (writer->depth == 0)
        end_member(writer);
}

void lmc_write_bool(lmc_writer *writer, const char *name, bool value) {
    if (!begin_value(writer, name))
        return;
    lmc_json_bool(&writer->json, value);
    if (writer->depth == 0) {
        writer->members[writer->count].is_bool = true;
        writer->members[writer->count].is_true = value;
    }
    end_value(writer);
}

void lmc_write_int(lmc_writer *writer, const char *name, int64_t value) {
    if (!begin_value(writer, name))
        return;
    lmc_json_int(&writer->json, value);
    end_value(writer);
}

void lmc_write_real(lmc_writer *writer, const char *name, double value) {
    if (!begin_value(writer, name))
        return;
    lmc_json_real(&writer->json, value);
    end_value(writer);
}

void lmc_write_text(lmc_writer *writer, const char *name, lmc_slice value) {
    if (!begin_value(writer, name))
        return;
    if (value.data == NULL)
        lmc_json_null(&writer->json);
    else
        lmc_json_slice(&writer->json, value);
    end_value(writer);
}

void lmc_write_json(lmc_writer *writer, const char *name, lmc_slice json) {
    const lmc_json_value *value = NULL;
    lmc_arena arena;
    lmc_arena_init(&arena, 0);
    char *text = lmc_arena_text(&arena, json);
    lmc_status status = LMC_NO_MEMORY;
    if (text != NULL)
        status = lmc_json_read(&arena, lmc_slice_of(text, json.size), &value, NULL);
    if (status != LMC_OK) {
        *(status == LMC_NO_MEMORY ? &writer->failed : &writer->misused) = true;
    } else if (begin_value(writer, name)) {
        lmc_json_copy(&writer->json, value, false);
        if (writer->depth == 0 && value->kind == LMC_JSON_IS_BOOL) {
            writer->members[writer->count].is_bool = true;
            writer->members[writer->count].is_true = value->truth;
        }
        end_value(writer);
    }
    lmc_arena_fini(&arena);
}

void lmc_write_null(lmc_writer *writer, const char *name) {
    if (!begin_value(writer, name))
        return;
    lmc_json_null(&writer->json);
    end_value(writer);
}

static void end_nested(lmc_writer *writer, void (*end)(lmc_json_writer *json)) {
    if (writer->misused || writer->failed)
        return;
    if (writer->depth == 0) {
        writer->misused = true;
        return;
    }
    end(&writer->json);
    writer->depth--;
    end_value(writer);
}

void lmc_write_object_begin(lmc_writer *writer, const char *name) {
    if (!begin_value(writer, name))
        return;
    lmc_json_object_begin(&writer->json);
    writer->depth++;
}

void lmc_write_object_end(lmc_writer *writer) { end_nested(writer, lmc_json_object_end); }

void lmc_write_list_begin(lmc_writer *writer, const char *name) {
    if (!begin_value(writer, name))
        return;
    lmc_json_list_begin(&writer->json);
    writer->depth++;
}

void lmc_write_list_end(lmc_writer *writer) { end_nested(writer, lmc_json_list_end); }
