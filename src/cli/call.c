/* call: one call of a server module's method, over ZMQ. */
#include <errno.h>
#include <lmcached/client.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "cli/cli.h"

#define DEFAULT_TIMEOUT_S 30.0

static const char usage[] = "usage: %s call [-h] [--timeout SECONDS] URL METHOD [PAYLOAD]\n";

static const char help[] =
    "\nCalls a method that a server module offers, and writes its answer as it is. On a "
    "terminal\n"
    "an answer whose last line has no end gets one; to a file or a pipe go the bytes alone.\n\n"
    "  URL                the server's request port: tcp://localhost:5555\n"
    "  METHOD             for example hello.greet\n"
    "  PAYLOAD            the bytes themselves, @FILE for those of a file, - for those of\n"
    "                     standard input; none: an empty payload\n"
    "  --timeout SECONDS  how long to wait for the answer (30)\n\n"
    "Exit status: 0 answered, 1 the method failed (its text is on standard error) or there "
    "was\n"
    "no answer, 2 wrong usage.\n";

typedef struct call_words {
    const char *url, *method, *payload;
    double timeout;
    bool help;
} call_words;

static int complain(const lmc_cli *cli, const char *what, const char *word) {
    fprintf(cli->err, usage, cli->program);
    fprintf(cli->err, "%s call: error: %s%s\n", cli->program, what, word);
    return LMC_EXIT_USAGE;
}

static bool parse_seconds(const char *text, double *seconds) {
    char *end;
    errno = 0;
    *seconds = strtod(text, &end);
    return errno == 0 && end != text && *end == '\0' && *seconds > 0 && *seconds < 1e6;
}

/* 0, or an exit status. */
static int parse(const lmc_cli *cli, int count, char *const *words, call_words *parsed) {
    const char **places[] = {&parsed->url, &parsed->method, &parsed->payload};
    size_t used = 0;
    *parsed = (call_words){.timeout = DEFAULT_TIMEOUT_S};
    for (int i = 0; i < count; i++) {
        if (strcmp(words[i], "-h") == 0 || strcmp(words[i], "--help") == 0) {
            parsed->help = true;
            return 0;
        }
        if (strcmp(words[i], "--timeout") == 0) {
            if (++i == count || !parse_seconds(words[i], &parsed->timeout))
                return complain(cli, "argument --timeout: expected a number of seconds", "");
        } else if (strncmp(words[i], "--", 2) == 0 ||
                   used == sizeof places / sizeof places[0]) {
            return complain(cli, "unrecognized arguments: ", words[i]);
        } else {
            *places[used++] = words[i];
        }
    }
    if (used < 2)
        return complain(cli, "the following arguments are required: ",
                        used == 0 ? "URL, METHOD" : "METHOD");
    return 0;
}

static bool read_stream(FILE *file, lmc_buffer *out) {
    char block[65536];
    size_t size;
    while ((size = fread(block, 1, sizeof block, file)) > 0)
        lmc_buffer_append(out, block, size);
    return !ferror(file) && !out->failed;
}

static bool read_payload(const lmc_cli *cli, const char *word, lmc_buffer *out) {
    if (word == NULL)
        return true;
    if (strcmp(word, "-") == 0)
        return read_stream(stdin, out);
    if (word[0] != '@') {
        lmc_buffer_text(out, word);
        return !out->failed;
    }
    FILE *file = fopen(word + 1, "rbe");
    bool read = file != NULL && read_stream(file, out);
    if (!read)
        fprintf(cli->err, "Command failed: cannot read %s: %s\n", word + 1, strerror(errno));
    if (file != NULL)
        fclose(file);
    return read;
}

static int show_answer(const lmc_cli *cli, const call_words *words, bool success,
                       const void *answer, size_t size) {
    if (!success) {
        fprintf(cli->err, "%s failed: %.*s\n", words->method, (int)size, (const char *)answer);
        return LMC_EXIT_FAILED;
    }
    fwrite(answer, 1, size, cli->out);
    bool open_line = size > 0 && ((const char *)answer)[size - 1] != '\n';
    if (open_line && cli->out == stdout && isatty(STDOUT_FILENO))
        fputc('\n', cli->out);
    return 0;
}

static int call_method(const lmc_cli *cli, const call_words *words, lmc_slice payload) {
    lmc_client *client = lmc_client_open(words->url);
    bool success = false;
    void *answer = NULL;
    size_t size = 0;
    if (client == NULL) {
        fprintf(cli->err, "Command failed: %s\n", lmc_client_error());
        return LMC_EXIT_FAILED;
    }
    lmc_status status = lmc_client_server_module_call(client, words->method, payload,
                                                      words->timeout, &success, &answer, &size);
    int result = LMC_EXIT_FAILED;
    if (status == LMC_OK)
        result = show_answer(cli, words, success, answer, size);
    else if (status == LMC_TIMEOUT)
        fprintf(
            cli->err,
            "Command failed: no answer from %s within %g s: the method takes longer, or this "
            "is not the --port of a running server\n",
            words->url, words->timeout);
    else
        fprintf(cli->err, "Command failed: %s\n", lmc_client_error());
    free(answer);
    lmc_client_close(client);
    return result;
}

int lmc_command_call(lmc_cli *cli, int count, char *const *words) {
    call_words parsed;
    lmc_buffer payload = LMC_BUFFER_INIT;
    int result = parse(cli, count, words, &parsed);
    if (result != 0)
        return result;
    if (parsed.help) {
        fprintf(cli->out, usage, cli->program);
        fprintf(cli->out, "%s", help);
        return 0;
    }
    result = LMC_EXIT_FAILED;
    if (read_payload(cli, parsed.payload, &payload))
        result = call_method(cli, &parsed, lmc_slice_of(payload.data, payload.size));
    lmc_buffer_fini(&payload);
    return result;
}
