// A machine that has no thread or no memory left, for programs run by a test: preloaded
// (LD_PRELOAD), it intercepts what starts threads and allocates memory, from main() on.
// MILLRACE_TEST_MACHINE selects the failure:
//
//   thread:N    the Nth pthread_create() fails with EAGAIN
//   threads:N   so do all after it, as at a limit of processes
//   memory:N    the Nth allocation of 4 KiB or more (malloc, calloc, realloc, aligned ones) fails:
//               at a limit of memory the allocator still has room for small ones
//   tasks:N     the Nth allocation by TBB for a task of ours, or a node's queue, fails (those by
//               which it takes in a thread do not: it does not survive that)
//   count       none fails
//
// MILLRACE_TEST_MACHINE_COUNTS names a file for their numbers, written at the end: "threads 12
// memory 3456 tasks 789".
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <new>

extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
}

namespace {

enum class Fault { kNone, kThread, kThreads, kMemory, kTasks };

std::atomic<bool> has_begun{false};  ///< main() runs
Fault fault = Fault::kNone;
long chosen = 0;
std::atomic<long> threads{0};
std::atomic<long> allocations{0};
std::atomic<long> tasks{0};
int (*program)(int, char**, char**) = nullptr;

/// Counts one more; whether it is to fail once, or from the chosen one on.
bool fails(std::atomic<long>& count, Fault once, Fault always) {
  if (!has_begun.load(std::memory_order_relaxed)) return false;
  const long number = ++count;
  if (fault == Fault::kNone) return false;
  return (fault == once && number == chosen) || (fault == always && number >= chosen);
}

void* no_memory() {
  errno = ENOMEM;
  return nullptr;
}

/// oneDNN does not notice that its code generator gets none, so it is not failed here: the program
/// looks for room beforehand, which a limit of memory (ulimit -v) tests.
bool is_from_onednn(const void* caller) {
  Dl_info library{};
  return dladdr(caller, &library) != 0 && library.dli_fname != nullptr &&
         strstr(library.dli_fname, "libdnnl") != nullptr;
}

/// Through operator new too, whose own address malloc() is told.
bool is_within_onednn() {
  constexpr int kFrames = 24;
  void* frames[kFrames];
  const int count = backtrace(frames, kFrames);
  for (int i = 0; i < count; ++i)
    if (is_from_onednn(frames[i])) return true;
  return false;
}

bool allocation_fails(size_t size, const void* caller) {
  constexpr size_t kLeast = 4096;
  if (size < kLeast || !has_begun || is_from_onednn(caller)) return false;
  return fails(allocations, Fault::kMemory, Fault::kMemory) && !is_within_onednn();
}

void* aligned(size_t alignment, size_t size, const void* caller) {
  return allocation_fails(size, caller) ? no_memory() : __libc_memalign(alignment, size);
}

void select(const char* text, const char* mode, Fault selected) {
  const size_t length = strlen(mode);
  if (strncmp(text, mode, length) != 0) return;
  fault = selected;
  chosen = strtol(text + length, nullptr, 10);
}

void write_counts() {
  const char* path = getenv("MILLRACE_TEST_MACHINE_COUNTS");
  if (path == nullptr) return;
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return;
  dprintf(file, "threads %ld memory %ld tasks %ld\n", threads.load(), allocations.load(),
          tasks.load());
  close(file);
}

int counted_program(int argc, char** argv, char** environment) {
  static_cast<void>(is_within_onednn());  // the first backtrace() loads a library
  has_begun = true;
  return program(argc, argv, environment);
}

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

void count_task() {
  if (fails(tasks, Fault::kTasks, Fault::kNone)) throw std::bad_alloc();
}

constexpr const char* kTask = "_ZN3tbb6detail2r18allocateERPNS0_2d117small_object_poolEm";
constexpr const char* kTaskInTask =
    "_ZN3tbb6detail2r18allocateERPNS0_2d117small_object_poolEmRKNS2_14execution_dataE";
constexpr const char* kQueue = "_ZN3tbb6detail2r122cache_aligned_allocateEm";

}  // namespace

void* make_task(void** pool,
                size_t size) asm("_ZN3tbb6detail2r18allocateERPNS0_2d117small_object_poolEm");
void* make_task(void** pool, size_t size) {
  static const auto real = next<decltype(&make_task)>(kTask);
  count_task();
  return real(pool, size);
}

void* make_task_in_task(void** pool, size_t size, const void* data) asm(
    "_ZN3tbb6detail2r18allocateERPNS0_2d117small_object_poolEmRKNS2_14execution_dataE");
void* make_task_in_task(void** pool, size_t size, const void* data) {
  static const auto real = next<decltype(&make_task_in_task)>(kTaskInTask);
  count_task();
  return real(pool, size, data);
}

void* make_queue(size_t size) asm("_ZN3tbb6detail2r122cache_aligned_allocateEm");
void* make_queue(size_t size) {
  static const auto real = next<decltype(&make_queue)>(kQueue);
  count_task();
  return real(size);
}

extern "C" {

int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv, void (*init)(),
                      void (*fini)(), void (*rtld_fini)(), void* stack_end) {
  if (const char* text = getenv("MILLRACE_TEST_MACHINE")) {
    select(text, "thread:", Fault::kThread);
    select(text, "threads:", Fault::kThreads);
    select(text, "memory:", Fault::kMemory);
    select(text, "tasks:", Fault::kTasks);
    atexit(write_counts);
  }
  program = main;
  const auto start = next<decltype(&__libc_start_main)>("__libc_start_main");
  return start(counted_program, argc, argv, init, fini, rtld_fini, stack_end);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                   void* argument) {
  static const auto real = next<decltype(&pthread_create)>("pthread_create");
  if (fails(threads, Fault::kThread, Fault::kThreads)) return EAGAIN;
  return real(thread, attributes, body, argument);
}

void* malloc(size_t size) {
  return allocation_fails(size, __builtin_return_address(0)) ? no_memory() : __libc_malloc(size);
}

void* calloc(size_t count, size_t size) {
  return allocation_fails(count * size, __builtin_return_address(0)) ? no_memory()
                                                                     : __libc_calloc(count, size);
}

void* realloc(void* block, size_t size) {
  return allocation_fails(size, __builtin_return_address(0)) ? no_memory()
                                                             : __libc_realloc(block, size);
}

void* memalign(size_t alignment, size_t size) {
  return aligned(alignment, size, __builtin_return_address(0));
}

void* aligned_alloc(size_t alignment, size_t size) {
  return aligned(alignment, size, __builtin_return_address(0));
}

int posix_memalign(void** block, size_t alignment, size_t size) {
  void* const got = aligned(alignment, size, __builtin_return_address(0));
  if (got == nullptr) return ENOMEM;
  *block = got;
  return 0;
}

}  // extern "C"
