/* A stand-in for NVIDIA's driver: two devices, modules by context, launches that are checked, recorded and run.
 *
 * A kernel is run by a function of this machine that the test has given for its name. `standin_handler` is put before the
 * real handler where XLA has no stream of CUDA (its CPU client): it hands out a stream of the stand-in.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES = 2, MOST = 4096, FUNCTIONS = 7, OK = 0, INVALID_VALUE = 1, INVALID_CONTEXT = 201, INVALID_PTX = 218, INVALID_HANDLE = 400, NOT_FOUND = 500 };
typedef void (*Run)(void **params, uint32_t grid, uint32_t block);
typedef struct { int device; } Context, Stream;
typedef struct { Context *context; char name[128]; int params; Run run; } Module;
typedef struct { int device; uint32_t grid, block; int params; uint64_t values[MOST]; } Launch;

static Context contexts[DEVICES] = {{0}, {1}};
static Stream streams[DEVICES] = {{0}, {1}};
static struct { char name[128]; Run run; } known[MOST];
static int kernels, loads[DEVICES], launches, waiting, deferred, fail_function = -1, fail_code, depth_error;
static Launch last;
static struct { Run run; uint32_t grid, block; int n; uint64_t *values; } queue[64];
static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static __thread Context *stack[16];
static __thread int depth;

static int failed(int function) { return fail_function == function ? fail_code : OK; }

void standin_reset(void) { loads[0] = loads[1] = launches = waiting = deferred = depth_error = 0, fail_function = -1; }
void standin_fail(int function, int code) { fail_function = function, fail_code = code; }
void standin_defer(int yes) { deferred = yes; }
void *standin_stream(int device) { return &streams[device]; }
int standin_loads(int device) { return loads[device]; }
int standin_launches(void) { return launches; }
int standin_depth(void) { return depth; }
Launch *standin_last(void) { return &last; }
void standin_kernel(const char *name, Run run) {
    for (int i = 0; i < kernels; i++)
        if (!strcmp(known[i].name, name)) { known[i].run = run; return; }
    strcpy(known[kernels].name, name), known[kernels++].run = run;
}
void standin_finish(void) {
    for (int i = 0; i < waiting; i++) {
        void *params[MOST];
        for (int j = 0; j < queue[i].n; j++) params[j] = &queue[i].values[j];
        queue[i].run(params, queue[i].grid, queue[i].block);
        free(queue[i].values);
    }
    waiting = 0;
}

int cuStreamGetCtx(Stream *stream, Context **context) {
    if (failed(0)) return failed(0);
    if (stream != &streams[0] && stream != &streams[1]) return INVALID_HANDLE;
    *context = &contexts[stream->device];
    return OK;
}
int cuCtxPushCurrent_v2(Context *context) {
    if (failed(1)) return failed(1);
    stack[depth++] = context;
    return OK;
}
int cuCtxPopCurrent_v2(Context **context) {
    if (!depth) return INVALID_CONTEXT;
    *context = stack[--depth];
    return OK;
}
int cuModuleLoadDataEx(Module **module, const char *ptx, unsigned n, int *options, void **values) {
    if (failed(3)) return failed(3);
    if (!depth) return INVALID_CONTEXT;
    char *log = NULL;
    size_t room = 0;
    for (unsigned i = 0; i < n; i++) {
        if (options[i] == 5) log = values[i];
        if (options[i] == 6) room = (size_t)values[i];
    }
    const char *entry = strstr(ptx, ".visible .entry "), *end = entry ? strchr(entry, ')') : NULL;
    if (!strstr(ptx, ".version") || !strstr(ptx, ".target sm_") || !end || ptx[strlen(ptx) - 1] != '\n') {
        if (log) snprintf(log, room, "ptxas application ptx input, line 1; fatal : Parsing error near '%.20s'", ptx);
        return INVALID_PTX;
    }
    Module *made = calloc(1, sizeof(Module));
    made->context = stack[depth - 1];
    sscanf(entry, ".visible .entry %127[^(]", made->name);
    for (const char *at = entry; (at = strstr(at, ".param")) && at < end; at++) made->params++;
    for (int i = 0; i < kernels; i++)
        if (!strcmp(known[i].name, made->name)) made->run = known[i].run;
    loads[made->context->device]++;
    *module = made;
    return OK;
}
int cuModuleGetFunction(Module **function, Module *module, const char *name) {
    if (failed(4)) return failed(4);
    *function = module;
    return strcmp(module->name, name) || !module->run ? NOT_FOUND : OK;
}
int cuLaunchKernel(Module *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, Stream *stream, void **params, void **extra) {
    if (failed(5)) return failed(5);
    if (!gx || gx > 2147483647u || gy != 1 || gz != 1 || !bx || bx > 1024 || by != 1 || bz != 1 || shared || extra) return INVALID_VALUE;
    if (!depth || stack[depth - 1] != function->context || stream->device != function->context->device) return INVALID_CONTEXT;
    pthread_mutex_lock(&one_at_a_time);
    launches++, last.device = stream->device, last.grid = gx, last.block = bx, last.params = function->params;
    for (int i = 0; i < function->params; i++) last.values[i] = *(uint64_t *)params[i];
    if (deferred) {
        queue[waiting].run = function->run, queue[waiting].grid = gx, queue[waiting].block = bx;
        queue[waiting].n = function->params, queue[waiting].values = malloc(8 * function->params);
        memcpy(queue[waiting++].values, last.values, 8 * function->params);
    } else
        function->run(params, gx, bx);
    pthread_mutex_unlock(&one_at_a_time);
    return OK;
}
int cuGetErrorString(int code, const char **text) {
    *text = code == INVALID_PTX ? "a PTX JIT compilation failed" : code == NOT_FOUND ? "named symbol not found"
          : code == 2 ? "out of memory" : code == 719 ? "unspecified launch failure" : NULL;
    return *text ? OK : INVALID_VALUE;
}

/* Before the real handler: XLA's own frame, but for the stream. */
typedef struct { size_t size; void *extension; void *ctx; void *stream; } StreamGet;
static void *(*handler)(void *);
static int device;
static void *get_stream(StreamGet *ask) { ask->stream = &streams[device]; return NULL; }
void standin_use(void *(*real)(void *), int which) { handler = real, device = which; }
void *standin_handler(char *frame) {
    char **api = (char **)(frame + 16), *theirs = *api, ours[4096];
    if (*(void **)(frame + 8)) return handler(frame); /* the question for the version */
    memcpy(ours, theirs, *(size_t *)theirs < sizeof ours ? *(size_t *)theirs : sizeof ours);
    *(void **)(ours + 80) = (void *)get_stream;
    *api = ours;
    void *error = handler(frame);
    *api = theirs;
    return error;
}
