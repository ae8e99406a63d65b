#include "cli/report.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json_writer.h"
#include "cli/shown.h"

void lmc_report_init(lmc_report *report, const char *title, size_t width) {
    *report = (lmc_report){.title = title, .width = width};
}

static void free_section(lmc_report_section *section) {
    for (size_t i = 0; i < section->count; i++) {
        free(section->entries[i].key);
        free(section->entries[i].label);
        free(section->entries[i].text);
    }
    free(section->entries);
    free(section->label);
    free(section->list);
}

void lmc_report_fini(lmc_report *report) {
    for (size_t i = 0; i < report->count; i++)
        free_section(&report->sections[i]);
    free(report->sections);
    *report = (lmc_report){0};
}

static char *copy(lmc_report *report, const char *text) {
    char *copied = text != NULL ? strdup(text) : NULL;
    report->failed |= text != NULL && copied == NULL;
    return copied;
}

void lmc_report_section_begin(lmc_report *report, const char *list, const char *label) {
    lmc_report_section *grown = realloc(report->sections, (report->count + 1) * sizeof *grown);
    if (grown == NULL) {
        report->failed = true;
        return;
    }
    report->sections = grown;
    grown[report->count++] =
        (lmc_report_section){.label = copy(report, label), .list = copy(report, list)};
}

static lmc_report_entry *add(lmc_report *report, const char *key, const char *label,
                             lmc_report_kind kind) {
    if (report->count == 0)
        lmc_report_section_begin(report, NULL, NULL);
    if (report->failed)
        return NULL;
    lmc_report_section *section = &report->sections[report->count - 1];
    lmc_report_entry *grown = realloc(section->entries, (section->count + 1) * sizeof *grown);
    if (grown == NULL) {
        report->failed = true;
        return NULL;
    }
    section->entries = grown;
    lmc_report_entry *entry = &grown[section->count++];
    *entry = (lmc_report_entry){
        .key = copy(report, key), .label = copy(report, label), .kind = kind};
    return entry;
}

void lmc_report_none(lmc_report *report, const char *key, const char *label) {
    add(report, key, label, LMC_REPORT_NONE);
}

static void add_text(lmc_report *report, const char *key, const char *label, lmc_slice text,
                     lmc_report_kind kind) {
    lmc_report_entry *entry = add(report, key, label, kind);
    if (entry == NULL)
        return;
    entry->text = strndup(text.size > 0 ? text.data : "", text.size);
    report->failed |= entry->text == NULL;
}

void lmc_report_text(lmc_report *report, const char *key, const char *label, lmc_slice text) {
    add_text(report, key, label, text, LMC_REPORT_TEXT);
}

void lmc_report_number(lmc_report *report, const char *key, const char *label, lmc_slice text) {
    add_text(report, key, label, text, LMC_REPORT_NUMBER);
}

void lmc_report_float(lmc_report *report, const char *key, const char *label, double value) {
    lmc_report_entry *entry = add(report, key, label, LMC_REPORT_FLOAT);
    if (entry != NULL)
        entry->number = value;
}

void lmc_report_bool(lmc_report *report, const char *key, const char *label, bool value) {
    lmc_report_entry *entry = add(report, key, label, LMC_REPORT_BOOL);
    if (entry != NULL)
        entry->truth = value;
}

double lmc_two_decimals(double value) {
    char text[400];
    snprintf(text, sizeof text, "%.2f", value);
    return strtod(text, NULL);
}

/* ---- the table ---- */

static void fill(lmc_buffer *out, char c, size_t count) {
    for (size_t i = 0; i < count; i++)
        lmc_buffer_char(out, c);
}

/* " text " in the middle of the width; never cut. */
static void put_centred(lmc_buffer *out, const char *text, char filling, size_t width) {
    lmc_buffer shown = LMC_BUFFER_INIT;
    lmc_shown(&shown, lmc_text(text));
    size_t length = lmc_slice_code_points(lmc_slice_of(shown.data, shown.size)) + 2;
    size_t pad = width > length ? width - length : 0;
    size_t left = pad / 2 + (pad & width & 1);
    fill(out, filling, left);
    lmc_buffer_char(out, ' ');
    lmc_buffer_append(out, shown.data, shown.size);
    lmc_buffer_char(out, ' ');
    fill(out, filling, pad - left);
    lmc_buffer_char(out, '\n');
    out->failed |= shown.failed;
    lmc_buffer_fini(&shown);
}

