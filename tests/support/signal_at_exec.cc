// A signal at an awkward moment, for programs run by a test: preloaded (LD_PRELOAD), it sends the
// process SIGTERM just before execv().
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

extern "C" int execv(const char* path, char* const arguments[]) noexcept {
  static const auto real =
      reinterpret_cast<int (*)(const char*, char* const[])>(::dlsym(RTLD_NEXT, "execv"));
  ::kill(::getpid(), SIGTERM);
  return real(path, arguments);
}
