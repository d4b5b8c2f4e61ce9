/* Loads a library of kernels as its system does, and repeats recorded calls: replay_calls LIBRARY CALLS RESULTS.

   Compiled for Windows it asks Windows for the library. Compiled for Linux it puts the parts of a library for
   macOS, or of one for Windows on 64-bit ARM, where they belong itself: such a library needs nothing of a
   system, and calls of both systems are those of Linux there. Instead of Python there are objects of as many
   fields as kernels read. CALLS and RESULTS are written and read by other_systems.py. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#include <sys/mman.h>
#endif

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

/* -- what Python is, for a library ----------------------------------------------------------------------- */

typedef struct Object {
    int64_t references;
    struct Object *type;
    union {
        struct { /* an array */
            char *data;
            int32_t axes;
            int64_t *shape, *strides;
            struct Object *base, *dtype;
            int32_t flags;
        };
        struct { /* the type of an array's numbers */
            struct Object *scalar;
            char kind, letter, order, unused;
            int32_t number;
        };
        struct { /* a tuple */
            int64_t count;
            struct Object **items;
        };
        int64_t integer;
        double floating;
        float single;
        unsigned char boolean;
    };
} Object;

enum { OF_RUNTIME_ERROR, OF_NONE, OF_TRUE, OF_FALSE, OF_ARRAY, OF_TUPLE, OF_INT, OF_FLOAT, OF_FLOAT64, OF_FLOAT32, OF_INT64, OF_BOOL, OF_KINDS };
static Object kinds[OF_KINDS], result, failure;
static const char LETTERS[] = "?fdiqQH";
static const int64_t BYTES[] = {1, 4, 8, 4, 8, 8, 2};

static void *save_thread(void) { return 0; }
static void restore_thread(void *thread) { (void)thread; }
static long long as_integer(Object *object, int *overflow) { return *overflow = 0, object->integer; }
static double as_float(Object *object) { return object->floating; }
static Object *from_integer(long long value) { return result.integer = value, &result; }
static int is_subtype(Object *type, Object *of) { return type == of; }
static int64_t tuple_size(Object *object) { return object->count; }
static Object *tuple_item(Object *object, int64_t index) { return object->items[index]; }
static Object *otherwise(Object *f, Object *const *given, uint64_t count, Object *names) {
    return (void)f, (void)given, (void)count, (void)names, &failure;
}
static void hold(Object *object) { (void)object; }
static void set_error(Object *kind, const char *text) { (void)kind, fail(text); }

static struct {
    const void *functions[11], *objects[OF_KINDS], *of_c[6];
    uint64_t head;
    unsigned char letters[32];
} process;

static void prepare(void) {
    const void *functions[] = {
        (void *)save_thread, (void *)restore_thread, (void *)as_integer, (void *)as_float,
        (void *)from_integer, (void *)is_subtype, (void *)tuple_size, (void *)tuple_item, (void *)otherwise,
        (void *)hold, (void *)set_error,
    };
    const void *of_c[] = {(void *)(double (*)(double))exp, (void *)(double (*)(double))log,
                          (void *)(double (*)(double))log1p, (void *)memcpy, (void *)memmove, (void *)memset};
    memcpy(process.functions, functions, sizeof functions);
    memcpy(process.of_c, of_c, sizeof of_c);
    for (int k = 0; k < OF_KINDS; k++) process.objects[k] = kinds + k;
    process.head = offsetof(Object, data);
    memcpy(process.letters, LETTERS, sizeof LETTERS - 1);
}

/* -- the library ----------------------------------------------------------------------------------------- */

static char *contents(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) fail("a file is missing");
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    char *data = malloc(*size + 1);
    if (!data || fread(data, 1, *size, file) != *size) fail("a file cannot be read");
    fclose(file);
    return data;
}

#ifdef _WIN32
static HMODULE module;
static void load(const char *path) {
    module = LoadLibraryA(path);
    if (!module) fail("Windows does not load the library");
}
static void *find(const char *name) { return (void *)GetProcAddress(module, name); }
#else
static char *code, *image;
#define AT(type, place) (*(type *)(place))

static char *room(uint64_t size) {
    char *at = mmap(0, size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) fail("there is no memory for the library");
    return at;
}

static uint64_t number(const uint8_t **at) { /* LEB128 */
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        value |= (uint64_t)(**at & 0x7f) << shift;
        if (!(*(*at)++ & 0x80)) return value;
    }
}

