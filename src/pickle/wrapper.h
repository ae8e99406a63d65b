/*
 * wrapper.h: device memory wrappers, the bodies of MessagePack's extension type 1.
 *
 * A wrapper is one pickled object; its class is known by its name alone, because its module has
 * moved. `state` is the object's dictionary; lmc_wrapper_read_shm() takes the members of a
 * CpuShmTensorWrapper out of it, checked. Everything points into the input and the arena.
 */
#ifndef LMC_PICKLE_WRAPPER_H
#define LMC_PICKLE_WRAPPER_H

#include "pickle/pickle.h"
#include "pickle/tensors.h"

typedef struct lmc_wrapper {
    lmc_slice module, class_name;
    const lmc_pickle_value *state; /* a dictionary: lmc_pickle_get() */
} lmc_wrapper;

/* A tensor in a shared memory segment of the client's. */
typedef struct lmc_shm_tensor {
    lmc_slice shm_name; /* with leading '/'; empty for a tensor without elements */
    size_t size;        /* of the segment, bytes */
    lmc_tensor
        layout; /* `storage` has no data, only the segment's size; all elements lie in it */
} lmc_shm_tensor;

/* LMC_MALFORMED: not a pickle that is read; LMC_INVALID: not an object with a dictionary. */
lmc_status lmc_wrapper_read(lmc_slice pickle, lmc_arena *arena, lmc_wrapper *wrapper,
                            lmc_error *error);
/* LMC_DECLINED: another class (device memory). LMC_INVALID: a member is missing or wrong. */
lmc_status lmc_wrapper_read_shm(const lmc_wrapper *wrapper, lmc_shm_tensor *tensor,
                                lmc_error *error);

#endif
