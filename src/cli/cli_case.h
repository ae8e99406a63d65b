/*
 * cli_case.h: for the tests of this room: a program run with a server made up by the test.
 */
#ifndef LMC_CLI_CLI_CASE_H
#define LMC_CLI_CLI_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cli/cli.h"

#define LMC_CASE_WORDS 10

/* What the made-up server answers, and what it was asked last. */
typedef struct lmc_fake_server {
    int status; /* 0: nobody listens */
    const char *reason, *body;
    const char *only_path; /* other paths are answered with 404 */
    char asked[512];
    int requests;
} lmc_fake_server;

static lmc_fake_server lmc_fake;

static inline lmc_status lmc_fake_send(const char *method, const char *url,
                                       lmc_http_response *response, lmc_error *error) {
    *response = (lmc_http_response){.milliseconds = 1.2345};
    snprintf(lmc_fake.asked, sizeof lmc_fake.asked, "%s %s", method, url);
    lmc_fake.requests++;
    if (lmc_fake.status == 0)
        return lmc_error_set(error, LMC_FAILED, "nobody listens");
    bool other = lmc_fake.only_path != NULL && strstr(url, lmc_fake.only_path) == NULL;
    response->status = other ? 404 : lmc_fake.status;
    snprintf(response->reason, sizeof response->reason, "%s",
             other ? "Not Found" : lmc_fake.reason);
    lmc_buffer_text(&response->body, lmc_fake.body);
    return LMC_OK;
}

typedef struct lmc_cli_outcome {
    int status;
    char *out, *err;
    size_t out_size, err_size;
} lmc_cli_outcome;

/* Runs the words up to the first NULL. */
static inline lmc_cli_outcome lmc_case_run(const char *const *words) {
    lmc_cli_outcome outcome = {0};
    FILE *out = open_memstream(&outcome.out, &outcome.out_size);
    FILE *err = open_memstream(&outcome.err, &outcome.err_size);
    assert_non_null(out);
    assert_non_null(err);
    lmc_cli cli = {.program = "lmcached", .out = out, .err = err, .send = lmc_fake_send};
    int count = 0;
    while (count < LMC_CASE_WORDS && words[count] != NULL)
        count++;
    outcome.status = lmc_cli_run(&cli, count, (char *const *)words);
    fclose(out);
    fclose(err);
    return outcome;
}

static inline void lmc_outcome_fini(lmc_cli_outcome *outcome) {
    free(outcome->out);
    free(outcome->err);
}

#define LMC_RUN(...) lmc_case_run((const char *const[LMC_CASE_WORDS + 1]){__VA_ARGS__})

/* The outcome of words, whole. */
#define LMC_EXPECT(expected_status, expected_out, expected_err, ...) \
    do {                                                             \
        lmc_cli_outcome seen = LMC_RUN(__VA_ARGS__);                 \
        assert_string_equal(seen.err, expected_err);                 \
        assert_string_equal(seen.out, expected_out);                 \
        assert_int_equal(seen.status, expected_status);              \
        lmc_outcome_fini(&seen);                                     \
    } while (0)

#endif
