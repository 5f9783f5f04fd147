#include "io/detail/http/ca_file.h"

#include <curl/curl.h>

#include <array>
#include <filesystem>

namespace millrace::io::detail {
namespace {

// Debian, Alpine and Arch; Fedora; Red Hat; SUSE; OpenSSL's own default. Go's crypto/x509 looks
// there too.
constexpr std::array<const char*, 5> kPlaces{"/etc/ssl/certs/ca-certificates.crt",
                                             "/etc/pki/tls/certs/ca-bundle.crt",
                                             "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
                                             "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

}  // namespace

std::span<const char* const> usual_ca_files() { return kPlaces; }

std::string find_ca_file(const Environment& environment, const std::string& curls_own,
                         std::span<const char* const> places) {
  if (std::string named = variable(environment, {"SSL_CERT_FILE"}); !named.empty()) {
    return named;
  }
  if (curls_own.empty() || exists(curls_own)) return "";
  for (const char* place : places) {
    if (exists(place)) return place;
  }
  return "";
}

std::string find_ca_file() {
  const curl_version_info_data* const curl = curl_version_info(CURLVERSION_NOW);
  return find_ca_file(process_variable, curl->cainfo == nullptr ? "" : curl->cainfo);
}

}  // namespace millrace::io::detail