static void load_macos(void) {
    const uint32_t commands = AT(uint32_t, code + 16);
    uint64_t end = 0, starts[8];
    int segments = 0;
    const char *command = code + 32, *rebase = 0;
    for (uint32_t k = 0; k < commands; k++, command += AT(uint32_t, command + 4))
        if (AT(uint32_t, command) == 0x19 && segments < 8) {
            starts[segments++] = AT(uint64_t, command + 24);
            end = AT(uint64_t, command + 24) + AT(uint64_t, command + 32);
        } else if ((AT(uint32_t, command) & 0x7fffffff) == 0x22)
            rebase = command;
        else if (AT(uint32_t, command) == 0x80000034)
            fail("chained fixups are not read");
    image = room(end);
    command = code + 32;
    for (uint32_t k = 0; k < commands; k++, command += AT(uint32_t, command + 4))
        if (AT(uint32_t, command) == 0x19)
            memcpy(image + AT(uint64_t, command + 24), code + AT(uint64_t, command + 40), AT(uint64_t, command + 48));
    if (!rebase) return;
    const uint8_t *at = (uint8_t *)code + AT(uint32_t, rebase + 8), *last = at + AT(uint32_t, rebase + 12);
    uint64_t place = 0, count, skip;
    while (at < last) {
        const uint8_t what = *at & 0xf0, small = *at++ & 0x0f;
        count = skip = 0;
        switch (what) {
        case 0x00: return;
        case 0x10: continue;
        case 0x20: place = starts[small] + number(&at); continue;
        case 0x30: place += number(&at); continue;
        case 0x40: place += small * 8u; continue;
        case 0x50: count = small; break;
        case 0x60: count = number(&at); break;
        case 0x70: count = 1, skip = number(&at); break;
        case 0x80: count = number(&at), skip = number(&at); break;
        default: fail("an unknown rebase operation");
        }
        for (; count; count--, place += 8 + skip) AT(uint64_t, image + place) += (uint64_t)image;
    }
}

static void *find_macos(const char *name) {
    const char *command = code + 32;
    while (AT(uint32_t, command) != 2) command += AT(uint32_t, command + 4);
    const char *symbols = code + AT(uint32_t, command + 8), *names = code + AT(uint32_t, command + 16);
    for (uint32_t k = 0; k < AT(uint32_t, command + 12); k++) {
        const char *symbol = symbols + 16 * k;
        if ((symbol[4] & 0x0e) == 0x0e && !strcmp(names + AT(uint32_t, symbol) + 1, name))
            return image + AT(uint64_t, symbol + 8);
    }
    return 0;
}

static void load_windows(void) {
    const char *head = code + AT(uint32_t, code + 0x3c), *options = head + 24;
    const char *sections = options + AT(uint16_t, head + 20);
    image = room(AT(uint32_t, options + 56));
    for (int k = 0; k < AT(uint16_t, head + 6); k++) {
        const char *section = sections + 40 * k;
        const uint32_t in_memory = AT(uint32_t, section + 8), in_file = AT(uint32_t, section + 16);
        memcpy(image + AT(uint32_t, section + 12), code + AT(uint32_t, section + 20),
               in_memory < in_file ? in_memory : in_file);
    }
    const uint64_t moved = (uint64_t)image - AT(uint64_t, options + 24);
    const char *block = image + AT(uint32_t, options + 152), *end = block + AT(uint32_t, options + 156);
    for (; block < end; block += AT(uint32_t, block + 4))
        for (uint32_t k = 8; k < AT(uint32_t, block + 4); k += 2) {
            const uint16_t entry = AT(uint16_t, block + k);
            if (entry >> 12 == 10)
                AT(uint64_t, image + AT(uint32_t, block) + (entry & 0xfff)) += moved;
            else if (entry >> 12)
                fail("an unknown relocation");
        }
}

static void *find_windows(const char *name) {
    const char *options = code + AT(uint32_t, code + 0x3c) + 24, *table = image + AT(uint32_t, options + 112);
    for (uint32_t k = 0; k < AT(uint32_t, table + 24); k++)
        if (!strcmp(image + AT(uint32_t, image + AT(uint32_t, table + 32) + 4 * k), name)) {
            const uint16_t place = AT(uint16_t, image + AT(uint32_t, table + 36) + 2 * k);
            return image + AT(uint32_t, image + AT(uint32_t, table + 28) + 4 * place);
        }
    return 0;
}

static void *own; /* a library for Linux */

