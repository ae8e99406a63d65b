/*
 * module_image.h: what LMC_MODULE defines: the data by which a server and a module know each
 * other. The end of module.h, which includes it; read that.
 */
#ifndef LMCACHED_MODULE_IMAGE_H
#define LMCACHED_MODULE_IMAGE_H

#ifdef __cplusplus
extern "C" {
#endif

/* The functions of this header: F(name, minor since which it exists). */
#define LMC_FUNCTIONS(F)                 \
    F(lmc_abi_minor, 0)                  \
    F(lmc_error_set, 0)                  \
    F(lmc_build_context, 0)              \
    F(lmc_build_require, 0)              \
    F(lmc_build_config, 0)               \
    F(lmc_build_config_bool, 0)          \
    F(lmc_build_config_int, 0)           \
    F(lmc_build_config_real, 0)          \
    F(lmc_build_config_text, 0)          \
    F(lmc_build_add_route, 0)            \
    F(lmc_http_call_method, 0)           \
    F(lmc_http_call_segment, 0)          \
    F(lmc_http_call_query, 0)            \
    F(lmc_http_call_body, 0)             \
    F(lmc_http_call_answer, 0)           \
    F(lmc_call_operation, 0)             \
    F(lmc_call_request, 0)               \
    F(lmc_call_reply, 0)                 \
    F(lmc_call_connection, 0)            \
    F(lmc_call_alloc, 0)                 \
    F(lmc_call_text, 0)                  \
    F(lmc_call_join, 0)                  \
    F(lmc_call_copy, 0)                  \
    F(lmc_call_lend, 0)                  \
    F(lmc_call_on_done, 0)               \
    F(lmc_complete, 0)                   \
    F(lmc_fail, 0)                       \
    F(lmc_forward, 0)                    \
    F(lmc_forward_then, 0)               \
    F(lmc_write_bool, 0)                 \
    F(lmc_write_int, 0)                  \
    F(lmc_write_real, 0)                 \
    F(lmc_write_text, 0)                 \
    F(lmc_write_null, 0)                 \
    F(lmc_write_json, 0)                 \
    F(lmc_write_failure, 0)              \
    F(lmc_write_object_begin, 0)         \
    F(lmc_write_object_end, 0)           \
    F(lmc_write_list_begin, 0)           \
    F(lmc_write_list_end, 0)             \
    F(lmc_log_at, 0)                     \
    F(lmc_metric_counter, 0)             \
    F(lmc_metric_gauge, 0)               \
    F(lmc_metric_add, 0)                 \
    F(lmc_metric_set, 0)                 \
    F(lmc_subscribe, 0)                  \
    F(lmc_event_name, 0)                 \
    F(lmc_event_time_ns, 0)              \
    F(lmc_event_session, 0)              \
    F(lmc_event_int, 0)                  \
    F(lmc_event_real, 0)                 \
    F(lmc_event_text, 0)                 \
    F(lmc_event_keys, 0)                 \
    F(lmc_event_ints, 0)                 \
    F(lmc_event_int_lists, 0)            \
    F(lmc_event_slices, 0)               \
    F(lmc_event_begin, 0)                \
    F(lmc_event_put_int, 0)              \
    F(lmc_event_put_real, 0)             \
    F(lmc_event_put_text, 0)             \
    F(lmc_event_put_keys, 0)             \
    F(lmc_event_put_ints, 0)             \
    F(lmc_event_put_int_lists, 0)        \
    F(lmc_event_put_texts, 0)            \
    F(lmc_event_put_blobs, 0)            \
    F(lmc_event_publish, 0)              \
    F(lmc_server_config, 0)              \
    F(lmc_chunk_size, 0)                 \
    F(lmc_hash_chunks, 0)                \
    F(lmc_session_count, 0)              \
    F(lmc_session_hashes, 0)             \
    F(lmc_objects_present, 0)            \
    F(lmc_object_open, 0)                \
    F(lmc_object_close, 0)               \
    F(lmc_objects_clear, 0)              \
    F(lmc_memory_usage, 0)               \
    F(lmc_model_layout_of, 0)            \
    F(lmc_zmq_server_context, 0)         \
    F(lmc_zmq_server_add_handler, 0)     \
    F(lmc_zmq_server_add_normal_pool, 0) \
    F(lmc_zmq_server_add_affinity_pool, 0)

#define LMC_MODULE_MAGIC 0x4d434d4cu        /* "LMCM" */
#define LMC_MODULE_SYMBOL "lmcached_module" /* the one exported symbol */

/* A function that the module wants. */
typedef struct lmc_import {
    const char *name; /* NULL ends the list */
    void *slot;       /* address of the pointer to fill in */
    uint32_t
        required;   /* not 0: without it the module is refused; else the pointer stays NULL */
    uint32_t since; /* minor of the ABI, for the text of the refusal */
} lmc_import;

/* What the exported symbol holds. The first four members never change, in any major. */
typedef struct lmc_module_image {
    uint32_t magic;
    uint32_t size; /* of this struct as compiled */
    uint32_t abi_major, abi_minor;
    uint32_t flags; /* 0 */
    /* Sizes as compiled, so that arrays are read in the module's own stride. */
    uint32_t operation_size, envelope_size, liveness_size, import_size;
    uint32_t reserved;
    const char *built_with;                 /* compiler, for messages; may be NULL */
    const lmc_module_class *const *classes; /* ends with NULL */
    const lmc_import *imports;
} lmc_module_image;

#ifdef __cplusplus
}
#define LMC_EXTERN_C_BEGIN extern "C" {
#define LMC_EXTERN_C_END }
#define LMC_EXTERN_C extern "C"
#else
#define LMC_EXTERN_C_BEGIN
#define LMC_EXTERN_C_END
#define LMC_EXTERN_C extern
#endif

