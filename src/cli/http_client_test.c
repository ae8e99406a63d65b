/* Real requests to a socket of the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/curl_library.h"
#include "cli/http_client.h"

/* Answers one connection with fixed bytes. */
typedef struct one_answer {
    pthread_t thread;
    int socket;
    const char *bytes;
    char request[2048];
    char url[64];
} one_answer;

static void *serve_one(void *arg) {
    one_answer *answer = arg;
    int peer = accept(answer->socket, NULL, NULL);
    size_t used = 0;
    ssize_t got = 1;
    while (peer >= 0 && got > 0 && strstr(answer->request, "\r\n\r\n") == NULL) {
        got = read(peer, answer->request + used, sizeof answer->request - 1 - used);
        used += got > 0 ? (size_t)got : 0;
    }
    for (size_t at = 0, size = strlen(answer->bytes); peer >= 0 && at < size;
         at += (size_t)got) {
        got = write(peer, answer->bytes + at, size - at);
        if (got <= 0)
            break;
    }
    close(peer);
    return NULL;
}

static void start(one_answer *answer, const char *bytes) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    *answer = (one_answer){.bytes = bytes};
    answer->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(answer->socket, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(answer->socket, 1), 0);
    assert_int_equal(getsockname(answer->socket, (struct sockaddr *)&address, &size), 0);
    snprintf(answer->url, sizeof answer->url, "http://127.0.0.1:%d/path",
             ntohs(address.sin_port));
    assert_int_equal(pthread_create(&answer->thread, NULL, serve_one, answer), 0);
}

static void finish(one_answer *answer) {
    pthread_join(answer->thread, NULL);
    close(answer->socket);
}

static void need_libcurl(void) {
    lmc_error error = LMC_ERROR_INIT;
    if (lmc_curl_load(&error) == NULL) {
        assert_non_null(strstr(error.text, "install the package libcurl4"));
        skip();
    }
}

static void a_response_has_status_reason_and_body(void **state) {
    (void)state;
    one_answer answer;
    lmc_http_response response;
    lmc_error error = LMC_ERROR_INIT;
    need_libcurl();
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    start(&answer, "HTTP/1.1 418 I'm a teapot\r\nContent-Length: 5\r\n\r\nhello");
    assert_int_equal(lmc_curl_send("GET", answer.url, &response, &error), LMC_OK);
    assert_int_equal(response.status, 418);
    assert_string_equal(response.reason, "I'm a teapot");
    assert_string_equal(response.body.data, "hello");
    assert_true(response.milliseconds > 0);
    finish(&answer);
    assert_int_equal(strncmp(answer.request, "GET /path HTTP/1.1\r\n", 20), 0);
    lmc_http_response_fini(&response);
}

static void a_post_has_an_empty_body(void **state) {
    (void)state;
    one_answer answer;
    lmc_http_response response;
    lmc_error error = LMC_ERROR_INIT;
    need_libcurl();
    start(&answer, "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n");
    assert_int_equal(lmc_curl_send("POST", answer.url, &response, &error), LMC_OK);
    assert_int_equal(response.status, 200);
    assert_string_equal(response.reason, "");
    finish(&answer);
    assert_int_equal(strncmp(answer.request, "POST /path HTTP/1.1\r\n", 21), 0);
    assert_non_null(strstr(answer.request, "Content-Length: 0\r\n"));
    lmc_http_response_fini(&response);
}

static void no_answer_is_an_error_with_its_cause(void **state) {
    (void)state;
    lmc_http_response response;
    lmc_error error = LMC_ERROR_INIT;
    need_libcurl();
    assert_int_equal(lmc_curl_send("GET", "http://127.0.0.1:1/", &response, &error),
                     LMC_FAILED);
    assert_int_equal(response.status, 0);
    assert_true(error.text[0] != '\0');
    lmc_http_response_fini(&response);
}

static void an_address_that_is_none_of_http_says_what_is_expected(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"tcp://localhost:5555/healthcheck", "not --port"},
        {"ipc:///run/socket", "--http-port"},
        {"file:///etc/hostname", "http://HOST:PORT"},
        {"httpx://h", "http://HOST:PORT"},
        {"http:///healthcheck", "names no host"},
        {"http://local host/", "not an address"},
        {"http://h:99999/", "not an address"},
    };
    need_libcurl();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lmc_http_response response;
        lmc_error error = LMC_ERROR_INIT;
        assert_int_not_equal(lmc_curl_send("GET", cases[i][0], &response, &error), LMC_OK);
        assert_int_equal(response.status, 0);
        assert_non_null(strstr(error.text, cases[i][1]));
        lmc_http_response_fini(&response);
    }
}

/* As the port for requests does: a greeting of ZMTP. */
static void a_peer_that_does_not_speak_http_is_told_from_one_that_is_away(void **state) {
    (void)state;
    one_answer answer;
    lmc_http_response response;
    lmc_error error = LMC_ERROR_INIT;
    need_libcurl();
    start(&answer, "\xff\x01\x01\x01\x01\x01\x01\x01\x01\x7f");
    assert_int_equal(lmc_curl_send("GET", answer.url, &response, &error), LMC_FAILED);
    assert_non_null(strstr(error.text, "does not speak HTTP"));
    finish(&answer);
    lmc_http_response_fini(&response);
}

static void a_base_has_a_scheme_and_no_slash_at_the_end(void **state) {
    (void)state;
    static const char *const cases[][2] = {{"localhost:8080", "http://localhost:8080"},
                                           {"https://h//", "https://h"},
                                           {"http://h/prefix/", "http://h/prefix"},
                                           {"http://", "http://"},
                                           {"", "http://"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *base = lmc_http_base(cases[i][0]);
        assert_string_equal(base, cases[i][1]);
        free(base);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_response_has_status_reason_and_body),
        cmocka_unit_test(a_post_has_an_empty_body),
        cmocka_unit_test(no_answer_is_an_error_with_its_cause),
        cmocka_unit_test(an_address_that_is_none_of_http_says_what_is_expected),
        cmocka_unit_test(a_peer_that_does_not_speak_http_is_told_from_one_that_is_away),
        cmocka_unit_test(a_base_has_a_scheme_and_no_slash_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
