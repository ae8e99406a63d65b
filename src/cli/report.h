/*
 * report.h: what a command found out, and its two forms: a table for people, JSON for scripts.
 *
 * The report owns its texts. Filling it never fails on the way; lmc_report_print() tells
 * whether memory ran out. One thread.
 */
#ifndef LMC_CLI_REPORT_H
#define LMC_CLI_REPORT_H

#include "base/bytes.h"

typedef enum lmc_report_kind {
    LMC_REPORT_NONE, /* N/A, null */
    LMC_REPORT_TEXT,
    LMC_REPORT_FLOAT, /* two decimals, as it is */
    LMC_REPORT_BOOL,  /* True, true */
    LMC_REPORT_NUMBER /* digits as they came */
} lmc_report_kind;

typedef struct lmc_report_entry {
    char *key, *label, *text; /* text: of a text or number */
    lmc_report_kind kind;
    double number;
    bool truth;
} lmc_report_entry;

typedef struct lmc_report_section {
    char *label; /* NULL: the unnamed first section */
    char *list;  /* name of the list it is an element of in JSON */
    lmc_report_entry *entries;
    size_t count;
} lmc_report_section;

typedef struct lmc_report {
    const char *title; /* borrowed, as are key and label of what is added */
    size_t width;
    lmc_report_section *sections;
    size_t count;
    bool failed; /* out of memory */
} lmc_report;

void lmc_report_init(lmc_report *report, const char *title, size_t width);
void lmc_report_fini(lmc_report *report);

/* Later entries belong to this section. Sections of one list stand together. */
void lmc_report_section_begin(lmc_report *report, const char *list, const char *label);

void lmc_report_none(lmc_report *report, const char *key, const char *label);
void lmc_report_text(lmc_report *report, const char *key, const char *label, lmc_slice text);
void lmc_report_float(lmc_report *report, const char *key, const char *label, double value);
void lmc_report_bool(lmc_report *report, const char *key, const char *label, bool value);
void lmc_report_number(lmc_report *report, const char *key, const char *label, lmc_slice text);

/* Appends the rendering, which ends in a line break. */
void lmc_report_terminal(const lmc_report *report, lmc_buffer *out);
void lmc_report_json(const lmc_report *report, lmc_buffer *out);

/* The value rounded to two decimals, as printf rounds. */
double lmc_two_decimals(double value);

#endif
