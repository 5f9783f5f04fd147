// Signer: the secret header lines of a store's requests, renewed when the store no longer accepts
// them. HttpTarget: what a network url means to an HTTP client, with who signs for it.
//
// Threads: every member may be called from any thread. One fetch of credentials serves all readers
// of an opener.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "io/detail/http/http_head.h"

namespace millrace::io::detail {

struct HttpClient;

/// What is to be signed.
struct UnsignedRequest {
  std::string method;
  std::string url;
  /// Complete lines that are sent with it, and signed as far as the store's method covers them.
  std::vector<std::string> header_lines = {};
  /// SHA-256 of the body in hex; empty: the body is not signed.
  std::string body_sha256 = {};
};

struct SecretLines {
  std::vector<std::string> lines = {};
  /// Which credentials they are made of.
  std::uint64_t version = 0;
};

class Signer {
 public:
  virtual ~Signer() = default;

  /// Whether sign() would not wait for the network.
  virtual bool ready() const = 0;
  /// The secret lines for one request; never sent to another host. May fetch credentials over
  /// `client`. Throws: NotFound, Io, Corrupt (credentials cannot be had), Cancelled.
  virtual SecretLines sign(HttpClient& client, const UnsignedRequest& request,
                           const std::stop_token& stop) = 0;
  /// The store refused `version` (400, 401 or 403), for the reason that the error's `code` in the
  /// body names, if any ("ExpiredToken"). Returns whether signing again may help: the credentials
  /// had expired, or our clock is off.
  virtual bool reconsider(const HttpHead& head, std::string_view code, std::uint64_t version) = 0;
};

struct HttpTarget {
  /// The printable url.
  std::string name;
  std::string url;
  /// Null: nothing of its requests is secret.
  std::shared_ptr<Signer> signer = {};
  /// Whether the path goes out as it is. Else "a/../b" is "b", as browsers read a url of folders;
  /// a bucket's key is any text.
  bool path_as_is = true;
};

}  // namespace millrace::io::detail
