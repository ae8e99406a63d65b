/* --help: for a person, from the option table. */
#include <stdio.h>
#include <string.h>

#include "config/option_table.h"

#define HELP_WIDTH 100
#define HELP_COLUMN 30

void lmc_config_usage(lmc_buffer *out, const char *program) {
    lmc_buffer_printf(
        out, "usage: %s [-h] --l1-size-gb GIB --eviction-policy POLICY [options]\n", program);
}

void lmc_option_spelling(lmc_buffer *out, const lmc_option *row) {
    if (row->form == LMC_FORM_HELP)
        lmc_buffer_text(out, "-h, ");
    if (row->form == LMC_FORM_BOOL_PAIR)
        lmc_buffer_printf(out, "--[no-]%s", row->flag + 2);
    else
        lmc_buffer_text(out, row->flag);
    if (row->form == LMC_FORM_LIST)
        lmc_buffer_printf(out, " [%s ...]", row->metavar);
    else if (row->metavar != NULL)
        lmc_buffer_printf(out, " %s", row->metavar);
}

/* The sentence, and what the person should know beside it: default, whether it works. */
void lmc_option_sentence(lmc_buffer *out, const lmc_option *row) {
    lmc_buffer_text(out, row->help);
    bool plain_switch = row->form != LMC_FORM_VALUE && row->form != LMC_FORM_BOOL_PAIR;
    if (row->initial != NULL && row->initial[0] != '\0' && !plain_switch) {
        const char *value = row->initial;
        if (row->form == LMC_FORM_BOOL_PAIR)
            value = strcmp(value, "true") == 0 ? "on" : "off";
        lmc_buffer_printf(out, " (default: %s)", value);
    }
    if (row->environment != NULL)
        lmc_buffer_printf(out, " [%s]", row->environment);
    if (row->level == LMC_LEVEL_NOT_BUILT)
        lmc_buffer_text(out, " [not built yet]");
    else if (row->level == LMC_LEVEL_INERT)
        lmc_buffer_text(out, " [no effect]");
    else if (row->built != NULL && row->built[0] != '\0')
        lmc_buffer_printf(out, " [built: %s]", row->built);
    else if (row->built != NULL)
        lmc_buffer_text(out, " [none built yet]");
}

static void put_indent(lmc_buffer *out) { lmc_buffer_printf(out, "\n%*s", HELP_COLUMN, ""); }

/* Words of text from the help column on, broken at the width. */
static void put_wrapped(lmc_buffer *out, const char *text) {
    size_t column = HELP_COLUMN;
    while (*text != '\0') {
        size_t size = strcspn(text, " ");
        if (column > HELP_COLUMN && column + 1 + size > HELP_WIDTH) {
            put_indent(out);
            column = HELP_COLUMN;
        } else if (column > HELP_COLUMN) {
            lmc_buffer_char(out, ' ');
            column++;
        }
        lmc_buffer_append(out, text, size);
        column += size;
        text += size + strspn(text + size, " ");
    }
    lmc_buffer_char(out, '\n');
}

static void put_row(lmc_buffer *out, const lmc_option *row) {
    lmc_buffer text = LMC_BUFFER_INIT;
    size_t start = out->size;
    lmc_buffer_text(out, "  ");
    lmc_option_spelling(out, row);
    size_t width = out->size - start;
    if (width + 2 > HELP_COLUMN)
        put_indent(out);
    else
        lmc_buffer_printf(out, "%*s", (int)(HELP_COLUMN - width), "");
    lmc_option_sentence(&text, row);
    if (text.failed)
        out->failed = true;
    else
        put_wrapped(out, text.data);
    lmc_buffer_fini(&text);
}

void lmc_config_help(lmc_buffer *out, const char *program) {
    lmc_config_usage(out, program);
    lmc_buffer_text(out,
                    "\nStarts the cache server: a request socket for engines and an HTTP API "
                    "for people and probes.\nOptions may be shortened while they stay "
                    "unambiguous; --name=value is the same as --name value.\n");
    for (size_t i = 0; i < LMC_OPTION_SECTIONS; i++) {
        const lmc_option_section *section = &lmc_option_sections[i];
        lmc_buffer_printf(out, "\n%s:\n", section->title);
        for (size_t j = 0; j < *section->count; j++)
            if (section->rows[j].flag != NULL && !section->rows[j].hidden)
                put_row(out, &section->rows[j]);
    }
    lmc_buffer_text(out, "\nExample:\n  ");
    lmc_buffer_printf(out, "%s --l1-size-gb 60 --eviction-policy LRU --shm-name lmcache_pool\n",
                      program);
}
