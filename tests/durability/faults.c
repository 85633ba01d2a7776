/* Makes the disk fail after a number of units: preloaded into a process, controlled through a shared file.

   A unit is one byte that is written, or one call that makes, renames or syncs a file or folder, below FAULT_ROOT; or
   one that removes it, for EIO and signals (a full disk removes).
   When the units are used up, the call that needs one more fails with an errno, or the process gets a signal. A write
   takes what units are left, as a disk does that becomes full; a full disk still lets a file's own bytes be replaced.
   With EROFS the file system is read-only from then on: nothing below FAULT_ROOT is opened for writing or removed. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct control {
  int64_t left;   /* units; below 0: no fault */
  int64_t used;
  int64_t error;  /* errno of the call that fails; 0: none */
  int64_t number; /* signal that the process gets at that call; 0: none */
};

static struct control *control;
static char root[PATH_MAX];
static size_t root_length;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void start(void) {
  const char *file = getenv("FAULT_CONTROL"), *below = getenv("FAULT_ROOT");
  if (!file || !below || !realpath(below, root)) return;
  root_length = strlen(root);
  int descriptor = open(file, O_RDWR);
  if (descriptor < 0) return;
  void *shared = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  close(descriptor);
  if (shared != MAP_FAILED) control = shared;
}

static int is_below(const char *path) {
  char whole[PATH_MAX];
  if (path[0] != '/') {
    if (!getcwd(whole, sizeof whole)) return 0;
    size_t length = strlen(whole);
    snprintf(whole + length, sizeof whole - length, "/%s", path);
    path = whole;
  }
  return strncmp(path, root, root_length) == 0 && (path[root_length] == '/' || path[root_length] == 0);
}

static int is_ours(int descriptor) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return is_below(path);
}

/* How many of the wanted units there are; 0 and errno where there is none. */
static size_t take(size_t wanted) {
  if (control->left < 0) {
    control->used += wanted;
    return wanted;
  }
  size_t given = wanted < (size_t)control->left ? wanted : (size_t)control->left;
  control->left -= given;
  control->used += given;
  if (given || !wanted) return given;
  if (control->number) {
    int number = (int)control->number;
    control->number = 0;
    if (number != SIGKILL) control->left = -1; /* it ends by itself, on a disk that works */
    raise(number);
    if (number != SIGKILL) return wanted;
  }
  errno = (int)control->error;
  return 0;
}

/* Whether the file system has become read-only; sets errno. */
static int is_read_only(void) {
  if (!control || control->left || control->number || control->error != EROFS) return 0;
  errno = EROFS;
  return 1;
}

static int needs_room(int descriptor, size_t count, off64_t at) {
  struct stat64 there;
  if (control->number || (control->error != ENOSPC && control->error != EDQUOT)) return 1;
  return fstat64(descriptor, &there) != 0 || at + (off64_t)count > there.st_size;
}

ssize_t write(int descriptor, const void *data, size_t count) {
  if (control && count && is_ours(descriptor)) {
    off64_t at = fcntl(descriptor, F_GETFL) & O_APPEND ? INT64_MAX / 2 : lseek64(descriptor, 0, SEEK_CUR);
    if (needs_room(descriptor, count, at) && !(count = take(count))) return -1;
  }
  return REAL(write)(descriptor, data, count);
}

ssize_t pwrite64(int descriptor, const void *data, size_t count, off64_t at) {
  if (control && count && is_ours(descriptor) && needs_room(descriptor, count, at) && !(count = take(count))) return -1;
  return REAL(pwrite64)(descriptor, data, count, at);
}

ssize_t pwrite(int descriptor, const void *data, size_t count, off_t at) {
  return pwrite64(descriptor, data, count, at);
}

/* What is cut off a file is room for others: a buffer that is flushed after an error finds it. */
int ftruncate64(int descriptor, off64_t length) {
  struct stat64 before;
  if (is_ours(descriptor) && is_read_only()) return -1;
  int is_known = control && control->left >= 0 && is_ours(descriptor) && fstat64(descriptor, &before) == 0;
  int result = REAL(ftruncate64)(descriptor, length);
  if (is_known && !result && before.st_size > length) control->left += before.st_size - length;
  return result;
}

int ftruncate(int descriptor, off_t length) { return ftruncate64(descriptor, length); }

#define ONE_DESCRIPTOR(name) \
  int name(int descriptor) { \
    if (control && is_ours(descriptor) && !take(1)) return -1; \
    return REAL(name)(descriptor); \
  }
ONE_DESCRIPTOR(fsync)
ONE_DESCRIPTOR(fdatasync)

#define ONE_PATH(name, parameters, path, arguments) \
  int name parameters { \
    if (control && is_below(path) && !take(1)) return -1; \
    return REAL(name) arguments; \
  }
ONE_PATH(mkdir, (const char *path, mode_t mode), path, (path, mode))
ONE_PATH(rename, (const char *from, const char *to), to, (from, to))

/* Whether a removal fails: a full disk allows it, and another one may end the process before it. */
static int removal_fails(int is_there) {
  if (!control || !is_there) return 0;
  return is_read_only() || ((control->number || control->error == EIO) && !take(1));
}

#define REMOVAL(name, parameters, is_there, arguments) \
  int name parameters { \
    if (removal_fails(is_there)) return -1; \
    return REAL(name) arguments; \
  }
REMOVAL(unlink, (const char *path), is_below(path), (path))
REMOVAL(rmdir, (const char *path), is_below(path), (path))
REMOVAL(unlinkat, (int folder, const char *path, int flags), is_ours(folder) || is_below(path), (folder, path, flags))

int access(const char *path, int mode) {
  if ((mode & W_OK) && is_below(path) && is_read_only()) return -1;
  return REAL(access)(path, mode);
}

static int opened(const char *path, int flags, mode_t mode, int (*real)(const char *, int, ...)) {
  struct stat there;
  if ((flags & (O_WRONLY | O_RDWR)) && is_below(path) && is_read_only()) return -1;
  if (control && (flags & O_CREAT) && is_below(path) && stat(path, &there) != 0 && !take(1)) return -1;
  return real(path, flags, mode);
}

#define OPEN(name) \
  int name(const char *path, int flags, ...) { \
    va_list rest; \
    va_start(rest, flags); \
    mode_t mode = va_arg(rest, mode_t); \
    va_end(rest); \
    return opened(path, flags, mode, REAL(name)); \
  }
OPEN(open)
OPEN(open64)
