#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/hash.h"

/* Computed with an independent implementation of SipHash-1-3. */
static void known_keys_give_known_hashes(void **state) {
    (void)state;
    unsigned char data[64];
    for (int i = 0; i < 64; i++)
        data[i] = (unsigned char)i;
    const lmc_hash_seed seed = {{UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)}};
    assert_true(lmc_hash_keyed(&seed, data, 0) == UINT64_C(0xabac0158050fc4dc));
    assert_true(lmc_hash_keyed(&seed, data, 1) == UINT64_C(0xc9f49bf37d57ca93));
    assert_true(lmc_hash_keyed(&seed, data, 8) == UINT64_C(0x369095118d299a8e));
    assert_true(lmc_hash_keyed(&seed, data, 63) == UINT64_C(0x9d199062b7bbb3a8));
}

static void seeds_differ(void **state) {
    (void)state;
    lmc_hash_seed first, second;
    lmc_hash_seed_init(&first);
    lmc_hash_seed_init(&second);
    assert_true(lmc_hash_keyed(&first, "abc", 3) != lmc_hash_keyed(&second, "abc", 3));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_keys_give_known_hashes),
        cmocka_unit_test(seeds_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
