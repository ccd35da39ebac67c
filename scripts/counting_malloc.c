/* Counts the bytes that a process holds: to be preloaded, see bench_deploy_onnx.py. For glibc. */
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static atomic_long live, peak;

static void *taken(void *block) {
    if (block) {
        long size = (long)malloc_usable_size(block), now = atomic_fetch_add(&live, size) + size, most = atomic_load(&peak);
        while (now > most && !atomic_compare_exchange_weak(&peak, &most, now)) {
        }
    }
    return block;
}

void *malloc(size_t size) { return taken(__libc_malloc(size)); }
void *calloc(size_t count, size_t size) { return taken(__libc_calloc(count, size)); }
void *memalign(size_t alignment, size_t size) { return taken(__libc_memalign(alignment, size)); }
void *aligned_alloc(size_t alignment, size_t size) { return taken(__libc_memalign(alignment, size)); }

int posix_memalign(void **block, size_t alignment, size_t size) {
    void *found = taken(__libc_memalign(alignment, size));
    if (!found) return ENOMEM;
    *block = found;
    return 0;
}

void free(void *block) {
    if (block) atomic_fetch_sub(&live, (long)malloc_usable_size(block));
    __libc_free(block);
}

void *realloc(void *block, size_t size) {
    long before = block ? (long)malloc_usable_size(block) : 0;
    void *found = __libc_realloc(block, size);
    if (found || !size) atomic_fetch_sub(&live, before);
    return taken(found);
}

/* Let the peak begin anew; what is held now. */
long counted_reset(void) {
    long now = atomic_load(&live);
    atomic_store(&peak, now);
    return now;
}

long counted_peak(void) { return atomic_load(&peak); }
