/*
 * engine_tensors.h: between objects in L1 and the pickled tensors of byte copy
 * (zmq-wire.md 9.4).
 *
 * Bytes move once: from the request's frame into L1, or from L1 into the reply's frame. The
 * caller holds the objects. No lock is taken. Any thread.
 */
#ifndef LMC_MODULES_ENGINE_TENSORS_H
#define LMC_MODULES_ENGINE_TENSORS_H

#include "modules/tensor_shapes.h"
#include "pickle/tensors.h"

/*
 * Copies each slot's element of the list into its object and marks it in filled[]. An element
 * of another shape or dtype, or that is not there, leaves its slot unmarked. Returns how many
 * are.
 */
size_t lmc_tensors_copy_in(lmc_l1 *l1, const lmc_transfer *transfer,
                           const lmc_object_tensors *tensors, const lmc_tensor_lists *lists,
                           bool *filled);

/* One element per slot, in their order; the tensors' bytes are the objects' own. */
lmc_status lmc_tensors_of_slots(lmc_l1 *l1, const lmc_transfer *transfer,
                                const lmc_object_tensors *tensors, lmc_arena *arena,
                                lmc_tensor_lists *lists);

#endif
