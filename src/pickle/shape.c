#include "base/bytes.h"
#include "pickle/pickle.h"

typedef lmc_pickle_value value;

bool lmc_pickle_is_global(const value *v, const char *module, const char *name) {
    return v != NULL && v->type == LMC_PICKLE_GLOBAL &&
           lmc_slice_is(v->global.module, module) && lmc_slice_is(v->global.name, name);
}

bool lmc_pickle_is_call(const value *v, const char *module, const char *name) {
    return v != NULL && v->type == LMC_PICKLE_CALL &&
           lmc_pickle_is_global(v->call.callee, module, name);
}

bool lmc_pickle_is_text(const value *v, const char *text) {
    return v != NULL && v->type == LMC_PICKLE_TEXT && lmc_slice_is(v->bytes, text);
}

const value *lmc_pickle_item(const value *v, size_t index) {
    bool has_items = v != NULL && (v->type == LMC_PICKLE_LIST || v->type == LMC_PICKLE_TUPLE);
    return has_items && index < v->list.count ? v->list.items[index] : NULL;
}

const value *lmc_pickle_get(const value *dict, const char *key) {
    if (dict == NULL || dict->type != LMC_PICKLE_DICT)
        return NULL;
    for (size_t i = dict->list.count; i >= 2; i -= 2)
        if (lmc_pickle_is_text(dict->list.items[i - 2], key))
            return dict->list.items[i - 1];
    return NULL;
}

bool lmc_pickle_ints(const value *v, int64_t *out, size_t max, size_t *count) {
    if (lmc_pickle_is_call(v, "torch", "Size"))
        v = lmc_pickle_item(v->call.args, 0);
    if (v == NULL || (v->type != LMC_PICKLE_LIST && v->type != LMC_PICKLE_TUPLE) ||
        v->list.count > max)
        return false;
    for (size_t i = 0; i < v->list.count; i++) {
        if (v->list.items[i]->type != LMC_PICKLE_INT)
            return false;
        out[i] = v->list.items[i]->number;
    }
    *count = v->list.count;
    return true;
}
