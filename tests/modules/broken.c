/*
 * broken.c: modules whose data is not what it should be, one kind each: -DKIND=MAGIC and so on.
 * The data is written out by hand where LMC_MODULE would not let it go wrong.
 */
#include <string.h>

#include <lmcached/module.h>

/* kinds */
#define NO_SYMBOL 1
#define MAGIC 2
#define MAJOR 3
#define IMAGE_SMALL 4
#define IMAGE_NEW 5
#define IMAGE_FLAGS 6
#define NO_CLASSES 7
#define NEEDS_FUNCTION 8
#define OPTIONAL_FUNCTION 9
#define CLASS_SMALL 10
#define CLASS_NEW 11
#define CLASS_NEW_UNUSED 12
#define CLASS_OLD 13
#define BAD_NAME 14
#define CLASS_FLAGS 15
#define NO_CREATE 16
#define TWO_METHODS 17
#define BARE_METHOD 18
#define UNKNOWN_OPERATION 19
#define NON_BLOCKING 20
#define TWO_OPERATIONS 21
#define LIVENESS_HOLE 22
#define RESERVED 23
#define NEW_STRIDE 24
#define NEW_STRIDE_USED 25
#define BAD_DEPENDENCY 26
#define SAME_CLASS 27
#define NULL_HANDLER 28
#define MANY 29

/* Out of a header from the future. */
typedef struct new_class {
    lmc_module_class known;
    void *unknown;
} new_class;
typedef struct new_envelope {
    lmc_envelope known;
    void *unknown;
} new_envelope;
typedef struct new_image {
    lmc_module_image known;
    void *unknown;
} new_image;

/* As LMC_MODULE would define them. */
#define DEFINE(name, minor) __typeof__(name) name;
#define ROW(name, minor) {#name, (void *)&name, 1, minor},
LMC_FUNCTIONS(DEFINE)
static void (*from_the_future)(void);

static lmc_status create(lmc_build *build, void **self, lmc_error *error) {
    (void)build, (void)self, (void)error;
    return LMC_OK;
}

static void answer(void *self, lmc_call *call) {
    (void)self;
    lmc_server_module_call_reply *reply = lmc_call_reply(call);
    const char *text = from_the_future == NULL ? "without" : "with";
    lmc_complete(call, lmc_call_copy(call, &reply->payload, text, strlen(text))
                           ? LMC_OK
                           : LMC_NO_MEMORY);
}

static int64_t count(void *self) {
    (void)self;
    return 0;
}

__attribute__((unused)) static const lmc_import imports[] = {
    LMC_FUNCTIONS(ROW)
#if KIND == NEEDS_FUNCTION || KIND == MANY
        {"lmc_from_the_future", &from_the_future, 1, 7},
#else
        {"lmc_from_the_future", &from_the_future, 0, 7},
#endif
    {NULL, NULL, 0, 0}};

#if KIND == NEW_STRIDE || KIND == NEW_STRIDE_USED
static int something;
static const new_envelope new_envelopes[] = {
    {{"broken.answer", answer, {0}}, KIND == NEW_STRIDE_USED ? &something : NULL},
    {{"broken.again", answer, {0}}, NULL},
    {{NULL, NULL, {0}}, NULL}};
#define ENVELOPES (const lmc_envelope *)new_envelopes
#else
static int something;
static const lmc_envelope envelopes[] = {{"broken.answer",
                                          KIND == NULL_HANDLER ? NULL : answer,
                                          {KIND == RESERVED ? &something : NULL, NULL}},
#if KIND == TWO_METHODS || KIND == MANY
                                         {"broken.answer", answer, {0}},
#endif
#if KIND == BARE_METHOD || KIND == MANY
                                         {"answer", answer, {0}},
#endif
                                         {NULL, NULL, {0}}};
#define ENVELOPES envelopes
#endif

static const lmc_operation operations[] = {
#if KIND == UNKNOWN_OPERATION || KIND == MANY
    {"brew_coffee", LMC_SYNC, 0, answer, {0}},
#endif
#if KIND == NON_BLOCKING
    {"noop", 3, 0, answer, {0}},
#endif
#if KIND == TWO_OPERATIONS
    {"noop", LMC_SYNC, 0, answer, {0}},
    {"noop", LMC_NORMAL, 0, answer, {0}},
#endif
    {NULL, 0, 0, NULL, {0}}};

static const lmc_liveness liveness = {NULL, NULL, count, NULL, {0}};
static const char *const depends[] = {"not a name", NULL};

static const new_class the_class = {
    {.size = KIND == CLASS_SMALL ? 8
             : KIND == CLASS_OLD ? offsetof(lmc_module_class, liveness)
             : KIND == CLASS_NEW || KIND == CLASS_NEW_UNUSED ? sizeof(new_class)
                                                             : sizeof(lmc_module_class),
     .flags = KIND == CLASS_FLAGS ? 64 : 0,
     .name = KIND == BAD_NAME     ? "No Name"
             : KIND == SAME_CLASS ? "LookupModule"
                                  : "BrokenModule",
     .depends = KIND == BAD_DEPENDENCY ? depends : NULL,
     .create = KIND == NO_CREATE ? NULL : create,
     .operations = operations,
     .envelopes = ENVELOPES,
     .liveness = KIND == LIVENESS_HOLE || KIND == CLASS_OLD ? &liveness : NULL},
    KIND == CLASS_NEW ? &something : NULL};

__attribute__((unused)) static const lmc_module_class *const classes[] = {
    KIND == NO_CLASSES ? NULL : &the_class.known, NULL};

#if KIND != NO_SYMBOL
extern __attribute__((visibility("default"))) const new_image lmcached_module;
const new_image lmcached_module = {
    {.magic = KIND == MAGIC ? 1 : LMC_MODULE_MAGIC,
     .size = KIND == IMAGE_SMALL ? 24
             : KIND == IMAGE_NEW ? sizeof(new_image)
                                 : sizeof(lmc_module_image),
     .abi_major = KIND == MAJOR ? LMC_ABI_MAJOR + 1 : LMC_ABI_MAJOR,
     .abi_minor = LMC_ABI_MINOR + 3,
     .flags = KIND == IMAGE_FLAGS,
     .operation_size = sizeof(lmc_operation),
     .envelope_size = KIND == NEW_STRIDE || KIND == NEW_STRIDE_USED ? sizeof(new_envelope)
                                                                    : sizeof(lmc_envelope),
     .liveness_size = sizeof(lmc_liveness),
     .import_size = sizeof(lmc_import),
     .classes = classes,
     .imports = imports},
    KIND == IMAGE_NEW ? &something : NULL};
#endif