#ifndef LMC_MODULE_IN_TREE

/* Functions up to this minor must be there; those of minor 0 always are. */
#ifndef LMC_MODULE_NEEDS_MINOR
#define LMC_MODULE_NEEDS_MINOR 0
#endif

#define LMC_DEFINE_SLOT(name, minor) __typeof__(name) name;
#define LMC_IMPORT_ROW(name, minor) \
    {#name, (void *)&name, (minor) <= LMC_MODULE_NEEDS_MINOR, minor},

/* Once per shared object, at file scope: LMC_MODULE(&class_a, &class_b); */
#define LMC_MODULE(...)                                                               \
    LMC_EXTERN_C_BEGIN                                                                \
    LMC_FUNCTIONS(LMC_DEFINE_SLOT)                                                    \
    LMC_EXTERN_C_END                                                                  \
    static const lmc_import lmc_module_imports_[] = {                                 \
        LMC_FUNCTIONS(LMC_IMPORT_ROW){NULL, NULL, 0, 0}};                             \
    static const lmc_module_class *const lmc_module_classes_[] = {__VA_ARGS__, NULL}; \
    LMC_EXTERN_C __attribute__((visibility("default")))                               \
    const lmc_module_image lmcached_module;                                           \
    const lmc_module_image lmcached_module = {LMC_MODULE_MAGIC,                       \
                                              sizeof(lmc_module_image),               \
                                              LMC_ABI_MAJOR,                          \
                                              LMC_ABI_MINOR,                          \
                                              0,                                      \
                                              sizeof(lmc_operation),                  \
                                              sizeof(lmc_envelope),                   \
                                              sizeof(lmc_liveness),                   \
                                              sizeof(lmc_import),                     \
                                              0,                                      \
                                              "compiler " __VERSION__,                \
                                              lmc_module_classes_,                    \
                                              lmc_module_imports_}

#endif /* LMC_MODULE_IN_TREE */

#endif
