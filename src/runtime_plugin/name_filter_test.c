/* Roles and worker ids in file names. */
#include "runtime_plugin/plugin_case.h"

#include "runtime_plugin/name_filter.h"

typedef struct filter_case {
    const char *name, *role;
    int64_t worker;
    lmc_plugin_verdict verdict;
    const char *part;
} filter_case;

static void check(const filter_case *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        lmc_slice part;
        lmc_plugin_verdict verdict =
            lmc_plugin_filter(cases[i].name, cases[i].role, cases[i].worker, &part);
        if (verdict != cases[i].verdict)
            fail_msg("%s with role %s: %d", cases[i].name, cases[i].role, (int)verdict);
        if (cases[i].part != NULL)
            assert_true(lmc_slice_is(part, cases[i].part));
    }
}
#define CHECK(cases) check(cases, sizeof cases / sizeof cases[0])

static void without_a_role_only_worker_ids_count(void **state) {
    (void)state;
    static const filter_case cases[] = {
        {"worker_1_x.py", NULL, 0, LMC_PLUGIN_OTHER_WORKER, "1"},
        {"worker_01_x.py", "", 1, LMC_PLUGIN_RUNS, NULL},
        {"worker_0_x.py", "", 0, LMC_PLUGIN_RUNS, NULL},
        {"worker_000_x.py", "", 0, LMC_PLUGIN_RUNS, NULL},
        {"any_99999999999999999999999_x.py", "", 0, LMC_PLUGIN_OTHER_WORKER, NULL},
        {"scheduler_x.py", "", 0, LMC_PLUGIN_RUNS, NULL},
        {"worker_1.py", "", 0, LMC_PLUGIN_RUNS, NULL},
        {"my_tool_2.py", "", 0, LMC_PLUGIN_RUNS, NULL},
        {"a_-1_x.py", "", 0, LMC_PLUGIN_RUNS, NULL},
        {"a__x.py", "", 0, LMC_PLUGIN_RUNS, NULL},
        {"a_1_x", "", 0, LMC_PLUGIN_OTHER_WORKER, "1"},
        {"a_1_.py", "", 0, LMC_PLUGIN_OTHER_WORKER, "1"},
        {"a_1.x_y.py", "", 0, LMC_PLUGIN_RUNS, NULL},
        {"", "", 0, LMC_PLUGIN_RUNS, NULL},
    };
    CHECK(cases);
}

static void with_a_role_the_first_part_must_fit(void **state) {
    (void)state;
    static const filter_case cases[] = {
        {"scheduler_x.py", "WORKER", 0, LMC_PLUGIN_OTHER_ROLE, "scheduler"},
        {"Worker_x.py", "worker", 0, LMC_PLUGIN_RUNS, NULL},
        {"worker_x.py", "WORKER", 0, LMC_PLUGIN_RUNS, NULL},
        {"all_x.py", "worker", 0, LMC_PLUGIN_RUNS, NULL},
        {"plain.py", "worker", 0, LMC_PLUGIN_RUNS, NULL},
        {"worker_2_x.py", "worker", 2, LMC_PLUGIN_RUNS, NULL},
        {"worker_2_x.py", "worker", 1, LMC_PLUGIN_OTHER_WORKER, "2"},
        {"all_2_x.py", "worker", 1, LMC_PLUGIN_OTHER_WORKER, "2"},
        {"worker1_x.py", "worker", 0, LMC_PLUGIN_OTHER_ROLE, "worker1"},
        {"_x.py", "worker", 0, LMC_PLUGIN_OTHER_ROLE, ""},
    };
    CHECK(cases);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_role_only_worker_ids_count),
        cmocka_unit_test(with_a_role_the_first_part_must_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
