#include "server/limits.h"

#include <errno.h>
#include <sys/resource.h>

#include "base/error.h"
#include "base/log.h"

#define LMC_LOGGER "lmcache.server"
#define ENOUGH 1048576 /* tools that walk all possible descriptors stay quick */

lmc_status lmc_descriptor_limit_raise(lmc_error *error) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return lmc_error_set_errno(error, LMC_FAILED, errno, "the limit of open files");
    rlim_t allowed = limit.rlim_max < ENOUGH ? limit.rlim_max : ENOUGH;
    if (limit.rlim_cur < allowed) {
        struct rlimit raised = {.rlim_cur = allowed, .rlim_max = limit.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
            limit = raised;
    }
    LMC_DEBUG("%llu files may be open", (unsigned long long)limit.rlim_cur);
    if (limit.rlim_cur >= LMC_DESCRIPTORS_LEAST)
        return LMC_OK;
    return lmc_error_set(error, LMC_FAILED,
                         "the limit of open files is %llu, at least %d are needed (ulimit -n, "
                         "LimitNOFILE=)",
                         (unsigned long long)limit.rlim_cur, LMC_DESCRIPTORS_LEAST);
}