static void load(const char *path) {
    size_t size;
    code = contents(path, &size);
    if (code[0] == 0x7f) {
        own = dlopen(path, RTLD_NOW);
        if (!own) fail(dlerror());
        return;
    }
    code[0] == 'M' ? load_windows() : load_macos();
    __builtin___clear_cache(image, image + size);
}
static void *find(const char *name) {
    return own ? dlsym(own, name) : code[0] == 'M' ? find_windows(name) : find_macos(name);
}
#endif

/* -- calls ----------------------------------------------------------------------------------------------- */

static const char *next;
static char *memory[64], *arrays[64];
static int64_t sizes[64];
static int known;

static int64_t word(void) {
    int64_t value;
    memcpy(&value, next, sizeof value);
    return next += sizeof value, value;
}

static Object *read_object(void) {
    const char letter = *next++;
    Object *object = calloc(1, sizeof *object);
    switch (letter) {
    case '-': return kinds + OF_NONE;
    case '?': return kinds + (word() ? OF_TRUE : OF_FALSE);
    case 'q': object->type = kinds + OF_INT, object->integer = word(); break;
    case 'd': object->type = kinds + OF_FLOAT, object->integer = word(); break;
    case 'Q': object->type = kinds + OF_INT64, object->integer = word(); break;
    case 'D': object->type = kinds + OF_FLOAT64, object->integer = word(); break;
    case 'F': object->type = kinds + OF_FLOAT32, object->integer = word(); break;
    case 'B': object->type = kinds + OF_BOOL, object->integer = word(); break;
    case '(':
        object->type = kinds + OF_TUPLE, object->count = word();
        object->items = calloc((size_t)object->count + 1, sizeof *object->items);
        for (int64_t k = 0; k < object->count; k++) object->items[k] = read_object();
        break;
    case 'a': {
        const int64_t number = word(), beyond = word(), kind = word(); /* of a multiple of 64 */
        Object *dtype = object->dtype = calloc(1, sizeof *dtype);
        dtype->number = (int32_t)kind, dtype->order = kind ? '=' : '|';
        object->type = kinds + OF_ARRAY, object->axes = (int32_t)word(), object->flags = (int32_t)word();
        object->shape = calloc(16, sizeof *object->shape), object->strides = object->shape + 8;
        int64_t size = BYTES[kind];
        for (int k = 0; k < object->axes; k++) object->shape[k] = word();
        for (int k = object->axes; k--; size *= object->shape[k]) object->strides[k] = size;
        if (number == known) { /* its contents follow where it is met first */
            if (known == 64) fail("a call has too many arrays");
            memory[known] = malloc((size_t)size + 128), sizes[known] = size;
            arrays[known] = (char *)(((uintptr_t)memory[known] + 63) / 64 * 64) + beyond, known++;
            memcpy(arrays[number], next, (size_t)size), next += size;
        }
        object->data = arrays[number];
        break;
    }
    default: fail("the file of calls is damaged");
    }
    return object;
}

typedef struct {
    const char *name;
    Object *(*function)(Object *self, Object *const *arguments, int64_t count);
    int flags;
    const char *text;
} Method;

int main(int count, char **words) {
    if (count != 4) fail("usage: replay_calls LIBRARY CALLS RESULTS");
    size_t size;
    load(words[1]);
    next = contents(words[2], &size);
    FILE *out = fopen(words[3], "wb");
    int (*fits)(int) = (int (*)(int))find("lite_fits");
    int (*take)(const void *, uint64_t) = (int (*)(const void *, uint64_t))find("lite_prepare");
    const Method *methods = find("lite_methods");
    const int64_t *kernels = find("lite_count");
    prepare();
    if (!out || !fits || !take || !methods || !kernels) fail("the library lacks an entry");
    if (!fits((int)word())) fail("this processor is not of the library's level");
    if (take(&process, 8) || !take(&process, sizeof process)) fail("the library expects another process");
    for (int64_t calls = word(); calls; calls--) {
        const char *name = next;
        next += strlen(name) + 1, known = 0;
        Object *given[64], *got = 0;
        const int64_t arguments = word();
        for (int64_t k = 0; k < arguments; k++) given[k] = read_object();
        for (int64_t k = 0; k < *kernels; k++)
            if (!strcmp(methods[k].name, name)) got = methods[k].function(0, given, arguments);
        const int64_t state = got == &result ? 1 : got == kinds + OF_NONE ? 0 : -1;
        fwrite(&state, 8, 1, out), fwrite(&result.integer, 8, 1, out);
        for (int k = 0; k < known; k++) fwrite(arrays[k], 1, (size_t)sizes[k], out), free(memory[k]);
    }
    fclose(out);
    return 0;
}
