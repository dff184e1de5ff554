/* Stands for Slurm: loads the plugin and calls its prolog or epilog as slurmd's helper does, descriptor 0
 * closed.
 *
 *   spank_host PLUGIN prolog|epilog [config=DIR] [bin=DIR] [-- NAME=VALUE...]
 *
 * NAME=VALUE are the job's options, such as dataset=imagenet. It is job 7 of user 1000, group 1001. What the
 * plugin logs goes to standard output as "info: ..." or "error: ...", its return value as "returned N". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <slurm/spank.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char** options;

#define LOG(name, word)                  \
    void name(const char* format, ...) { \
        va_list list;                    \
        va_start(list, format);          \
        printf(word);                    \
        vprintf(format, list);           \
        printf("\n");                    \
        va_end(list);                    \
    }
LOG(slurm_info, "info: ")
LOG(slurm_error, "error: ")
LOG(slurm_spank_log, "log: ")

spank_context_t spank_context(void) {
    return S_CTX_JOB_SCRIPT;
}

spank_err_t spank_get_item(spank_t spank, spank_item_t item, ...) {
    (void)spank;
    va_list list;
    va_start(list, item);
    spank_err_t result = ESPANK_SUCCESS;
    if (item == S_JOB_ID)
        *va_arg(list, uint32_t*) = 7;
    else if (item == S_JOB_UID)
        *va_arg(list, uid_t*) = 1000;
    else if (item == S_JOB_GID)
        *va_arg(list, gid_t*) = 1001;
    else
        result = ESPANK_NOT_AVAIL;
    va_end(list);
    return result;
}

spank_err_t spank_option_getopt(spank_t spank, struct spank_option* option, char** value) {
    (void)spank;
    const char* name = option->name + strlen("monarch-");
    for (char** given = options; *given != NULL; given++)
        if (strncmp(*given, name, strlen(name)) == 0 && (*given)[strlen(name)] == '=') {
            *value = *given + strlen(name) + 1;
            return ESPANK_SUCCESS;
        }
    return ESPANK_ERROR;
}

spank_err_t spank_option_register(spank_t spank, struct spank_option* option) {
    (void)spank, (void)option;
    return ESPANK_SUCCESS;
}
spank_err_t spank_setenv(spank_t spank, const char* name, const char* value, int overwrite) {
    (void)spank, (void)name, (void)value, (void)overwrite;
    return ESPANK_NOT_REMOTE;
}
spank_err_t spank_unsetenv(spank_t spank, const char* name) {
    (void)spank, (void)name;
    return ESPANK_NOT_REMOTE;
}
spank_err_t spank_job_control_setenv(spank_t spank, const char* name, const char* value, int overwrite) {
    (void)spank, (void)name, (void)value, (void)overwrite;
    return ESPANK_SUCCESS;
}
spank_err_t spank_job_control_unsetenv(spank_t spank, const char* name) {
    (void)spank, (void)name;
    return ESPANK_SUCCESS;
}

/* Slurm's parser, as far as the tests go: "a,b,c". */
void* slurm_hostlist_create(const char* text) {
    return strdup(text);
}
void slurm_hostlist_destroy(void* list) {
    free(list);
}
int slurm_hostlist_find(void* list, const char* name) {
    int place = 0;
    for (char *at = strdup(list), *host; (host = strsep(&at, ",")) != NULL; place++)
        if (strcmp(host, name) == 0) return place;
    return -1;
}

int main(int argc, char** argv) {
    if (argc < 3) return 2;
    int arguments = 0;
    while (3 + arguments < argc && strcmp(argv[3 + arguments], "--") != 0) arguments++;
    options = argv + (3 + arguments < argc ? 4 + arguments : argc);
    close(0);
    void* plugin = dlopen(argv[1], RTLD_LAZY);
    if (plugin == NULL) {
        printf("%s\n", dlerror());
        return 1;
    }
    char callback[64];
    snprintf(callback, sizeof callback, "slurm_spank_job_%s", argv[2]);
    spank_f* function = (spank_f*)dlsym(plugin, callback);
    if (function == NULL) return 1;
    printf("returned %d\n", function(NULL, arguments, argv + 3));
    return 0;
}
