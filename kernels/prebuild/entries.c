/* How CPython calls kernels of a library that was compiled beforehand.

   The one file of C in the project. It includes no header of Python or NumPy and links against no library:
   what it needs of the process is handed over as addresses when the library is loaded (`lite_prepare`), so
   that one file serves every CPython from 3.11 on and every C library. Of objects it reads what extension
   modules read that are compiled against NumPy: the type in an object's head, and behind the head the first
   fields of arrays, of their types and of scalars. The tables at the end are written by kernel_object.py. */

#include <stdint.h>

#if defined(_WIN32)
#define EXPORTED __declspec(dllexport)
#else
#define EXPORTED __attribute__((visibility("default")))
#endif

typedef struct Object Object; /* one of Python's, of which nothing is known here */

/* What the process has. The order is that of `_addresses` in backends/prebuilt.py. */
static struct {
    void *(*save_thread)(void); /* gives the GIL back */
    void (*restore_thread)(void *);
    long long (*as_integer)(Object *, int *overflow);
    double (*as_float)(Object *);
    Object *(*from_integer)(long long);
    int (*is_subtype)(Object *, Object *);
    int64_t (*tuple_size)(Object *);
    Object *(*tuple_item)(Object *, int64_t);
    Object *(*call)(Object *function, Object *const *arguments, uint64_t count, Object *names);
    void (*hold)(Object *);
    void (*set_error)(Object *kind, const char *text);
    Object *error, *none, *yes, *no;
    Object *array, *tuple, *integer, *floating;  /* types: numpy.ndarray, tuple, int, float, */
    Object *float64, *float32, *int64, *boolean; /* and NumPy's scalars */
    double (*exp)(double), (*log)(double), (*log1p)(double);
    void *(*memcpy)(void *, const void *, uint64_t);
    void *(*memmove)(void *, const void *, uint64_t);
    void *(*memset)(void *, int, uint64_t);
    uint64_t head;              /* bytes of an object's head, whose last field is the type */
    unsigned char letters[32];  /* for each number of NumPy's types its letter in signatures, or 0 */
} process;

/* What compiled code calls by name. */
double exp(double x) { return process.exp(x); }
double log(double x) { return process.log(x); }
double log1p(double x) { return process.log1p(x); }
void *memcpy(void *to, const void *from, uint64_t size) { return process.memcpy(to, from, size); }
void *memmove(void *to, const void *from, uint64_t size) { return process.memmove(to, from, size); }
void *memset(void *to, int byte, uint64_t size) { return process.memset(to, byte, size); }
#if defined(__APPLE__) /* what LLVM makes of loops there */
void bzero(void *to, uint64_t size) { process.memset(to, 0, size); }
void __bzero(void *to, uint64_t size) { process.memset(to, 0, size); }
void memset_pattern16(void *to, const void *pattern, uint64_t size) {
    char *at = to;
    for (; size >= 16; size -= 16, at += 16) __builtin_memcpy(at, pattern, 16);
    process.memcpy(at, pattern, size);
}
#endif

/* Behind the head of a numpy.ndarray, and of its type. */
typedef struct {
    char *data;
    int32_t axes;
    int64_t *shape, *strides;
    Object *base, *type;
    int32_t flags;
} Array;

typedef struct {
    Object *scalar;
    char kind, letter, order, flags;
    int32_t number;
} Type;

/* Whether numbers are aligned is not asked: Numba does not, as processors of both architectures do not mind. */
enum { CONTIGUOUS = 0x1, WRITEABLE = 0x400, PLAIN = CONTIGUOUS | WRITEABLE };
enum { MOST_CODES = 128, MOST_SLOTS = 256, MOST_AXES = 3, DEEPEST = 3 };

/* The types of arguments as codes, and their numbers as a row of 64 bits each, which kernel_object.py turns
   into a call. A code is the letter of a number; that and 256 times the axes of an array of such numbers; or
   a bracket before what a tuple holds, and 256 times the count of that. */
typedef struct {
    uint32_t codes[MOST_CODES];
    int64_t slots[MOST_SLOTS];
    int code, slot;
} Row;

typedef struct {
    const uint32_t *codes;
    uint64_t count;
    int32_t (*run)(int64_t *slots); /* leaves the result in the first */
    uint64_t gives;                 /* whether that is an integer, and not nothing */
} Signature;

typedef struct {
    const Signature *signatures;
    uint64_t count;
} Entry;

static const char *behind_head(Object *object) { return (const char *)object + process.head; }

static Object *type_of(Object *object) { return *((Object **)behind_head(object) - 1); }

static int put(Row *row, uint32_t code, int64_t value) {
    if (row->code >= MOST_CODES || row->slot >= MOST_SLOTS) return 0;
    row->codes[row->code++] = code;
    row->slots[row->slot++] = value;
    return 1;
}

static int read_array(Row *row, Object *object) {
    const Array *array = (const Array *)behind_head(object);
    const Type *type = (const Type *)behind_head(array->type);
    int axes = array->axes;
    if ((array->flags & PLAIN) != PLAIN || axes < 1 || axes > MOST_AXES || type->number < 0 ||
        type->number >= (int32_t)sizeof process.letters || !process.letters[type->number] ||
        (type->order != '=' && type->order != '|') || row->slot + 2 + 2 * axes > MOST_SLOTS)
        return 0;
    if (!put(row, process.letters[type->number] | 256u * (uint32_t)axes, (int64_t)(intptr_t)array->data))
        return 0;
    int64_t *slots = row->slots + row->slot, count = 1;
    for (int axis = 0; axis < axes; axis++) {
        count *= array->shape[axis];
        slots[1 + axis] = array->shape[axis];
        slots[1 + axes + axis] = array->strides[axis];
    }
    slots[0] = count;
    row->slot += 1 + 2 * axes;
    return 1;
}

