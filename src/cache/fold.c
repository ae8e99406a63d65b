#include "cache/fold.h"

static size_t leading(const lmc_object_ref *cells, size_t limit) {
    size_t n = 0;
    while (n < limit && cells[n] != LMC_NO_OBJECT)
        n++;
    return n;
}

/*
 * The largest length up to `length` that a windowed row can serve. A missing cell p inside the
 * window rules out every length above p, since all of them need it; so the scan only moves
 * down.
 */
static size_t windowed(lmc_row *row, size_t length) {
    if (row->known > length)
        row->known = length;
    while (row->known > lmc_row_first(row->window, length)) {
        row->known--;
        if (row->cells[row->known] == LMC_NO_OBJECT)
            length = row->known;
    }
    return length;
}

size_t lmc_fold(lmc_row *rows, size_t row_count, size_t chunks) {
    size_t length = chunks;
    for (size_t i = 0; i < row_count; i++) {
        if (rows[i].window < 1)
            length = leading(rows[i].cells, length);
    }
    for (size_t i = 0; i < row_count; i++)
        rows[i].known = length;
    for (size_t before = length + 1; length > 0 && length < before;) {
        before = length;
        for (size_t i = 0; i < row_count; i++) {
            if (rows[i].window >= 1)
                length = windowed(&rows[i], length);
        }
    }
    return length;
}
