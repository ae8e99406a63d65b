#include "cli/http_client.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/curl_library.h"

void lmc_http_response_fini(lmc_http_response *response) { lmc_buffer_fini(&response->body); }

char *lmc_http_base(const char *url) {
    lmc_buffer base = LMC_BUFFER_INIT;
    if (strstr(url, "://") == NULL)
        lmc_buffer_text(&base, "http://");
    lmc_buffer_text(&base, url);
    if (base.failed)
        return lmc_buffer_take(&base);
    const char *host = strstr((const char *)base.data, "://");
    size_t least = (size_t)(host - (const char *)base.data) + 3;
    while (base.size > least && base.data[base.size - 1] == '/')
        base.data[--base.size] = '\0';
    return lmc_buffer_take(&base);
}

static size_t take_body(char *data, size_t unit, size_t count, void *arg) {
    lmc_buffer *body = arg;
    size_t size = unit * count;
    if (body->size + size > LMC_HTTP_BODY_MAX)
        return 0;
    lmc_buffer_append(body, data, size);
    return body->failed ? 0 : size;
}

/* Keeps the phrase of the last status line: "HTTP/1.1 404 Not Found". */
static size_t take_header(char *data, size_t unit, size_t count, void *arg) {
    lmc_http_response *response = arg;
    size_t size = unit * count, at = 0, used = 0;
    if (size < 5 || memcmp(data, "HTTP/", 5) != 0)
        return size;
    for (int blanks = 0; at < size && blanks < 2; at++)
        blanks += data[at] == ' ';
    for (; at < size && used + 1 < sizeof response->reason; at++)
        if ((unsigned char)data[at] >= ' ' && data[at] != 0x7f)
            response->reason[used++] = data[at];
    response->reason[used] = '\0';
    return size;
}

/* Probes of this machine must not go through a proxy that the environment names. */
static bool is_loopback(const char *url) {
    const char *host = strstr(url, "://");
    host = host != NULL ? host + 3 : url;
    const char *at = strchr(host, '@');
    size_t authority = strcspn(host, "/?#");
    if (at != NULL && at < host + authority)
        host = at + 1;
    size_t size = strcspn(host, ":/?#");
    return (size == 9 && strncasecmp(host, "localhost", 9) == 0) ||
           strncmp(host, "127.", 4) == 0 || strncmp(host, "[::1]", 5) == 0;
}

#define EXPECTED "expected is the address of an HTTP port, http://HOST:PORT"

/* What libcurl would say in words of its own; NULL: nothing that can be seen from here. */
static const char *fault_of(const char *url) {
    const char *host = strstr(url, "://");
    size_t scheme = host != NULL ? (size_t)(host - url) : 0;
    if ((scheme != 4 || strncasecmp(url, "http", 4) != 0) &&
        (scheme != 5 || strncasecmp(url, "https", 5) != 0))
        return "no scheme for this; " EXPECTED
               " (of a cache server --http-port, not --port, which takes requests of engines)";
    return strcspn(host + 3, "/?#") == 0 ? "it names no host; " EXPECTED : NULL;
}

/* The same for what a failed request has shown. */
static const char *cause_of(int code, const char *detail) {
    if (code == LMC_CURL_BAD_URL)
        return "not an address; " EXPECTED;
    if (strstr(detail, "HTTP/0.9") != NULL)
        return "what answers there does not speak HTTP; is it a cache server's --port, which "
               "takes requests of engines? Its --http-port is expected";
    return detail[0] != '\0' ? detail : NULL;
}

static void set_options(const lmc_curl_library *curl, void *handle, const char *method,
                        const char *url, lmc_http_response *response, char *detail) {
    curl->easy_setopt(handle, LMC_CURL_OPT_URL, url);
    curl->easy_setopt(handle, LMC_CURL_OPT_USER_AGENT, "lmcached/" LMC_VERSION);
    curl->easy_setopt(handle, LMC_CURL_OPT_ERROR_BUFFER, detail);
    curl->easy_setopt(handle, LMC_CURL_OPT_NO_SIGNAL, 1L);
    curl->easy_setopt(handle, LMC_CURL_OPT_TIMEOUT_MS, LMC_HTTP_TIMEOUT_SECONDS * 1000L);
    curl->easy_setopt(handle, LMC_CURL_OPT_PROTOCOLS,
                      (long)(LMC_CURL_PROTOCOL_HTTP | LMC_CURL_PROTOCOL_HTTPS));
    curl->easy_setopt(handle, LMC_CURL_OPT_FOLLOW_LOCATION, 1L);
    curl->easy_setopt(handle, LMC_CURL_OPT_MAX_REDIRECTS, 5L);
    curl->easy_setopt(handle, LMC_CURL_OPT_WRITE_FUNCTION, take_body);
    curl->easy_setopt(handle, LMC_CURL_OPT_WRITE_DATA, &response->body);
    curl->easy_setopt(handle, LMC_CURL_OPT_HEADER_FUNCTION, take_header);
    curl->easy_setopt(handle, LMC_CURL_OPT_HEADER_DATA, response);
    if (is_loopback(url))
        curl->easy_setopt(handle, LMC_CURL_OPT_PROXY, "");
    if (strcmp(method, "POST") == 0) {
        curl->easy_setopt(handle, LMC_CURL_OPT_POST, 1L);
        curl->easy_setopt(handle, LMC_CURL_OPT_POST_FIELD_SIZE, 0L);
    } else if (strcmp(method, "GET") != 0) {
        curl->easy_setopt(handle, LMC_CURL_OPT_CUSTOM_REQUEST, method);
    }
}

lmc_status lmc_curl_send(const char *method, const char *url, lmc_http_response *response,
                         lmc_error *error) {
    *response = (lmc_http_response){0};
    const char *fault = fault_of(url);
    if (fault != NULL)
        return lmc_error_set(error, LMC_INVALID, "%s", fault);
    const lmc_curl_library *curl = lmc_curl_load(error);
    if (curl == NULL)
        return LMC_NOT_FOUND;
    void *handle = curl->easy_init();
    if (handle == NULL)
        return lmc_error_set(error, LMC_NO_MEMORY, "out of memory");
    char detail[LMC_CURL_ERROR_SIZE] = "";
    long status = 0;
    set_options(curl, handle, method, url, response, detail);
    int64_t start = lmc_now(&lmc_system_clock);
    int code = curl->easy_perform(handle);
    response->milliseconds =
        (double)(lmc_now(&lmc_system_clock) - start) / (double)LMC_NS_PER_MS;
    curl->easy_getinfo(handle, LMC_CURL_INFO_RESPONSE_CODE, &status);
    curl->easy_cleanup(handle);
    response->status = code == 0 ? (int)status : 0;
    if (code == 0)
        return LMC_OK;
    const char *cause = cause_of(code, detail);
    return lmc_error_set(error, LMC_FAILED, "%s",
                         cause != NULL ? cause : curl->easy_strerror(code));
}
