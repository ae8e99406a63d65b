/* Calls: every method with awkward payloads, every replaced operation with an empty request. */
#include <lmcached/messages.h>
#include <stdlib.h>
#include <string.h>

#include "module_test/kit.h"
#include "rpc/rpc.h"

#define AT_ONCE 64
#define LARGE ((size_t)1 << 20)

static bool judge_calls(lmc_kit *kit, const char *what, const lmc_rehearsed_call *results,
                        size_t count) {
    size_t open = 0, unsendable = 0;
    for (size_t i = 0; i < count; i++) {
        open += results[i].status == LMC_TIMEOUT;
        unsendable += results[i].status == LMC_INVALID;
    }
    if (open > 0)
        lmc_kit_complain(kit, "complete every call on every path: lmc_complete() or lmc_fail()",
                         "%s: %zu of %zu calls were not completed", what, open, count);
    if (unsendable > 0)
        lmc_kit_complain(kit, "text is UTF-8, maps are MessagePack",
                         "%s: %zu replies cannot be sent", what, unsendable);
    return open == 0 && unsendable == 0;
}

/* False: there was something to complain about. */
static bool call(lmc_kit *kit, lmc_rehearsal *rehearsal, const char *operation,
                 const char *what, const void *request, size_t count) {
    lmc_rehearsed_call *results = calloc(count, sizeof *results);
    bool fine = true;
    if (results == NULL)
        return true;
    uint64_t doubles = lmc_rehearsal_doubles(rehearsal);
    if (lmc_rehearsal_call(rehearsal, operation, request, count, kit->wait_ns, results) ==
        LMC_OK)
        fine = judge_calls(kit, what, results, count);
    if (lmc_rehearsal_doubles(rehearsal) > doubles) {
        fine = false;
        lmc_kit_complain(kit, "complete each call once; afterwards it is not yours any more",
                         "%s: a call was completed twice", what);
    }
    for (size_t i = 0; i < count; i++)
        lmc_rehearsed_call_fini(&results[i]);
    free(results);
    return fine;
}

/* ---- methods ---- */

static void call_method(lmc_kit *kit, lmc_rehearsal *rehearsal, const char *method) {
    static uint8_t every_byte[256];
    char *large = calloc(1, LARGE);
    for (size_t i = 0; i < sizeof every_byte; i++)
        every_byte[i] = (uint8_t)i;
    const lmc_slice pieces[] = {
        {"x", 1}, {every_byte, sizeof every_byte}, {large, large != NULL ? LARGE : 0}};
    lmc_server_module_call_request requests[] = {
        {.method = lmc_text(method)},
        {.method = lmc_text(method), .payload = {&pieces[0], 1, 1}},
        {.method = lmc_text(method), .payload = {&pieces[1], 1, sizeof every_byte}},
        {.method = lmc_text(method), .payload = {&pieces[2], 1, pieces[2].size}},
        {.method = lmc_text(method), .payload = {pieces, 2, 1 + sizeof every_byte}},
    };
    bool fine = true; /* one complaint about a method is enough */
    for (size_t i = 0; fine && i < sizeof requests / sizeof requests[0]; i++)
        fine = call(kit, rehearsal, "server_module_call", method, &requests[i], 1);
    if (fine)
        call(kit, rehearsal, "server_module_call", method, &requests[1], AT_ONCE);
    free(large);
}

void lmc_kit_call_methods(lmc_kit *kit) {
    lmc_rehearsal *rehearsal = lmc_kit_open(kit);
    for (size_t i = 0; rehearsal != NULL && i < kit->file->class_count; i++) {
        const lmc_envelope *entry = kit->file->classes[i].envelopes;
        for (; entry != NULL && entry->method != NULL; entry++)
            call_method(kit, rehearsal, entry->method);
    }
    if (rehearsal != NULL)
        lmc_kit_close(kit, rehearsal);
}

/* ---- operations ---- */

void lmc_kit_override(lmc_kit *kit) {
    lmc_rehearsal *rehearsal = lmc_kit_open(kit);
    for (size_t i = 0; rehearsal != NULL && i < kit->file->class_count; i++) {
        const lmc_operation *entry = kit->file->classes[i].operations;
        for (; entry != NULL && entry->name != NULL; entry++) {
            const lmc_operation_def *def = lmc_operation_by_name(lmc_text(entry->name));
            void *request = calloc(1, def->request_size + 1);
            if (request == NULL)
                continue;
            if (call(kit, rehearsal, entry->name, entry->name, request, 1))
                call(kit, rehearsal, entry->name, entry->name, request, AT_ONCE);
            free(request);
        }
    }
    if (rehearsal != NULL)
        lmc_kit_close(kit, rehearsal);
}
