// Utf8Locale: makes the C library and libarchive see UTF-8 on this thread, whatever locale the
// program runs in.
//
// In the C locale libarchive returns NULL for a pax name that is not ASCII, and fnmatch() takes a
// character for several. Threads: any; a Scope is of one.
#pragma once

#include <clocale>

namespace millrace::wds::detail {

class Utf8Locale {
 public:
  Utf8Locale() : locale_(::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)) {}
  ~Utf8Locale() {
    if (locale_ != nullptr) ::freelocale(locale_);
  }
  Utf8Locale(const Utf8Locale&) = delete;
  Utf8Locale& operator=(const Utf8Locale&) = delete;

  /// While it lives, the calling thread runs in the locale.
  class Scope {
   public:
    explicit Scope(const Utf8Locale& locale)
        : before_(locale.locale_ == nullptr ? nullptr : ::uselocale(locale.locale_)) {}
    ~Scope() {
      if (before_ != nullptr) ::uselocale(before_);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    locale_t before_;
  };

 private:
  locale_t locale_;
};

}  // namespace millrace::wds::detail
