#include "base/bytes.h"
#include "base/error.h"
#include "rpc/msgpack.h"
#include "rpc/rpc.h"

static const lmc_operation_def *read_id(lmc_mp_reader *reader, lmc_error *error) {
    int64_t id;
    if (!lmc_mp_read_int(reader, &id) || reader->at != reader->end) {
        lmc_error_set(error, LMC_MALFORMED, "the operation frame does not decode");
        return NULL;
    }
    const lmc_operation_def *operation = lmc_operation_by_id(id);
    if (operation == NULL)
        lmc_error_set(error, LMC_NOT_FOUND, "unknown operation id %lld", (long long)id);
    return operation;
}

static const lmc_operation_def *read_name(lmc_mp_reader *reader, lmc_error *error) {
    lmc_slice name;
    if (!lmc_mp_read_text(reader, &name) || reader->at != reader->end) {
        lmc_error_set(error, LMC_MALFORMED, "the operation frame does not decode");
        return NULL;
    }
    const lmc_operation_def *operation = lmc_operation_by_name(name);
    if (operation == NULL) {
        name.size = name.size < 64 ? name.size : 64;
        lmc_error_set(error, LMC_NOT_FOUND, "unknown operation '%.*s'", LMC_SLICE_ARGS(name));
    }
    return operation;
}

const lmc_operation_def *lmc_zmq_read_operation(lmc_slice frame, lmc_error *error) {
    lmc_mp_reader reader = lmc_mp_reader_of(frame);
    bool is_name = lmc_mp_peek(&reader) == LMC_MP_TEXT;
    return is_name ? read_name(&reader, error) : read_id(&reader, error);
}

/* {"slots": [], "chunk_indices": []} */
static const uint8_t no_slots[] = {
    0x82, 0xa5, 's', 'l', 'o', 't', 's', 0x90, 0xad, 'c', 'h',  'u',
    'n',  'k',  '_', 'i', 'n', 'd', 'i', 'c',  'e',  's', 0x90,
};

static void fail_registration(lmc_register_kv_cache_engine_driven_context_reply *reply) {
    reply->error = lmc_text("the registration cannot be served");
    reply->present = LMC_REGISTER_KV_CACHE_ENGINE_DRIVEN_CONTEXT_REPLY_HAS_ERROR;
}

/*
 * What is not named here is the zeroed struct: 0 chunks, false, and for store and retrieve an
 * empty handle, which tells a CUDA client that there is no device work to wait for.
 */
void lmc_reply_negative(const lmc_operation_def *operation, const void *request, void *reply) {
    (void)request;
    switch (operation->index) {
    case LMC_OP_register_kv_cache_engine_driven_context:
        fail_registration(reply);
        break;
    case LMC_OP_prepare_store:
        ((lmc_prepare_store_reply *)reply)->context = lmc_slice_of(no_slots, sizeof no_slots);
        break;
    case LMC_OP_commit_retrieve:
        ((lmc_commit_retrieve_reply *)reply)->success = true;
        break;
    case LMC_OP_server_module_call:
        ((lmc_server_module_call_reply *)reply)->error = lmc_text("the call cannot be served");
        break;
    default:
        break;
    }
}