static void put_terminal_value(lmc_buffer *out, const lmc_report_entry *entry) {
    switch (entry->kind) {
    case LMC_REPORT_NONE:
        lmc_buffer_text(out, "N/A");
        break;
    case LMC_REPORT_TEXT:
    case LMC_REPORT_NUMBER:
        lmc_shown(out, lmc_text(entry->text));
        break;
    case LMC_REPORT_FLOAT:
        lmc_buffer_printf(out, "%.2f", entry->number);
        break;
    case LMC_REPORT_BOOL:
        lmc_buffer_text(out, entry->truth ? "True" : "False");
        break;
    }
}

static void put_terminal_entry(lmc_buffer *out, const lmc_report_entry *entry, size_t width) {
    lmc_buffer value = LMC_BUFFER_INIT;
    put_terminal_value(&value, entry);
    size_t used = lmc_slice_code_points(lmc_text(entry->label)) + 1 +
                  lmc_slice_code_points(lmc_slice_of(value.data, value.size));
    lmc_buffer_printf(out, "%s:", entry->label);
    fill(out, ' ', width > used ? width - used : 1);
    lmc_buffer_append(out, value.data, value.size);
    lmc_buffer_char(out, '\n');
    out->failed |= value.failed;
    lmc_buffer_fini(&value);
}

void lmc_report_terminal(const lmc_report *report, lmc_buffer *out) {
    if (report->failed) {
        out->failed = true;
        return;
    }
    put_centred(out, report->title, '=', report->width);
    for (size_t i = 0; i < report->count; i++) {
        const lmc_report_section *section = &report->sections[i];
        if (section->label != NULL)
            put_centred(out, section->label, '-', report->width);
        for (size_t j = 0; j < section->count; j++)
            put_terminal_entry(out, &section->entries[j], report->width);
    }
    fill(out, '=', report->width);
    lmc_buffer_char(out, '\n');
}

/* ---- JSON ---- */

static void put_json_entries(lmc_json_writer *writer, const lmc_report_section *section) {
    for (size_t i = 0; i < section->count; i++) {
        const lmc_report_entry *entry = &section->entries[i];
        lmc_json_name(writer, entry->key);
        if (entry->kind == LMC_REPORT_NONE)
            lmc_json_null(writer);
        else if (entry->kind == LMC_REPORT_FLOAT)
            lmc_json_real(writer, entry->number);
        else if (entry->kind == LMC_REPORT_BOOL)
            lmc_json_bool(writer, entry->truth);
        else if (entry->kind == LMC_REPORT_NUMBER)
            lmc_json_raw(writer, lmc_text(entry->text));
        else
            lmc_json_text(writer, entry->text);
    }
}

static bool same_list(const char *a, const char *b) {
    return a != NULL && b != NULL && strcmp(a, b) == 0;
}

static void put_json_section(lmc_json_writer *writer, const lmc_report *report, size_t i) {
    const lmc_report_section *section = &report->sections[i];
    if (section->list == NULL) {
        put_json_entries(writer, section);
        return;
    }
    if (i == 0 || !same_list(report->sections[i - 1].list, section->list)) {
        lmc_json_name(writer, section->list);
        lmc_json_list_begin(writer);
    }
    lmc_json_object_begin(writer);
    put_json_entries(writer, section);
    lmc_json_object_end(writer);
    if (i + 1 == report->count || !same_list(report->sections[i + 1].list, section->list))
        lmc_json_list_end(writer);
}

void lmc_report_json(const lmc_report *report, lmc_buffer *out) {
    lmc_json_writer writer;
    lmc_json_start(&writer, out, LMC_JSON_INDENTED, LMC_JSON_ASCII);
    lmc_json_object_begin(&writer);
    lmc_json_member_text(&writer, "title", report->title);
    lmc_json_name(&writer, "metrics");
    lmc_json_object_begin(&writer);
    for (size_t i = 0; i < report->count && !report->failed; i++)
        put_json_section(&writer, report, i);
    lmc_json_object_end(&writer);
    lmc_json_object_end(&writer);
    if (lmc_json_finish(&writer) != LMC_OK || report->failed)
        out->failed = true;
    lmc_buffer_char(out, '\n');
}
