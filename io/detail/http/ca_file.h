// Which file of certificate authorities https:// trusts, where the caller names none.
//
// libcurl has the place of one file compiled in. A program or an extension module that brings its
// own libcurl runs on systems that keep the file elsewhere.
//
// Threads: pure functions, callable from any thread.
#pragma once

#include <span>
#include <string>

#include "io/detail/files/environment.h"

namespace millrace::io::detail {

/// Where distributions keep the file.
std::span<const char* const> usual_ca_files();

/// What `SSL_CERT_FILE` names, as for OpenSSL's programs; else, if libcurl's own file is not there,
/// the first of `places` that is. Empty: libcurl's own.
std::string find_ca_file(const Environment& environment, const std::string& curls_own,
                         std::span<const char* const> places = usual_ca_files());
/// The same for this process and its libcurl.
std::string find_ca_file();

}  // namespace millrace::io::detail
