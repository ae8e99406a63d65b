/*
 * tensor_shapes.h: of which tensors the objects of an instance are made, when they are more
 * than one (kernel groups, zmq-wire.md 9.5 variant B). To the cache core such an object is
 * bytes.
 *
 * Owns its copies. Any thread; one short lock.
 */
#ifndef LMC_MODULES_TENSOR_SHAPES_H
#define LMC_MODULES_TENSOR_SHAPES_H

#include "base/arena.h"
#include "cache/cache.h"

typedef struct lmc_tensor_shapes lmc_tensor_shapes;

/* The tensors of one object, one after another without gaps. */
typedef struct lmc_object_tensors {
    const lmc_chunk_layout *items;
    size_t count; /* 0: nothing is known; the object is one tensor of its group's layout */
} lmc_object_tensors;

lmc_tensor_shapes *lmc_tensor_shapes_create(void);         /* NULL: out of memory */
void lmc_tensor_shapes_destroy(lmc_tensor_shapes *shapes); /* accepts NULL */

lmc_status lmc_tensor_shapes_put(lmc_tensor_shapes *shapes, int64_t instance_id,
                                 const lmc_object_tensors *tensors);
void lmc_tensor_shapes_forget(lmc_tensor_shapes *shapes, int64_t instance_id);
/* A copy in the arena; count 0 when nothing is known. */
lmc_status lmc_tensor_shapes_get(lmc_tensor_shapes *shapes, int64_t instance_id,
                                 lmc_arena *arena, lmc_object_tensors *tensors);

#endif
