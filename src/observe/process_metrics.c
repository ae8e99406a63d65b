#include "observe/process_metrics.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/json_writer.h"
#include "observe/registry.h"

/* Fields of /proc/self/stat, counted from the one after the name in parentheses. */
enum {
    STAT_UTIME = 11,
    STAT_STIME = 12,
    STAT_START = 19,
    STAT_VSIZE = 20,
    STAT_RSS = 21,
    STAT_FIELDS
};

static bool read_text(const char *path, char *text, size_t size) {
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    size_t got = fread(text, 1, size - 1, file);
    text[got] = '\0';
    fclose(file);
    return got > 0;
}

static bool read_stat(uint64_t fields[STAT_FIELDS]) {
    char text[1024];
    if (!read_text("/proc/self/stat", text, sizeof text))
        return false;
    char *at = strrchr(text, ')'); /* the name may hold anything */
    if (at == NULL || at[1] != ' ' || at[2] == '\0')
        return false;
    at += 3; /* over the state, which is a letter */
    fields[0] = 0;
    for (int i = 1; i < STAT_FIELDS; i++)
        fields[i] = strtoull(at, &at, 10);
    return true;
}

/* Seconds since 1970 at which the machine was started; 0: unknown. */
static double boot_time(void) {
    FILE *file = fopen("/proc/stat", "re");
    if (file == NULL)
        return 0;
    char line[256];
    unsigned long long seconds = 0;
    while (seconds == 0 && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "btime ", 6) == 0)
            seconds = strtoull(line + 6, NULL, 10);
    }
    fclose(file);
    return (double)seconds;
}

static int open_descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        return -1;
    int count = -1; /* the one used for counting */
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

static void put(lmc_buffer *out, const char *name, const char *type, const char *help,
                double value) {
    char digits[LMC_REAL_TEXT_MAX];
    lmc_real_text(value, digits);
    lmc_buffer_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s %s\n", name, help, name, type, name,
                      digits);
}

static void put_stat(lmc_buffer *out) {
    uint64_t fields[STAT_FIELDS];
    if (!read_stat(fields))
        return;
    double ticks = (double)sysconf(_SC_CLK_TCK);
    put(out, "process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes.",
        (double)fields[STAT_VSIZE]);
    put(out, "process_resident_memory_bytes", "gauge", "Resident memory size in bytes.",
        (double)fields[STAT_RSS] * (double)sysconf(_SC_PAGESIZE));
    double boot = boot_time();
    if (boot > 0)
        put(out, "process_start_time_seconds", "gauge",
            "Start time of the process since unix epoch in seconds.",
            boot + (double)fields[STAT_START] / ticks);
    put(out, "process_cpu_seconds_total", "counter",
        "Total user and system CPU time spent in seconds.",
        (double)(fields[STAT_UTIME] + fields[STAT_STIME]) / ticks);
}

static void put_descriptors(lmc_buffer *out) {
    int count = open_descriptors();
    if (count >= 0)
        put(out, "process_open_fds", "gauge", "Number of open file descriptors.", count);
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        put(out, "process_max_fds", "gauge", "Maximum number of open file descriptors.",
            (double)limit.rlim_cur);
}

static void put_target(lmc_buffer *out, const char *instance_id) {
    lmc_buffer_text(out, "# HELP target_info Target metadata\n# TYPE target_info gauge\n"
                         "target_info{service_instance_id=\"");
    lmc_label_value_write(out, lmc_text(instance_id));
    lmc_buffer_text(out, "\",service_name=\"unknown_service\"} 1\n");
}

void lmc_process_metrics_write(lmc_buffer *out, const char *instance_id) {
    put_stat(out);
    put_descriptors(out);
    put_target(out, instance_id);
}
