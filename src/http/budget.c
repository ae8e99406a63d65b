#include "http/budget.h"

static size_t counted(const lmc_http_budget *budget, size_t share) {
    return share > budget->small ? share : 0;
}

bool lmc_http_budget_take(lmc_http_budget *budget, size_t *share, size_t wanted) {
    size_t others = budget->held - counted(budget, *share);
    size_t more = counted(budget, wanted);
    /* Whoever is alone may have all it needs: the limit is about many. */
    if (more > 0 && others > 0 && (others > budget->limit || more > budget->limit - others))
        return false;
    budget->held = others + more;
    *share = wanted;
    return true;
}

size_t lmc_http_budget_release(lmc_http_budget *budget, size_t *share) {
    size_t released = *share;
    budget->held -= counted(budget, released);
    *share = 0;
    return released;
}