static int read(Row *row, Object *object, int depth);

static int read_tuple(Row *row, Object *object, int depth) {
    int64_t count = process.tuple_size(object);
    if (depth >= DEEPEST || count > MOST_CODES || row->code >= MOST_CODES) return 0;
    row->codes[row->code++] = '(' | 256u * (uint32_t)count;
    for (int64_t k = 0; k < count; k++)
        if (!read(row, process.tuple_item(object, k), depth + 1)) return 0;
    return 1;
}

/* Whether `object` is something that a kernel may be called with. */
static int read(Row *row, Object *object, int depth) {
    Object *type = type_of(object);
    int64_t value = 0;
    if (type == process.array) return read_array(row, object);
    if (type == process.integer) {
        int overflow = 0;
        value = process.as_integer(object, &overflow);
        return !overflow && put(row, 'q', value);
    }
    if (type == process.floating || type == process.float64) {
        double number = process.as_float(object);
        __builtin_memcpy(&value, &number, sizeof number);
        return put(row, 'd', value);
    }
    if (object == process.none) return put(row, '-', 0);
    if (object == process.yes || object == process.no) return put(row, '?', object == process.yes);
    if (type == process.tuple) return read_tuple(row, object, depth);
    if (type == process.int64) return put(row, 'q', *(const int64_t *)behind_head(object));
    if (type == process.boolean) return put(row, '?', *behind_head(object) != 0);
    if (type == process.float32) {
        __builtin_memcpy(&value, behind_head(object), sizeof(float));
        return put(row, 'f', value);
    }
    return process.is_subtype(type, process.array) && read_array(row, object);
}

/* Calls the kernel that is compiled for these arguments; where there is none, `otherwise`. */
Object *lite_call(const Entry *entry, Object *otherwise, Object *const *arguments, int64_t count) {
    Row row;
    row.code = row.slot = 0;
    int known = 1;
    for (int64_t k = 0; known && k < count; k++) known = read(&row, arguments[k], 0);
    for (uint64_t k = 0; known && k < entry->count; k++) {
        const Signature *signature = entry->signatures + k;
        if (signature->count != (uint64_t)row.code) continue;
        int same = 1;
        for (int i = 0; same && i < row.code; i++) same = signature->codes[i] == row.codes[i];
        if (!same) continue;
        void *thread = process.save_thread();
        int32_t status = signature->run(row.slots);
        process.restore_thread(thread);
        if (status) {
            process.set_error(process.error, "a compiled kernel of lite failed");
            return 0;
        }
        if (signature->gives) return process.from_integer(row.slots[0]);
        process.hold(process.none);
        return process.none;
    }
    return process.call(otherwise, arguments, (uint64_t)count, 0);
}

#if defined(_WIN32)
/* What Windows calls when it loads the library, under the name that linkers look for. */
int DllMainCRTStartup(void *library, unsigned long reason, void *reserved) {
    (void)library, (void)reason, (void)reserved;
    return 1;
}
#endif

/* Takes over what the process has. Returns 0, and takes nothing, if it is not of the size that is expected. */
EXPORTED int lite_prepare(const char *from, uint64_t size) {
    if (size != sizeof process) return 0;
    for (volatile char *to = (char *)&process; size--; to++) *to = *from++; /* memcpy is not known yet */
    return 1;
}

/* Whether this processor, under this system, has all that the code was compiled for: 2, 3 and 4 are levels of
   x86-64 (its psABI), 0 is what every processor of the architecture has. */
EXPORTED int lite_fits(int level) {
    if (level == 0) return 1;
#if defined(__x86_64__)
    uint32_t a, b, c, d, low, high;
#define ASK(leaf) __asm__("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(leaf), "c"(0))
#define HAS(found, bits) (((found) & (bits)) == (bits))
#define BIT(k) (1u << (k))
    ASK(0);
    uint32_t last = a;
    ASK(0x80000000u);
    uint32_t last_extended = a;
    if (last < 7 || last_extended < 0x80000001u) return 0;
    ASK(1);
    uint32_t basic = c; /* SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT */
    if (!HAS(basic, BIT(0) | BIT(9) | BIT(13) | BIT(19) | BIT(20) | BIT(23))) return 0;
    ASK(0x80000001u);
    uint32_t extended = c; /* LAHF */
    if (!HAS(extended, BIT(0))) return 0;
    if (level == 2) return 1;
    /* FMA, MOVBE, XSAVE in use, AVX, F16C; LZCNT */
    if (!HAS(basic, BIT(12) | BIT(22) | BIT(27) | BIT(28) | BIT(29)) || !HAS(extended, BIT(5))) return 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    ASK(7);
    if (!HAS(low, 0x6u) || !HAS(b, BIT(3) | BIT(5) | BIT(8))) return 0; /* registers; BMI1, AVX2, BMI2 */
    if (level == 3) return 1;
    /* wider registers and masks; AVX512 F, DQ, CD, BW, VL */
    return level == 4 && HAS(low, 0xe6u) && HAS(b, BIT(16) | BIT(17) | BIT(28) | BIT(30) | BIT(31));
#else
    return 0;
#endif
}
