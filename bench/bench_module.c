/*
 * bench_module: a server module to measure with: bench.echo answers what it was sent,
 * bench.sleep sleeps for a second first.
 */
#include <time.h>

#include <lmcached/module.h>

static lmc_status create(lmc_build *build, void **self, lmc_error *error) {
    (void)build, (void)self, (void)error;
    return LMC_OK;
}

static void echo(void *self, lmc_call *call) {
    const lmc_server_module_call_request *request = lmc_call_request(call);
    lmc_server_module_call_reply *reply = lmc_call_reply(call);
    (void)self;
    reply->payload = request->payload;
    lmc_complete(call, LMC_OK);
}

static void sleep_first(void *self, lmc_call *call) {
    nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    echo(self, call);
}

static const lmc_envelope envelopes[] = {{.method = "bench.echo", .handle = echo},
                                         {.method = "bench.sleep", .handle = sleep_first},
                                         {0}};
static const lmc_module_class bench_class = {.size = sizeof bench_class,
                                             .name = "BenchModule",
                                             .create = create,
                                             .envelopes = envelopes};
LMC_MODULE(&bench_class);
